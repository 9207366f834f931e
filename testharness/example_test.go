package testharness_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/kinds"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
)

// A verification from its start to its webhooks. In a test, t is the test's
// own *testing.T, and the publisher's server asks instead of the harness.
func Example() {
	t := newT()
	defer t.end()
	h := testharness.New(t, nil)

	started := h.Start(testharness.Body{"state": "s-1", "external_user_id": "user-42"})
	h.Advance(30 * time.Second) // the user takes a while
	back := h.Open(started.RedirectURL).Submit("approve").Callback
	fmt.Println("state:", back.State)

	facts := h.Validate(back.ResultToken).JSON()
	fmt.Println("verified:", facts["verified"], facts["level"], facts["challenge_age"])
	fmt.Println("again:", h.Validate(back.ResultToken).Code())

	h.Settle()
	for _, event := range h.Sink.Events() {
		fmt.Println("event:", event.Type, event.Data.Status)
	}

	// Output:
	// state: s-1
	// verified: true L1 25
	// again: ALREADY_USED
	// event: verification.started started
	// event: verification.completed completed
}

// A user who does nothing: only the clock moves.
func ExampleHarness_Advance() {
	t := newT()
	defer t.end()
	h := testharness.New(t, nil)

	started := h.Start(nil)
	h.Advance(10 * time.Minute)

	fmt.Println(h.Reconcile(started.SessionID).JSON()["status"])
	fmt.Println(h.Sink.Types(started.SessionID))
	fmt.Println(h.Open(started.RedirectURL).Kind)

	// Output:
	// EXPIRED
	// [verification.started verification.expired]
	// expired
}

// A page offers one form for each outcome that the sandbox can have.
func ExamplePage() {
	t := newT()
	defer t.end()
	h := testharness.New(t, nil)

	page := h.Open(h.Start(testharness.Body{"language": "de"}).RedirectURL)
	fmt.Println(page.Status, page.Kind, page.Lang)
	for _, form := range page.Forms {
		fmt.Println(form.Method, form.Outcome)
	}
	fmt.Println(page.Submit("reject").Kind)

	// Output:
	// 200 method de
	// POST approve
	// POST reject
	// POST fail_attempt
	// POST withdraw
	// POST unknown
	// POST cancel
	// failed
}

// A receiver that fails is asked again, with the same event.
func ExampleSink_Next() {
	t := newT()
	defer t.end()
	h := testharness.New(t, nil)

	h.Sink.Next(testharness.Answer(503), testharness.Reply{Reset: true})
	h.Start(nil)
	h.Advance(time.Minute)

	fmt.Println("requests:", len(h.Sink.Deliveries()))
	fmt.Println("events:", len(h.Sink.Events()))

	// Output:
	// requests: 3
	// events: 1
}

// In production, sessions start only on an integration whose receiver has
// passed the signed test.
func ExampleHarness_MakeReady() {
	t := newT()
	defer t.end()
	h := testharness.New(t, &testharness.Options{Production: true})

	fmt.Println(h.TryStart(nil).Code())
	h.MakeReady(h.Publisher.L1)
	fmt.Println(h.TryStart(nil).Status)

	// Output:
	// INTEGRATION_NOT_READY
	// 200
}

// An OpenID provider proves the age. The test sets the claims about the user.
func ExampleHarness_Provider() {
	t := newT()
	defer t.end()
	h := testharness.New(t, &testharness.Options{Providers: []string{"bank"}})
	h.Offer(h.Publisher.L2, "bank")

	start := testharness.Body{"integration_id": h.Publisher.L2.ID}
	leaving := h.Open(h.Start(start).RedirectURL).Submit("begin")
	fmt.Println(leaving.Kind, strings.HasPrefix(leaving.Hop, h.Provider("bank").URL))
	back := leaving.Follow().Callback
	fmt.Println("verified:", h.Validate(back.ResultToken).JSON()["verified"])

	h.Provider("bank").Answer(oidctest.Answer{Claims: oidctest.AgeClaims(17)})
	fmt.Println("at 17:", h.Open(h.Start(start).RedirectURL).Submit("begin").Follow().Kind)

	h.Provider("bank").Answer(oidctest.Answer{Error: "access_denied"})
	fmt.Println("denied:", h.Open(h.Start(start).RedirectURL).Submit("begin").Follow().Kind)

	// Output:
	// leaving true
	// verified: true
	// at 17: failed
	// denied: cancelled
}

// The user chooses between two methods, and an age is estimated from a picture.
func ExampleHarness_Estimator() {
	t := newT()
	defer t.end()
	h := testharness.New(t, &testharness.Options{Providers: []string{"bank"}, Estimators: []string{"camera"}})
	h.Offer(h.Publisher.L1, "bank", "camera")

	page := h.Open(h.Start(nil).RedirectURL)
	fmt.Println(page.Kind, page.Forms[0].Chooses, page.Forms[1].Chooses)

	h.Estimator("camera").Answer(estimatortest.Answer{Age: 24, Deviation: 2})
	again := page.Choose("camera").Upload("camera", estimatortest.Picture())
	fmt.Println("at 24:", again.Kind)

	h.Estimator("camera").Answer(estimatortest.Answer{Age: 31, Deviation: 2})
	back := again.Upload("camera", estimatortest.Picture()).Callback
	fmt.Println("at 31:", h.Validate(back.ResultToken).JSON()["verified"])

	// Output:
	// choose bank camera
	// at 24: method
	// at 31: true
}

// clubCard is a custom kind of method. A user who presses the first button is a member of the club.
type clubCard struct{}

func (clubCard) Begin(context.Context, method.Session) error { return nil }

func (clubCard) Show(method.Session, []byte) method.View {
	return method.View{Choices: []string{"begin", "cancel"}}
}

func (clubCard) Act(_ context.Context, _ method.Session, step method.Step) (method.Decision, error) {
	switch step.Form.Get(method.OutcomeField) {
	case "begin":
		return method.Decision{Verdict: method.Approved}, nil
	case "cancel":
		return method.Decision{Verdict: method.Cancelled}, nil
	}
	return method.Decision{}, method.ErrStep
}

// A custom kind of method, in addition to the kinds of Verge.
func ExampleOptions() {
	t := newT()
	defer t.end()
	club := method.Kind{Name: "club", Level: "L1",
		Check: func(method.Config) problem.List { return nil },
		Open:  func(method.Config, method.Host) (method.Method, error) { return clubCard{}, nil }}
	h := testharness.New(t, &testharness.Options{
		Methods:   []method.Config{{Name: "card", Kind: "club", Title: "Club card"}},
		Configure: func(c *core.Config) { c.Kinds = append(slices.Clone(kinds.All), club) },
	})
	h.Offer(h.Publisher.L1, "card")

	page := h.Open(h.Start(nil).RedirectURL)
	fmt.Println(strings.Contains(string(page.Body), "Confirm your age with Club card"))
	back := page.Submit("begin").Callback
	fmt.Println("verified:", h.Validate(back.ResultToken).JSON()["verified"])

	// Output:
	// true
	// verified: true
}
