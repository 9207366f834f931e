package methodtest_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/internal/methodtest"
)

// handed is a session whose computer waits for a phone.
type handed struct {
	testharness.Started
	computer *testharness.Page // the method's page
	waiting  *testharness.Page
	asks     *testharness.Page // on the phone
}

func handOver(h *testharness.Harness, on *testharness.Integration) handed {
	s := handed{Started: h.Start(testharness.Body{"integration_id": on.ID})}
	s.computer = h.Open(s.RedirectURL)
	from := s.computer
	if !slices.ContainsFunc(from.Forms, func(f testharness.Form) bool { return f.Hand }) {
		from = from.Submit("begin")
	}
	s.waiting = from.HandOff()
	s.asks = h.Open(s.waiting.Code)
	return s
}

// The wallet is on the phone that does the step, and sends the phone's browser back.
func TestHandOff_WalletOnPhone(t *testing.T) {
	o := newCourierService(t, nil)
	s := handOver(o.Harness, o.Publisher.L2)
	a := asked{Started: s.Started, page: s.asks.Submit("begin")}
	a.open()
	if a.waiting.Wallet == "" || a.waiting.Code == "" ||
		strings.Contains(string(a.waiting.Body), "data-hand") {
		t.Fatalf("contract 40: the phone's page opens %q", a.waiting.Wallet)
	}
	r := a.answers(methodtest.Approve, a.here)
	o.want("contract 40: the wallet's response", r, 200)
	o.want("contract 40: the same bytes again", a.answers(methodtest.Approve, a.here), 200)
	back := redirectURI(r)
	if p := s.waiting.Go(back); p.Callback != nil || p.Kind != "method" {
		t.Errorf("contract 34: the computer with the phone's response_code gets a %s page", p.Kind)
	}
	if p := s.waiting.LoadAgain(); p.Kind != "phone_wait" {
		t.Errorf("contract 40: before the phone returns, the computer gets a %s page", p.Kind)
	}
	if p := a.waiting.Go(back); p.Kind != "phone_done" {
		t.Fatalf("contract 40: the returning phone gets a %s page (%d)", p.Kind, p.Status)
	}
	if p := a.waiting.Go(back); p.Kind != "phone_done" {
		t.Errorf("contract 40: and again: a %s page (%d)", p.Kind, p.Status)
	}
	if done := s.waiting.LoadAgain(); done.Callback == nil {
		t.Errorf("contract 40: the computer gets a %s page (%d)", done.Kind, done.Status)
	}
}

// A rejection on the phone counts on the computer and is explained there.
func TestHandOff_ReasonOnComputer(t *testing.T) {
	s := newSite(t)
	s.estimator.Answer(estimatortest.Answer{Age: 16})
	h := handOver(s.Harness, s.Publisher.L1)
	if p := h.asks.Submit("begin").Upload("camera", estimatortest.Picture()); p.Kind != "phone_done" {
		t.Fatalf("a %s page (%d)", p.Kind, p.Status)
	}
	p := h.waiting.LoadAgain()
	if p.Kind != "method" || !strings.Contains(string(p.Body), "below the age that the site asks for") ||
		!strings.Contains(string(p.Body), "2 attempts left") {
		t.Errorf("contract 40: a %s page: %s", p.Kind, p.Body)
	}
	if p := p.HandOff(); p.Kind != "phone_wait" || p.Code == h.waiting.Code {
		t.Errorf("contract 40: the next attempt on a phone: a %s page", p.Kind)
	}
}

func TestHandOff_PhoneCancels(t *testing.T) {
	o := newCourierService(t, nil)
	s := handOver(o.Harness, o.Publisher.L2)
	a := asked{Started: s.Started, page: s.asks.Submit("begin")}
	a.open()
	p := a.waiting.Submit("cancel")
	if p.Kind != "cancelled" || strings.Contains(string(p.Body), "Back to") {
		t.Fatalf("contract 40: a %s page (%d)", p.Kind, p.Status)
	}
	if w := s.waiting.LoadAgain(); w.Kind != "phone_wait" {
		t.Errorf("contract 40: the computer gets a %s page", w.Kind)
	}
	if p = p.Go(s.waiting.Code); p.Kind != "method" {
		t.Errorf("contract 40: the phone that tries again gets a %s page", p.Kind)
	}
}

