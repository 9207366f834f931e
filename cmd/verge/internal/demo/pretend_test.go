package demo

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// atTheBank sends a visitor to the simulated bank and returns the id of the login on its page.
func atTheBank(t *testing.T, f *fixture, v *visitor) (login string) {
	t.Helper()
	query := url.Values{"client_id": {bankClient}, "redirect_uri": {f.verge.URL + "/verify/return/bank"},
		"response_type": {"code"}, "scope": {"openid"}, "state": {"s"}, "nonce": {"n"},
		"code_challenge_method": {"S256"}, "code_challenge": {strings.Repeat("a", 43)}}
	resp, body := v.get("/idp/login?" + query.Encode())
	found := regexp.MustCompile(`name="login" value="([^"]+)"`).FindStringSubmatch(body)
	if resp.StatusCode != 200 || found == nil || !strings.Contains(body, "Simulated") {
		t.Fatalf("the bank's page: %d %s", resp.StatusCode, body)
	}
	return found[1]
}

func TestBank(t *testing.T) {
	for _, tc := range []struct {
		name, choice string
		status       int
		says         string // in the address that the browser is sent to, or on the page
	}{
		{"an adult comes back with a code", "adult", 303, "code="},
		{"somebody younger, too", "younger", 303, "code="},
		{"and one without a claim about age", "silent", 303, "code="},
		{"who cancels comes back with the error", "cancel", 303, "error=access_denied"},
		{"a response that the page does not offer", "admin", 400, "The bank does not offer this response"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			v := f.visitor()
			resp, body := v.post("/idp/answer", url.Values{"login": {atTheBank(t, f, v)},
				"choice": {tc.choice}})
			to := resp.Header.Get("Location")
			if resp.StatusCode != tc.status || !strings.Contains(to+body, tc.says) {
				t.Errorf("%d to %q: %s", resp.StatusCode, to, body)
			}
			if tc.status == 303 && !strings.HasPrefix(to, f.verge.URL+"/verify/return/bank?") {
				t.Errorf("the browser is sent to %s", to)
			}
		})
	}

	t.Run("a login ends once", func(t *testing.T) {
		f := newFixture(t)
		v := f.visitor()
		form := url.Values{"login": {atTheBank(t, f, v)}, "choice": {"adult"}}
		if resp, body := v.post("/idp/answer", form); resp.StatusCode != 303 {
			t.Errorf("the first answer: %d %s", resp.StatusCode, body)
		}
		resp, body := v.post("/idp/answer", form)
		if resp.StatusCode != 404 || !strings.Contains(body, "This login is over") {
			t.Errorf("the second answer: %d %s", resp.StatusCode, body)
		}
	})

	t.Run("the form of another site ends no login", func(t *testing.T) {
		f := newFixture(t)
		v := f.visitor()
		form := url.Values{"login": {atTheBank(t, f, v)}, "choice": {"adult"}}
		req, err := http.NewRequest("POST", f.URL+"/idp/answer", strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Sec-Fetch-Site", "cross-site")
		if resp, _ := v.do(req); resp.StatusCode != http.StatusForbidden {
			t.Errorf("status %d, want 403", resp.StatusCode)
		}
	})

	t.Run("the browser is sent to the service alone", func(t *testing.T) {
		f := newFixture(t)
		query := url.Values{"client_id": {bankClient}, "redirect_uri": {"https://evil.example/"}}
		if resp, _ := f.visitor().get("/idp/login?" + query.Encode()); resp.StatusCode != 400 {
			t.Errorf("status %d, want 400", resp.StatusCode)
		}
	})
}

