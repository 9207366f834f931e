package pages

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/verge-id/verge/core/internal/language"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// sandboxOutcomes is the interface for programs that drive the sandbox.
var sandboxOutcomes = []string{"approve", "reject", "fail_attempt", "withdraw", "unknown", "cancel"}

const hopURL = "https://shop.example/return?a=1&b=it's;c&result_token=svc_rt_x"

const againURL = "/verify?flow=a.b-c&errand=x"

// addWallets adds the pages of a wallet.
func addWallets(add func(string, func(*View))) {
	add("wallet", func(v *View) {
		v.Kind, v.Words, v.Level, v.MinimumAge = Method, "openid4vp", "L2", 18
		v.Choices = []string{"begin"}
	})
	add("wallet, asked", func(v *View) {
		v.Kind, v.Words, v.Level, v.MinimumAge = Method, "openid4vp", "L2", 18
		v.AgainURL, v.AgainAfter, v.Choices = againURL, 3*time.Second, []string{"cancel"}
		v.Open, v.Code = "av://?a=b", "av://?a=c"
		v.Credential = &Credential{Action: "/verify/wallet", Requests: []CredentialRequest{
			{"org-iso-mdoc", `{"a":"b\"<"}`}, {"openid4vp-v1-signed", `{"request":"a.b.c"}`}}}
	})
	for words, titled := range map[string]string{"oidc": "Bank & Co", "openid4vp": "", "sandbox": ""} {
		add("unconfirmed, "+words, func(v *View) {
			v.Kind, v.Words, v.Title, v.Level = Method, words, titled, "L2"
			v.Notice = Notice{AttemptFailed: true, AttemptsLeft: 2, Reason: "unconfirmed"}
		})
	}
	add("unconfirmed, choose", func(v *View) {
		v.Kind, v.Methods = Choose, []Option{{Name: "a"}, {Name: "b"}}
		v.Notice = Notice{AttemptFailed: true, AttemptsLeft: 2, Reason: "unconfirmed"}
	})
	for _, reason := range append([]string{"unproven", "other_age"}, documentReasons...) {
		add("wallet, "+reason, func(v *View) {
			v.Kind, v.Words, v.Level = Method, "openid4vp", "L2"
			v.Notice = Notice{AttemptFailed: true, AttemptsLeft: 2, Reason: reason}
		})
	}
}

// addPasskeys adds the pages on which a passkey is used or made, and those of one's own passkey.
func addPasskeys(add func(string, func(*View))) {
	use := &Passkey{Options: `{"challenge":"AA"}`, Fields: []Field{{"method", "passkey"}, {"attempt", "0"}}}
	for _, k := range []Kind{Method, Choose, Cancelled} {
		add("passkey on "+string(k), func(v *View) { v.Kind, v.Passkey = k, use })
	}
	for _, why := range append([]string{"something new"}, passkeyReasons...) {
		add("passkey not accepted: "+why, func(v *View) {
			v.Kind, v.Passkey, v.Notice = Method, use, Notice{Passkey: why}
		})
	}
	add("completed, enrol", func(v *View) {
		v.Kind, v.Passkey = Completed, &Passkey{Enrol: true, Options: "{}",
			Fields: []Field{{"enrol", "token"}}, LookURL: "/verify/passkeys"}
	})
	own := func(name string, kept Kept) {
		add("passkeys, "+name, func(v *View) {
			v.Kind, v.Kept, v.Flow, v.SiteOrigin = Passkeys, kept, "", ""
			if kept.Made.IsZero() && !kept.Deleted {
				v.Passkey = use
			}
		})
	}
	own("at first", Kept{})
	own("late", Kept{Late: true})
	own("refused", Kept{Rejected: true})
	own("unknown", Kept{Unknown: true})
	own("deleted", Kept{Deleted: true})
	shown := Kept{Level: "L1", Estimate: true, Age: 25, Publisher: "Shop", Made: noon,
		Until: noon.AddDate(1, 0, 0)}
	own("an estimate", shown)
	shown.Estimate, shown.Age, shown.Blocked = false, 18, true
	own("a proof, blocked", shown)
	shown.Level, shown.Blocked, shown.Over = "L2", false, true
	own("a document, over", shown)
}

// addFailures adds the pages of checks and attempts that failed.
func addFailures(add func(string, func(*View))) {
	for _, code := range append([]string{"TIMEOUT", "SOMETHING_NEW"}, failureCodes...) {
		add("failed "+code, func(v *View) { v.Kind, v.FailureCode = Failed, code })
	}
	add("trouble", func(v *View) {
		v.Kind, v.Notice, v.AnotherURL = Method, Notice{Trouble: true}, "/verify?flow=a"
	})
	add("outdated", func(v *View) { v.Kind, v.Notice = Method, Notice{Outdated: true} })
	for _, why := range append([]string{"something new"}, reasons...) {
		add("failed attempt: "+why, func(v *View) {
			v.Kind, v.Notice = Choose, Notice{AttemptFailed: true, AttemptsLeft: 1, Reason: why}
		})
	}
}

// base is the part that all of views have.
var base = View{
	Level:        "L1",
	ChallengeAge: 25,
	Action:       "/verify",
	FileAction:   "/verify/file",
	Flow:         "flow-token",
	Extra:        []Field{{"provider", "provider-token"}},
	SiteOrigin:   "https://shop.example",
	ExpiresAt:    noon.Add(8 * time.Minute),
	Now:          noon,
}

