package usage

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
)

var someDays = []Day{
	{20777, host.Counts{1200, 900, 40, 30, 2, 8, 120}},
	{20778, host.Counts{}},
	{20779, host.Counts{3, 4, 0, 0, 0, 0, 0}}, // one began the day before
	{20780, host.Counts{5, 1, 0, 0, 0, 0, 1}},
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	coretest.Must(t, WriteCSV(&b, "integration_id", "694069ac-4d4e-475f-906b-2f11c5eca7bd", someDays))
	want := `integration_id,day,started,completed,failed_provider_rejected,failed_max_attempts,failed_unknown,` +
		`cancelled,expired,open
694069ac-4d4e-475f-906b-2f11c5eca7bd,2026-11-20,1200,900,40,30,2,8,120,100
694069ac-4d4e-475f-906b-2f11c5eca7bd,2026-11-21,0,0,0,0,0,0,0,0
694069ac-4d4e-475f-906b-2f11c5eca7bd,2026-11-22,3,4,0,0,0,0,0,0
694069ac-4d4e-475f-906b-2f11c5eca7bd,2026-11-23,5,1,0,0,0,0,1,3
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if err := WriteCSV(broken{}, "publisher_id", "p", someDays); err == nil {
		t.Error("a writer that fails is no error")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// wellFormed checks that every element of the HTML is closed, as in XML.
func wellFormed(t *testing.T, b []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
	}
}

func TestPlot(t *testing.T) {
	b := Plot("u1", "Sessions", someDays)
	wellFormed(t, b)
	text := string(b)
	for _, want := range []string{
		`<figcaption id="u1-title">Sessions</figcaption>`, `role="img" aria-labelledby="u1-title u1-desc"`,
		`<desc id="u1-desc">From 2026-11-20 to 2026-11-23, 1,208 sessions started and 905 completed. ` +
			`Most started on 2026-11-20: 1,200.</desc>`,
		`<li class="usage-failed">Failed <b>72</b></li>`, `<span>2,000</span><span>1,000</span><span>0</span>`,
		`<title>2026-11-20: 1,200 started, 900 completed, 72 failed, 8 cancelled, 120 expired, 100 open</title>`,
		`<th scope="row">Sum</th><td>1,208</td><td>905</td><td>40</td><td>30</td><td>2</td><td>8</td><td>121</td>` +
			`<td>102</td>`,
		`<th scope="row">2026-11-23</th><td>5</td>`, `<span>20 Nov</span>`, `<span>23 Nov</span>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "2026-11-21") || strings.Contains(text, "style=") ||
		strings.Contains(text, "<script") {
		t.Errorf("a day without sessions, a style or a script is in\n%s", text)
	}
	// The parts of a bar are stacked on the base line, and the highest bar has its share of the height.
	rect := regexp.MustCompile(`<rect class="usage-(\w+)" x="1" y="([\d.]+)" width="8" height="([\d.]+)"/>`)
	ground := float64(plotHeight)
	for _, m := range rect.FindAllStringSubmatch(text, -1) {
		y, err1 := strconv.ParseFloat(m[2], 64)
		h, err2 := strconv.ParseFloat(m[3], 64)
		if err1 != nil || err2 != nil || y+h < ground-.01 || y+h > ground+.01 {
			t.Errorf("%s is from %g to %g, want the end at %g", m[1], y+h, y, ground)
		}
		ground = y
	}
	if ground < 39.99 || ground > 40.01 {
		t.Errorf("a bar of 1,200 ends at %g of %d, with %d at the top", ground, plotHeight, 2000)
	}
}

func TestPlot_Escapes(t *testing.T) {
	b := Plot(`"><script>`, `<img src=x onerror=alert(1)> & "`, someDays)
	wellFormed(t, b)
	if bytes.Contains(b, []byte("<img")) || bytes.Contains(b, []byte("<script")) {
		t.Errorf("%s", b)
	}
}

func TestPlot_Empty(t *testing.T) {
	for _, days := range [][]Day{nil, {{20777, host.Counts{}}}} {
		b := Plot("u", "Sessions", days)
		wellFormed(t, b)
		if !bytes.Contains(b, []byte("No sessions on these days.")) || bytes.Contains(b, []byte("<svg")) {
			t.Errorf("%s", b)
		}
	}
}

func TestPlot_NumberOfDays(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 31, MaxDays} {
		var days []Day
		for i := range n {
			days = append(days, Day{host.Day(20777 + i), host.Counts{uint64(i + 1)}})
		}
		b := Plot("u", "Sessions", days)
		wellFormed(t, b)
		at := marks(n)
		if at[0] != 0 || at[len(at)-1] != n-1 || !slices.IsSorted(at) ||
			len(slices.Compact(at)) != min(n, 5) {
			t.Errorf("days with a date, of %d: %v", n, at)
		}
		if got := bytes.Count(b, []byte("<rect ")); got != n {
			t.Errorf("%d bars for %d days", got, n)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for n, want := range map[uint64]uint64{1: 2, 2: 2, 3: 4, 9: 10, 10: 10, 11: 20, 21: 40, 81: 100,
		1201: 2000, 9999: 10000, 1<<64 - 1: 1<<64 - 1} {
		if got := roundUp(n); got != want {
			t.Errorf("%d is rounded up to %d, want %d", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := grouped(n); got != want {
			t.Errorf("%d is written %s, want %s", n, got, want)
		}
	}
}

// Every class of the plot has its rule in the style sheet.
func TestStyle(t *testing.T) {
	for _, m := range regexp.MustCompile(`class="([\w-]+)"`).FindAllStringSubmatch(
		string(Plot("u", "Sessions", someDays))+`class="usage-none"`, -1) {
		if !strings.Contains(Style, "."+m[1]+" ") {
			t.Errorf("no rule for %s", m[1])
		}
	}
	for _, band := range bands {
		if n := strings.Count(Style, fmt.Sprintf("--usage-%s: #", band.class)); n != 2 {
			t.Errorf("%s has %d colours, want one for light and one for dark", band.class, n)
		}
	}
}
