package methodtest_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/kinds"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/courier"
	"github.com/verge-id/verge/testharness/internal/methodtest"
)

// courierService is a service whose integrations use the courier as their method.
type courierService struct {
	*testharness.Harness
	t      *testing.T
	decide atomic.Pointer[func(kvtest.Call) kvtest.Fault]
}

func newCourierService(t *testing.T, change func(*core.Config)) *courierService {
	t.Helper()
	o := &courierService{t: t}
	o.Harness = testharness.New(t, &testharness.Options{
		Methods: []method.Config{{Name: courier.Kind.Name, Kind: courier.Kind.Name}},
		Configure: func(c *core.Config) {
			c.Kinds = append(slices.Clip(kinds.All), courier.Kind)
			if change != nil {
				change(c)
			}
		},
		KV: func(now func() time.Time) kv.KV {
			return &kvtest.Faulty{KV: memory.New(memory.Config{Now: now}), Decide: o.fault}
		},
	})
	for _, i := range []*testharness.Integration{o.Publisher.L1, o.Publisher.L2, o.Other.L1} {
		o.Offer(i, courier.Kind.Name)
	}
	return o
}

func (o *courierService) fault(c kvtest.Call) kvtest.Fault {
	if decide := o.decide.Load(); decide != nil {
		return (*decide)(c)
	}
	return kvtest.Pass
}

// failing sets the store's faults of the next commits. Later commits pass.
func (o *courierService) failing(faults ...kvtest.Fault) {
	var n atomic.Int32
	decide := func(c kvtest.Call) kvtest.Fault {
		if c.Method != "Commit" {
			return kvtest.Pass
		}
		if at := int(n.Add(1)); at <= len(faults) {
			return faults[at-1]
		}
		return kvtest.Pass
	}
	o.decide.Store(&decide)
}

// asked is a session whose page waits for the courier.
type asked struct {
	testharness.Started
	page        *testharness.Page // the method's first page
	waiting     *testharness.Page
	here, there string // the addresses for this device and for another one
	nonce       string
}

func (o *courierService) ask() asked {
	o.t.Helper()
	a := asked{Started: o.Start(testharness.Body{"integration_id": o.Publisher.L2.ID})}
	a.page = o.Open(a.RedirectURL)
	a.open()
	return a
}

// open opens a pending response with the method's page.
func (a *asked) open() {
	a.waiting = a.page.Submit("begin")
	a.here, a.nonce = methodtest.Ask(a.waiting.Wallet)
	a.there, _ = methodtest.Ask(a.waiting.Code)
}

// answers posts a response to an address.
func (a asked) answers(answer, to string) *testharness.Response {
	return methodtest.Answer(a.waiting, to, answer, to, a.nonce)
}

// redirectURI returns the redirect_uri in the reply to a posted response.
func redirectURI(r *testharness.Response) string {
	var body struct {
		RedirectURI string `json:"redirect_uri"`
	}
	if json.Unmarshal(r.Body, &body) != nil {
		return ""
	}
	return body.RedirectURI
}

// want fails if a reply has another status, or not the form of every reply to a posted response.
func (o *courierService) want(rule string, r *testharness.Response, status int) {
	o.t.Helper()
	if r.Status != status {
		o.t.Errorf("%s: %d %s, want %d", rule, r.Status, r.Body, status)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json; charset=utf-8" || !json.Valid(r.Body) {
		o.t.Errorf("%s: the reply is %q: %.200s", rule, got, r.Body)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Access-Control-") || name == "Set-Cookie" || name == "Location" {
			o.t.Errorf("%s: the reply has the header %s", rule, name)
		}
	}
	if status == 503 && r.Header.Get("Retry-After") == "" {
		o.t.Errorf("%s: no Retry-After", rule)
	}
}

// wantPending fails if the session was decided, or if an attempt was counted.
func (o *courierService) wantPending(a asked) {
	o.t.Helper()
	if status := o.Reconcile(a.SessionID).Text("status"); status != "PENDING" {
		o.t.Errorf("the session is %s", status)
	}
	for _, f := range o.Open(a.RedirectURL).Forms {
		if n := f.Fields.Get("attempt"); n != "0" {
			o.t.Errorf("%s attempts are counted", n)
		}
	}
}

