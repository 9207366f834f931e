package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/verge-id/verge/"

// event is one line of go test -json (go doc test2json).
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output
	Test        string
	Output      string
	Elapsed     float64
	FailedBuild string
}

// report interprets the events of go test.
type report struct {
	w      io.Writer
	open   map[string]*progress // packages that have started and not ended
	builds map[string]string    // output of the compiler, by import path
	skips  map[string]int       // number of skipped tests, by reason
	sum    counts               // of all packages
	fails  []string             // the tests that failed, with their packages
	ended  map[string]int       // number of ended packages, by result

	reports strings.Builder // reports of tests
}

func newReport(w io.Writer) *report {
	return &report{
		w: w, open: map[string]*progress{}, builds: map[string]string{}, skips: map[string]int{},
		ended: map[string]int{},
	}
}

// progress is the state of a package while its tests run.
type progress struct {
	order []string         // its tests, in the order of their start
	tests map[string]*test // "" is the package
}

type test struct {
	verdict string // pass, fail or skip; "" while it runs
	output  strings.Builder
	failing bool // a subtest of it has failed
}

// counts are the numbers of tests without subtests. A test that failed, but not because of a subtest, counts
// as failed too.
type counts struct{ ok, failed, skipped int }

func (t counts) String() string {
	s := fmt.Sprintf("%d ok", t.ok)
	if t.failed > 0 {
		s += fmt.Sprintf(", %d FAIL", t.failed)
	}
	if t.skipped > 0 {
		s += fmt.Sprintf(", %d SKIP", t.skipped)
	}
	return s
}

// line handles one line of the output. A line that is no event is printed unchanged.
func (r *report) line(b []byte) {
	var e event
	if err := json.Unmarshal(b, &e); err != nil || e.Action == "" {
		r.w.Write(b)
		return
	}
	if e.Action == "build-output" {
		r.builds[e.ImportPath] += e.Output
	}
	if e.Package == "" {
		return
	}
	p := r.open[e.Package]
	if p == nil {
		p = &progress{tests: map[string]*test{}}
		r.open[e.Package] = p
	}
	t := p.tests[e.Test]
	if t == nil {
		t = new(test)
		p.tests[e.Test] = t
		p.order = append(p.order, e.Test)
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		t.verdict = e.Action
		if e.Test == "" {
			r.ends(e, p)
		} else if e.Action == "fail" {
			r.failedTest(e, p)
		}
	}
}

// failedTest reports a test as soon as it has failed. A parent of a failed subtest is not printed.
func (r *report) failedTest(e event, p *progress) {
	for i, b := range e.Test {
		if parent := p.tests[e.Test[:i]]; b == '/' && parent != nil {
			parent.failing = true
		}
	}
	if t := p.tests[e.Test]; !t.failing {
		r.prints(e.Package, e.Test, "", t.output.String())
	}
}

// prints prints the name of a failed test and the last lines of its output.
func (r *report) prints(pkg, name, why, output string) {
	full := strings.TrimPrefix(pkg, module) + " " + name + why
	r.fails = append(r.fails, full)
	fmt.Fprintf(r.w, "FAIL  %s\n", full)
	for _, line := range excerpt(output) {
		fmt.Fprintf(r.w, "    %s\n", line)
	}
}

// ends prints the line of a package, and its failures.
func (r *report) ends(e event, p *progress) {
	delete(r.open, e.Package)
	counts := p.count(r.skips)
	r.sum.ok += counts.ok
	r.sum.failed += counts.failed
	r.sum.skipped += counts.skipped
	if e.Action == "skip" {
		return // it has no tests
	}
	r.ended[e.Action]++
	word := "ok"
	if e.Action == "fail" {
		word = "FAIL"
	}
	name := strings.TrimPrefix(e.Package, module)
	took := fmt.Sprintf("%6.1f s", e.Elapsed)
	if strings.Contains(p.tests[""].output.String(), "\t(cached)") {
		took = fmt.Sprintf("%8s", "cached")
	}
	fmt.Fprintf(r.w, "%-4s  %-36s %s   %s\n", word, name, took, counts)
	for _, name := range p.order {
		r.shows(p.tests[name].output.String())
	}
	if e.Action == "pass" {
		return
	}
	io.WriteString(r.w, r.builds[e.FailedBuild])
	for _, name := range p.order {
		if one := p.tests[name]; name != "" && one.verdict == "" && !one.failing {
			r.prints(e.Package, name, " (did not end)", one.output.String())
		}
	}
	for _, line := range excerpt(p.tests[""].output.String()) {
		fmt.Fprintf(r.w, "    %s\n", line)
	}
}

