package transcript_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/transcript"
	"github.com/verge-id/verge/wasm/abi"
)

// answer changes a step's answer.
func answer(t *testing.T, s *transcript.Step, change func(*web.Response)) {
	t.Helper()
	r, err := abi.ReadResponse(s.Answer)
	if err != nil {
		t.Fatal(err)
	}
	change(r)
	s.Answer = abi.AppendResponse(nil, r)
}

// Whatever is changed in a transcript, a replay finds the first place where it makes a difference,
// and says so in words.
func TestDifferences(t *testing.T) {
	text := stored(t, "results")
	pristine := read(t, text)
	// at is the first step of that name, from 0.
	at := func(name string) int {
		return slices.IndexFunc(pristine.Steps, func(s transcript.Step) bool { return s.Name == name })
	}
	// event is the first event of a kind in a step.
	event := func(s *transcript.Step, k abi.Kind) *transcript.Event {
		return &s.Events[slices.IndexFunc(s.Events, func(e transcript.Event) bool { return e.Kind == k })]
	}
	pending, approve, validate, used := at("pending"), at("approve"), at("validate"), at("contract 5: used")
	for _, c := range []struct {
		name  string
		alter func(steps []transcript.Step) []transcript.Step
		step  int // from 0
		says  []string
	}{
		{"the status of an answer", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[validate], func(r *web.Response) { r.Status = 409 })
			return s
		}, validate, []string{"validate\n", "POST /api/v1/verify/validate", "at 2026-11-20T22:10:00",
			"the answer: recorded (-) and replayed (+)", "-   Status: 409", "+   Status: 200", "commit p0: done"}},
		{"a member of an answer's body", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[validate], func(r *web.Response) {
				r.Body = bytes.Replace(r.Body, []byte(`"challenge_age":25`), []byte(`"challenge_age":18`), 1)
			})
			return s
		}, validate, []string{`-     "challenge_age": 18,`, `+     "challenge_age": 25,`, `      "level": "L1"`}},
		{"white space in an answer's body", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[validate], func(r *web.Response) { r.Body = append(r.Body, '\n') })
			return s
		}, validate, []string{"the answer"}},
		{"a header of an answer", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[pending], func(r *web.Response) { delete(r.Header, "Cache-Control") })
			return s
		}, pending, []string{"GET /api/v1/verify/sessions/svc_sess_", "+   Header.Cache-Control[0]: no-store"}},
		{"what an effect is about", func(s []transcript.Step) []transcript.Step {
			event(&s[pending], abi.KVGet).Body = abi.AppendKey(nil, kv.Key{Partition: "p0", Name: "s/another"})
			return s
		}, pending, []string{"event 2 of 2", "-   p0/s/another", "+   p0/s/"}},
		{"the reply to an effect", func(s []transcript.Step) []transcript.Step {
			e := event(&s[validate], abi.KVCommit)
			e.Status, e.Reply = abi.Unavailable, []byte("gone")
			return s
		}, validate, []string{"event 3", "+ log", "error=gone"}},
		{"a status of an effect that changes the answer alone", func(s []transcript.Step) []transcript.Step {
			e := event(&s[used], abi.KVCommit)
			e.Status, e.Reply = abi.OK, nil
			return s
		}, used, []string{"the answer", "-   Status: 409", "+   Status: 200", "ALREADY_USED"}},
		{"an effect fewer", func(s []transcript.Step) []transcript.Step {
			s[validate].Events = s[validate].Events[:len(s[validate].Events)-1]
			return s
		}, validate, []string{"- answer", "+ commit", "+   Partition: p"}},
		{"an effect more", func(s []transcript.Step) []transcript.Step {
			s[validate].Events = append(s[validate].Events, s[pending].Events...)
			return s
		}, validate, []string{"event ", "- spend", "+ answer"}},
		{"the order of effects", func(s []transcript.Step) []transcript.Step {
			e := s[pending].Events
			e[0], e[1] = e[1], e[0]
			return s
		}, pending, []string{"event 1 of 2", "- get", "+ spend"}},
		{"the order of steps", func(s []transcript.Step) []transcript.Step {
			s[validate].Now, s[used].Now = s[used].Now, s[validate].Now
			s[validate], s[used] = s[used], s[validate]
			return s
		}, validate, []string{"contract 5: used"}},
		{"a step fewer", func(s []transcript.Step) []transcript.Step { return s[1:] }, 0, []string{"pending"}},
		{"the clock", func(s []transcript.Step) []transcript.Step {
			s[approve].Now = s[approve].Now.Add(time.Millisecond)
			return s
		}, approve, []string{"approve", "+   Now: "}},
		{"the randomness", func(s []transcript.Step) []transcript.Step {
			s[approve].Seed++
			return s
		}, approve, []string{"approve", "ID: "}},
		{"a notice", func(s []transcript.Step) []transcript.Step {
			event(&s[approve], abi.Count).Body = []byte("session_failed")
			return s
		}, approve, []string{"-   session_failed", "+   session_completed"}},
		{"the request", func(s []transcript.Step) []transcript.Step {
			s[validate].Body = bytes.Replace(s[validate].Body, []byte("result_token"), []byte("result_taken"), 1)
			return s
		}, validate, []string{"INVALID_REQUEST"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			altered := read(t, text)
			altered.Steps = c.alter(altered.Steps)
			var again bytes.Buffer // after the change it is still a transcript
			if err := altered.Write(&again); err != nil {
				t.Fatal(err)
			}
			sum, d, err := read(t, again.Bytes()).Replay(t.Context(), transcript.Engine{})
			if err != nil || d == nil {
				t.Fatalf("no difference is seen: %v", err)
			}
			if d.Step != c.step+1 || sum.Steps != c.step {
				t.Errorf("it is seen in step %d, after %d, want %d:\n%s", d.Step, sum.Steps, c.step+1, d)
			}
			for _, says := range c.says {
				if !strings.Contains(d.String(), says) {
					t.Errorf("it does not say %q:\n%s", says, d)
				}
			}
		})
	}
}

