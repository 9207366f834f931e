package methodtest_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
)

// flood sends one request many times concurrently. Each response must be a page or redirect to one.
func flood(t *testing.T, times int, send func() *testharness.Response) {
	t.Helper()
	var all sync.WaitGroup
	for range times {
		all.Go(func() {
			if r := send(); r.Status != http.StatusSeeOther && r.Status != http.StatusOK &&
				r.Status != http.StatusServiceUnavailable {
				t.Errorf("contract 37: %d: %.200s", r.Status, r.Body)
			}
		})
	}
	all.Wait()
}

// newPushSite returns a site whose provider accepts pushed requests.
func newPushSite(t *testing.T) (*testharness.Harness, *oidctest.Server) {
	t.Helper()
	var h *testharness.Harness
	bank := oidctest.Start(t, oidctest.Config{PushedOnly: true, Now: func() time.Time {
		if h == nil { // the provider starts before the harness, which has the clock
			return testharness.Epoch
		}
		return h.Now()
	}, Clients: []oidctest.Client{{ID: "verge", Secret: "secret-of-the-test"}}})
	h = testharness.New(t, &testharness.Options{Methods: []method.Config{{Name: "bank", Kind: "oidc",
		Settings: []byte(`{"issuer":"` + bank.URL + `","client_id":"verge",` +
			`"proof":{"claim":["is_over_18"],"equals":true,"age":18}}`),
		Secrets: map[string]string{"client_secret": "secret-of-the-test"}}}})
	h.Offer(h.Publisher.L2, "bank")
	return h, bank
}

func TestForm_PushesOnce(t *testing.T) {
	h, bank := newPushSite(t)
	page := h.Open(h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID}).RedirectURL)
	form := page.Form("begin")
	flood(t, 200, func() *testharness.Response { return page.PostForm(form) })
	if n := bank.Count(oidctest.PushPath); n != 1 {
		t.Errorf("contract 37: one form that is posted 200 times pushes %d requests", n)
	}
	again := page.SubmitForm(form)
	if n := bank.Count(oidctest.PushPath); n != 1 || again.Kind != "method" {
		t.Errorf("contract 37: later it pushes %d requests, and gets a %s page", n, again.Kind)
	}
	if leaving := again.Submit("begin"); leaving.Kind != "leaving" || bank.Count(oidctest.PushPath) != 2 {
		t.Fatalf("contract 37: the form of the current page: a %s page", leaving.Kind)
	} else if done := leaving.Follow(); done.Callback == nil {
		t.Errorf("contract 35: a %s page (%d)", done.Kind, done.Status)
	}
	if late := page.PostForm(form); bank.Count(oidctest.PushPath) != 2 {
		t.Errorf("contract 37: after the end it pushes again: %d", late.Status)
	}
}

// Neither a response without a verdict nor another form in between allows a form a second request.
func TestForm_PushFails(t *testing.T) {
	h, bank := newPushSite(t)
	started := h.Start(testharness.Body{"integration_id": h.Publisher.L2.ID})
	page, other := h.Open(started.RedirectURL), h.Open(started.RedirectURL)
	form := page.Form("begin")
	bank.Fault(oidctest.PushPath, oidctest.Fault{Status: 500})
	failed := page.SubmitForm(form)
	if failed.Status != 503 || failed.Kind != "method" {
		t.Fatalf("contract 35: a %s page (%d)", failed.Kind, failed.Status)
	}
	other.Submit("begin")
	bank.Requests() // clear earlier requests
	flood(t, 20, func() *testharness.Response { return page.PostForm(form) })
	if n := len(bank.Requests()); n != 0 {
		t.Errorf("contract 37: a form whose request has failed sends %d more", n)
	}
	bank.Heal()
	if leaving := failed.Submit("begin"); leaving.Kind != "leaving" {
		t.Errorf("contract 35: the form of the page after the failure: a %s page (%d)", leaving.Kind,
			leaving.Status)
	}
}

