package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/kvtest/promises"
)

// kvPrinter says what a check finds, line by line as it is found.
type kvPrinter struct{ w io.Writer }

func newKVPrinter(w io.Writer) *kvPrinter { return &kvPrinter{w} }

func (k *kvPrinter) line(name, verdict, format string, args ...any) {
	k.paragraph(fmt.Sprintf("  %-17s %-8s ", name, verdict), strings.Repeat(" ", 29), fmt.Sprintf(format, args...))
}

func (k *kvPrinter) begin(r *kvReport) {
	fmt.Fprintf(k.w, "Checking %s (%s).\n", r.Store, r.Server)
	fmt.Fprintf(k.w, "Everything is written under %s… and removed at the end; nothing else is touched.\n\n", r.Scratch)
}

func (k *kvPrinter) roundTrips(r *kvReport) {
	var calls []string
	for _, c := range r.RoundTrips {
		calls = append(calls, fmt.Sprintf("%s %s (p99 %s)", c.Call, shortMS(c.MedianMS), shortMS(c.P99MS)))
	}
	k.line("round trips", "", "%s; %d of each, one at a time, now and from this machine", strings.Join(calls, ", "), r.RoundTrips[0].N)
}

// kvSkew is from where on clocks are said to differ.
const kvSkew = time.Second

func (k *kvPrinter) clocks(r *kvReport) {
	if len(r.Clocks) == 0 {
		k.line("clocks", "", "%s", r.ClockNote)
		return
	}
	worst := r.worstClock()
	verdict := "good"
	if worst.ahead().Abs() >= kvSkew {
		verdict = "WARNING"
	}
	whose := "the server's is"
	if len(r.Clocks) > 1 {
		whose = fmt.Sprintf("of %d servers the worst, %s, is", len(r.Clocks), worst.Server)
	}
	k.line("clocks", verdict, "%s %s", whose, worst.words())
}

func (r *kvReport) worstClock() kvClock {
	return slices.MaxFunc(r.Clocks, func(a, b kvClock) int {
		return cmp.Compare(math.Abs(a.AheadMS), math.Abs(b.AheadMS))
	})
}

func (c kvClock) words() string {
	within := shortMS(max(c.WithinMS, 0.01))
	if math.Abs(c.AheadMS) <= c.WithinMS {
		return "the same as this machine's, to within " + within
	}
	direction := "ahead of"
	if c.AheadMS < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("%s %s this machine's, give or take %s", shortMS(math.Abs(c.AheadMS)), direction, within)
}

// meaning says what a skew does; "" for one that does nothing.
func (c kvClock) meaning() string {
	if c.ahead().Abs() < kvSkew {
		return ""
	}
	what := "too late: outcomes and used marks stay longer than they should"
	if c.AheadMS > 0 {
		what = "too early: outcomes and used marks are gone before their time, and a token may be used again"
	}
	return fmt.Sprintf("the clock of %s is %s: what Verge writes to last until a given time is gone so much %s; let both set their clocks by NTP", c.Server, c.words(), what)
}

// kvShown is what holding promises about a subject look like.
var kvShown = map[promises.Subject]string{
	promises.Atomicity:  "of 64 contenders for one name exactly one won, ten times over; refused writes changed nothing",
	promises.Visibility: "every read saw each write that had returned before it",
	promises.Values:     "names, values and transactions at their limits came back whole",
	promises.Order:      "List pages in byte order, Claim takes the earliest task first",
	promises.Leases:     "no task had two holders, and a lease that was taken over was refused",
	promises.Counters:   "of 60 charges at once exactly the 20 within the burst went through",
	promises.Durability: "what was committed was there after closing and opening again",
	kvLock:              "a second process is refused",
}

func (k *kvPrinter) subject(r *kvReport, s *kvSubject) {
	failed, ended := s.failed()
	count := fmt.Sprintf("%d %s", len(s.Promises), plural(len(s.Promises), "promise"))
	switch {
	case len(failed) > 0:
		k.line(s.Name, "FAILED", "%d of %s:", len(failed), count)
		const most = 5
		for _, p := range failed[:min(len(failed), most)] {
			fmt.Fprintf(k.w, "      %s\n", p.Name)
			for line := range strings.Lines(p.Seen) {
				fmt.Fprintf(k.w, "        %s\n", strings.TrimRight(line, "\n"))
			}
		}
		if len(failed) > most {
			fmt.Fprintf(k.w, "      and %d more; --json has all\n", len(failed)-most)
		}
	case ended:
		k.line(s.Name, "stopped", "before %s could be tried", count)
	case promises.Subject(s.Name) == promises.Expiry && r.Expiry != nil:
		k.line(s.Name, "proven", "%s: %d items were gone at most %s after their time, none before it", count, r.Expiry.N, shortMS(r.Expiry.LateMS))
	default:
		k.line(s.Name, "proven", "%s: %s", count, kvShown[promises.Subject(s.Name)])
	}
}

// stopped says why there is no more to come.
func (k *kvPrinter) stopped(why string) { fmt.Fprintf(k.w, "\nStopped: %s.\n", why) }

func (k *kvPrinter) end(r *kvReport) {
	if r.Error == "" {
		k.advice(r)
	}
	proven, tried, away := 0, 0, 0
	for _, s := range r.Subjects {
		for _, p := range s.Promises {
			tried++
			switch {
			case p.Proven:
				proven++
			case strings.Contains(p.Seen, kv.ErrUnavailable.Error()), strings.Contains(p.Seen, kv.ErrUnknown.Error()):
				away++
			}
		}
	}
	fmt.Fprintln(k.w)
	if away > 0 {
		k.paragraph("", "", fmt.Sprintf("%d of the failures show only that the store refused, or did not answer in time: see what it said, and check again.", away))
	}
	switch {
	case r.OK:
		fmt.Fprintf(k.w, "OK: all %d promises hold. ", proven)
	case tried == 0:
		fmt.Fprint(k.w, "FAILED: nothing was proven. ")
	default:
		fmt.Fprintf(k.w, "FAILED: %d of %d promises were proven. ", proven, tried)
	}
	if r.CleanedUp {
		fmt.Fprintln(k.w, "Nothing is left of the check.")
	} else {
		fmt.Fprintf(k.w, "What is left of the check lies under %s…\n", r.Scratch)
	}
}

// advice is what the check could not try, and what speaks for it.
func (k *kvPrinter) advice(r *kvReport) {
	fmt.Fprintf(k.w, "\nNot tried:\n")
	for _, n := range r.NotProven {
		k.entry(n.What, n.Why)
	}
	k.settings(r)
	if len(r.Warnings) > 0 {
		fmt.Fprintf(k.w, "\nWarnings:\n")
		for _, w := range r.Warnings {
			k.paragraph("  - ", "    ", w)
		}
	}
}

// settings lists them once where all servers agree.
func (k *kvPrinter) settings(r *kvReport) {
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
	k.entry("settings", strings.Join(all, ", "))
}

func (k *kvPrinter) entry(what, why string) {
	k.paragraph(fmt.Sprintf("  %-13s ", what), strings.Repeat(" ", 16), why)
}

// paragraph wraps for a terminal.
func (k *kvPrinter) paragraph(first, others, text string) {
	const width = 110
	line, begun := first, false
	for word := range strings.FieldsSeq(text) {
		switch {
		case !begun:
			line += word
		case len(line)+1+len(word) > width:
			fmt.Fprintln(k.w, line)
			line = others + word
		default:
			line += " " + word
		}
		begun = true
	}
	fmt.Fprintln(k.w, line)
}

// shortMS writes milliseconds with as many digits as say something.
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