func TestPendingResponse_OtherDevice(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	if a.waiting.Kind != "method" || a.waiting.Again == "" || a.there == "" || a.here != a.there+".s" ||
		!strings.HasPrefix(a.there, o.BaseURL+"/verify/box/") {
		t.Fatalf("a %s page that continues to %q, with %q and %q",
			a.waiting.Kind, a.waiting.Again, a.here, a.there)
	}
	if again := a.waiting.LoadAgain(); again.Code != a.waiting.Code || again.Again == "" {
		t.Errorf("before the response: a %s page with %q", again.Kind, again.Code)
	}
	r := a.answers(methodtest.Approve, a.there)
	o.want("contract 34: a response", r, 200)
	if got := string(r.Body); got != "{}" {
		t.Errorf("contract 34: across devices there is no redirect_uri: %s", got)
	}
	o.wantPending(a)
	done := a.waiting.LoadAgain()
	if done.Callback == nil {
		t.Fatalf("contract 34: the waiting browser gets a %s page", done.Kind)
	}
	if r := o.Validate(done.Callback.ResultToken); r.Status != 200 {
		t.Errorf("the result: %d %s", r.Status, r.Body)
	}
}

func TestPendingResponse_SameDevice(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	r := a.answers(methodtest.Approve, a.here)
	o.want("contract 34: a response", r, 200)
	back := redirectURI(r)
	if !strings.HasPrefix(back, o.BaseURL+"/verify/return/courier?response_code=") {
		t.Fatalf("the redirect_uri is %q", back)
	}
	// The waiting page completes no session: it may belong to an attacker who has sent the link to the
	// device's owner.
	if p := a.waiting.LoadAgain(); p.Callback != nil || p.Kind != "method" || p.Wallet != "" ||
		p.Again == "" {
		t.Errorf("contract 34: the waiting browser gets a %s page", p.Kind)
	}
	o.wantPending(a)
	if p := o.Open(back); p.Status != 403 || p.Kind != "elsewhere" {
		t.Errorf("contract 34: the response_code in another browser: a %s page (%d)", p.Kind, p.Status)
	}
	other := o.ask()
	if p := other.waiting.Go(back); p.Status != 403 || p.Callback != nil {
		t.Errorf("contract 34: the response_code in a browser with another session: a %s page (%d)",
			p.Kind, p.Status)
	}
	code := back[strings.LastIndex(back, "=")+1:]
	for rule, guess := range map[string]string{"a guess": strings.Repeat("A", len(code)),
		"an altered one": strings.Repeat("B", 1) + code[1:][:len(code)-2] + "__"} {
		p := a.waiting.Go(strings.TrimSuffix(back, code) + guess[:len(code)])
		if p.Status != 403 || p.Kind != "elsewhere" {
			t.Errorf("contract 34: %s of a response_code: a %s page (%d)", rule, p.Kind, p.Status)
		}
	}
	if p := a.waiting.Go(strings.TrimSuffix(back, code) + strings.Repeat("A", len(code)) +
		"&x=1&x=2;&y=%zz"); p.Status != 403 {
		t.Errorf("contract 22: a guess among unknown parameters: a %s page (%d)", p.Kind, p.Status)
	}
	for _, malformed := range []string{"", "a", code + "a", code + "&response_code=" + code} {
		if p := a.waiting.Go(strings.TrimSuffix(back, code) + malformed); p.Status != 400 ||
			p.Kind != "damaged" {
			t.Errorf("a response_code of %d bytes: a %s page (%d)", len(malformed), p.Kind, p.Status)
		}
	}
	o.wantPending(a)
	done := a.waiting.Go(back)
	if done.Callback == nil {
		t.Fatalf("contract 34: the starting browser returns to a %s page (%d)", done.Kind,
			done.Status)
	}
	if r := o.Validate(done.Callback.ResultToken); r.Status != 200 {
		t.Errorf("the result: %d %s", r.Status, r.Body)
	}
	if p := a.waiting.Go(back); p.Kind != "used" {
		t.Errorf("contract 34: a response_code that is used twice: a %s page (%d)", p.Kind, p.Status)
	}
	if p := o.Open(back); p.Status != 403 {
		t.Errorf("contract 34: a used response_code in another browser: a %s page (%d)", p.Kind, p.Status)
	}
}

// posting posts a wrong response to a pending one.
type posting = func(o *courierService, a asked) *testharness.Response

var jsonHeader = testharness.Headers("Content-Type", "application/json")

