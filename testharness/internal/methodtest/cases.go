package methodtest

import (
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness"
)

func (w *fixture) sameStepTwice() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	first, second := step.in(page), step.in(page)
	w.wantAsked(1)
	w.wantResult(second)
	if r := w.Validate(first.Callback.ResultToken); r.Code() != "ALREADY_USED" {
		w.t.Errorf("contract 17: the same step has given two results: %d %s", r.Status, r.Body)
	}
}

func (w *fixture) failedTwice() {
	s := w.start("PENDING")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, No)
	w.wantNothing(step.in(page))
	w.wantNothing(step.in(page))
	w.wantAsked(1)
	if status := w.status(s); status != "PENDING" { // a rejection of this kind is final
		w.expect(s.SessionID, "FAILED")
		return
	}
	w.wantAttempts(page, s, 1)
}

func (w *fixture) doubleClick() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { step.in(page) })
	}
	both.Wait()
	w.wantAsked(1)
	w.wantResult(step.in(page))
}

// manyAtOnce sends a step many times concurrently. A browser that arrives during the request waits on a page
// that reloads automatically.
func (w *fixture) manyAtOnce() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	answered := make([]*testharness.Page, 40)
	var all sync.WaitGroup
	for n := range answered {
		all.Go(func() { answered[n] = step.in(page) })
	}
	all.Wait()
	w.wantAsked(1)
	for _, p := range answered {
		for n := 0; p.Callback == nil && p.Again != "" && n < 5; n++ { // while a request is pending
			p = p.LoadAgain()
		}
		if p.Callback == nil {
			w.t.Fatalf("a %s page (%d): %s", p.Kind, p.Status, p.Body)
		}
	}
	w.wantResult(answered[0].Reload())
}

// diesAsking stops the instance during its request. The attempt is still claimed, so no other request is sent
// until the claim ends.
func (w *fixture) diesAsking() {
	if w.side.Asked == nil {
		w.t.Skip("SKIP: it sends no requests")
	}
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	w.dieAsking(step, page)
	w.wantStatus(s, "PENDING")
	waiting := step.in(page)
	w.wantNothing(waiting, "asked")
	w.wantNothing(waiting.LoadAgain(), "asked")
	w.wantAsked(1)
	w.Advance(claimLife)
	after := waiting.LoadAgain()
	w.wantNothing(after, "method")
	w.wantAttempts(page, s, 0)
	w.wantResult(w.walk(after, Yes).in(after))
}

// dieAsking does a step whose instance stops as soon as the attempt is claimed and the provider has the
// request: from the second commit, the store rejects every call.
func (w *fixture) dieAsking(step Step, page *testharness.Page) {
	commits := 0
	w.fail(func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			commits++
		}
		if commits > 1 {
			return kvtest.Reject
		}
		return kvtest.Pass
	})
	w.wantNothing(step.in(page), "unavailable")
	w.fail(nil)
	w.wantAsked(1)
}

// claimLife is longer than the claim of an attempt.
const claimLife = 21 * time.Second

func (w *fixture) twoTabs() {
	s := w.start("COMPLETED")
	one := w.Open(s.RedirectURL)
	other := one.Go(s.RedirectURL)
	first, second := w.walk(one, Yes), w.walk(other, Yes)
	w.wantResult(second.in(other))
	w.wantNothing(first.in(one), "used", "elsewhere")
	w.wantAsked(1)
}

func (w *fixture) lateStep() {
	w.offerTwo()
	s := w.start("PENDING")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	choose(page, otherMethod).Submit("fail_attempt")
	w.wantNothing(step.in(page), "choose", "method")
	w.wantAsked(0)
	w.wantStatus(s, "PENDING")
}

func (w *fixture) replay() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	w.wantResult(step.in(page))
	w.wantNothing(step.in(page), "used")
	w.wantNothing(page.Go(s.RedirectURL), "used", "elsewhere")
	w.wantAsked(1)
}

// foreignSession sends the step of one session with the handle or the link of another, in a browser that has
// both.
func (w *fixture) foreignSession() {
	mine, theirs := w.start("PENDING"), w.start("COMPLETED")
	page := w.Open(mine.RedirectURL)
	tab := page.Go(theirs.RedirectURL)
	a, b := w.walk(page, Yes), w.walk(tab, Yes)
	mixed := a
	if a.Address != "" {
		handle := handleIn(a.Address)
		mixed.Address = withQuery(w.t, a.Address, handle, queryOf(w.t, b.Address, handle))
	} else {
		mixed.Form.Fields = maps.Clone(a.Form.Fields)
		mixed.Form.Fields["flow"] = b.Form.Fields["flow"]
	}
	w.wantNothing(mixed.in(page), "damaged", "method", "elsewhere")
	w.wantStatus(mine, "PENDING")
	w.wantStatus(theirs, "PENDING")
	w.finish(tab, theirs)
}

