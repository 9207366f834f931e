package transcript

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
)

// Recorder runs a core in this process and records its requests, effects and responses.
type Recorder struct {
	Transcript

	stage *stage
	core  engine.Engine
	step  *Step
}

// NewRecorder starts a core with a configuration at a given time. carry executes the core's effects.
func NewRecorder(c settings.Config, start time.Time, carry effect.Func) (*Recorder, error) {
	r := &Recorder{Transcript: Transcript{Config: c}, step: &Step{}}
	r.stage = &stage{now: start, start: start,
		effect: func(k abi.Kind, body []byte) (abi.Status, []byte) {
			e := Event{Kind: k, Body: bytes.Clone(body)}
			e.Status, e.Reply = carry(k, body)
			r.step.Events = append(r.step.Events, e)
			return e.Status, e.Reply
		},
		notice: func(k abi.Kind, body []byte) {
			r.step.Events = append(r.step.Events,
				Event{Kind: k, Body: body})
		},
	}
	var err error
	r.core, _, err = Engine{}.start(context.Background(), c, r.stage)
	return r, err
}

// Do runs an entry of the core at a given time, and returns the result. The step is added to the
// transcript.
func (r *Recorder) Do(name string, now time.Time, entry abi.Entry, body []byte) ([]byte, error) {
	s := Step{Name: name, Now: now.UTC(), Seed: uint64(len(r.Steps) + 1), Entry: entry, Body: body}
	r.step = &s
	var err error
	if s.Answer, err = r.stage.run(context.Background(), r.core, s); err != nil {
		return nil, fmt.Errorf("transcript: step %d, %s: %w", len(r.Steps)+1, name, err)
	}
	r.Steps = append(r.Steps, s)
	return s.Answer, nil
}
