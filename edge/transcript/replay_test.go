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
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/transcript"
	"github.com/verge-id/verge/wasm/abi"
)

// answer changes a step's response.
func answer(t *testing.T, s *transcript.Step, change func(*web.Response)) {
	t.Helper()
	r, err := abi.Read.Response(s.Answer)
	if err != nil {
		t.Fatal(err)
	}
	change(r)
	s.Answer = abi.Append.Response(nil, r)
}

// replayed is a recorded transcript, with the positions of steps in it, from 0. For any change of a
// transcript, a replay must find the first difference and describe it.
type replayed struct {
	text                             []byte
	pending, approve, validate, used int
}

func newReplayed(t *testing.T) replayed {
	t.Helper()
	r := replayed{text: stored(t, "results")}
	pristine := read(t, r.text)
	at := func(name string) int {
		return slices.IndexFunc(pristine.Steps, func(s transcript.Step) bool { return s.Name == name })
	}
	r.pending, r.approve = at("pending"), at("approve")
	r.validate, r.used = at("validate"), at("contract 5: used")
	return r
}

// firstEvent returns the first event of a kind in a step.
func firstEvent(s *transcript.Step, k abi.Kind) *transcript.Event {
	return &s.Events[slices.IndexFunc(s.Events, func(e transcript.Event) bool { return e.Kind == k })]
}

// alteration is a change of a transcript, the step in which a replay must find it, from 0, and the texts of
// the replay's report.
type alteration struct {
	of    string
	alter func(steps []transcript.Step) []transcript.Step
	step  int
	says  []string
}

// differs replays each alteration.
func (r replayed) differs(t *testing.T, cases []alteration) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.of, func(t *testing.T) {
			altered := read(t, r.text)
			altered.Steps = c.alter(altered.Steps)
			var again bytes.Buffer // after the change it is still a transcript
			if err := altered.Write(&again); err != nil {
				t.Fatal(err)
			}
			sum, d, err := read(t, again.Bytes()).Replay(t.Context(), transcript.Engine{})
			if err != nil || d == nil {
				t.Fatalf("no difference is found: %v", err)
			}
			if d.Step != c.step+1 || sum.Steps != c.step {
				t.Errorf("it is found in step %d, after %d, want %d:\n%s", d.Step, sum.Steps, c.step+1, d)
			}
			for _, says := range c.says {
				if !strings.Contains(d.String(), says) {
					t.Errorf("the report lacks %q:\n%s", says, d)
				}
			}
		})
	}
}

func TestReplay_ResponseDifferences(t *testing.T) {
	r := newReplayed(t)
	r.differs(t, []alteration{
		{"the status of a response", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[r.validate], func(r *web.Response) { r.Status = 409 })
			return s
		}, r.validate, []string{"validate\n", "POST /api/v1/verify/validate", "at 2026-11-20T22:10:00",
			"the answer: recorded (-) and replayed (+)", "-   Status: 409", "+   Status: 200",
			"commit p0: done"}},
		{"a field of a response's body", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[r.validate], func(r *web.Response) {
				r.Body = bytes.Replace(r.Body, []byte(`"challenge_age":25`), []byte(`"challenge_age":18`), 1)
			})
			return s
		}, r.validate, []string{`-     "challenge_age": 18,`, `+     "challenge_age": 25,`, `      "level": "L1"`}},
		{"white space in a response's body", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[r.validate], func(r *web.Response) { r.Body = append(r.Body, '\n') })
			return s
		}, r.validate, []string{"the answer"}},
		{"a header of a response", func(s []transcript.Step) []transcript.Step {
			answer(t, &s[r.pending], func(r *web.Response) { delete(r.Header, "Cache-Control") })
			return s
		}, r.pending, []string{"GET /api/v1/verify/sessions/svc_sess_",
			"+   Header.Cache-Control[0]: no-store"}},
	})
}