// Each case posts an invalid response to an open pending response. It stays open, and the correct response
// then completes the session.
func TestPendingResponse_Invalid(t *testing.T) {
	post := func(address string, header http.Header, body string) posting {
		return func(o *courierService, a asked) *testharness.Response {
			return a.waiting.AsAnother("POST", strings.ReplaceAll(address, "THERE", a.there), header,
				[]byte(strings.ReplaceAll(strings.ReplaceAll(body, "NONCE", a.nonce), "THERE", a.there)))
		}
	}
	const good = `{"answer":"approve","to":"THERE","nonce":"NONCE"}`
	for _, c := range []struct {
		rule   string
		post   func(o *courierService, a asked) *testharness.Response
		status int
	}{
		{"the response for the same device, posted to the other address",
			func(_ *courierService, a asked) *testharness.Response {
				return methodtest.Answer(a.waiting, a.there, methodtest.Approve, a.here, a.nonce)
			}, 400},
		{"the response for another device, posted to the address for the same one",
			func(_ *courierService, a asked) *testharness.Response {
				return methodtest.Answer(a.waiting, a.here, methodtest.Approve, a.there, a.nonce)
			}, 400},
		{"a response to another session", func(o *courierService, a asked) *testharness.Response {
			other := o.ask()
			return methodtest.Answer(a.waiting, a.there, methodtest.Approve, a.there, other.nonce)
		}, 400},
		{"a response at another session's address", func(o *courierService, a asked) *testharness.Response {
			other := o.ask()
			return methodtest.Answer(a.waiting, a.there, methodtest.Approve, other.there, a.nonce)
		}, 400},
		{"an unknown response", post("THERE", jsonHeader,
			`{"answer":"perhaps","to":"THERE","nonce":"NONCE"}`), 400},
		{"no JSON", post("THERE", jsonHeader, "answer=approve"), 400},
		{"half of the JSON", post("THERE", jsonHeader, good[:30]), 400},
		{"nothing", post("THERE", jsonHeader, ""), 400},
		{"a form", post("THERE",
			testharness.Headers("Content-Type", "application/x-www-form-urlencoded"), good), 400},
		{"65 KiB", post("THERE", jsonHeader, good+strings.Repeat(" ", 65<<10)), 413},
		{"64 KiB and a byte", post("THERE", jsonHeader, `{"x":"`+strings.Repeat("x", 64<<10+1-8)+`"}`), 413},
		{"the handle without its last character", func(_ *courierService, a asked) *testharness.Response {
			return methodtest.Answer(a.waiting, a.there[:len(a.there)-1], "approve", a.there, a.nonce)
		}, 404},
		{"the handle with a slash behind it", post("THERE/", jsonHeader, good), 404},
		{"the handle with another suffix", post("THERE.t", jsonHeader, good), 404},
		{"the handle with two suffixes", post("THERE.s.s", jsonHeader, good), 404},
		{"no handle", func(o *courierService, a asked) *testharness.Response {
			return a.waiting.AsAnother("POST", o.BaseURL+"/verify/box/", jsonHeader, []byte(good))
		}, 404},
		{"a flipped handle", func(_ *courierService, a asked) *testharness.Response {
			at := len(a.there) - 4
			flipped := a.there[:at] + map[bool]string{true: "B", false: "A"}[a.there[at] == 'A'] +
				a.there[at+1:]
			return methodtest.Answer(a.waiting, flipped, methodtest.Approve, flipped, a.nonce)
		}, 404},
		{"the handle in an unknown partition", func(o *courierService, a asked) *testharness.Response {
			base := o.BaseURL + "/verify/box/"
			moved := base + "__8" + strings.TrimPrefix(a.there, base)[3:]
			return methodtest.Answer(a.waiting, moved, methodtest.Approve, moved, a.nonce)
		}, 404},
		{"a response that cannot be verified now", func(_ *courierService, a asked) *testharness.Response {
			return a.answers(methodtest.Later, a.there)
		}, 503},
		{"a response with too much data to store", func(_ *courierService, a asked) *testharness.Response {
			return a.answers(methodtest.Vast, a.there)
		}, 503},
		{"a GET, as of a link scanner", func(_ *courierService, a asked) *testharness.Response {
			return a.waiting.AsAnother("GET", a.there, testharness.Headers("Accept", "text/html"), nil)
		}, 404}, // the courier has no content at its address
		{"a PUT", func(_ *courierService, a asked) *testharness.Response {
			return a.waiting.AsAnother("PUT", a.there, jsonHeader, []byte(good))
		}, 405},
		{"a preflight", func(_ *courierService, a asked) *testharness.Response {
			return a.waiting.AsAnother("OPTIONS", a.there,
				testharness.Headers("Origin", "https://shop.example",
					"Access-Control-Request-Method", "POST"), nil)
		}, 405},
	} {
		t.Run("contract 34: "+c.rule, func(t *testing.T) {
			o := newCourierService(t, nil)
			a := o.ask()
			r := c.post(o, a)
			o.want(c.rule, r, c.status)
			if c.status == 405 && r.Header.Get("Allow") != "POST, GET, HEAD" {
				t.Errorf("Allow is %q", r.Header.Get("Allow"))
			}
			o.wantPending(a)
			if p := a.waiting.LoadAgain(); p.Callback != nil || p.Code == "" {
				t.Errorf("the waiting page is a %s page (%d)", p.Kind, p.Status)
			}
			o.want("the correct response", a.answers(methodtest.Approve, a.there), 200)
			if a.waiting.LoadAgain().Callback == nil {
				t.Error("the correct response does not complete the session")
			}
			for _, secret := range []string{a.nonce, strings.TrimPrefix(a.there, o.BaseURL+"/verify/box/")} {
				if strings.Contains(o.Logs(), secret) {
					t.Error("contract 13: the log has the nonce or the handle")
				}
			}
		})
	}
}