// Loading the link has no effect, in any browser and any number of times.
func TestHandOff_LinkLoaded(t *testing.T) {
	s := newSite(t)
	h := handOver(s.Harness, s.Publisher.L1)
	before := s.commits.Load()
	for range 3 {
		for _, method := range []string{"GET", "HEAD"} {
			if r := s.Do(method, h.waiting.Code, nil, nil); r.Status != 200 ||
				r.Header.Get("Set-Cookie") != "" || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("contract 40: %s: %d %v", method, r.Status, r.Header)
			}
		}
	}
	for query, status := range map[string]int{"?utm=a;b&x=1&x=2&x=%zz": 200, "?provider=a&provider=a": 400,
		"?show=%zz": 400} {
		p := h.asks.Go(h.waiting.Code + query)
		if p.Status != status {
			t.Errorf("contract 22: %s: a %s page (%d)", query, p.Kind, p.Status)
		}
	}
	if s.commits.Load() != before {
		t.Error("contract 22: loading the link changes the store")
	}
	if p := h.asks.Submit("begin"); p.Kind != "method" {
		t.Errorf("contract 40: a %s page", p.Kind)
	}
}

// A phone's pages use the session's language, or else the phone's.
func TestHandOff_Language(t *testing.T) {
	s := newSite(t)
	for _, c := range []struct {
		of   testharness.Body
		want string
	}{{nil, "fr"}, {testharness.Body{"language": "de"}, "de"}} {
		waiting := s.Open(s.Start(c.of).RedirectURL).HandOff()
		p := s.OpenWith(testharness.Headers("Accept-Language", "fr"), waiting.Code)
		if p.Lang != c.want {
			t.Errorf("contract 10: the phone's page is in %s, want %s", p.Lang, c.want)
		}
	}
}

// Each case sends invalid data instead of the link or the form for taking a hand-off. The hand-off stays
// open.
func TestHandOff_Invalid(t *testing.T) {
	form := testharness.Headers("Content-Type", "application/x-www-form-urlencoded")
	post := func(s *site, header http.Header, fields url.Values) *testharness.Response {
		all := form.Clone()
		maps.Copy(all, header)
		return s.Do("POST", "/verify", all, []byte(fields.Encode()))
	}
	taking := func(h handed, change func(url.Values)) url.Values {
		fields := h.asks.Form("begin").Fields
		change(fields)
		return fields
	}
	type try = func(s *site, h handed, handle string) *testharness.Response
	link := func(change func(string) string) try {
		return func(s *site, _ handed, handle string) *testharness.Response {
			return s.Do("GET", "/verify/phone/"+change(handle), testharness.Headers("Accept", "text/html"),
				nil)
		}
	}
	device := func(text string) try {
		return func(s *site, h handed, _ string) *testharness.Response {
			return post(s, nil, taking(h, func(f url.Values) { f.Set("device", text) }))
		}
	}
	for _, c := range []struct {
		rule   string
		do     try
		status int
	}{
		{"a flipped handle", link(func(h string) string {
			return h[:12] + map[bool]string{true: "B", false: "A"}[h[12] == 'A'] + h[13:]
		}), 410},
		{"a handle in an unknown partition", link(func(h string) string { return "__8" + h[3:] }), 410},
		{"the handle without its last character", link(func(h string) string { return h[:len(h)-1] }), 410},
		{"the handle with a suffix", link(func(h string) string { return h + ".s" }), 410},
		{"no handle", link(func(string) string { return "" }), 404},
		{"the handle with a slash", link(func(h string) string { return h + "/" }), 404},
		{"a text that the browser has chosen", device(strings.Repeat("!", 22)), 400},
		{"a text that is too short", device("A"), 400},
		{"no text", device(""), 400},
		{"a form of another site", func(s *site, h handed, _ string) *testharness.Response {
			return post(s, testharness.Headers("Sec-Fetch-Site", "cross-site"),
				taking(h, func(url.Values) {}))
		}, 403},
		{"a form of another site, by its origin", func(s *site, h handed, _ string) *testharness.Response {
			return post(s, testharness.Headers("Origin", "https://evil.example"),
				taking(h, func(url.Values) {}))
		}, 403},
		{"the handle as a box", func(s *site, _ handed, handle string) *testharness.Response {
			return s.Do("POST", "/verify/box/"+handle,
				testharness.Headers("Content-Type", "application/json"), []byte("{}"))
		}, 404},
		{"a POST to the link", func(s *site, _ handed, handle string) *testharness.Response {
			return s.Do("POST", "/verify/phone/"+handle, form, nil)
		}, 405},
		{"the step without the cookie", func(s *site, h handed, handle string) *testharness.Response {
			f := h.computer.StepForm("camera", estimatortest.Picture())
			return post(s, nil, url.Values{"flow": {"svc_ph_" + handle}, "attempt": {"0"},
				"provider": f.Fields["provider"]})
		}, 200}, // the page that asks whether to begin
		{"the handle where a flow token belongs",
			func(s *site, _ handed, handle string) *testharness.Response {
				return s.Do("GET", "/verify?flow=svc_ph_"+handle, testharness.Headers("Accept", "text/html"),
					nil)
			}, 200},
	} {
		t.Run("contract 40: "+c.rule, func(t *testing.T) {
			s := newSite(t)
			h := handOver(s.Harness, s.Publisher.L1)
			handle := strings.TrimPrefix(h.waiting.Code, s.BaseURL+"/verify/phone/")
			r := c.do(s, h, handle)
			if r.Status != c.status || r.Header.Get("Set-Cookie") != "" ||
				strings.Contains(string(r.Body), "svc_ft_") {
				t.Errorf("%d, want %d: %.300s", r.Status, c.status, r.Body)
			}
			if n := len(s.estimator.Requests()); n != 0 {
				t.Errorf("the estimator was asked %d times", n)
			}
			s.wantUndecided(h.Started)
			p := h.asks.Submit("begin")
			if p.Kind != "method" {
				t.Fatalf("the phone gets a %s page", p.Kind)
			}
			if p = p.Upload("camera", estimatortest.Picture()); p.Kind != "phone_done" {
				t.Errorf("the phone gets a %s page", p.Kind)
			}
			if h.waiting.LoadAgain().Callback == nil {
				t.Error("the computer does not continue")
			}
			if strings.Contains(s.Logs(), handle) {
				t.Error("contract 13: the log has the handle")
			}
		})
	}
}

