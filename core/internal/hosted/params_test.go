package hosted

import (
	"net/url"
	"testing"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// others are parameters that Verge does not use, as browsers, providers and extensions add them.
var others = []struct{ rule, text string }{
	{"contract 22: an unknown parameter", "&utm_source=a"},
	{"contract 22: an unknown parameter twice", "&x=1&x=2"},
	{"contract 22: an unknown parameter with a semicolon", "&x=a;b&;"},
	{"contract 22: an unknown parameter in bad encoding", "&x=%zz&%zz=1&y=%e9&%"},
	{"contract 22: names that differ from ours in case or by brackets",
		"&Flow=1&flow[]=2&FLOW=3&Outcome=%zz"},
}

// TestParameters_Link: the hosted link and a form are read in the same way.
func TestParameters_Link(t *testing.T) {
	for _, c := range others {
		w := newFixture(t)
		_, flow := w.flow(t, nil)
		if resp := w.get(here(flow) + c.text); resp.Status != 200 {
			t.Errorf("%s: the link: %d", c.rule, resp.Status)
		}
		w.provider.decision.Verdict = method.Approved
		if resp := w.form("flow=" + url.QueryEscape(flow) + "&outcome=approve" +
			c.text); resp.Status != 303 ||
			w.provider.acts != 1 {
			t.Errorf("%s: the form: %d, the method acted %d times", c.rule, resp.Status, w.provider.acts)
		}
	}
	for _, c := range []struct{ rule, text string }{
		{"contract 22: the flow twice", "&flow=a"},
		{"contract 22: the step twice", "&provider=a&provider=a"},
		{"contract 22: the step in bad encoding", "&provider=%zz"},
		{"contract 22: the method twice", "&method=a&method="},
		{"contract 22: the method in no UTF-8", "&method=%e9"},
	} {
		w := newFixture(t)
		_, flow := w.flow(t, nil)
		if resp := w.get(here(flow) + c.text); resp.Status != 400 || kind(resp) != "damaged" {
			t.Errorf("%s: the link: %d %s", c.rule, resp.Status, kind(resp))
		}
		form := w.form("flow=" + url.QueryEscape(flow) + "&outcome=approve" + c.text)
		if form.Status != 400 || kind(form) != "damaged" || w.provider.acts != 0 {
			t.Errorf("%s: the form: %d %s", c.rule, form.Status, kind(form))
		}
	}
	w := newFixture(t)
	_, flow := w.flow(t, nil)
	resp := w.form("flow=" + url.QueryEscape(flow) + "&outcome=cancel&outcome=approve")
	if resp.Status != 400 || w.provider.acts != 0 {
		t.Errorf("contract 22: the outcome twice: %d, the method acted %d times", resp.Status,
			w.provider.acts)
	}
}

func (w *fixture) form(text string) *web.Response {
	return w.Act(ctx, call(&web.Request{Method: "POST", Path: web.HostedPath, Body: []byte(text),
		Header: web.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}))
}

// TestParameters_Passkeys: so is the form of the page of one's own passkey.
func TestParameters_Passkeys(t *testing.T) {
	post := func(text string) *web.Response {
		w := passkeyFixture(t)
		w.has()
		form := w.uses(w.looks()).Encode()
		return w.ActPasskeys(
			ctx,
			call(&web.Request{Method: "POST", Path: PasskeysPath, Body: []byte(form +
				text),
				Header: web.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}),
		)
	}
	for _, c := range others {
		if resp := post(c.text); resp.Status != 200 {
			t.Errorf("%s: %d", c.rule, resp.Status)
		}
	}
	for _, twice := range []string{"&provider=a", "&credential=%7B%7D", "&outcome=%zz"} {
		if resp := post(twice); resp.Status != 400 || kind(resp) != "damaged" {
			t.Errorf("contract 22: %s: %d %s", twice, resp.Status, kind(resp))
		}
	}
}

// TestParameters_Return: the method sees its own parameters and no others, and the page that waits has them
// in its address.
func TestParameters_Return(t *testing.T) {
	for _, c := range others {
		w, bank, _ := bankFixture(t, "bank")
		b := w.browser(t)
		_, flow := w.flow(t, nil)
		b.leaves(flow)
		bank.back.Verdict = method.Approved
		resp := b.open(returnURL("1") + "&error=&error_description=" + c.text)
		if resp.Status != 303 || bank.returned != 1 || bank.query.Get("code") != "c" ||
			bank.query.Has("error") || // without a value (RFC 6749, 3.1)
			bank.query.Has("x") || bank.query.Has("flow") {
			t.Errorf("%s: %d, the bank got %v", c.rule, resp.Status, bank.query)
		}
	}
}