func TestReplay_EffectDifferences(t *testing.T) {
	r := newReplayed(t)
	r.differs(t, []alteration{
		{"the body of an effect", func(s []transcript.Step) []transcript.Step {
			firstEvent(&s[r.pending], abi.KVGet).Body = abi.Append.Key(nil,
				kv.Key{Partition: "p0", Name: "s/another"})
			return s
		}, r.pending, []string{"event 3 of 4", "-   p0/s/another", "+   p0/s/"}},
		{"the reply to an effect", func(s []transcript.Step) []transcript.Step {
			e := firstEvent(&s[r.validate], abi.KVCommit)
			e.Status, e.Reply = abi.Unavailable, []byte("gone")
			return s
		}, r.validate, []string{"event 5", "+ log", "error=gone"}},
		{"a status of an effect that changes response and notices",
			func(s []transcript.Step) []transcript.Step {
				e := firstEvent(&s[r.used], abi.KVCommit)
				e.Status, e.Reply = abi.OK, nil
				return s
			}, r.used, []string{"- about", "-   Code: ALREADY_USED", "+ answer", "+   Status: 200"}},
		{"an effect fewer", func(s []transcript.Step) []transcript.Step {
			// The notice after it is removed, too.
			s[r.validate].Events = s[r.validate].Events[:len(s[r.validate].Events)-2]
			return s
		}, r.validate, []string{"- answer", "+ commit", "+   Partition: p"}},
		{"an effect more", func(s []transcript.Step) []transcript.Step {
			s[r.validate].Events = append(s[r.validate].Events, s[r.pending].Events...)
			return s
		}, r.validate, []string{"event ", "- spend", "+ answer"}},
		{"the order of effects", func(s []transcript.Step) []transcript.Step {
			e := s[r.pending].Events
			e[0], e[2] = e[2], e[0]
			return s
		}, r.pending, []string{"event 1 of 4", "- get", "+ spend"}},
	})
}

func TestReplay_StepDifferences(t *testing.T) {
	r := newReplayed(t)
	r.differs(t, []alteration{
		{"the order of steps", func(s []transcript.Step) []transcript.Step {
			s[r.validate].Now, s[r.used].Now = s[r.used].Now, s[r.validate].Now
			s[r.validate], s[r.used] = s[r.used], s[r.validate]
			return s
		}, r.validate, []string{"contract 5: used"}},
		{"a step fewer", func(s []transcript.Step) []transcript.Step { return s[1:] }, 0,
			[]string{"pending"}},
		{"the clock", func(s []transcript.Step) []transcript.Step {
			s[r.approve].Now = s[r.approve].Now.Add(time.Millisecond)
			return s
		}, r.approve, []string{"approve", "+   Now: "}},
		{"the randomness", func(s []transcript.Step) []transcript.Step {
			s[r.approve].Seed++
			return s
		}, r.approve, []string{"approve", "ID: "}},
		{"a notice", func(s []transcript.Step) []transcript.Step {
			firstEvent(&s[r.approve], abi.Count).Body = []byte("session_failed")
			return s
		}, r.approve, []string{"-   session_failed", "+   session_completed"}},
		{"the request", func(s []transcript.Step) []transcript.Step {
			s[r.validate].Body = bytes.Replace(s[r.validate].Body, []byte("result_token"),
				[]byte("result_taken"), 1)
			return s
		}, r.validate, []string{"- commit", "+ about"}},
	})
}

// The report of a difference of any size fits on a screen or two.
func TestDifference_Short(t *testing.T) {
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
			t.Errorf("the report lacks %q:\n%s", says, text)
		}
	}
}

// A replay finds a change of the configuration by its effects.
func TestReplay_OtherConfiguration(t *testing.T) {
	altered := read(t, stored(t, "results"))
	altered.Config.Limits.SecretPerIP = ratelimit.PerMinute(7)
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

func TestReplay_Empty(t *testing.T) {
	empty := read(t, bytes.SplitAfter(stored(t, "results"), []byte("\n"))[0])
	sum, d, err := empty.Replay(t.Context(), transcript.Engine{})
	if sum != (transcript.Summary{}) || d != nil || err != nil {
		t.Errorf("%+v, %v, %v", sum, d, err)
	}
}

func TestReplay_Cancelled(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, d, err := read(t, stored(t, "results")).Replay(ctx, transcript.Engine{})
	if !errors.Is(err, context.Canceled) || d != nil {
		t.Errorf("%v, %v", d, err)
	}
}
