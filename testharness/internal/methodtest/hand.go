package methodtest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/kvadapters/kvtest"
	"github.com/verge-id/verge/testharness"
)

// handCases are the cases of a kind whose step a phone may do for another device. The computer is the browser
// that started. The phone is another browser, which has only the link in the computer's QR code.
var handCases = []struct {
	rule string
	run  func(*fixture)
}{
	{"contract 40: a phone does the step, and the computer continues", (*fixture).phoneDoesIt},
	{"contract 40: of two phones one does the step", (*fixture).twoPhones},
	{"contract 40: a verdict of a phone that is sent twice counts once", (*fixture).phoneSendsTwice},
	{"contract 40: a no of a phone counts even if no computer comes for it", (*fixture).nobodyComes},
	{"contract 40: a yes of a phone belongs to the computer that waits", (*fixture).otherComputer},
	{"contract 40: what a phone brings too late counts for nothing", (*fixture).latePhone},
	{"contract 40: a hand-off ends with its session", (*fixture).phoneExpires},
	{"contract 40: a picture is asked about once over both devices", (*fixture).bothAsk},
	{"contract 40: no fault of the store loses or doubles what a phone brings", (*fixture).phoneStoreFaults},
	{"contract 40: a hand-off outlives the key ring and the engine", (*fixture).phoneRingAndEngine},
}

// handsOff opens a hand-off in the browser of a page. It returns the waiting page.
func (w *fixture) handsOff(page *testharness.Page) *testharness.Page {
	w.t.Helper()
	if page.Kind == "choose" {
		page = page.Choose(w.subject.Kind)
	}
	if !slices.ContainsFunc(page.Forms, func(f testharness.Form) bool { return f.Hand }) {
		page = page.Submit("begin") // the page that waits for a response has the form
	}
	waiting := page.HandOff()
	if waiting.Kind != "phone_wait" || !strings.HasPrefix(waiting.Code, w.BaseURL+"/verify/phone/") ||
		waiting.Again == "" || len(waiting.Number) != 2 {
		w.t.Fatalf("contract 40: a %s page (%d) with the code %q and the number %q",
			waiting.Kind, waiting.Status, waiting.Code, waiting.Number)
	}
	return waiting
}

// phone opens the link of a hand-off on a phone that takes it. It returns the method's page there.
func (w *fixture) phone(waiting *testharness.Page) *testharness.Page {
	w.t.Helper()
	asks := w.Open(waiting.Code)
	if asks.Kind != "phone" || asks.Number != waiting.Number ||
		!strings.Contains(string(asks.Body), "shop.example") {
		w.t.Fatalf("contract 40: the phone gets a %s page (%d) with the number %q, want %q",
			asks.Kind, asks.Status, asks.Number, waiting.Number)
	}
	page := asks.Submit("begin")
	if page.Kind != "method" {
		w.t.Fatalf("contract 40: the phone that takes the hand-off gets a %s page (%d)", page.Kind,
			page.Status)
	}
	w.wantNoWay(page)
	return page
}

// wantNoWay fails if a page of a phone links to the publisher or has a token of the session.
func (w *fixture) wantNoWay(page *testharness.Page) {
	w.t.Helper()
	w.wantNothing(page)
	for _, secret := range []string{"svc_ft_", "svc_rt_", "/callback", "data-hop"} {
		if strings.Contains(string(page.Body), secret) {
			w.t.Errorf("contract 40: the phone's %s page has %q", page.Kind, secret)
		}
	}
}

func (w *fixture) phoneDoesIt() {
	s := w.start("COMPLETED")
	waiting := w.handsOff(w.Open(s.RedirectURL))
	page := w.phone(waiting)
	if p := waiting.LoadAgain(); p.Kind != "phone_wait" || p.Code != "" || p.Number != "" {
		w.t.Errorf("contract 40: once the phone has begun, the computer shows a %s page with the code %q",
			p.Kind, p.Code)
	}
	done := w.walk(page, Yes).in(page)
	w.wantNothing(done, "phone_done")
	w.wantNoWay(done)
	w.wantNothing(done.Reload(), "phone_done")
	w.wantStatus(s, "PENDING")
	w.wantResult(waiting.LoadAgain())
	w.wantStatus(s, "COMPLETED")
	w.wantAsked(1)
	w.wantNothing(done.Reload(), "phone_over")
}