func TestPendingResponse_HEAD(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	// As for GET, there is no content.
	if r := a.waiting.AsAnother("HEAD", a.there, nil, nil); r.Status != 404 {
		t.Errorf("contract 34: %d", r.Status)
	}
	o.wantPending(a)
}

// The handle of one session has no effect on another session, of any publisher.
func TestPendingResponse_OtherPublisher(t *testing.T) {
	o := newCourierService(t, nil)
	mine := o.ask()
	var theirs asked
	r := o.Do("POST", web.StartPath, testharness.Bearer(o.Other.SecretKey),
		o.StartBody(testharness.Body{"integration_id": o.Other.L1.ID}))
	if err := json.Unmarshal(r.Body, &theirs.Started); err != nil || r.Status != 200 {
		t.Fatalf("start: %d %s", r.Status, r.Body)
	}
	theirs.page = o.Open(theirs.RedirectURL)
	theirs.open()
	o.want("contract 34: my response at their address", methodtest.Answer(mine.waiting, theirs.there,
		methodtest.Approve, mine.there, mine.nonce), 400)
	o.want("contract 34: their response at my address",
		methodtest.Answer(theirs.waiting, mine.there, methodtest.Approve, theirs.there, theirs.nonce), 400)
	o.wantPending(mine)
	o.want("their answer", theirs.answers(methodtest.Approve, theirs.there), 200)
	if mine.waiting.LoadAgain().Callback != nil {
		t.Error("contract 34: their response completes my session")
	}
	if theirs.waiting.LoadAgain().Callback == nil {
		t.Error("their session is not completed")
	}
}

func TestPendingResponse_FirstCounts(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	verdicts := []string{methodtest.Approve, methodtest.Reject, methodtest.Cancel, methodtest.Fail}
	statuses := make([]int, len(verdicts))
	var all sync.WaitGroup
	for n, verdict := range verdicts {
		all.Go(func() { statuses[n] = a.answers(verdict, a.there).Status })
	}
	all.Wait()
	won := -1
	for n, status := range statuses {
		switch {
		case status == 200 && won < 0:
			won = n
		case status != 409 && status != 410:
			t.Errorf("contract 34: the responses get %v", statuses)
		}
	}
	if won < 0 {
		t.Fatalf("contract 34: no response was accepted: %v", statuses)
	}
	o.want("contract 34: the accepted response again", a.answers(verdicts[won], a.there), 200)
	o.want("contract 34: another response", a.answers(verdicts[(won+1)%len(verdicts)], a.there), 410)
	o.want("contract 34: the same verdict at the other address", a.answers(verdicts[won], a.here), 410)
	a.waiting.LoadAgain()
	want := map[string]string{methodtest.Approve: "COMPLETED", methodtest.Reject: "FAILED"}[verdicts[won]]
	status := o.Reconcile(a.SessionID).Text("status")
	if want != "" && status != want || want == "" && status != "PENDING" {
		t.Errorf("contract 34: %s was accepted, and the session is %s", verdicts[won], status)
	}
}