// views are all pages that differ in more than the value of a field, by name.
func views() map[string]View {
	all := map[string]View{}
	add := func(name string, change func(*View)) {
		v := base
		change(&v)
		if v.Kind == Completed || v.Kind == Leaving {
			v.HopURL = hopURL
		}
		if v.Kind == Choose && v.Methods == nil {
			v.Methods = []Option{{Name: "camera", Words: "estimator"},
				{Name: "bank", Words: "oidc", Title: "BankID"}}
		}
		all[name] = v
	}
	for _, k := range kinds {
		add(string(k), func(v *View) { v.Kind = k })
		add(string(k)+", no site, no time", func(v *View) {
			v.Kind, v.SiteOrigin, v.ExpiresAt = k, "", time.Time{}
		})
		add(string(k)+", retry", func(v *View) { v.Kind, v.RetryURL = k, "/verify?flow=a.b-c" })
	}
	add("refused, with the cause", func(v *View) { v.Kind, v.Cause = Rejected, "redirect_uri is missing." })
	add("branded", brandedView)
	for _, level := range []string{"L1", "L2"} {
		add("method "+level, func(v *View) {
			v.Kind, v.Level, v.Choices = Method, level, []string{"begin", "cancel"}
		})
	}
	add("method that leaves", func(v *View) {
		v.Kind, v.Words, v.Title, v.MinimumAge = Method, "oidc", "BankID", 18
		v.Choices = []string{"begin"}
	})
	add("method of a custom kind", func(v *View) {
		v.Kind, v.Words, v.Title, v.Choices = Method, "club", "Club card", []string{"begin"}
	})
	add("methods of custom kinds", func(v *View) {
		v.Kind, v.Methods = Choose, []Option{{Name: "a", Words: "club"}, {Name: "b", Words: "club"}}
	})
	add("camera of a custom kind", func(v *View) { v.Kind, v.Words, v.Camera = Method, "booth", true })
	add("method, unknown outcomes", func(v *View) {
		v.Kind, v.Choices = Method, []string{"wallet", "new"}
	})
	add("sandbox", func(v *View) {
		v.Kind, v.Sandbox, v.Choices = Method, true, sandboxOutcomes
	})
	for _, n := range []int{0, 1, 2} {
		add(fmt.Sprint("attempts left ", n), func(v *View) {
			v.Kind, v.Notice, v.Choices = Method, Notice{AttemptFailed: true, AttemptsLeft: n},
				[]string{"begin"}
		})
	}
	addFailures(add)
	for _, words := range append([]string{"sandbox"}, named...) {
		add("method of kind "+words, func(v *View) { v.Kind, v.Words, v.MinimumAge = Method, words, 18 })
		add("choose, unavailable "+words, func(v *View) {
			v.Kind, v.Methods = Choose, []Option{{Name: "a", Words: words}, {Name: "b", Words: words,
				Unavailable: true}}
		})
	}
	add("wallet of this device", func(v *View) {
		v.Kind, v.Words, v.MinimumAge, v.Here = Method, "openid4vp", 18, true
	})
	add("camera", func(v *View) { v.Kind, v.Words, v.Camera = Method, "estimator", true })
	addWallets(add)
	add("camera, failed", func(v *View) {
		v.Kind, v.Camera, v.AnotherURL = Method, true, "/verify?flow=a"
		v.Notice = Notice{AttemptFailed: true, AttemptsLeft: 1, Reason: "unsure"}
	})
	for _, rule := range fileRules {
		add("camera, bad file: "+rule, func(v *View) {
			v.Kind, v.Camera, v.Notice = Method, true, Notice{BadFile: rule}
		})
	}
	addPasskeys(add)
	add("asked, again", func(v *View) { v.Kind, v.AgainURL, v.AgainAfter = Asked, againURL, 2*time.Second })
	add("asked about a picture", func(v *View) {
		v.Kind, v.Words, v.AgainURL, v.AgainAfter = Asked, "estimator", againURL, 2*time.Second
	})
	add("box", func(v *View) {
		v.Kind, v.AgainURL, v.AgainAfter, v.Choices = Method, againURL, 3*time.Second,
			[]string{"cancel"}
		v.Open, v.Code = "openid4vp://?client_id=a&response_uri=https://b.example/c.s", "https://b.example/c"
		v.ShowCodeURL, v.Hand = "/verify?flow=a&show=code", true
	})
	add("completed elsewhere", func(v *View) { v.Kind, v.Confirmed = Elsewhere, true })
	add("expired, confirmed", func(v *View) { v.Kind, v.Confirmed = Expired, true })
	add("elsewhere, reload", func(v *View) { v.Kind, v.Reload = Elsewhere, true })
	add("too_often, reload", func(v *View) { v.Kind, v.Reload = TooOften, true })
	add("unavailable, reload", func(v *View) { v.Kind, v.Reload = Unavailable, true })
	addWaits(add)
	for _, left := range []time.Duration{30 * time.Second, time.Minute} {
		add("left "+left.String(), func(v *View) { v.Kind, v.ExpiresAt = Progress, noon.Add(left) })
	}
	return all
}