// Only a step that a phone can do is handed off, by a form of the current attempt.
func TestHandOff_InvalidForms(t *testing.T) {
	s := newSite(t)
	page := s.Open(s.startL2().RedirectURL)
	f := page.Form("begin")
	f.Add("hand", "open")
	if p := page.SubmitForm(f); p.Kind != "method" || p.Code != "" {
		t.Errorf("contract 40: a bank: a %s page (%d)", p.Kind, p.Status)
	}
	s.Offer(s.Publisher.L1, "sandbox")
	page = s.Open(s.Start(nil).RedirectURL)
	f = page.Form("approve")
	f.Add("hand", "open")
	if p := page.SubmitForm(f); p.Kind != "method" || p.Code != "" {
		t.Errorf("contract 40: the sandbox: a %s page (%d)", p.Kind, p.Status)
	}
	s.Offer(s.Publisher.L1, "camera")
	page = s.Open(s.Start(nil).RedirectURL)
	old := page.HandForm()
	s.estimator.Answer(estimatortest.Answer{Age: 16})
	page.Upload("camera", estimatortest.Picture())
	if p := page.SubmitForm(old); p.Kind != "method" || p.Code != "" {
		t.Errorf("contract 23: a form of an earlier attempt: a %s page (%d)", p.Kind, p.Status)
	}

	// On the phone itself there is no other phone.
	h := handOver(s.Harness, s.Publisher.L1)
	phone := h.asks.Submit("begin")
	f = phone.StepForm("camera", nil)
	f.EncType, f.Action = "", "/verify"
	f.Add("hand", "open")
	if p := phone.SubmitForm(f); p.Kind != "method" || p.Code != "" {
		t.Errorf("contract 40: a phone hands off: a %s page (%d)", p.Kind, p.Status)
	}
	// A phone cannot choose another method either.
	f = h.asks.Form("begin")
	f.Fields.Del("device")
	f.Add("method", "bank")
	if p := phone.SubmitForm(f); p.Kind != "method" ||
		!strings.Contains(string(p.Body), `data-step="camera"`) {
		t.Errorf("contract 40: a phone chooses: a %s page (%d)", p.Kind, p.Status)
	}
}

