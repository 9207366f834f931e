package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Output of go test: a package that passes, a package that fails, a package that does not build, a package
// without tests, and a package that ends in the middle of a test.
const said = `{"Action":"start","Package":"github.com/verge-id/verge/core"}
{"Action":"start","Package":"github.com/verge-id/verge/edge"}
{"Action":"run","Package":"github.com/verge-id/verge/core","Test":"TestA"}
{"Action":"output","Package":"github.com/verge-id/verge/core","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"github.com/verge-id/verge/core","Test":"TestA","Output":"    a_test.go:5: not for anyone\n"}
{"Action":"pass","Package":"github.com/verge-id/verge/core","Test":"TestA/x","Elapsed":1}
{"Action":"output","Package":"github.com/verge-id/verge/core","Test":"TestA/y","Output":"    a_test.go:7: SKIP: there is no Redis\n"}
{"Action":"skip","Package":"github.com/verge-id/verge/core","Test":"TestA/y","Elapsed":1}
{"Action":"pass","Package":"github.com/verge-id/verge/core","Test":"TestA","Elapsed":1}
{"Action":"run","Package":"github.com/verge-id/verge/edge","Test":"TestB"}
{"Action":"output","Package":"github.com/verge-id/verge/edge","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"github.com/verge-id/verge/edge","Test":"TestB/x","Output":"    b_test.go:9: got 1, want 2\n"}
{"Action":"output","Package":"github.com/verge-id/verge/edge","Test":"TestB/x","Output":"    --- FAIL: TestB/x (0.00s)\n"}
{"Action":"fail","Package":"github.com/verge-id/verge/edge","Test":"TestB/x","Elapsed":0}
{"Action":"output","Package":"github.com/verge-id/verge/edge","Test":"TestB/y","Output":"    b_test.go:11: this one is well\n"}
{"Action":"pass","Package":"github.com/verge-id/verge/edge","Test":"TestB/y","Elapsed":0}
{"Action":"fail","Package":"github.com/verge-id/verge/edge","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"github.com/verge-id/verge/edge","Output":"FAIL\n"}
{"Action":"output","Package":"github.com/verge-id/verge/edge","Output":"WARNING: DATA RACE\n"}
{"Action":"fail","Package":"github.com/verge-id/verge/edge","Elapsed":2.5}
{"Action":"output","Package":"github.com/verge-id/verge/core","Output":"PASS\n"}
{"Action":"pass","Package":"github.com/verge-id/verge/core","Elapsed":12.34}
{"ImportPath":"github.com/verge-id/verge/wasm/abi","Action":"build-output","Output":"abi.go:3:1: syntax error\n"}
{"Action":"start","Package":"github.com/verge-id/verge/wasm/abi"}
{"Action":"fail","Package":"github.com/verge-id/verge/wasm/abi","FailedBuild":"github.com/verge-id/verge/wasm/abi"}
{"Action":"start","Package":"github.com/verge-id/verge/wasm/none"}
{"Action":"skip","Package":"github.com/verge-id/verge/wasm/none","Elapsed":0}
this line is no event
{"Action":"start","Package":"github.com/verge-id/verge/cmd/verge"}
{"Action":"run","Package":"github.com/verge-id/verge/cmd/verge","Test":"TestC"}
{"Action":"output","Package":"github.com/verge-id/verge/cmd/verge","Test":"TestC","Output":"panic: out of cheese\n"}
`

const reported = `FAIL  edge TestB/x
        b_test.go:9: got 1, want 2
        --- FAIL: TestB/x (0.00s)
FAIL  edge                                    2.5 s   1 ok, 1 FAIL
    WARNING: DATA RACE
ok    core                                   12.3 s   1 ok, 1 SKIP
FAIL  wasm/abi                                0.0 s   0 ok
abi.go:3:1: syntax error
this line is no event
FAIL  cmd/verge                               0.0 s   0 ok, 1 FAIL
FAIL  cmd/verge TestC (did not end)
    panic: out of cheese
`

func TestReport(t *testing.T) {
	var b strings.Builder
	r := newReport(&b)
	for line := range strings.Lines(said) {
		r.line([]byte(line))
	}
	r.end()
	if b.String() != reported {
		t.Errorf("it said:\n%s\nwant:\n%s", b.String(), reported)
	}
	const total = "1 SKIP: there is no Redis\nFAIL: edge TestB/x\nFAIL: cmd/verge TestC (did not end)\n" +
		"1 packages ok, 3 FAIL; tests: 2 ok, 2 FAIL, 1 SKIP"
	if r.total() != total || !r.failed() {
		t.Errorf("failed: %v, total:\n%s\nwant:\n%s", r.failed(), r.total(), total)
	}
}