// A repeated response gets the same code, since the first reply may be lost.
func TestPendingResponse_Repeated(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	first, second := a.answers(methodtest.Approve, a.here), a.answers(methodtest.Approve, a.here)
	o.want("contract 34: the response", first, 200)
	o.want("contract 34: the response again", second, 200)
	if redirectURI(first) == "" || redirectURI(first) != redirectURI(second) {
		t.Errorf("contract 34: redirect_uri %q and then %q", redirectURI(first), redirectURI(second))
	}
	o.want("contract 34: another response", a.answers(methodtest.Reject, a.here), 410)
}

func TestPendingResponse_Late(t *testing.T) {
	for _, c := range []struct {
		rule   string
		late   func(o *courierService, a *asked)
		status int
	}{
		{"after the session has expired",
			func(o *courierService, _ *asked) { o.Pause(core.SessionLife) }, 404},
		{"after the session was completed", func(o *courierService, a *asked) {
			o.want("the first response", a.answers(methodtest.Approve, a.there), 200)
			a.waiting.LoadAgain()
		}, 404},
		{"after the attempt has failed", func(o *courierService, a *asked) {
			o.want("the first response", a.answers(methodtest.Fail, a.there), 200)
			a.waiting.LoadAgain()
		}, 404},
		{"after another box was opened", func(o *courierService, a *asked) {
			old := *a
			a.open()
			a.here, a.there, a.nonce, a.waiting = old.here, old.there, old.nonce, old.waiting
		}, 404},
		{"after the operator took the method away", func(o *courierService, _ *asked) {
			o.Offer(o.Publisher.L2, "sandbox")
		}, 410},
	} {
		t.Run("contract 34: "+c.rule, func(t *testing.T) {
			o := newCourierService(t, nil)
			a := o.ask()
			c.late(o, &a)
			before := o.Reconcile(a.SessionID).Text("status")
			for _, to := range []string{a.there, a.here} {
				r := a.answers(methodtest.Approve, to)
				o.want(c.rule, r, c.status)
				if strings.Contains(string(r.Body), "COMPLETED") || redirectURI(r) != "" {
					t.Errorf("the reply has more: %s", r.Body)
				}
			}
			if after := o.Reconcile(a.SessionID).Text("status"); after != before {
				t.Errorf("the session was %s and is %s", before, after)
			}
		})
	}
}

// A double click on the button opens two pending responses in succession. The later one counts.
func TestPendingResponse_OpenedTwice(t *testing.T) {
	o := newCourierService(t, nil)
	a := asked{Started: o.Start(testharness.Body{"integration_id": o.Publisher.L2.ID})}
	a.page = o.Open(a.RedirectURL)
	pages := make([]*testharness.Page, 2)
	var both sync.WaitGroup
	for n := range pages {
		both.Go(func() { pages[n] = a.page.Submit("begin") })
	}
	both.Wait()
	var answers []int
	var completed int
	for _, p := range pages {
		if p.Code == "" { // its own pending response was closed, and the page offers a new start
			answers = append(answers, 404)
			continue
		}
		to, nonce := methodtest.Ask(p.Code)
		status := methodtest.Answer(p, to, methodtest.Approve, to, nonce).Status
		answers = append(answers, status)
		if p.LoadAgain().Callback != nil && status == 200 { // the other page belongs to the same browser
			completed++
		}
	}
	slices.Sort(answers)
	if !slices.Equal(answers, []int{200, 404}) || completed != 1 {
		t.Errorf("contract 34: the two addresses return %v, and %d browsers are done", answers, completed)
	}
}

// A user who has the link of the waiting page, but not its cookie, gets neither the page nor the result.
func TestWaitingPage_OtherBrowser(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	if p := o.Open(a.waiting.URL); p.Kind != "elsewhere" || p.Code != "" {
		t.Errorf("contract 34: another browser gets a %s page", p.Kind)
	}
	o.want("the answer", a.answers(methodtest.Approve, a.there), 200)
	if p := o.Open(a.waiting.URL); p.Kind != "elsewhere" || p.Callback != nil {
		t.Errorf("contract 34: after the response another browser gets a %s page", p.Kind)
	}
	o.wantPending(a)
	done := a.waiting.LoadAgain()
	if done.Callback == nil {
		t.Fatalf("a %s page", done.Kind)
	}
	if p := o.Open(a.waiting.URL); p.Callback != nil {
		t.Error("contract 34: another browser gets the result")
	}
}

