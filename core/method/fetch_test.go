package method

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
)

// slow is a provider that takes some time for each response, on its own clock.
type slow struct {
	now   time.Time
	takes time.Duration
	step  time.Duration // change of the clock during each request
	asked []time.Duration
}

func (s *slow) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	s.asked = append(s.asked, req.Timeout)
	s.now = s.now.Add(s.step)
	if s.takes > req.Timeout {
		s.now = s.now.Add(req.Timeout)
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchTimeout, Err: errors.New("slow")}
	}
	s.now = s.now.Add(s.takes)
	return host.FetchResponse{Status: 200}, nil
}

// asks is a method that sends one request after the other, after any response.
type asks struct {
	fetch    host.Fetcher
	timeouts []time.Duration
	err      error // of the last request
}

func (a *asks) Begin(ctx context.Context, _ Session) error {
	for _, timeout := range a.timeouts {
		_, a.err = a.fetch.Fetch(ctx, host.FetchRequest{Timeout: timeout})
	}
	return a.err
}

func (a *asks) Show(Session, []byte) View { return View{} }

func (a *asks) Act(ctx context.Context, s Session, _ Step) (Decision, error) {
	return Decision{}, a.Begin(ctx, s)
}

func TestTimeOfAStep(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name     string
		takes    time.Duration
		step     time.Duration
		timeouts []time.Duration
		asked    []time.Duration // the timeouts that the provider saw
		ok       bool            // the last request has a response
	}{
		{name: "a request has the timeout that it asks for",
			takes: second, timeouts: []time.Duration{3 * second}, asked: []time.Duration{3 * second},
			ok: true},
		{name: "a request without a timeout has the time of the step",
			takes: second, timeouts: []time.Duration{0}, asked: []time.Duration{StepTime}, ok: true},
		{name: "a request may not ask for more than a step has",
			takes: second, timeouts: []time.Duration{time.Hour}, asked: []time.Duration{StepTime}, ok: true},
		{name: "a side that is slow every time answers within the step",
			takes: 2900 * time.Millisecond, timeouts: []time.Duration{3 * second, 5 * second, 3 * second,
				3 * second},
			asked: []time.Duration{3 * second, 5 * second, 3 * second, 3 * second}, ok: true},
		{name: "the last request gets what is left",
			takes: 3500 * time.Millisecond, timeouts: []time.Duration{5 * second, 5 * second, 5 * second,
				5 * second},
			asked: []time.Duration{5 * second, 5 * second, 5 * second, 1500 * time.Millisecond}},
		{name: "without time left, no request is sent",
			takes: time.Hour, timeouts: []time.Duration{5 * second, 5 * second, 5 * second, 5 * second},
			asked: []time.Duration{5 * second, 5 * second, 2 * second}},
		{name: "a clock that is set forward does not exceed the timeouts",
			takes: second, step: time.Hour, timeouts: []time.Duration{5 * second, 5 * second, 5 * second},
			asked: []time.Duration{5 * second, 5 * second, 2 * second}, ok: true},
		{name: "a clock that is set back gives no time",
			takes: second, step: -time.Hour, timeouts: []time.Duration{0, 0},
			asked: []time.Duration{StepTime, StepTime}, ok: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := &slow{now: time.Unix(1_800_000_000, 0), takes: c.takes, step: c.step}
			a := &asks{timeouts: c.timeouts}
			catalog := Catalog{{Config: Config{Name: "bank"}, Of: Kind{Name: "asks",
				Open: func(_ Config, h Host) (Method, error) { a.fetch = h.Fetch; return a, nil }}}}
			all, err := catalog.Open(Host{Fetch: other, Now: func() time.Time { return other.now }})
			if err != nil {
				t.Fatal(err)
			}
			// Each step has its own time.
			for _, step := range []func() error{
				func() error { return all["bank"].Begin(t.Context(), Session{}) },
				func() error { _, err := all["bank"].Act(t.Context(), Session{}, Step{}, nil); return err },
			} {
				other.asked = nil
				err := step()
				if !slices.Equal(other.asked, c.asked) {
					t.Fatalf("the provider saw the timeouts %v, want %v", other.asked, c.asked)
				}
				var failed *host.FetchError
				timeout := errors.As(err, &failed) && failed.Reason == host.FetchTimeout
				if c.ok && err != nil || !c.ok && !timeout {
					t.Errorf("the last request: %v, want an answer: %v, or else a timeout", err, c.ok)
				}
			}
		})
	}
}

// once is a method that sends its requests once per attempt, and ignores their errors.
type once struct{ host Host }

func (once) Begin(context.Context, Session) error { return nil }

func (once) Show(Session, []byte) View { return View{} }

func (o once) Act(ctx context.Context, _ Session, step Step) (Decision, error) {
	for range 2 {
		if step.Back {
			_, _ = o.host.Fetch.Fetch(ctx, host.FetchRequest{})
		} else {
			_, _ = o.host.FetchOnce(ctx, host.FetchRequest{})
		}
	}
	return Decision{Verdict: Approved}, nil
}

func TestFetchOnce_ClaimsFirst(t *testing.T) {
	taken := errors.New("somebody else asks")
	for _, c := range []struct {
		rule    string
		sandbox bool
		step    Step
		claim   error
		claims  int
		asked   int
		verdict Verdict
	}{
		{"one claim for all requests of a step", false, Step{}, nil, 1, 2, Approved},
		{"without the claim no request is sent, and the method has no verdict", false, Step{}, taken, 1, 0,
			Unclassified},
		{"too many pictures fail the attempt, and nothing is sent", false, Step{}, ErrTooMany, 1, 0,
			AttemptFailed},
		{"other requests need no claim", false, Step{Back: true}, taken, 0, 2, Approved},
		{"a sandbox needs none", true, Step{Back: true}, taken, 0, 2, Approved},
	} {
		t.Run("contract 37: "+c.rule, func(t *testing.T) {
			other := &slow{now: time.Unix(1_800_000_000, 0)}
			catalog := Catalog{{Config: Config{Name: "bank"}, Of: Kind{Name: "once", Sandbox: c.sandbox,
				Open: func(_ Config, h Host) (Method, error) { return once{h}, nil }}}}
			all, err := catalog.Open(Host{Fetch: other, Now: func() time.Time { return other.now }})
			if err != nil {
				t.Fatal(err)
			}
			claims := 0
			d, err := all["bank"].Act(t.Context(), Session{}, c.step, func(context.Context) error {
				if claims++; len(other.asked) > 0 {
					t.Error("the claim comes after a request")
				}
				return c.claim
			})
			if claims != c.claims || len(other.asked) != c.asked || d.Verdict != c.verdict ||
				(err != nil) != (c.verdict == Unclassified) || err != nil && !errors.Is(err, taken) {
				t.Errorf("%d claims, %d requests, %+v, %v", claims, len(other.asked), d, err)
			}
			if err == nil {
				if err := all["bank"].Holds(t.Context(), Session{}, d); err != nil {
					t.Errorf("contract 40: on a phone this verdict would not count: %+v, %v", d.Basis, err)
				}
			}
			if tooMany := d.Reason == tooMany; tooMany != (c.claim == ErrTooMany) {
				t.Errorf("the reason is %q", d.Reason)
			}
		})
	}
}