// A cached package is marked as such, and the reports of its tests are printed at the end.
func TestReport_CachedPackages(t *testing.T) {
	const said = `{"Action":"run","Package":"x/edge","Test":"TestE"}
{"Action":"output","Package":"x/edge","Test":"TestE","Output":"    e_test.go:5: REPORT\n"}
{"Action":"output","Package":"x/edge","Test":"TestE","Output":"        suite   redis\n"}
{"Action":"output","Package":"x/edge","Test":"TestE","Output":"        limits  7 ok\n"}
{"Action":"output","Package":"x/edge","Test":"TestE","Output":"--- PASS: TestE (0.00s)\n"}
{"Action":"pass","Package":"x/edge","Test":"TestE","Elapsed":0}
{"Action":"output","Package":"x/edge","Output":"ok  \tx/edge\t(cached)\n"}
{"Action":"pass","Package":"x/edge","Elapsed":0.001}
`
	var b strings.Builder
	r := newReport(&b)
	for line := range strings.Lines(said) {
		r.line([]byte(line))
	}
	const want = "ok    x/edge                                 cached   1 ok\n"
	if b.String() != want || r.reports.String() != "suite   redis\nlimits  7 ok\n" {
		t.Errorf("it said %q and shows %q", b.String(), r.reports.String())
	}
}

// A run without any test has not succeeded.
func TestReport_NoTests(t *testing.T) {
	var b strings.Builder
	r := newReport(&b)
	if err := run(exec.Command("true"), r, nil); err != nil || !r.failed() {
		t.Errorf("error %v, failed %v, want that it failed", err, r.failed())
	}
}

// If the command fails, the run fails, even if every reported package passed.
func TestRun_CommandFails(t *testing.T) {
	events := t.TempDir() + "/events"
	passed := `{"Action":"pass","Package":"github.com/verge-id/verge/core","Elapsed":1}` // no newline
	if err := os.WriteFile(events, []byte(passed), 0o600); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	r := newReport(&b)
	if err := run(exec.Command("sh", "-c", "cat "+events+"; exit 3"), r, nil); err == nil || r.failed() {
		t.Errorf("error %v, failed %v, want an error and no failed package", err, r.failed())
	}
	if want := "ok    core                                    1.0 s   0 ok\n"; b.String() != want {
		t.Errorf("it said %q, want %q", b.String(), want)
	}
}

// Go prints the stack of every goroutine when a test times out. The report has the names of the tests that
// did not end and a limited part of the rest.
func TestReport_Timeout(t *testing.T) {
	var b strings.Builder
	r := newReport(&b)
	say := func(output string) {
		line, err := json.Marshal(
			map[string]string{"Action": "output", "Package": "x/edge", "Test": "TestSlow",
				"Output": output},
		)
		if err != nil {
			t.Fatal(err)
		}
		r.line(line)
	}
	for n := range 50 {
		say(fmt.Sprintf("line %d\n", n))
	}
	say("panic: test timed out after 30m0s\n")
	for n := range 370 {
		say(fmt.Sprintf("goroutine %d [select]:\n", n))
	}
	if got, want := r.running(), "      0 packages ok, 0 FAIL; running: x/edge (TestSlow)"; got != want {
		t.Errorf("while it runs: %q, want %q", got, want)
	}
	r.line([]byte(`{"Action":"fail","Package":"x/edge","Elapsed":1800}`))
	got := b.String()
	for _, want := range []string{"FAIL  x/edge TestSlow (did not end)\n    (11 lines before)\n    line 11\n",
		"    panic: test timed out after 30m0s\n    goroutine 0 [select]:\n",
		"    (350 more lines of stacks)\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the report lacks %q:\n%s", want, got)
		}
	}
	if lines := strings.Count(got, "\n"); lines != 64 {
		t.Errorf("%d lines, want 64", lines)
	}
	if got, want := r.running(), "      0 packages ok, 1 FAIL; compiling"; got != want {
		t.Errorf("after its end: %q, want %q", got, want)
	}
}

// A failed test is printed before its package ends, and so are the packages that still run.
func TestRun_PrintsWhileItRuns(t *testing.T) {
	tick, over := make(chan time.Time), t.Context().Done()
	go func() {
		for {
			select {
			case tick <- time.Time{}:
			case <-over:
				return
			}
		}
	}()
	out, in := io.Pipe()
	defer out.Close()
	r := newReport(in)
	dir := t.TempDir()
	script := `cd ` + dir + `
until_is_there() { n=0; until [ -e $1 ] || [ $n = 600 ]; do sleep 0.1; n=$((n+1)); done; }
until_is_there begin
echo '{"Action":"run","Package":"x/edge","Test":"TestE"}'
until_is_there go
echo '{"Action":"fail","Package":"x/edge","Test":"TestE"}'
until_is_there end
echo '{"Action":"fail","Package":"x/edge"}'`
	go func() {
		err := run(exec.Command("sh", "-c", script), r, tick)
		in.CloseWithError(cmp.Or(err, io.EOF))
	}()
	printed := bufio.NewScanner(out)
	for _, step := range []struct{ want, next string }{
		{"      0 packages ok, 0 FAIL; compiling", "begin"},
		{"      0 packages ok, 0 FAIL; running: x/edge (TestE)", "go"},
		{"FAIL  x/edge TestE", "end"},
		{"FAIL  x/edge                                  0.0 s   0 ok, 1 FAIL", "over"},
	} {
		for printed.Scan() && printed.Text() != step.want {
			if !strings.HasPrefix(printed.Text(), "      0 packages ok, 0 FAIL; ") {
				t.Fatalf("printed %q, want %q", printed.Text(), step.want)
			}
		}
		if printed.Text() != step.want {
			t.Fatalf("the output ends before %q", step.want)
		}
		if err := os.WriteFile(dir+"/"+step.next, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