func TestEstimator(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	for _, e := range estimates {
		resp, body := v.post("/estimator/answer", url.Values{"choice": {e.Choice}})
		if resp.StatusCode != 303 || resp.Header.Get("Location") != "/estimator/" {
			t.Fatalf("choosing %s: %d %s", e.Choice, resp.StatusCode, body)
		}
		_, body = v.get("/estimator/")
		if !strings.Contains(body, `value="`+e.Choice+`" checked`) || strings.Count(body, " checked") != 1 ||
			!strings.Contains(body, "Simulated") {
			t.Errorf("the page does not show that %s is chosen: %s", e.Choice, body)
		}
	}
	if resp, body := v.post("/estimator/answer", url.Values{"choice": {"99"}}); resp.StatusCode != 400 ||
		!strings.Contains(body, "The estimator does not offer this response") {
		t.Errorf("a response that the page does not offer: %d %s", resp.StatusCode, body)
	}
	req, err := http.NewRequest("POST", f.URL+"/estimator/estimate", strings.NewReader("no picture"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer another")
	if resp, _ := v.do(req); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a picture with another token: %d, want 401", resp.StatusCode)
	}
}

// TestNoCounterparts has a site without other sides, as a publisher would run it.
func TestNoCounterparts(t *testing.T) {
	f := newFixture(t)
	alone := f.Site.conf
	alone.Counterparts = nil
	f.handler = New(alone).handler
	v := f.visitor()
	for _, path := range []string{"/idp/.well-known/openid-configuration", "/estimator/", "/wallet"} {
		if resp, _ := v.get(path); resp.StatusCode != 404 {
			t.Errorf("%s answers %d, want 404", path, resp.StatusCode)
		}
	}
	if _, body := v.get("/"); strings.Contains(body, "pretend") {
		t.Error("the shop speaks of other sides that it does not play")
	}
}

func TestStartOfNoOffer(t *testing.T) {
	f := newFixture(t)
	resp, body := f.visitor().post("/start",
		url.Values{"integration": {"33333333-3333-4333-8333-333333333333"}})
	if resp.StatusCode != 400 || !strings.Contains(body, "The shop does not offer that") {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
}

// The simulated wallet sends to the service alone, with any link.
func TestWallet(t *testing.T) {
	f := newFixture(t)
	v := f.visitor()
	box := f.verge.URL + "/verify/box/AAAAAAAAAAAAAAAAAAAAAA"
	link := func(responseURI string) string {
		return "/wallet?" + url.Values{"response_type": {"vp_token"}, "response_mode": {"direct_post"},
			"client_id": {"redirect_uri:" + responseURI}, "response_uri": {responseURI},
			"nonce": {"AAAAAAAAAAAAAAAAAAAAAA"}, "state": {"s"},
			"dcql_query": {`{"credentials":[{"id":"proof_of_age","format":"mso_mdoc",` +
				`"meta":{"doctype_value":"eu.europa.ec.av.1"},"claims":[{"path":["eu.europa.ec.av.1","age_over_18"]}]}]}`},
		}.Encode()
	}
	if resp, body := v.get(link(box)); resp.StatusCode != 200 || !strings.Contains(body, "Simulated") ||
		!strings.Contains(body, "This is not a real wallet") || !strings.Contains(body, "age_over_18") {
		t.Errorf("the wallet's page: %d %s", resp.StatusCode, body)
	}
	if resp, body := v.get("/wallet"); resp.StatusCode != 200 ||
		!strings.Contains(body, "paste the text of the QR code") {
		t.Errorf("the wallet without a request: %d %s", resp.StatusCode, body)
	}
	resp, _ := v.get("/wallet?" + url.Values{"link": {f.URL + link(box)}}.Encode())
	if to := resp.Header.Get("Location"); resp.StatusCode != 303 || to != link(box) {
		t.Errorf("what was pasted leads to %d %s", resp.StatusCode, to)
	}
	for what, query := range map[string]string{
		"a response to another site":   link("https://evil.example/verify/box/A"),
		"a request of another site":    "/wallet?client_id=a&request_uri=https://evil.example/",
		"another site behind ours":     link(f.verge.URL + ".evil.example/verify/box/A"),
		"another link that was pasted": "/wallet?link=https://evil.example/",
		"no request":                   "/wallet?a=b",
		"a request that is cut":        link(box)[:120],
	} {
		if resp, body := v.get(query); resp.StatusCode != 400 || strings.Contains(body, `name="choice"`) {
			t.Errorf("%s: %d %s", what, resp.StatusCode, body)
		}
		form := url.Values{"choice": {"adult"}, "link": {f.URL + query}}
		if resp, body := v.post("/wallet/answer", form); resp.StatusCode != 400 {
			t.Errorf("%s is answered: %d %s", what, resp.StatusCode, body)
		}
	}
	form := url.Values{"choice": {"anybody"}, "link": {f.URL + link(box)}}
	if resp, body := v.post("/wallet/answer", form); resp.StatusCode != 400 ||
		!strings.Contains(body, "The wallet does not offer this response") {
		t.Errorf("a response that the page does not offer: %d %s", resp.StatusCode, body)
	}
	form.Set("choice", "adult") // the service of this test has no boxes
	if resp, body := v.post("/wallet/answer", form); resp.StatusCode != 502 ||
		!strings.Contains(body, "The service did not accept the response") {
		t.Errorf("a service that does not take it: %d %s", resp.StatusCode, body)
	}
}