func render(t *testing.T, v View) (*html.Node, string) {
	t.Helper()
	out, err := Render(v)
	if err != nil {
		t.Fatal(err)
	}
	// As a browser without script reads it.
	doc, err := html.ParseWithOptions(bytes.NewReader(out), html.ParseOptionEnableScripting(false))
	if err != nil {
		t.Fatal(err)
	}
	return doc, string(out)
}

func find(n *html.Node, tag string) []*html.Node {
	var found []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == tag {
			found = append(found, d)
		}
	}
	return found
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// TestPages checks each page in each language against the common rules.
func TestPages(t *testing.T) {
	titles := map[string]string{}
	for name, v := range views() {
		for _, lang := range language.All {
			t.Run(name+" "+lang, func(t *testing.T) {
				v.Lang = lang
				doc, raw := render(t, v)
				checkDocument(t, doc, lang)
				checkContent(t, doc, raw, v)
				checkForms(t, doc, v)
				checkHop(t, doc, v)
				if slices.Contains(kinds, Kind(name)) {
					title := textOf(find(doc, "title")[0])
					if other := titles[lang+title]; other != "" {
						t.Errorf("WCAG 2.4.2: %s and %s have the same title %q", name, other, title)
					}
					titles[lang+title] = name
				}
			})
		}
	}
}

func checkDocument(t *testing.T, doc *html.Node, lang string) {
	if got := attr(find(doc, "html")[0], "lang"); got != lang {
		t.Errorf("WCAG 3.1.1: lang is %q, want %q", got, lang)
	}
	for _, tag := range []string{"title", "h1", "main", "header", "footer"} {
		if n := len(find(doc, tag)); n != 1 {
			t.Errorf("WCAG 1.3.1, 2.4.2: %d %s elements, not one", n, tag)
		}
	}
	viewports := 0
	for _, meta := range find(doc, "meta") {
		if attr(meta, "name") == "viewport" {
			viewports++
			content := attr(meta, "content")
			if !strings.Contains(content, "width=device-width") ||
				strings.Contains(content, "user-scalable") || strings.Contains(content, "maximum-scale") {
				t.Errorf("WCAG 1.4.4: the viewport %q does not fit a phone or cannot be zoomed", content)
			}
		}
	}
	if viewports != 1 {
		t.Errorf("the page has %d viewports, want 1", viewports)
	}
	ids := map[string]bool{}
	for d := range doc.Descendants() {
		if id := attr(d, "id"); id != "" {
			if ids[id] {
				t.Errorf("id %q occurs twice", id)
			}
			ids[id] = true
		}
	}
	for _, section := range find(doc, "section") {
		if by := attr(section, "aria-labelledby"); !ids[by] {
			t.Errorf("WCAG 1.3.1: a section is labelled by %q, which is not there", by)
		}
	}
	for _, svg := range find(doc, "svg") {
		named := attr(svg, "role") == "img" && attr(svg, "aria-label") != "" && attr(svg, "data-qr") != ""
		if attr(svg, "aria-hidden") != "true" && !named {
			t.Error("WCAG 1.1.1: a decoration is read out")
		}
		if len(find(svg, "path"))+len(find(svg, "rect"))+len(find(svg, "circle")) == 0 {
			t.Error("an icon is empty: no such name")
		}
	}
}

func checkContent(t *testing.T, doc *html.Node, raw string, v View) {
	for d := range doc.Descendants() {
		if d.Type != html.ElementNode {
			continue
		}
		src := attr(d, "src")
		ours := v.Camera && src == CameraScript().Path ||
			v.Credential != nil && src == CredentialScript().Path ||
			v.AgainURL != "" && src == WaitScript().Path ||
			v.Passkey != nil && src == PasskeyScript().Path
		if d.Data == "script" && ours && textOf(d) == "" {
			continue
		}
		isLogo := d.Data == "img" && src == v.Publisher.Logo && strings.HasPrefix(src, "/verify/logo/")
		loads := []string{"script", "style", "img", "iframe", "object", "embed", "base"}
		if !isLogo && slices.Contains(loads, d.Data) {
			t.Errorf("contract 22: a page has no <%s>", d.Data)
		}
		for _, a := range d.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("contract 22: <%s> has the inline attribute %s", d.Data, a.Key)
			}
			if !slices.Contains([]string{"href", "action", "src", "formaction"}, a.Key) {
				continue
			}
			switch {
			case d.Data == "a" && (a.Val == v.SiteOrigin || v.HopURL != "" && a.Val == v.HopURL):
				if attr(d, "rel") != "noreferrer" {
					t.Error("contract 24: the link to the site sends a referrer")
				}
			case a.Val != "" && slices.Contains([]string{v.Service.HelpURL, v.Service.PrivacyURL}, a.Val):
				if attr(d, "rel") != "noreferrer" {
					t.Error("contract 52: the link to the operator sends a referrer")
				}
			case v.Reload && d.Data == "a" && a.Val == "":
			case v.Open != "" && d.Data == "a" && a.Val == v.Open && attr(d, "rel") == "noreferrer":
			case !strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//"):
				t.Errorf("contract 22: %s=%q leads off this host", a.Key, a.Val)
			}
		}
	}
	for _, left := range []string{"{age}", "{n}", "{site}", "%!"} {
		if strings.Contains(raw, left) {
			t.Errorf("the placeholder %s is shown", left)
		}
	}
	for _, tag := range []string{"title", "h1", "h2", "p", "li", "a", "button"} {
		for _, n := range find(doc, tag) {
			if textOf(n) == "" {
				t.Errorf("an empty <%s> is shown", tag)
			}
		}
	}
	site := false
	for _, a := range find(doc, "a") {
		site = site || v.SiteOrigin != "" && attr(a, "href") == v.SiteOrigin
	}
	// A waiting page that links to another page of the service has no further way out.
	waits := v.AgainURL != "" && (len(v.Choices) > 0 || v.RetryURL != "")
	if want := v.SiteOrigin != "" && v.HopURL == "" && !v.OnPhone && !waits; site != want {
		t.Errorf("contract 24: the page has a plain link to the site: %v, want %v", site, want)
	}
	if got := len(find(doc, "a")); v.RetryURL != "" && !strings.Contains(raw, `href="`+v.RetryURL+`"`) {
		t.Errorf("none of %d links leads to RetryURL", got)
	}
}