func (w *fixture) twoPhones() {
	s := w.start("COMPLETED")
	waiting := w.handsOff(w.Open(s.RedirectURL))
	one, other := w.Open(waiting.Code), w.Open(waiting.Code)
	first := one.Submit("begin")
	w.wantNothing(other.Submit("begin"), "phone_taken")
	w.wantNothing(other.Reload(), "phone_taken")
	w.wantNothing(w.Open(waiting.Code), "phone_taken")
	if again := one.Submit("begin"); again.Kind != "method" { // a double click
		w.t.Errorf("contract 40: the phone that has the hand-off gets a %s page (%d)", again.Kind,
			again.Status)
	}
	step := w.walk(first, Yes)
	if step.Address == "" { // the form of the first phone, in the second one
		w.wantNothing(other.SubmitForm(step.Form), "phone_taken")
	} else {
		w.wantNothing(other.Go(step.Address), "phone_taken")
	}
	w.wantAsked(0)
	w.wantNothing(step.in(first), "phone_done")
	w.wantNothing(other.Reload(), "phone_taken")
	w.wantResult(waiting.LoadAgain())

	s = w.start("PENDING")
	waiting = w.handsOff(w.Open(s.RedirectURL))
	looking := make([]*testharness.Page, 8)
	for n := range looking {
		looking[n] = w.Open(waiting.Code)
	}
	var all sync.WaitGroup
	kinds := make([]string, len(looking))
	for n, p := range looking {
		all.Go(func() { kinds[n] = p.Submit("begin").Kind })
	}
	all.Wait()
	slices.Sort(kinds)
	if kinds[0] != "method" || kinds[1] != "phone_taken" || kinds[len(kinds)-1] != "phone_taken" {
		w.t.Errorf("contract 40: phones that begin concurrently get %v", kinds)
	}
}

func (w *fixture) phoneSendsTwice() {
	s := w.start("PENDING")
	computer := w.Open(s.RedirectURL)
	waiting := w.handsOff(computer)
	page := w.phone(waiting)
	step := w.walk(page, No)
	w.wantNothing(step.in(page), "phone_done")
	w.wantNothing(step.in(page), "phone_done")
	w.wantAsked(1)
	w.wantNothing(waiting.LoadAgain(), "method", "failed")
	w.wantNothing(waiting.LoadAgain(), "method", "failed")
	w.wantNothing(step.in(page), "phone_over")
	w.wantAsked(1)
	if status := w.status(s); status != "PENDING" { // a rejection of this kind is final
		w.expect(s.SessionID, "FAILED")
		return
	}
	w.wantAttempts(computer, s, 1)
}

func (w *fixture) nobodyComes() {
	s := w.start("FAILED")
	link := w.Open(s.RedirectURL)
	for n := range 3 {
		waiting := w.handsOff(w.Open(s.RedirectURL))
		page := w.phone(waiting)
		w.wantNothing(w.walk(page, No).in(page), "phone_done")
		if w.status(s) == "FAILED" {
			break // a rejection of this kind is final, as the link showed
		}
		if n < 2 {
			w.wantAttempts(link, s, n+1) // the waiting computer is not loaded again
		}
	}
	w.wantNothing(w.Open(s.RedirectURL), "failed")
	w.wantStatus(s, "FAILED")

	// The previous page, which still has the form, gets no other phone before the rejection is counted.
	s = w.start("PENDING")
	old := w.Open(s.RedirectURL)
	waiting := w.handsOff(old)
	page := w.phone(waiting)
	w.wantNothing(w.walk(page, No).in(page), "phone_done")
	if len(old.Forms) > 0 && slices.ContainsFunc(old.Forms, func(f testharness.Form) bool { return f.Hand }) {
		w.wantNothing(old.HandOff(), "method", "failed")
		w.wantAttempts(old, s, 1)
	}
	w.wantNothing(waiting.LoadAgain(), "method", "failed")
	w.expect(s.SessionID, w.status(s))
}

func (w *fixture) otherComputer() {
	s := w.start("COMPLETED")
	waiting := w.handsOff(w.Open(s.RedirectURL))
	page := w.phone(waiting)
	other := w.Open(s.RedirectURL)
	w.wantNothing(w.Open(waiting.URL), "elsewhere")
	w.wantNothing(w.walk(page, Yes).in(page), "phone_done")
	w.wantNothing(w.Open(waiting.URL), "elsewhere")
	w.wantNothing(other.Go(waiting.URL), "elsewhere")
	w.wantNothing(other.Reload(), "method")
	w.wantStatus(s, "PENDING")
	done := waiting.LoadAgain()
	w.wantNothing(other.Reload(), "elsewhere")
	w.wantNothing(page.Go(s.RedirectURL), "elsewhere") // the phone, even if it had the link
	w.wantResult(done)
}