func TestReturn_AsksForTokensOnce(t *testing.T) {
	s := newSite(t)
	started := s.startL2()
	page, back := s.leaves(started)
	s.bank.Fault(oidctest.TokenPath, oidctest.Fault{Status: 500})
	s.bank.Requests()
	flood(t, 100, func() *testharness.Response {
		p := page.Go(back)
		return &testharness.Response{Status: p.Status, Body: p.Body}
	})
	if n := s.bank.Count(oidctest.TokenPath); n != 1 {
		t.Errorf("contract 37: one return that is loaded 100 times asks for tokens %d times", n)
	}
	s.wantUndecided(started)
	s.bank.Heal()
	if done := page.Submit("begin").Follow(); done.Callback == nil {
		t.Errorf("contract 35: a new login: a %s page (%d)", done.Kind, done.Status)
	}
}

func TestForm_SendsItsPictureOnce(t *testing.T) {
	s := newSite(t)
	s.estimator.Answer(estimatortest.Answer{Status: 500})
	started := s.Start(nil)
	page := s.Open(started.RedirectURL)
	form := page.StepForm("camera", estimatortest.Picture())
	flood(t, 100, func() *testharness.Response { return page.PostForm(form) })
	if n := len(s.estimator.Requests()); n != 1 {
		t.Errorf("contract 37: one form that is posted 100 times sends %d pictures", n)
	}
	s.wantUndecided(started)
}

// pictures uploads pictures by the forms of a page and of the following pages, until the session has ended or
// that many pictures were uploaded.
func pictures(page *testharness.Page, most int) (last *testharness.Page, uploaded int) {
	for ; uploaded < most && page.Kind == "method"; uploaded++ {
		page = page.Upload("camera", estimatortest.Picture())
	}
	return page, uploaded
}

// A session sends ten pictures, regardless of their result and of the device. Each further one is a failed
// attempt.
func TestSession_SendsTenPictures(t *testing.T) {
	t.Run("contract 37: an estimator that fails", func(t *testing.T) {
		s := newSite(t)
		s.estimator.Answer(estimatortest.Answer{Status: 400})
		started := s.Start(nil)
		last, uploaded := pictures(s.Open(started.RedirectURL), 100)
		if n := len(s.estimator.Requests()); n != 10 || uploaded != 13 || last.Kind != "failed" {
			t.Errorf("%d of %d pictures were sent; a %s page", n, uploaded, last.Kind)
		}
		if r := s.Reconcile(started.SessionID); r.Text("failure_code") != "MAX_ATTEMPTS" {
			t.Errorf("%s", r.Body)
		}
	})
	t.Run("contract 37: the page has the reason", func(t *testing.T) {
		s := newSite(t)
		s.estimator.Answer(estimatortest.Answer{Status: 400})
		p, _ := pictures(s.Open(s.Start(nil).RedirectURL), 11)
		if body := string(p.Body); p.Kind != "method" ||
			!strings.Contains(body, "Too many photos were sent") ||
			strings.Contains(body, "Please try again") {
			t.Errorf("a %s page (%d): %s", p.Kind, p.Status, p.Body)
		}
	})
	t.Run("contract 37: over ten attempts", func(t *testing.T) {
		s := newSite(t)
		s.estimator.Answer(estimatortest.Answer{Age: 16})
		s.Reconfigure(s.Publisher.L1, "", func(i *integration.Integration) { i.Attempts = 10 })
		page := s.Open(s.Start(nil).RedirectURL).Upload("camera", estimatortest.Picture())
		s.estimator.Answer(estimatortest.Answer{Status: 500})
		page, _ = pictures(page, 9)
		s.estimator.Answer(estimatortest.Answer{Age: 40})
		last, uploaded := pictures(page, 100)
		if n := len(s.estimator.Requests()); n != 10 || uploaded != 9 || last.Kind != "failed" {
			t.Errorf("%d pictures were sent, %d not; a %s page", n, uploaded, last.Kind)
		}
	})
	t.Run("contract 37: on the computer and on phones", func(t *testing.T) {
		s := newSite(t)
		s.estimator.Answer(estimatortest.Answer{Status: 500})
		h := handOver(s.Harness, s.Publisher.L1)
		pictures(h.computer, 6)
		phone, _ := pictures(h.asks.Submit("begin"), 5)
		if n := len(s.estimator.Requests()); n != 10 || phone.Kind != "phone_done" {
			t.Fatalf("%d pictures were sent; a %s page", n, phone.Kind)
		}
		phone = s.Open(h.waiting.LoadAgain().HandOff().Code)
		pictures(phone.Submit("begin"), 5)
		if n := len(s.estimator.Requests()); n != 10 {
			t.Errorf("a second phone sends more: %d", n)
		}
	})
}