func TestPendingResponse_Verdicts(t *testing.T) {
	for answer, want := range map[string]struct{ kind, status, code string }{
		methodtest.Reject:  {"failed", "FAILED", "PROVIDER_REJECTED"},
		methodtest.Fail:    {"method", "PENDING", ""},
		methodtest.Cancel:  {"cancelled", "PENDING", ""},
		methodtest.Nothing: {"cancelled", "PENDING", ""},
	} {
		o := newCourierService(t, nil)
		a := o.ask()
		o.want(answer, a.answers(answer, a.there), 200)
		p := a.waiting.LoadAgain()
		r := o.Reconcile(a.SessionID)
		if p.Kind != want.kind || r.Text("status") != want.status || r.Text("failure_code") != want.code {
			t.Errorf("contract 34: %s gives a %s page and %s", answer, p.Kind, r.Body)
		}
	}
	o := newCourierService(t, nil)
	a := o.ask()
	if p := a.waiting.Submit("cancel"); p.Kind != "cancelled" {
		t.Errorf("the form of the page that waits gives a %s page", p.Kind)
	}
}

// The address of a pending response has its own rate, per address and per client.
func TestPendingResponse_Rates(t *testing.T) {
	o := newCourierService(t, func(c *core.Config) { c.Limits.PendingPerIP = ratelimit.PerMinute(30) })
	a, other := o.ask(), o.ask()
	for range 20 {
		o.want("contract 34: 20 responses a minute", a.answers("perhaps", a.there), 400)
	}
	r := a.answers(methodtest.Approve, a.there)
	o.want("contract 34: the 21st", r, 429)
	if r.Header.Get("Retry-After") == "" || r.Code() != "RATE_LIMITED" {
		t.Errorf("%v %s", r.Header, r.Body)
	}
	for range 10 {
		o.want("contract 34: another address has its own rate", other.answers("perhaps", other.there), 400)
	}
	o.want("contract 34: the client has one rate", other.answers(methodtest.Approve, other.there), 429)
	if p := o.Open(a.RedirectURL); p.Status != 200 {
		t.Errorf("contract 34: pages have another rate: %d", p.Status)
	}
	o.Pause(time.Minute)
	o.want("a minute later", a.answers(methodtest.Approve, a.there), 200)
}

// The store fails when a pending response is opened. The user tries again, and the first try has no harmful
// effect.
func TestPendingResponse_LostReplyAtOpen(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []kvtest.Fault
		opens  bool
	}{
		{"refused", []kvtest.Fault{kvtest.Reject}, false},
		{"the request is lost", []kvtest.Fault{kvtest.LoseRequest}, true},
		{"the reply is lost", []kvtest.Fault{kvtest.LoseReply}, true},
		{"two replies are lost", []kvtest.Fault{kvtest.LoseReply, kvtest.LoseReply}, false},
	} {
		t.Run("contract 5: "+c.name, func(t *testing.T) {
			o := newCourierService(t, nil)
			a := asked{Started: o.Start(testharness.Body{"integration_id": o.Publisher.L2.ID})}
			a.page = o.Open(a.RedirectURL)
			o.failing(c.faults...)
			p := a.page.Submit("begin")
			if (p.Code != "") != c.opens || !c.opens && (p.Status != 503 || p.Kind != "unavailable") {
				t.Errorf("a %s page (%d)", p.Kind, p.Status)
			}
			a.open()
			o.want("the answer", a.answers(methodtest.Approve, a.there), 200)
			if a.waiting.LoadAgain().Callback == nil {
				t.Error("the session is not completed")
			}
		})
	}
}

