package kvcheck

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/internal/promises"
)

// text writes the findings of a check, line by line, for a terminal.
type text struct{ w io.Writer }

// line writes one finding: its subject, the verdict and the observation.
func (t text) line(name, verdict, format string, args ...any) {
	first := fmt.Sprintf("  %-17s %-8s ", name, verdict)
	t.paragraph(first, strings.Repeat(" ", 29), fmt.Sprintf(format, args...))
}

// began writes the store, when the servers' information is complete.
func (t text) began(r *Report) {
	fmt.Fprintf(t.w, "Checking %s (%s).\n", r.Store, r.Server)
	fmt.Fprintf(t.w, "Everything is written under %s… and removed at the end; nothing else is touched.\n\n",
		r.Scratch)
}

// measured writes the round trips and the clocks.
func (t text) measured(r *Report) {
	t.roundTrips(r)
	t.clocks(r)
	t.signals(r.Signals)
}

func (t text) roundTrips(r *Report) {
	var calls []string
	for _, c := range r.RoundTrips {
		calls = append(calls, fmt.Sprintf("%s %s (p99 %s)", c.Call, shortMS(c.MedianMS), shortMS(c.P99MS)))
	}
	t.line("round trips", "", "%s; %d of each, one at a time, now and from this machine",
		strings.Join(calls, ", "), r.RoundTrips[0].N)
}

// skew is the difference above which a clock causes a warning.
const skew = time.Second

func (t text) clocks(r *Report) {
	if len(r.Clocks) == 0 {
		t.line("clocks", "", "%s", r.ClockNote)
		return
	}
	worst := r.worstClock()
	verdict := "good"
	if worst.ahead().Abs() >= skew {
		verdict = "WARNING"
	}
	whose := "the server's is"
	if len(r.Clocks) > 1 {
		whose = fmt.Sprintf("of %d servers the worst, %s, is", len(r.Clocks), worst.Server)
	}
	t.line("clocks", verdict, "%s %s", whose, worst.words())
}

// untilPolled describes when tasks without a signal are found.
const untilPolled = "wait until they poll, half a minute at most"

func (t text) signals(s *signals) {
	switch {
	case s == nil:
	case !s.On:
		t.line("signals", "", "off by the URL: what an instance has to leave to others %s", untilPolled)
	case s.Arrive:
		t.line("signals", "good", "they arrive: an instance wakes others for tasks that it leaves to them")
	default:
		t.line("signals", "WARNING", "%s", s.Seen)
	}
}

func (r *Report) worstClock() clock {
	return slices.MaxFunc(r.Clocks, func(a, b clock) int {
		return cmp.Compare(math.Abs(a.AheadMS), math.Abs(b.AheadMS))
	})
}

func (c clock) words() string {
	within := shortMS(max(c.WithinMS, 0.01))
	if math.Abs(c.AheadMS) <= c.WithinMS {
		return "the same as this machine's, to within " + within
	}
	direction := "ahead of"
	if c.AheadMS < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("%s %s this machine's, give or take %s", shortMS(math.Abs(c.AheadMS)), direction,
		within)
}

// meaning describes the consequence of a difference of clocks, or returns "" for a small one.
func (c clock) meaning() string {
	if c.ahead().Abs() < skew {
		return ""
	}
	when := "too late: outcomes and used marks stay longer than they should"
	if c.AheadMS > 0 {
		when = "too early: outcomes and used marks are gone before their time, and a token may be used again"
	}
	return fmt.Sprintf("the clock of %s is %s: what Verge writes to last until a given time "+
		"is gone so much %s; let both set their clocks by NTP", c.Server, c.words(), when)
}

// proven describes for each subject the observations if its promises hold.
var proven = map[promises.Subject]string{
	promises.Atomicity: "of 64 contenders for one name exactly one won, ten times over; " +
		"rejected writes changed nothing",
	promises.Visibility: "every read saw each write that had returned before it",
	promises.Values:     "names, values and transactions at their limits came back whole",
	promises.Order:      "List pages in byte order, Claim takes the earliest task first",
	promises.Leases:     "no task had two holders, and a lost lease was rejected",
	promises.Counters:   "of 60 simultaneous charges exactly the 20 within the burst succeeded",
	promises.Durability: "committed data was there after a close and reopen",
	lock:                "a second process is rejected",
}