// handleIn returns the parameter of a step's address with the handle of the browser's request.
func handleIn(address string) string {
	if strings.Contains(address, "&errand=") {
		return "errand"
	}
	return "state"
}

func (w *fixture) foreignHandle() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	forged := step
	if step.Address != "" {
		forged.Address = withQuery(w.t, step.Address, handleIn(step.Address), strings.Repeat("A", 22))
	} else {
		forged.Form.Fields = maps.Clone(step.Form.Fields)
		text := []byte(step.Form.Fields.Get("provider"))
		text[len(text)/2] ^= 1
		forged.Form.Fields.Set("provider", string(text))
	}
	w.wantNothing(forged.in(page), "damaged", "elsewhere")
	w.wantAsked(0)
	w.wantStatus(s, "PENDING")
	w.wantResult(step.in(page))
}

func (w *fixture) otherBrowser() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	if step.Address != "" { // a browser with only the address of the return is unknown
		w.wantNothing(w.Open(step.Address), "elsewhere")
		w.wantAsked(0)
		w.wantStatus(s, "PENDING")
	}
	done := step.in(page)
	w.wantNothing(w.Open(s.RedirectURL), "elsewhere")
	if step.Address != "" {
		w.wantNothing(w.Open(step.Address), "elsewhere")
	}
	w.wantResult(done)
}

func (w *fixture) otherStep() {
	s := w.start("COMPLETED")
	page, theirs := w.Open(s.RedirectURL), w.Open(s.RedirectURL)
	other := w.walk(theirs, Yes)
	mine := w.walk(page, Yes) // the latest request determines the result
	done := mine.in(page)
	w.wantNothing(other.in(theirs), "elsewhere")
	w.wantNothing(theirs.Reload(), "elsewhere")
	w.wantAsked(1)
	w.wantResult(done)
}

// storeFaults makes every commit of the deciding step fail in every way, each in its own session.
func (w *fixture) storeFaults() {
	for _, fault := range []kvtest.Fault{kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply} {
		for at := 1; ; at++ {
			s := w.start("COMPLETED")
			page := w.Open(s.RedirectURL)
			step := w.walk(page, Yes)
			commits := 0
			w.fail(func(c kvtest.Call) kvtest.Fault {
				if c.Method != "Commit" {
					return kvtest.Pass
				}
				if commits++; commits == at {
					return fault
				}
				return kvtest.Pass
			})
			answered := step.in(page)
			w.fail(nil)
			if commits < at { // every commit has failed once
				w.wantResult(answered)
				if at == 1 {
					w.t.Error("the deciding step commits nothing, so nothing has failed")
				}
				break
			}
			if step.First != nil && answered.Kind == "method" { // no response: send again
				answered = step.in(page)
			}
			if answered.Callback == nil && answered.Kind != "unavailable" {
				w.t.Errorf("%v at commit %d: a %s page (%d)", fault, at, answered.Kind, answered.Status)
			}
			if answered.Callback != nil {
				w.wantStatus(s, "COMPLETED")
			}
			w.finish(answered, s)
		}
	}
}

// finish completes a session, in the browser of a page, unless it is already completed.
func (w *fixture) finish(page *testharness.Page, s testharness.Started) {
	w.t.Helper()
	if page.Callback == nil {
		page = page.Go(s.RedirectURL)
	}
	if page.Callback == nil {
		page = w.walk(page, Yes).in(page)
	}
	w.wantResult(page)
}

// otherSide returns the case of a provider that is in that mode when it should decide.
func otherSide(m Mode) func(*fixture) {
	return func(w *fixture) {
		s := w.start("COMPLETED")
		page := w.Open(s.RedirectURL)
		step := w.walk(page, Yes)
		w.set(m)
		w.wantNothing(step.in(page), "method", "unavailable")
		w.wantStatus(s, "PENDING")
		w.wantAttempts(page, s, 0)
		w.finish(page, s)
	}
}

// wantAttempts fails if the page after the link shows another number of failed attempts.
func (w *fixture) wantAttempts(page *testharness.Page, s testharness.Started, failed int) {
	w.t.Helper()
	again := page.Go(s.RedirectURL)
	for _, f := range again.Forms {
		if got := f.Fields.Get("attempt"); f.Fields.Has("attempt") && got != string(rune('0'+failed)) {
			w.t.Errorf("%s attempts are counted, want %d", got, failed)
		}
	}
}