var reporting = regexp.MustCompile(`(?m)^ *\S+\.go:\d+: REPORT$`)

// shows keeps a test's log after a line REPORT, up to the end of the same log call.
func (r *report) shows(output string) {
	at := reporting.FindStringIndex(output)
	if at == nil {
		return
	}
	for line := range strings.Lines(output[at[1]+1:]) {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			break
		}
		r.reports.WriteString(strings.TrimPrefix(line, "        "))
	}
}

// count counts the results of the package's tests, and adds the reasons of the skipped ones.
func (p *progress) count(skips map[string]int) (t counts) {
	inner, explained := map[string]bool{}, map[string]bool{} // has a subtest; has a failed one
	for name, one := range p.tests {
		for i, b := range name {
			if b == '/' {
				inner[name[:i]] = true
				explained[name[:i]] = explained[name[:i]] || one.verdict != "pass" && one.verdict != "skip"
			}
		}
	}
	for name, one := range p.tests {
		switch {
		case name == "":
		case one.verdict == "fail" || one.verdict == "":
			if !explained[name] {
				t.failed++
			}
		case inner[name]:
		case one.verdict == "skip":
			t.skipped++
			skips[reason(one.output.String())]++
		case one.verdict == "pass":
			t.ok++
		}
	}
	return t
}

var spoken = regexp.MustCompile(`(?m)^ *\S+\.go:\d+: (?:SKIP: )?(.+)$`)

// reason returns the last line of a skipped test.
func reason(output string) string {
	all := spoken.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return "no reason given"
	}
	return all[len(all)-1][1]
}

// Limits of an excerpt. A test that times out prints the stack of each goroutine.
const (
	lastLines  = 40 // of the output before the stacks
	stackLines = 20
)

// excerpt returns the last lines of an output and the start of its stacks, and counts the omitted lines.
func excerpt(output string) []string {
	var said, stacks []string
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "FAIL", strings.HasPrefix(line, "FAIL\t"), strings.HasPrefix(line, "=== "):
		case len(stacks) > 0, strings.HasPrefix(line, "goroutine "):
			stacks = append(stacks, line)
		default:
			said = append(said, line)
		}
	}
	if over := len(said) - lastLines; over > 0 {
		said = append([]string{fmt.Sprintf("(%d lines before)", over)}, said[over:]...)
	}
	if over := len(stacks) - stackLines; over > 0 {
		stacks = append(stacks[:stackLines], fmt.Sprintf("(%d more lines of stacks)", over))
	}
	return append(said, stacks...)
}

// running returns a line about the packages whose tests have begun and not ended. If there is no such
// package, go test compiles: in a fresh clone, for minutes.
func (r *report) running() string {
	var names []string
	for _, pkg := range slices.Sorted(maps.Keys(r.open)) {
		name := strings.TrimPrefix(pkg, module)
		if current := r.open[pkg].current(); current != "" {
			name += " (" + current + ")"
		}
		names = append(names, name)
	}
	state := "compiling"
	if len(names) > 0 {
		state = "running: " + strings.Join(names, ", ")
	}
	return fmt.Sprintf("      %d packages ok, %d FAIL; %s", r.ended["pass"], r.ended["fail"], state)
}

// current returns the test that started last of those that have not ended.
func (p *progress) current() string {
	for _, name := range slices.Backward(p.order) {
		if name != "" && p.tests[name].verdict == "" {
			return name
		}
	}
	return ""
}

// end reports the packages that started and did not end: go test itself ended before them.
func (r *report) end() {
	for _, name := range slices.Sorted(maps.Keys(r.open)) {
		r.ends(event{Action: "fail", Package: name}, r.open[name])
	}
}

func (r *report) failed() bool { return r.ended["fail"] > 0 || r.ended["pass"] == 0 }

// total returns the reasons of skips, the failed tests and the sums.
func (r *report) total() string {
	var b strings.Builder
	for _, why := range slices.Sorted(maps.Keys(r.skips)) {
		fmt.Fprintf(&b, "%d SKIP: %s\n", r.skips[why], why)
	}
	for _, name := range r.fails {
		fmt.Fprintf(&b, "FAIL: %s\n", name)
	}
	fmt.Fprintf(&b, "%d packages ok, %d FAIL; tests: %s", r.ended["pass"], r.ended["fail"], r.sum)
	return b.String()
}