// proved writes the result of a subject, when all its promises were tried.
func (t text) proved(r *Report, s *subject) {
	failed, ended := s.failed()
	count := fmt.Sprintf("%d %s", len(s.Promises), plural(len(s.Promises), "promise"))
	switch {
	case len(failed) > 0:
		t.line(s.Name, "FAILED", "%d of %s:", len(failed), count)
		const most = 5
		for _, p := range failed[:min(len(failed), most)] {
			fmt.Fprintf(t.w, "      %s\n", p.Name)
			for line := range strings.Lines(p.Seen) {
				fmt.Fprintf(t.w, "        %s\n", strings.TrimRight(line, "\n"))
			}
		}
		if len(failed) > most {
			fmt.Fprintf(t.w, "      and %d more; --json has all\n", len(failed)-most)
		}
	case ended:
		t.line(s.Name, "stopped", "before %s could be tried", count)
	case promises.Subject(s.Name) == promises.Expiry && r.Expiry != nil:
		t.line(s.Name, "proven", "%s: %d items were gone at most %s after their time, none before it",
			count, r.Expiry.N, shortMS(r.Expiry.LateMS))
	default:
		t.line(s.Name, "proven", "%s: %s", count, proven[promises.Subject(s.Name)])
	}
}

// stopped writes the reason why the check ended early or cannot clean up.
func (t text) stopped(r *Report) { fmt.Fprintf(t.w, "\nStopped: %s.\n", r.Error) }

// ended writes the result of the check.
func (t text) ended(r *Report) {
	if r.Error == "" {
		t.advice(r)
	}
	held, tried, away := 0, 0, 0 // away: the store did not respond
	for _, s := range r.Subjects {
		for _, p := range s.Promises {
			tried++
			switch {
			case p.Proven:
				held++
			case strings.Contains(p.Seen, kv.ErrUnavailable.Error()),
				strings.Contains(p.Seen, kv.ErrUnknown.Error()):
				away++
			}
		}
	}
	fmt.Fprintln(t.w)
	if away > 0 {
		t.paragraph("", "", fmt.Sprintf("%d of the failures show only that the store rejected a call, "+
			"or did not respond in time: read its errors, and check again.", away))
	}
	switch {
	case r.OK:
		fmt.Fprintf(t.w, "OK: all %d promises hold. ", held)
	case tried == 0:
		fmt.Fprint(t.w, "FAILED: nothing was proven. ")
	default:
		fmt.Fprintf(t.w, "FAILED: %d of %d promises were proven. ", held, tried)
	}
	if r.CleanedUp {
		fmt.Fprintln(t.w, "Nothing is left of the check.")
	} else {
		fmt.Fprintf(t.w, "Remaining items of the check are under %s…\n", r.Scratch)
	}
}

// advice writes the promises that could not be tried, with the servers' information about them.
func (t text) advice(r *Report) {
	fmt.Fprintf(t.w, "\nNot tried:\n")
	for _, n := range r.NotProven {
		t.entry(n.What, n.Why)
	}
	t.settings(r)
	if len(r.Warnings) > 0 {
		fmt.Fprintf(t.w, "\nWarnings:\n")
		for _, w := range r.Warnings {
			t.paragraph("  - ", "    ", w)
		}
	}
}

// settings writes each setting, once if all servers have the same value.
func (t text) settings(r *Report) {
	var names []string
	values := map[string][]string{}
	hidden := false
	for _, s := range r.Settings {
		if s.Value == "" {
			hidden = true
			continue
		}
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
		if !slices.Contains(values[s.Name], s.Value) {
			values[s.Name] = append(values[s.Name], s.Value)
		}
	}
	if len(r.Settings) == 0 {
		return
	}
	var all []string
	for _, name := range names {
		all = append(all, name+" "+strings.Join(values[name], " or "))
	}
	if hidden {
		all = append(all, "the rest may not be asked")
	}
	t.entry("settings", strings.Join(all, ", "))
}

func (t text) entry(what, why string) {
	t.paragraph(fmt.Sprintf("  %-13s ", what), strings.Repeat(" ", 16), why)
}

// paragraph wraps a text for a terminal. first begins its first line, others the remaining lines.
func (t text) paragraph(first, others, text string) {
	const width = 110
	line, begun := first, false
	for word := range strings.FieldsSeq(text) {
		switch {
		case !begun:
			line += word
		case len(line)+1+len(word) > width:
			fmt.Fprintln(t.w, line)
			line = others + word
		default:
			line += " " + word
		}
		begun = true
	}
	fmt.Fprintln(t.w, line)
}

// shortMS formats milliseconds with two or three significant digits.
func shortMS(ms float64) string {
	switch {
	case ms >= 10_000:
		return time.Duration(ms * float64(time.Millisecond)).Round(time.Second).String()
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 0.01:
		return "less than 0.01 ms"
	}
	return fmt.Sprintf("%.2f ms", ms)
}