func (w *fixture) expires() {
	s := w.start("EXPIRED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	w.Pause(core.SessionLife) // no instance runs during that time, so no event has ended the session
	w.wantNothing(step.in(page), "expired", "damaged", "elsewhere")
	w.wantAsked(0)
	w.Advance(time.Second)
	w.wantNothing(step.in(page), "expired", "damaged", "elsewhere")
}

func (w *fixture) ringRotates() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	step := w.walk(page, Yes)
	w.RotateKeyring()
	done := step.in(page)
	w.RotateKeyring()
	w.wantResult(done.Reload())

	// After its prefix, a sealed token starts with a version and the id of its key.
	flow := strings.TrimPrefix(queryOf(w.t, w.start("PENDING").RedirectURL, "flow"), "svc_ft_")
	head, err := base64.RawURLEncoding.DecodeString(flow[:8])
	if err != nil || hex.EncodeToString(head[1:5]) != w.Keyring.Keys[0].ID {
		w.t.Errorf("the newest of %d keys does not seal: %x, %v", len(w.Keyring.Keys), head, err)
	}
}

func (w *fixture) engineSwaps() {
	s := w.start("COMPLETED")
	page := w.Open(s.RedirectURL)
	w.Engine.Forget()
	step := w.walk(page, Yes)
	w.Engine.Forget()
	done := step.in(page)
	w.Engine.Forget()
	w.wantResult(done.Reload())
}

// offerTwo makes the integration offer the method and another one.
func (w *fixture) offerTwo() {
	w.t.Helper()
	if w.subject.Unbound { // it is the second method
		return
	}
	w.Offer(w.on, w.subject.Kind, otherMethod)
}

// choose chooses a method, if there is a choice.
func choose(page *testharness.Page, name string) *testharness.Page {
	if page.Kind == "choose" {
		return page.Choose(name)
	}
	return page
}

func (w *fixture) oneIsUnavailable() {
	w.offerTwo()
	s := w.start("COMPLETED")
	w.set(Fails)
	page := w.Open(s.RedirectURL)
	chosen := page.Choose(w.subject.Kind)
	if chosen.Kind == "choose" {
		if strings.Contains(string(chosen.Body), `data-method="`+w.subject.Kind+`"`) {
			w.t.Error("the method that is unavailable is offered")
		}
	} else { // it sends no request before the deciding step
		w.wantNothing(w.side.Walk(chosen, Fails).in(chosen), "choose", "method", "unavailable")
	}
	w.wantStatus(s, "PENDING")
	w.wantAttempts(page, s, 0)
	w.wantResult(page.Choose(otherMethod).Submit("approve"))
}

func (w *fixture) attemptsOverMethods() {
	w.offerTwo()
	s := w.start("FAILED")
	page := w.Open(s.RedirectURL)
	for n := range 2 {
		w.wantAttempts(page, s, n)
		page = choose(page.Go(s.RedirectURL), otherMethod).Submit("fail_attempt")
	}
	w.wantStatus(s, "PENDING")
	page = page.Go(s.RedirectURL)
	if page.Kind == "choose" {
		page = page.Choose(w.subject.Kind)
	}
	step := w.walk(page, No)
	w.wantNothing(step.in(page), "failed")
	w.wantNothing(step.in(page), "failed")
}

// nothingPrivate walks to every outcome and then searches for private data.
func (w *fixture) nothingPrivate() {
	for _, mode := range []Mode{Yes, No, Fails, Rubbish} {
		status := "PENDING"
		if mode == Yes {
			status = "COMPLETED"
		}
		s := w.start(status)
		page := w.Open(s.RedirectURL)
		step := w.walk(page, Yes)
		w.set(mode)
		answered := step.in(page)
		if mode == Yes {
			w.wantResult(answered)
		}
		w.Open(s.RedirectURL)
		w.expect(s.SessionID, w.status(s))
	}
	w.Settle()
	places := map[string]string{"the log": w.Logs(), "the metrics": w.Metrics(), "the store": w.stored()}
	for _, d := range w.Sink.Deliveries() {
		places["an event"] += string(d.Body)
	}
	for place, text := range places {
		if place != "the metrics" && len(text) < 100 {
			w.t.Errorf("%s has only %d bytes: it was not searched", place, len(text))
		}
	}
	private := w.side.Private()
	if len(private) == 0 {
		w.t.Fatal("the subject has nothing private to look for")
	}
	for _, what := range slices.Sorted(maps.Keys(private)) {
		for _, form := range forms(private[what]) {
			for place, text := range places {
				if strings.Contains(text, form) {
					w.t.Errorf("%s is in %s", what, place)
				}
			}
		}
	}
}
