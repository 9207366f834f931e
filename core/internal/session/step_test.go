package session

import (
	"strings"
	"testing"
	"time"
)

// A session stores its last ten steps, and a page that fails many times in a moment adds one of them.
func TestRecordWith_Limits(t *testing.T) {
	step := Step{At: testTime, Method: "bank", Result: "unavailable", Reason: "timeout"}
	r, changed := Record{State: Started}.With(step)
	if !changed || r.Steps != stepsOf(step) {
		t.Fatalf("contract 48: the first step is kept as %+v, changed %v", r.Steps, changed)
	}
	for _, c := range []struct {
		name   string
		after  time.Duration
		change func(*Step)
		kept   bool
	}{
		{"contract 48: the same just after it", stepPause - time.Millisecond, func(*Step) {}, false},
		{"contract 48: the same later", stepPause, func(*Step) {}, true},
		{"contract 48: a clock that is set back", -time.Second, func(*Step) {}, true},
		{"contract 48: another reason", 0, func(s *Step) { s.Reason = "dns_error" }, true},
		{"contract 48: another method", 0, func(s *Step) { s.Method = "face" }, true},
		{"contract 48: another setting", 0, func(s *Step) { s.Setting = "proof.claim" }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := step
			next.At = testTime.Add(c.after)
			c.change(&next)
			if again, changed := r.With(next); changed != c.kept || len(again.Steps.All()) == 2 != c.kept {
				t.Errorf("kept %v, want %v: %+v", changed, c.kept, again.Steps)
			}
		})
	}
	before := r
	for n := range MaxSteps {
		step.At = testTime.Add(time.Duration(n+1) * time.Minute)
		r, _ = r.With(step)
	}
	kept := r.Steps.All()
	if len(kept) != MaxSteps || !kept[0].At.Equal(testTime.Add(time.Minute)) || len(before.Steps.All()) != 1 {
		t.Errorf("contract 48: of %d steps, these are kept: %+v", MaxSteps+1, kept)
	}
}

func TestRecordWith_LongTexts(t *testing.T) {
	r, _ := Record{}.With(Step{At: testTime, Method: "bank", Detail: "x" + strings.Repeat("é", 100)})
	if got := r.Steps.All()[0].Detail; got != "x"+strings.Repeat("é",
		59) { // a character more would have 121 bytes
		t.Errorf("a text of 201 bytes is kept as %d bytes: %s", len(got), got)
	}
}

// Steps remain when the session ends in any way.
func TestApply_KeepsSteps(t *testing.T) {
	r, _ := Record{State: Started}.With(Step{At: testTime, Method: "bank", Result: "unavailable"})
	expires := testTime.Add(Life)
	for _, trigger := range []Trigger{Succeeded, Rejected, AttemptFailed, Withdrawn, Unclassified, TimeUp} {
		for _, now := range []time.Time{testTime, expires} {
			if next, _ := r.Apply(trigger, now, expires, 1); next.Steps != r.Steps {
				t.Errorf("contract 48: %s at %s leaves the steps %+v", trigger, now, next.Steps)
			}
		}
	}
}