// A phone that stores no cookies gets an error page.
func TestHandOff_PhoneWithoutCookies(t *testing.T) {
	s := newSite(t)
	h := handOver(s.Harness, s.Publisher.L1)
	f := h.asks.Form("begin")
	r := s.Do("POST", f.Action, testharness.Headers("Content-Type", "application/x-www-form-urlencoded"),
		[]byte(f.Fields.Encode()))
	line := r.Header.Get("Set-Cookie")
	if r.Status != 303 || !strings.Contains(line, "; HttpOnly; SameSite=Lax") ||
		strings.Contains(r.Header.Get("Location"), f.Fields.Get("device")) {
		t.Errorf("contract 40: %d to %s with the cookie %q", r.Status, r.Header.Get("Location"), line)
	}
	if p := s.Open(s.BaseURL + r.Header.Get("Location")); p.Status != 409 || p.Kind != "phone_taken" ||
		!strings.Contains(string(p.Body), "cookies") {
		t.Errorf("contract 40: a %s page (%d)", p.Kind, p.Status)
	}
}

// The stored hand-off is sealed, belongs to its name, and is deleted when the attempt has ended.
func TestHandOff_StoredFields(t *testing.T) {
	o := newCourierService(t, nil)
	s, other := handOver(o.Harness, o.Publisher.L2), handOver(o.Harness, o.Publisher.L2)
	items := func() []kv.Item {
		var all []kv.Item
		for _, p := range o.Service.Partitions() {
			found, err := o.KV.List(t.Context(), kv.Key{Partition: p, Name: "h/"}, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, found...)
		}
		return all
	}
	held := items()
	if len(held) != 2 {
		t.Fatalf("the store has %d hand-offs", len(held))
	}
	for _, item := range held {
		for _, secret := range []string{s.SessionID, "courier", "shop.example"} {
			if strings.Contains(string(item.Value), secret) {
				t.Errorf("contract 19: a hand-off has %q", secret)
			}
		}
		if item.Expires.IsZero() || item.Expires.After(o.Now().Add(core.SessionLife)) {
			t.Errorf("contract 40: a hand-off lives until %s", item.Expires)
		}
	}
	name := "h/" + strings.TrimPrefix(s.waiting.Code, o.BaseURL+"/verify/phone/")
	mine := slices.IndexFunc(held, func(i kv.Item) bool { return i.Key.Name == name })
	for rule, value := range map[string][]byte{"another's": held[1-mine].Value, "nobody's": []byte(`{"hn":"x"}`)} {
		err := o.KV.Commit(t.Context(), kv.Tx{ID: "forged-" + rule, Partition: held[mine].Key.Partition,
			Puts: []kv.Put{{Name: name, Value: value, Expires: held[mine].Expires}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*testharness.Page{s.waiting.LoadAgain(), s.asks.Reload(),
			s.asks.Submit("begin")} {
			if p.Kind != "unavailable" {
				t.Errorf("contract 19: with %s item: a %s page (%d)", rule, p.Kind, p.Status)
			}
		}
	}
	page := other.asks.Submit("begin")
	a := asked{Started: other.Started, page: page}
	a.open()
	o.want("the wallet's response", a.answers(methodtest.Approve, a.there), 200)
	if p := a.waiting.LoadAgain(); p.Kind != "phone_done" {
		t.Fatalf("a %s page", p.Kind)
	}
	if other.waiting.LoadAgain().Callback == nil {
		t.Error("the other session is not completed")
	}
	if left := items(); len(left) != 1 || left[0].Key.Name != name {
		t.Errorf("contract 40: after the outcome the store has %d hand-offs", len(left))
	}
}

// The waiting page shows the code on every device, and on a phone on request. It still does after it reloads
// automatically.
func TestWaitingPage_Code(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	at := slices.IndexFunc(a.waiting.Links, func(l string) bool { return strings.HasSuffix(l, "&show=code") })
	if at < 0 || a.waiting.Code == "" {
		t.Fatalf("contract 34: the links are %q", a.waiting.Links)
	}
	p := a.waiting.Go(o.BaseURL + a.waiting.Links[at])
	if p.Code != a.waiting.Code || !strings.Contains(string(p.Body), "data-shown") {
		t.Errorf("contract 34: a %s page with the code %q", p.Kind, p.Code)
	}
	if p = p.LoadAgain(); !strings.Contains(string(p.Body), "data-shown") {
		t.Error("contract 34: the reloaded page does not show the code")
	}
	o.want("the answer", methodtest.Answer(p, a.there, methodtest.Approve, a.there, a.nonce), 200)
	if p.LoadAgain().Callback == nil {
		t.Error("the session is not completed")
	}
}
