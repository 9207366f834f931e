package transcript

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-id/verge/wasm/abi"
)

// Summary has the counts of a replay.
type Summary struct {
	Steps, Effects, Notices int
	Bytes                   int // of the compared effects, notices and responses
}

// Add adds the summary of another transcript.
func (s *Summary) Add(o Summary) {
	s.Steps += o.Steps
	s.Effects += o.Effects
	s.Notices += o.Notices
	s.Bytes += o.Bytes
}

// String returns the summary as text.
func (s Summary) String() string {
	return fmt.Sprintf("%d steps, %d effects, %d notices, %d bytes, the same",
		s.Steps, s.Effects, s.Notices, s.Bytes)
}

// Difference is the first difference between a replay and the recording. It contains both in full,
// including tokens and keys.
type Difference struct {
	Step     int    // from 1
	Name     string // of the step
	Request  string // the step's request, in one line
	Now      time.Time
	Place    string   // the position in the step
	Before   []string // the previous events of the step, one line each
	Recorded []string // as text, line by line
	Replayed []string
}

// String formats the difference for people. A line that only the recording has begins with "-". A line that
// only the replay has begins with "+".
func (d *Difference) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d, %s\n  %s\n  at %s\n", d.Step, d.Name, d.Request, d.Now.Format(time.RFC3339Nano))
	const most = 12
	before := d.Before
	if len(before) > most {
		fmt.Fprintf(&b, "  … %d events before these\n", len(before)-most)
		before = before[len(before)-most:]
	}
	for _, line := range before {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "%s: recorded (-) and replayed (+)\n", d.Place)
	for _, line := range differing(d.Recorded, d.Replayed) {
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String()
}

// Replay runs the steps of the transcript on an engine, which gets the recorded replies. Replay compares
// the engine's effects, notices and responses with the recording, and ends at the first difference. It
// returns an error if the engine could not be started or ctx ended.
func (t *Transcript) Replay(ctx context.Context, e Engine) (sum Summary, d *Difference, err error) {
	if len(t.Steps) == 0 {
		return sum, nil, nil
	}
	p := &player{}
	start := t.Steps[0].Now
	s := &stage{now: start, start: start, effect: p.effect, notice: p.notice}
	core, end, err := e.start(ctx, t.Config, s)
	if err != nil {
		return sum, nil, err
	}
	defer end()
	for n, step := range t.Steps {
		if err := ctx.Err(); err != nil {
			return sum, nil, err
		}
		*p = player{step: &t.Steps[n], sum: &sum}
		answer, err := s.run(ctx, core, step)
		if ctx.Err() != nil {
			return sum, nil, ctx.Err()
		}
		if d := p.end(answer, err); d != nil {
			d.Step = n + 1
			return sum, d, nil
		}
		sum.Steps++
	}
	return sum, nil, nil
}

// player returns the recorded replies of one step, as long as the core's requests match the recording.
type player struct {
	step *Step
	next int // index of the step's next event
	diff *Difference
	sum  *Summary
}

// expect compares an event with the next one of the recording.
func (p *player) expect(k abi.Kind, body []byte) (recorded Event, same bool) {
	if p.diff != nil {
		return Event{}, false
	}
	if p.step == nil { // an engine's work between steps is not part of any step
		return Event{}, false
	}
	if p.next == len(p.step.Events) {
		p.differ(fmt.Sprintf("event %d", p.next+1), showAnswer(p.step), showEvent(Event{Kind: k, Body: body}))
		return Event{}, false
	}
	recorded = p.step.Events[p.next]
	if recorded.Kind != k || !bytes.Equal(recorded.Body, body) {
		p.differ(p.place(), showEvent(recorded), showEvent(Event{Kind: k, Body: body}))
		return Event{}, false
	}
	p.next++
	p.sum.Bytes += len(body)
	return recorded, true
}

func (p *player) effect(k abi.Kind, body []byte) (abi.Status, []byte) {
	recorded, same := p.expect(k, body)
	switch {
	case same:
		p.sum.Effects++
		return recorded.Status, recorded.Reply
	case k == abi.Fetch:
		return abi.NoResponse, abi.Append.FetchError(nil, "network_error", "the replay differs")
	}
	return abi.Unavailable, []byte("the replay differs") // ends the request
}

func (p *player) notice(k abi.Kind, body []byte) {
	if _, same := p.expect(k, body); same {
		p.sum.Notices++
	}
}

// end compares the response. It returns the first difference of the step, if there is one.
func (p *player) end(answer []byte, err error) *Difference {
	switch {
	case p.diff != nil:
	case err != nil:
		p.differ("the answer", showAnswer(p.step), []string{"none: " + err.Error()})
	case p.next < len(p.step.Events):
		got := *p.step
		got.Answer = answer
		p.differ(p.place(), showEvent(p.step.Events[p.next]), showAnswer(&got))
	case !bytes.Equal(answer, p.step.Answer):
		got := *p.step
		got.Answer = answer
		p.differ("the answer", showAnswer(p.step), showAnswer(&got))
	}
	p.sum.Bytes += len(answer)
	return p.diff
}

// place describes the next event of the recording.
func (p *player) place() string { return fmt.Sprintf("event %d of %d", p.next+1, len(p.step.Events)) }

func (p *player) differ(place string, recorded, replayed []string) {
	p.diff = &Difference{Name: p.step.Name, Request: p.step.Line(), Now: p.step.Now,
		Place: place, Recorded: recorded, Replayed: replayed}
	for _, e := range p.step.Events[:p.next] {
		p.diff.Before = append(p.diff.Before, e.line())
	}
}