// checkHop checks that a hop page continues to its address, automatically and by a link, and that no other
// page does.
func checkHop(t *testing.T, doc *html.Node, v View) {
	var refresh, links, want, wantLinks []string
	for _, meta := range find(doc, "meta") {
		if attr(meta, "http-equiv") != "" {
			refresh = append(refresh, attr(meta, "http-equiv")+" "+attr(meta, "content"))
		}
	}
	for _, a := range find(doc, "a") {
		if slices.ContainsFunc(a.Attr, func(a html.Attribute) bool { return a.Key == "data-hop" }) {
			links = append(links, attr(a, "href"))
		}
	}
	if v.HopURL != "" {
		want, wantLinks = []string{"refresh 0;url=" + v.HopURL}, []string{v.HopURL}
	}
	if v.AgainURL != "" {
		want = []string{fmt.Sprintf("refresh %d;url=%s", 3*v.AgainAfter/time.Second, v.AgainURL)}
		if !slices.ContainsFunc(find(doc, "a"),
			func(a *html.Node) bool { return attr(a, "href") == v.AgainURL }) {
			t.Error("a browser that does not load the page again has no link to it")
		}
	}
	if !slices.Equal(refresh, want) || !slices.Equal(links, wantLinks) {
		t.Errorf("contract 22: the page continues by %q and the links %q, want %q", refresh, links, v.HopURL)
	}
}

func checkForms(t *testing.T, doc *html.Node, v View) {
	forms := find(doc, "form")
	outcomes := []string{}
	for _, f := range forms {
		if attr(f, "data-step") != "" {
			continue // camera_test.go
		}
		if slices.ContainsFunc(f.Attr, func(a html.Attribute) bool { return a.Key == "data-passkey" }) {
			continue // passkey_test.go
		}
		outcome := attr(f, "data-outcome")
		outcomes = append(outcomes, outcome)
		if attr(f, "method") != "post" || attr(f, "action") != v.Action {
			t.Errorf("contract 22: the form %q acts by %q on %q", outcome, attr(f, "method"),
				attr(f, "action"))
		}
		var got []Field
		for _, in := range find(f, "input") {
			if attr(in, "type") != "hidden" {
				t.Errorf("the form %q has a visible input without a label", outcome)
			}
			got = append(got, Field{attr(in, "name"), attr(in, "value")})
		}
		want := append([]Field{{"flow", v.Flow}, {"outcome", outcome}}, v.Extra...)
		if has(f, "data-hand") {
			outcomes = outcomes[:len(outcomes)-1]
			want = slices.Concat([]Field{{"flow", v.Flow}}, v.Extra, []Field{{"hand", "open"}})
		}
		if v.Kind == Passkeys {
			want = want[1:] // there is no session
		}
		if v.Kind == Choose {
			want = []Field{{"flow", v.Flow}, {"method", attr(f, "data-method")}}
			outcomes[len(outcomes)-1] = attr(f, "data-method")
		}
		if !slices.Equal(got, want) {
			t.Errorf("the form %q posts %v, want %v", outcome, got, want)
		}
		buttons := find(f, "button")
		if len(buttons) != 1 || attr(buttons[0], "type") != "submit" {
			t.Errorf("the form %q does not have exactly one submit button", outcome)
		}
	}
	want := slices.Clone(v.Choices)
	for _, m := range v.Methods {
		if !m.Unavailable {
			want = append(want, m.Name)
		}
	}
	if v.Choices == nil && v.Kind == Progress {
		want = []string{"check"}
	}
	if hands := slices.ContainsFunc(forms,
		func(f *html.Node) bool { return has(f, "data-hand") }); hands != v.Hand {
		t.Errorf("contract 40: a form for a phone: %v, want %v", hands, v.Hand)
	}
	if !v.Kept.Made.IsZero() {
		want = []string{"delete"}
	}
	if !slices.Equal(outcomes, want) {
		t.Errorf("forms for %v, want %v", outcomes, want)
	}
}

func TestSandboxFormIsWhatProgramsLookFor(t *testing.T) {
	_, raw := render(t, views()["sandbox"])
	for _, o := range sandboxOutcomes {
		if want := `<form data-outcome="` + o + `" method="post" action="/verify">`; strings.Count(raw, want) != 1 {
			t.Errorf("architecture, verge dev: the page does not have %s exactly once", want)
		}
	}
}