func (w *fixture) latePhone() {
	for rule, late := range map[string]func(s testharness.Started, waiting, computer *testharness.Page){
		"after another hand-off was opened": func(_ testharness.Started, _, computer *testharness.Page) {
			w.handsOff(computer)
		},
		"after the computer has done the step itself": func(_ testharness.Started, _,
			computer *testharness.Page) {
			w.wantNothing(w.walk(computer, No).in(computer))
		},
		"after the operator has taken the method away": func(testharness.Started, *testharness.Page,
			*testharness.Page) {
			w.Offer(w.on, otherMethod)
		},
	} {
		s := w.start("PENDING")
		computer := w.Open(s.RedirectURL)
		waiting := w.handsOff(computer)
		page := w.phone(waiting)
		step := w.walk(page, Yes)
		late(s, waiting, computer)
		before, asked := w.status(s), w.asked(0)
		w.set(Yes)
		w.wantNothing(step.in(page), "phone_over")
		w.wantNothing(page.Reload(), "phone_over")
		if w.status(s) != before || w.asked(0) != asked {
			w.t.Errorf("contract 40: %s, the session was %s and is %s", rule, before, w.status(s))
		}
		w.wantNothing(waiting.LoadAgain())
		w.Offer(w.on, w.subject.Kind)
		w.expect(s.SessionID, w.status(s))
	}
}

func (w *fixture) phoneExpires() {
	s := w.start("EXPIRED")
	waiting := w.handsOff(w.Open(s.RedirectURL))
	page := w.phone(waiting)
	step := w.walk(page, Yes)
	unopened := waiting.Code
	asked := w.asked(0)
	w.Pause(core.SessionLife)
	w.wantNothing(step.in(page), "phone_over")
	w.wantNothing(w.Open(unopened), "phone_over")
	w.wantNothing(waiting.LoadAgain(), "expired")
	w.wantAsked(asked)
	w.Advance(time.Second)
}

// bothAsk stops the phone's instance during its request. The attempt is still claimed, so the computer sends
// no request, and opens no other hand-off.
func (w *fixture) bothAsk() {
	if w.side.Asked == nil {
		w.t.Skip("SKIP: it sends no requests")
	}
	s := w.start("COMPLETED")
	computer := w.Open(s.RedirectURL)
	waiting := w.handsOff(computer)
	page := w.phone(waiting)
	mine, step := w.walk(computer, Yes), w.walk(page, Yes)
	w.dieAsking(step, page)
	w.wantNothing(mine.in(computer), "asked")
	w.wantNothing(computer.HandOff(), "asked")
	w.wantNothing(step.in(page), "asked")
	w.wantAsked(1)
	w.Advance(claimLife)
	after := step.in(page) // the form has sent its request; a new form may send one
	w.wantNothing(after, "method")
	w.wantAsked(1)
	w.wantNothing(w.walk(after, Yes).in(after), "phone_done")
	w.wantAsked(2)
	w.wantResult(waiting.LoadAgain())
}

// phoneStoreFaults makes every commit fail in every way, from the first click on the phone to the last page
// of the computer, each in its own session. Without a response, the user does the same again.
func (w *fixture) phoneStoreFaults() {
	for _, fault := range []kvtest.Fault{kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply} {
		for at := 1; ; at++ {
			s := w.start("COMPLETED")
			waiting := w.handsOff(w.Open(s.RedirectURL))
			asks := w.Open(waiting.Code)
			commits := 0
			fails := func(c kvtest.Call) kvtest.Fault {
				if c.Method != "Commit" {
					return kvtest.Pass
				}
				if commits++; commits == at {
					return fault
				}
				return kvtest.Pass
			}
			w.fail(fails)
			page := w.again(func() *testharness.Page { return asks.Submit("begin") }, "method")
			w.fail(nil) // opening a pending response is tested elsewhere
			step := w.walk(page, Yes)
			w.fail(fails)
			done := step.in(page)
			if done.Kind == "unavailable" || step.First != nil && done.Kind == "method" {
				done = step.in(page)
			}
			if done.Kind == "method" { // the form has sent its request, so another one does
				w.fail(nil)
				step = w.walk(done, Yes)
				w.fail(fails)
				done = step.in(done)
			}
			w.wantNothing(done, "phone_done")
			end := w.again(waiting.LoadAgain, "completed")
			w.fail(nil)
			w.wantResult(end)
			w.wantStatus(s, "COMPLETED")
			if commits < at {
				break
			}
		}
	}
}

// again repeats a call until it returns a page of that kind, at most twice.
func (w *fixture) again(do func() *testharness.Page, kind string) *testharness.Page {
	w.t.Helper()
	p := do()
	if p.Kind != kind {
		w.wantNothing(p, "unavailable")
		p = do()
	}
	if p.Kind != kind {
		w.t.Fatalf("contract 40: done twice: a %s page (%d), want %s", p.Kind, p.Status, kind)
	}
	return p
}

func (w *fixture) phoneRingAndEngine() {
	s := w.start("COMPLETED")
	waiting := w.handsOff(w.Open(s.RedirectURL))
	w.RotateKeyring()
	w.Engine.Forget()
	page := w.phone(waiting)
	w.Engine.Forget()
	step := w.walk(page, Yes)
	w.Engine.Forget()
	w.wantNothing(step.in(page), "phone_done")
	w.RotateKeyring()
	w.Engine.Forget()
	w.wantResult(waiting.LoadAgain())
}
