package usage

import (
	_ "embed"
	"fmt"
	"html"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/host"
)

// Style is the style sheet for the output of Plot. It follows the reader's colour scheme, and a page can set
// its custom properties to its own colours.
//
//go:embed plot.css
var Style string

// band is one colour of a bar, from the bottom up. of lists its outcomes.
type band struct {
	class, label string
	of           func(Day) uint64
}

func of(outcomes ...string) func(Day) uint64 {
	return func(d Day) (n uint64) {
		for _, o := range outcomes {
			n += d.Counts.Of(o)
		}
		return n
	}
}

var bands = []band{
	{"completed", "Completed", of(host.OutcomeCompleted)},
	{"failed", "Failed", of(host.OutcomeRejected, host.OutcomeMaxAttempts, host.OutcomeUnknown)},
	{"cancelled", "Cancelled", of(host.OutcomeCancelled)},
	{"expired", "Expired", of(host.OutcomeExpired)},
	{"open", "Open", Day.Open},
}

// columns are the columns of the table.
var columns = []band{
	{"", "Started", of(host.OutcomeStarted)},
	{"", "Completed", of(host.OutcomeCompleted)},
	{"", "Rejected", of(host.OutcomeRejected)},
	{"", "Attempts used up", of(host.OutcomeMaxAttempts)},
	{"", "Failed otherwise", of(host.OutcomeUnknown)},
	{"", "Cancelled", of(host.OutcomeCancelled)},
	{"", "Expired", of(host.OutcomeExpired)},
	{"", "Open", Day.Open},
}

// Internal units of the plot. Its size on the page is set in the style sheet.
const (
	barWidth   = 10
	plotHeight = 100
)

// Plot returns days as HTML: a plot with a bar for each day and a colour for each outcome, a legend with the
// sums, and the same numbers as a table. It requires Style and no script. title describes the numbers. id is
// the prefix of the ids in it, and must be unique on a page.
func Plot(id, title string, days []Day) []byte {
	var sum Day
	most := uint64(0)
	for _, d := range days {
		sum.Counts = sum.Counts.Plus(d.Counts)
		most = max(most, height(d))
	}
	var b strings.Builder
	put := func(format string, args ...any) {
		for i, a := range args {
			if s, ok := a.(string); ok {
				args[i] = html.EscapeString(s)
			}
		}
		fmt.Fprintf(&b, format, args...)
	}
	put("<figure class=\"usage\"><figcaption id=\"%s-title\">%s</figcaption>", id, title)
	if len(days) == 0 || most == 0 {
		put("<p class=\"usage-none\">No sessions on these days.</p></figure>")
		return []byte(b.String())
	}
	put("<ul class=\"usage-legend\">")
	for _, band := range bands {
		put("<li class=\"usage-%s\">%s <b>%s</b></li>", band.class, band.label, grouped(band.of(sum)))
	}
	top := roundUp(most)
	put("</ul><div class=\"usage-plot\"><div class=\"usage-y\" aria-hidden=\"true\">"+
		"<span>%s</span><span>%s</span><span>0</span></div>", grouped(top), grouped(top/2))
	put("<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" role=\"img\" "+
		"aria-labelledby=\"%s-title %s-desc\">", len(days)*barWidth, plotHeight, id, id)
	put("<desc id=\"%s-desc\">%s</desc>", id, describe(days, sum))
	for _, y := range []int{0, plotHeight / 2} {
		put("<line class=\"usage-grid\" x1=\"0\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>", len(days)*barWidth, y, y)
	}
	for i, d := range days {
		if height(d) > 0 {
			putBar(put, i, d, top)
		}
	}
	put("</svg><div class=\"usage-x\" aria-hidden=\"true\">")
	for _, i := range marks(len(days)) {
		put("<span>%s</span>", days[i].Day.Begin().Format("2 Jan"))
	}
	put("</div></div>")
	putTable(put, days, sum)
	put("</figure>")
	return []byte(b.String())
}

func height(d Day) (n uint64) {
	for _, band := range bands {
		n += band.of(d)
	}
	return n
}

func putBar(put func(string, ...any), i int, d Day, top uint64) {
	put("<g><title>%s</title>", dayText(d))
	y := float64(plotHeight)
	for _, band := range bands {
		n := band.of(d)
		if n == 0 {
			continue
		}
		h := float64(n) * plotHeight / float64(top)
		y -= h
		put("<rect class=\"usage-%s\" x=\"%s\" y=\"%s\" width=\"%d\" height=\"%s\"/>",
			band.class, short(float64(i*barWidth)+1), short(y), barWidth-2, short(h))
	}
	put("</g>")
}

func putTable(put func(string, ...any), days []Day, sum Day) {
	put("<details class=\"usage-table\"><summary>The same as a table</summary>" +
		"<div role=\"region\" aria-label=\"Usage by day\" tabindex=\"0\"><table><thead><tr><th " +
		"scope=\"col\">Day</th>")
	for _, c := range columns {
		put("<th scope=\"col\">%s</th>", c.label)
	}
	put("</tr></thead><tbody>")
	row := func(head string, d Day) {
		put("<tr><th scope=\"row\">%s</th>", head)
		for _, c := range columns {
			put("<td>%s</td>", grouped(c.of(d)))
		}
		put("</tr>")
	}
	row("Sum", sum)
	for i := len(days) - 1; i >= 0; i-- {
		if d := days[i]; d.Counts != (host.Counts{}) {
			row(d.Day.String(), d)
		}
	}
	put("</tbody></table></div></details>")
}

// describe returns a text alternative of the plot for screen readers.
func describe(days []Day, sum Day) string {
	busiest := days[0]
	for _, d := range days {
		if d.Counts.Of(host.OutcomeStarted) > busiest.Counts.Of(host.OutcomeStarted) {
			busiest = d
		}
	}
	return fmt.Sprintf("From %s to %s, %s sessions started and %s completed. Most started on %s: %s.",
		days[0].Day, days[len(days)-1].Day, grouped(sum.Counts.Of(host.OutcomeStarted)),
		grouped(sum.Counts.Of(host.OutcomeCompleted)), busiest.Day,
		grouped(busiest.Counts.Of(host.OutcomeStarted)))
}

func dayText(d Day) string {
	text := d.Day.String() + ": " + grouped(d.Counts.Of(host.OutcomeStarted)) + " started"
	for _, band := range bands {
		if n := band.of(d); n > 0 {
			text += ", " + grouped(n) + " " + strings.ToLower(band.label)
		}
	}
	return text
}

// roundUp returns the smallest number of at least n that is 10 followed by zeros, or an even digit followed
// by zeros.
func roundUp(n uint64) uint64 {
	for unit := uint64(1); unit <= 1e18; unit *= 10 {
		for m := uint64(2); m <= 10; m += 2 {
			if m*unit >= n {
				return m * unit
			}
		}
	}
	return n // too large to occur
}

// marks returns the indexes of the days with a date below the plot: the first, the last and up to three
// between.
func marks(n int) (at []int) {
	steps := min(n-1, 4)
	for i := range steps + 1 {
		at = append(at, i*(n-1)/max(steps, 1))
	}
	return at
}

// grouped formats n with commas.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func short(f float64) string { return strconv.FormatFloat(f, 'f', -1, 32) }