// sayings are texts that pages contain or do not contain.
var sayings = []struct {
	rule, view, lang string
	says             []string
	not              []string
}{
	{"spec L1: age estimation against the challenge age", "method L1", "en",
		[]string{"whether you look 25 or older", "About 8 minutes left", "Requested by shop.example"},
		[]string{"identity document", "Test mode"}},
	{"spec L2: an identity document", "method L2", "de",
		[]string{"Ausweisdokument", "Noch etwa 8 Minuten"}, []string{"25"}},
	{"contract 31: a custom kind", "method of a custom kind", "en",
		[]string{"Confirm your age with Club card", "receives the result and nothing else"},
		[]string{"camera", "photo of your face", "Test method"}},
	{"contract 31: a choice of custom kinds", "methods of custom kinds", "en", []string{"Age check"},
		[]string{"Test method", "No one is verified"}},
	{"contract 31: a camera of a custom kind", "camera of a custom kind", "en",
		[]string{"whether you look 25 or older"}, nil},
	{"contract 19: what is kept", "method L1", "en", []string{"no photo, no document and no birth date"},
		nil},
	{"a test looks like one", "sandbox", "en", []string{"Test mode", "Choose how this test ends"}, nil},
	{"contract 23: attempts left", "attempts left 2", "en", []string{"2 attempts left"}, nil},
	{"contract 23: one attempt left", "attempts left 1", "en", []string{"1 attempt left"},
		[]string{"attempts left"}},
	{"contract 23: an unknown number is not mentioned", "attempts left 0", "en",
		[]string{"Please try again."}, []string{"attempt left", "attempts left"}},
	{"contract 23: final no", "failed PROVIDER_REJECTED", "en", []string{"was not confirmed"},
		[]string{"minutes left"}},
	{"contract 23: withdrawn", "failed USER_CANCELLED", "de", []string{"Einwilligung widerrufen"}, nil},
	{"contract 23: last attempt failed", "failed MAX_ATTEMPTS", "en", []string{"No attempts left"}, nil},
	{"an unclassified failure", "failed UNKNOWN", "en", []string{"could not be completed"}, nil},
	{"a code of the future reads as unclassified", "failed SOMETHING_NEW", "en",
		[]string{"could not be completed"}, []string{"SOMETHING"}},
	{"contract 20: TIMEOUT is an expiry", "failed TIMEOUT", "en", []string{"has expired"}, nil},
	{"contract 37: a picture is being checked", "asked about a picture", "en",
		[]string{"Your photo is being checked", "continues automatically", "About 8 minutes left"}, nil},
	{"contract 37: and in German", "asked about a picture", "de", []string{"Ihr Foto", "von selbst"},
		nil},
	{"another side is being asked", "asked, again", "fr", []string{"Un instant"}, []string{"Votre photo"}},
	{"contract 34: a box waits", "box", "en", []string{"Open wallet on this device", "Scan this code",
		"waiting for your wallet", "Show a QR code", "Continue on your phone", "About 8 minutes left"},
		[]string{"has responded", "How it works"}},
	{"contract 34: a phone with the code", "box, with its code on a phone", "en",
		[]string{"Scan this code"}, []string{"Show a QR code"}},
	{"contract 40: a camera page offers a phone", "camera, or a phone", "en",
		[]string{"No camera here?", "Continue on your phone"}, nil},
	{"contract 40: a phone does not return to the site", "camera of a phone", "en",
		[]string{"continue on your computer"}, []string{"Back to", "You return to the site",
			"No camera here?"}},
	{"contract 40: the computer shows the next step", "phone awaited", "en", []string{"42", "the same number",
		"https://b.example/verify/phone/c", "waiting for your phone", "About 8 minutes left"}, nil},
	{"contract 40: the computer shows that the phone is connected", "phone at it", "de",
		[]string{"ist verbunden"}, []string{"Scannen"}},
	{"contract 40: the phone names the site", "phone asked", "en", []string{"shop.example", "42",
		"Did you start this on your computer?", "you would confirm your age for them", "numbers match"},
		[]string{"Back to"}},
	{"contract 34: a pending response arrived on this device", "box, answered", "it",
		[]string{"wallet ha risposto"}, []string{"Attendiamo", "Come funziona", "<ol"}},
	{"contract 38: a date in English", "passkeys, an estimate", "en",
		[]string{"Created on20 November 2026", "Valid until20 November 2027"}, []string{"2026-11"}},
	{"contract 38: a date in Portuguese", "passkeys, an estimate", "pt",
		[]string{"20 de novembro de 2026"}, []string{"2026-11"}},
	{"contract 37: a face that is not seen", "failed attempt: no_face", "de",
		[]string{"kein Gesicht oder mehr als eines"}, []string{"genau"}},
	{"contract 37: too many photos", "failed attempt: too_many", "fr",
		[]string{"Trop de photos", "un autre moyen"}, []string{"Veuillez réessayer"}},
	{"contract 37: a photo of too few pixels", "camera, bad file: small", "en",
		[]string{"at least 256 pixels"}, []string{"1 MB. ", "must be a JPEG", "at most 4,096"}},
	{"contract 37: a photo that is too large", "photo_too_large, no site, no time", "en",
		[]string{"at most 1 MB", "go back one page"}, []string{"must be a JPEG", "256"}},
	{"contract 24: expired", "expired", "de", []string{"abgelaufen", "Zurück zu shop.example"}, nil},
	{"contract 24: confirmed, and too late", "expired, confirmed", "en",
		[]string{"has expired", "Your age was confirmed", "Back to shop.example"},
		[]string{"10 minutes", "try again"}},
	{"contract 24: used", "used", "de", []string{"schon benutzt"}, nil},
	{"contract 24: a used link says that it worked", "used", "en",
		[]string{"has been used", "It worked", "anything else here"},
		[]string{"try again", "start from there"}},
	{"contract 22: a way back from a blocked form", "not_allowed, retry", "en",
		[]string{"was blocked", "Try again", "Back to shop.example"}, nil},
	{"contract 22: or at least what to do", "not_allowed, no site, no time", "en",
		[]string{"go back to the site"}, []string{"Try again"}},
	{"contract 22: an unknown path", "not_found", "pt", []string{"não existe"}, nil},
	{"contract 22: an overloaded service", "unavailable, reload", "en", []string{"busy", "Try again"},
		nil},
	{"contract 22: too many requests", "too_often, reload", "en", []string{"wait", "Try again"},
		[]string{"busy", "fault"}},
	{"contract 22: too many requests, in German", "too_often, reload", "de", []string{"viele Anfragen"},
		nil},
	{"contract 22: a form that is too large", "too_large", "fr", []string{"Trop de données"}, nil},
	{"contract 22: a picture that is not there", "no_picture, no site, no time", "en",
		[]string{"go back one page", "Nothing has changed"}, nil},
	{"contract 22: a form that is none", "not_a_form", "es", []string{"leer este formulario"}, nil},
	{"contract 22: an over-long link", "too_long", "it", []string{"troppo lungo"}, nil},
	{"contract 22: the front page explains the service", "home, no site, no time", "es",
		[]string{"edad", "empieza en el sitio web que la pide"}, nil},
	{"contract 24: damaged", "damaged", "de", []string{"beschädigt"}, nil},
	{"contract 24: no site without an authentic token", "damaged, no site, no time", "en",
		[]string{"damaged"}, []string{"Back to", "Requested by"}},
	{"contract 23: cancelling is not the end", "cancelled, retry", "en",
		[]string{"Try again", "About 8 minutes left"}, nil},
	{"less than a minute", "left 30s", "en", []string{"Less than a minute left"}, nil},
	{"one minute", "left 1m0s", "de", []string{"Noch etwa 1 Minute"}, []string{"Minuten"}},
	{"no time known", "method, no site, no time", "en", nil, []string{"left"}},
	{"an unknown outcome", "method, unknown outcomes", "en", []string{"Continue"}, nil},
}