// The store fails when a response closes the pending one. Repeating the response returns the result.
func TestPendingResponse_LostReplyAtClose(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults []kvtest.Fault
		status int
		closed bool
	}{
		{"refused", []kvtest.Fault{kvtest.Reject}, 503, false},
		{"the request is lost", []kvtest.Fault{kvtest.LoseRequest}, 200, true},
		{"the reply is lost", []kvtest.Fault{kvtest.LoseReply}, 200, true},
		{"two replies are lost", []kvtest.Fault{kvtest.LoseReply, kvtest.LoseReply}, 503, true},
	} {
		t.Run("contract 5: "+c.name, func(t *testing.T) {
			o := newCourierService(t, nil)
			a := o.ask()
			o.failing(c.faults...)
			o.want(c.name, a.answers(methodtest.Approve, a.here), c.status)
			want := map[bool]int{true: 410, false: 200}[c.closed]
			if c.closed {
				o.want("another answer", a.answers(methodtest.Reject, a.here), want)
			}
			r := a.answers(methodtest.Approve, a.here)
			o.want("the same response again", r, 200)
			o.want("and again", a.answers(methodtest.Approve, a.here), 200)
			if a.waiting.Go(redirectURI(r)).Callback == nil {
				t.Error("the session is not completed")
			}
		})
	}
}

func TestPendingResponse_StoreDown(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	decide := func(kvtest.Call) kvtest.Fault { return kvtest.Reject }
	o.decide.Store(&decide)
	o.want("contract 5: a store that is down", a.answers(methodtest.Approve, a.there), 503)
	o.decide.Store(nil)
	o.want("the answer", a.answers(methodtest.Approve, a.there), 200)
}

// The key ring rotates and the engine is replaced while the response is pending, and again when it is closed.
func TestPendingResponse_NewRingAndEngine(t *testing.T) {
	o := newCourierService(t, nil)
	a := o.ask()
	o.RotateKeyring()
	o.Engine.Forget()
	if p := a.waiting.LoadAgain(); p.Code != a.waiting.Code {
		t.Fatalf("contract 16: a %s page (%d)", p.Kind, p.Status)
	}
	r := a.answers(methodtest.Approve, a.here)
	o.want("contract 16: the response", r, 200)
	o.RotateKeyring()
	o.Engine.Forget()
	if p := a.waiting.Go(redirectURI(r)); p.Callback == nil {
		t.Errorf("contract 16: a %s page (%d)", p.Kind, p.Status)
	}
}

// The stored pending response is sealed, belongs to its name, and is deleted when the attempt has ended.
func TestPendingResponse_StoredFields(t *testing.T) {
	o := newCourierService(t, nil)
	a, other := o.ask(), o.ask()
	boxes := func() []kv.Item {
		var all []kv.Item
		for _, p := range o.Service.Partitions() {
			items, err := o.KV.List(t.Context(), kv.Key{Partition: p, Name: "b/"}, "", 10)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, items...)
		}
		return all
	}
	items := boxes()
	if len(items) != 2 {
		t.Fatalf("the store has %d pending responses", len(items))
	}
	for _, item := range items {
		if strings.Contains(string(item.Value), a.SessionID) ||
			strings.Contains(string(item.Value), "courier") ||
			item.Expires.After(o.Now().Add(core.SessionLife)) || item.Expires.IsZero() {
			t.Errorf("contract 19: a pending response until %s: %q", item.Expires, item.Value)
		}
	}
	// An attacker who can write to the store copies the item of one pending response over another.
	name := func(address string) string {
		return "b/" +
			strings.TrimPrefix(address, o.BaseURL+"/verify/box/")
	}
	mine := slices.IndexFunc(items, func(i kv.Item) bool { return i.Key.Name == name(a.there) })
	for rule, value := range map[string][]byte{"the item of another box": items[1-mine].Value,
		"an unsealed item": []byte(`{"bx":"x"}`)} {
		err := o.KV.Commit(t.Context(), kv.Tx{ID: "forged-" + rule[:8], Partition: items[mine].Key.Partition,
			Puts: []kv.Put{{Name: items[mine].Key.Name, Value: value, Expires: items[mine].Expires}}})
		if err != nil {
			t.Fatal(err)
		}
		o.want("contract 19: "+rule, a.answers(methodtest.Approve, a.there), 503)
		if p := a.waiting.LoadAgain(); p.Kind != "unavailable" {
			t.Errorf("contract 19: %s: a %s page", rule, p.Kind)
		}
	}
	o.want("the other address", other.answers(methodtest.Approve, other.there), 200)
	if other.waiting.LoadAgain().Callback == nil {
		t.Error("the other session is not completed")
	}
	if left := boxes(); len(left) != 1 || left[0].Key.Name != name(a.there) {
		t.Errorf("contract 34: after the outcome the store has %d pending responses", len(left))
	}
}