// However large the difference is, what is shown fits on a screen or two.
func TestWhatIsShownIsShort(t *testing.T) {
	d := &transcript.Difference{Step: 1, Recorded: []string{"answer"}, Replayed: []string{"answer"}}
	for n := range 1000 {
		d.Before = append(d.Before, fmt.Sprintf("event %d", n))
		d.Recorded = append(d.Recorded, fmt.Sprintf("  Body: %s recorded %d", strings.Repeat("x", 5000), n))
		d.Replayed = append(d.Replayed, fmt.Sprintf("  Body: %s replayed %d", strings.Repeat("x", 5000), n))
	}
	text := d.String()
	if lines := strings.Count(text, "\n"); lines > 110 || len(text) > 20_000 {
		t.Errorf("%d lines, %d bytes", lines, len(text))
	}
	for _, says := range []string{"… 988 events before these\n  event 988\n", "-   Body: …", " recorded 0\n",
		"- … 960 more lines\n+   Body: …", " replayed 39\n", "+ … 960 more lines\n"} {
		if !strings.Contains(text, says) {
			t.Errorf("it does not say %q:\n%s", says, text)
		}
	}
}

// A replay finds a change of the configuration by its effects.
func TestAnotherConfiguration(t *testing.T) {
	altered := read(t, stored(t, "results"))
	altered.Config.SecretPerIP = 7
	_, d, err := altered.Replay(t.Context(), transcript.Engine{})
	if err != nil || d == nil || d.Step != 1 || !strings.Contains(d.String(), "secret-ip") {
		t.Errorf("%v: %v", err, d)
	}
	altered.Config.BaseURL = "ftp://verge.example"
	_, d, err = altered.Replay(t.Context(), transcript.Engine{})
	if err == nil || d != nil || !strings.Contains(err.Error(), "BaseURL: ") {
		t.Errorf("a configuration that is not valid: %v, %v", d, err)
	}
}

func TestReplayOfNothing(t *testing.T) {
	empty := read(t, bytes.SplitAfter(stored(t, "results"), []byte("\n"))[0])
	sum, d, err := empty.Replay(t.Context(), transcript.Engine{})
	if sum != (transcript.Summary{}) || d != nil || err != nil {
		t.Errorf("%+v, %v, %v", sum, d, err)
	}
}

func TestReplayStops(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, d, err := read(t, stored(t, "results")).Replay(ctx, transcript.Engine{})
	if !errors.Is(err, context.Canceled) || d != nil {
		t.Errorf("%v, %v", d, err)
	}
}