// TestPagesSay searches for the words by page that users recognise.
func TestPagesSay(t *testing.T) {
	for _, c := range sayings {
		v, ok := views()[c.view]
		if !ok {
			t.Fatalf("%s: no view %q", c.rule, c.view)
		}
		v.Lang = c.lang
		doc, _ := render(t, v)
		text := textOf(doc)
		for _, want := range c.says {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %q", c.rule, want, text)
			}
		}
		for _, not := range c.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q is in %q", c.rule, not, text)
			}
		}
	}
}

func TestUnknownLanguageIsEnglish(t *testing.T) {
	for _, lang := range []string{"", "nl", "DE", "../en"} {
		v := views()["expired"]
		v.Lang = lang
		doc, _ := render(t, v)
		if got := attr(find(doc, "html")[0], "lang"); got != "en" {
			t.Errorf("Lang %q gives a page in %q", lang, got)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	for _, c := range []struct {
		left time.Duration
		want string
	}{
		{10 * time.Minute, "About 10 minutes left"},
		{9*time.Minute + 58*time.Second, "About 10 minutes left"},
		{9*time.Minute + 29*time.Second, "About 9 minutes left"},
		{90 * time.Second, "About 2 minutes left"},
		{89 * time.Second, "About 1 minute left"},
		{time.Minute, "About 1 minute left"},
		{59 * time.Second, "Less than a minute left"},
		{time.Nanosecond, "Less than a minute left"},
		{0, ""},
		{-time.Hour, ""},
	} {
		if got := timeLeft(noon.Add(c.left), noon, messages("en")); got != c.want {
			t.Errorf("%v left reads %q, want %q", c.left, got, c.want)
		}
	}
	if got := timeLeft(noon, time.Time{}, messages("en")); got != "" {
		t.Errorf("without Now the page says %q", got)
	}
}

// FuzzSite checks that for every callback the only foreign address on the page is an http(s) origin.
func FuzzSite(f *testing.F) {
	for _, s := range []string{"https://shop.example", "https://a@b:1/c?d#e", "javascript:x", "//x",
		"https://[::1]", "http://\u202e", `https://"><script>`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		v := views()["expired"]
		v.SiteOrigin = raw
		doc, _ := render(t, v)
		for _, a := range find(doc, "a") {
			u, err := url.Parse(attr(a, "href"))
			if err != nil {
				t.Fatalf("%q became %q: %v", raw, attr(a, "href"), err)
			}
			if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
				u.Path+u.RawQuery+u.Fragment != "" {
				t.Errorf("%q became %q", raw, u)
			}
		}
	})
}

func TestRenderRejects(t *testing.T) {
	for _, c := range []struct {
		rule, view string
		spoil      func(*View)
	}{
		{"no Kind", "method L1", func(v *View) { v.Kind = "" }},
		{"an unknown Kind", "method L1", func(v *View) { v.Kind = "methods" }},
		{"no Level", "method L1", func(v *View) { v.Level = "" }},
		{"an unknown Level", "method L1", func(v *View) { v.Level = "L3" }},
		{"L1 without an age", "method L1", func(v *View) { v.ChallengeAge = 0 }},
		{"a form without an Action", "progress", func(v *View) { v.Action = "" }},
		{"a hop without an address", "completed", func(v *View) { v.HopURL = "" }},
		{"a hop on our host", "completed", func(v *View) { v.HopURL = "/verify" }},
		{"a hop without a scheme", "completed", func(v *View) { v.HopURL = "//evil.example" }},
		{"a hop that runs", "completed", func(v *View) { v.HopURL = "javascript:alert(1)" }},
		{"a hop that runs, with a host", "completed",
			func(v *View) { v.HopURL = "javascript://shop.example/%0aalert(1)" }},
		{"a hop to an app, which no method has yet", "completed",
			func(v *View) { v.HopURL = "myapp://return" }},
		{"a hop with a blank in front, which a refresh drops", "completed",
			func(v *View) { v.HopURL = " https://shop.example/" }},
		{"a hop with a blank behind", "completed", func(v *View) { v.HopURL = "https://shop.example/ " }},
		{"a hop with a line feed, which browsers drop", "completed",
			func(v *View) { v.HopURL = "https://shop.example/\na" }},
		{"a hop with a quote", "completed", func(v *View) { v.HopURL = `https://shop.example/"` }},
		{"a hop in quotes, which a refresh takes off", "completed",
			func(v *View) { v.HopURL = `'https://shop.example/'` }},
		{"a hop with a backslash, which browsers turn around", "completed",
			func(v *View) { v.HopURL = `https://shop.example\@evil.example/` }},
		{"a hop that is not ASCII", "completed", func(v *View) { v.HopURL = "https://shop.example/ü" }},
		{"an app that is a script", "box", func(v *View) { v.Open = "javascript://b.example/%0aalert(1)" }},
		{"a wallet's answer for another host", "wallet, asked", func(v *View) {
			v.Credential = &Credential{Action: "//evil.example",
				Requests: []CredentialRequest{{"org-iso-mdoc", "{}"}}}
		}},
		{"a request that is no JSON", "wallet, asked", func(v *View) {
			v.Credential.Requests[0].Data = "{"
		}},
		{"a second request that is no JSON", "wallet, asked", func(v *View) {
			v.Credential.Requests[1].Data = "{"
		}},
		{"a call without a request", "wallet, asked", func(v *View) { v.Credential.Requests = nil }},
		{"an app without a host", "box", func(v *View) { v.Open = "mailto:a@b.example" }},
		{"an app with a quote", "box", func(v *View) { v.Open = `wallet://a"b` }},
		{"a page that loads another site", "box", func(v *View) { v.AgainURL = "https://evil.example/" }},
		{"a page that loads itself all the time", "box", func(v *View) { v.AgainAfter = 0 }},
		{"a hop on a page that has none", "expired", func(v *View) { v.HopURL = "ftp://shop.example/" }},
		{"an Action on another host", "progress", func(v *View) { v.Action = "https://evil.example" }},
		{"an Action on another host, without a scheme", "progress",
			func(v *View) { v.Action = "//evil.example" }},
		{"an Action that browsers read as //", "progress", func(v *View) { v.Action = `/\evil.example` }},
		{"an Action from which browsers take the tab", "progress",
			func(v *View) { v.Action = "/\t/evil.example" }},
		{"a RetryURL that runs", "cancelled", func(v *View) { v.RetryURL = "javascript:alert(1)" }},
		{"a RetryURL on another host", "cancelled", func(v *View) { v.RetryURL = "//evil.example" }},
	} {
		v := views()[c.view]
		c.spoil(&v)
		if out, err := Render(v); err == nil || out != nil {
			t.Errorf("%s is rendered, error %v", c.rule, err)
		} else if !strings.HasPrefix(err.Error(), "pages: ") {
			t.Errorf("%s: the error %q does not name the package", c.rule, err)
		}
	}
}

// shape describes a document without its texts and values. Hostile text would change it.
func shape(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			continue
		}
		fmt.Fprintf(&b, "%d %s", d.Type, d.Data)
		for _, a := range d.Attr {
			b.WriteString(" " + a.Key)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestHostileTextStaysText(t *testing.T) {
	with := func(s string) View {
		v := views()["sandbox"]
		v.Flow = s
		v.Extra = []Field{{s, s}}
		v.Choices = []string{s, "cancel"}
		v.RetryURL = "/verify?flow=" + url.QueryEscape(s)
		v.FailureCode = s
		return v
	}
	plain, _ := render(t, with("plain"))
	for _, hostile := range []string{
		`"><script>alert(1)</script>`,
		`' onmouseover='alert(1)`,
		`</title></h1></form><form action="https://evil.example">`,
		`<!--`, `<![CDATA[`, `&quot;>`, "\x00<b>", "\xff\"><b>", "{n}{site}{age}",
	} {
		doc, _ := render(t, with(hostile))
		if shape(doc) != shape(plain) {
			t.Errorf("%q changes the document", hostile)
		}
		want := strings.NewReplacer("\x00", "\uFFFD", "\xff", "\uFFFD").Replace(hostile)
		for _, f := range find(doc, "form") {
			if got := attr(find(f, "input")[0], "value"); got != want {
				t.Errorf("the flow token %q is posted as %q", hostile, got)
			}
		}
	}
	// The value becomes part of an address. It cannot be escaped, so it must be rejected.
	v := with("plain")
	v.Action = `/"><script>`
	doc, _ := render(t, v)
	if shape(doc) != shape(plain) {
		t.Error("an Action changes the document")
	}
}

func TestRenderIsAFunctionOfTheView(t *testing.T) {
	v := views()["sandbox"]
	_, first := render(t, v)
	for range 20 {
		if _, again := render(t, v); again != first {
			t.Fatal("the same View gives different pages")
		}
	}
}

// A long host name is cut in the middle, so that it leaves room for the page. Its end identifies the owner of
// the site, and must stay.
func TestHost_LongNameIsShortened(t *testing.T) {
	long := strings.Repeat("a", 63)
	for host, want := range map[string]string{
		"shop.example": "shop.example",
		"a-name-that-is-just-as-long-as-it-can-be.example": "" +
			"a-name-that-is-just-as-long-as-it-can-be.example",
		"www.paypal.com." + long + "." + long + ".shop.example.co.uk": "www.payp…" +
			"aaaaaaaaaaaaaaaaa.shop.example.co.uk",
		long + ".shop-with-a-very-long-name-that-somebody-chose.co.uk": "aaaaaaaa…" +
			"shop-with-a-very-long-name-that-somebody-chose.co.uk",
		long + "." + long + ".example.com:8443": "aaaaaaaa…" + long + ".example.com:8443",
		"b." + long + ".co.uk":                  "b." + long + ".co.uk", // there is nothing to gain
	} {
		doc, _ := render(t, View{Kind: Damaged, Lang: "en", SiteOrigin: "https://" + host})
		bdi := find(doc, "bdi")
		if len(bdi) != 2 {
			t.Fatalf("%s is named %d times", host, len(bdi))
		}
		for _, name := range bdi {
			title := ""
			if want != host {
				title = host
			}
			if got := textOf(name); got != want || attr(name, "title") != title {
				t.Errorf("%s is shown as %q with the title %q, want %q", host, got, attr(name, "title"), want)
			}
		}
	}
}

func TestMethod_ShowsTarget(t *testing.T) {
	for lang, want := range map[string]string{"en": "Go to BankID", "de": "Weiter zu BankID"} {
		v := views()["method that leaves"]
		v.Lang = lang
		doc, _ := render(t, v)
		buttons := find(doc, "button")
		if len(buttons) != 1 || textOf(buttons[0]) != want {
			t.Errorf("%s: the page has %d buttons, the first should say %q", lang, len(buttons), want)
		}
	}
}

// The page before another site has one button, and a quiet link back.
func TestLeavingHasOneButton(t *testing.T) {
	v := views()["leaving, retry"]
	doc, raw := render(t, v)
	var buttons, back int
	for _, a := range find(doc, "a") {
		if attr(a, "class") == "button" {
			buttons++
		}
		if attr(a, "href") == v.RetryURL && textOf(a) == "Go back" {
			back++
		}
	}
	if buttons != 1 || back != 1 {
		t.Errorf("the page has %d links like buttons and %d back: %s", buttons, back, raw)
	}
}

func TestCamera_ShortAfterFirstTry(t *testing.T) {
	for _, n := range []Notice{{AttemptFailed: true, AttemptsLeft: 2}, {BadFile: "small"}, {Trouble: true},
		{Outdated: true}} {
		v := views()["camera"]
		v.Notice = n
		doc, _ := render(t, v)
		if steps := find(doc, "ol"); len(steps) != 0 {
			t.Errorf("%+v: the page says again what happens", n)
		}
	}
	doc, _ := render(t, views()["camera"])
	if len(find(doc, "ol")) != 1 {
		t.Error("the first page does not list the steps")
	}
}

// Contract 41: in development every page states that no user is checked, and the test method explains itself.
func TestRender_Dev(t *testing.T) {
	for _, lang := range language.All {
		view := View{Kind: Choose, Lang: lang, Action: "/verify", Flow: "a.b", Dev: true,
			Methods: []Option{{Name: "bank", Words: "oidc"}, {Name: "sandbox", Words: "sandbox"}}}
		for _, dev := range []bool{true, false} {
			view.Dev = dev
			body, err := Render(view)
			if err != nil {
				t.Fatal(err)
			}
			words := messages(lang)
			if got := strings.Contains(string(body), html.EscapeString(words("sandbox.banner"))); got != dev {
				t.Errorf("contract 41: %s: in development %t, the banner is shown: %t", lang, dev, got)
			}
			if !strings.Contains(string(body), html.EscapeString(words("option.other"))) {
				t.Errorf("contract 41: %s: the test method is not explained", lang)
			}
		}
	}
}
