package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// leftOut are tests that take the compiler a quarter of a minute, since they
// build on large generic libraries, and that no mutant here is about. Without
// them a mutant of core/internal/api is tested in seconds.
var leftOut = []string{"core/internal/api/openapi_test.go"}

// catch is the test that failed first.
type catch struct {
	pkg  string // "./core/internal/api"
	test string // "TestBodies/contract_3:_twice"; in brackets, how the tests ended if none of them failed
}

// top is the catch by the test function, without subtests.
func (c catch) top() catch {
	name, _, _ := strings.Cut(c.test, "/")
	return catch{c.pkg, name}
}

// change is a mutant's change of the tree.
type change struct {
	file string // below the module's root
	text []byte // what it holds then
	err  error  // why the table's entry cannot be applied
}

// try tests one mutant. Its files lie below dir.
func try(ctx context.Context, root, dir string, m mutant, c change, limit time.Duration) verdict {
	v := verdict{mutant: m, err: c.err}
	if v.err != nil {
		return v
	}
	overlay, err := c.overlay(root, dir)
	if err != nil {
		v.err = err
		return v
	}
	for _, ask := range m.ask {
		pkg, tests, _ := strings.Cut(ask, " ")
		out, err := goTest(ctx, root, overlay, limit, pkg, tests)
		switch {
		case err != nil:
			v.err = err
		case out.hung && !m.hang:
			v.err = fmt.Errorf("%s %s did not end within %s; if the mutant is caught that way, set hang",
				pkg, out.failed, limit)
		case out.failed != "":
			v.catch = catch{pkg, out.failed}
		}
		if v.err != nil || v.test != "" {
			return v
		}
		if v.skipped == "" {
			v.skipped = out.skipped
		}
	}
	return v
}

// overlay writes the mutated file, and the file that tells go of it.
func (c change) overlay(root, dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	instead := filepath.Join(dir, filepath.Base(c.file))
	if err := os.WriteFile(instead, c.text, 0o600); err != nil {
		return "", err
	}
	replace := map[string]string{filepath.Join(root, c.file): instead}
	for _, file := range leftOut {
		replace[filepath.Join(root, file)] = "" // as if it were not there
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, b, 0o600)
}

// confirm runs the tests that caught mutants on the unchanged tree. It returns the errors of those that fail
// there: their catches do not count.
func confirm(ctx context.Context, root string, verdicts []verdict, limit time.Duration) map[catch]string {
	tests := map[string][]string{}
	for _, v := range verdicts {
		if v.test != "" && !strings.HasPrefix(v.test, "(") {
			tests[v.catch.pkg] = append(tests[v.catch.pkg], regexp.QuoteMeta(v.top().test))
		}
	}
	wrong := map[catch]string{}
	for pkg, names := range tests {
		slices.Sort(names)
		names = slices.Compact(names)
		all, err := goTest(ctx, root, "", limit, pkg, "^("+strings.Join(names, "|")+")$")
		if err == nil && all.failed == "" {
			continue
		}
		for _, name := range names {
			out, err := goTest(ctx, root, "", limit, pkg, "^"+name+"$")
			switch {
			case err != nil:
				wrong[catch{pkg, name}] = "cannot be tried without the mutant: " + err.Error()
			case out.failed != "":
				wrong[catch{pkg, name}] = "fails without the mutant too"
			}
		}
	}
	return wrong
}

// outcome of one run of go test.
type outcome struct {
	failed  string // the first test that failed; "" if all passed
	skipped string // output of a test that needs a missing program
	hung    bool
}

// event is one line of go test -json (go doc test2json).
type event struct {
	Action      string
	Test        string
	Output      string
	FailedBuild string
}

// goTest runs the package's tests, those that match, with the overlay. The
// overlay is passed in the environment, so that it reaches every go command
// that a test runs itself.
func goTest(
	ctx context.Context, root, overlay string, limit time.Duration, pkg, tests string,
) (outcome, error) {
	args := []string{"test", "-json", "-failfast", "-vet=off", "-timeout", limit.String()}
	if overlay != "" {
		args = append(args, "-count=1")
	}
	if tests != "" {
		args = append(args, "-run", tests)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = root
	cmd.Env = os.Environ()
	if overlay != "" {
		cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return outcome{}, err
	}
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	out, wrong := read(stdout)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case wrong != nil:
		return out, wrong
	case out.failed == "" && err != nil:
		return out, fmt.Errorf("go test %s: %w: %s", pkg, err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// read returns the outcome in go test's output, or the reason why it has none.
func read(r io.Reader) (out outcome, err error) {
	var compiler strings.Builder
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	ran := false
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		switch e.Action {
		case "run":
			ran = true
		case "build-output":
			compiler.WriteString(e.Output)
		case "output":
			if out.failed == "" && strings.HasPrefix(e.Output, "panic: test timed out") {
				out.hung = true
			}
			if _, why, ok := strings.Cut(e.Output, ": SKIP: "); ok && out.skipped == "" {
				out.skipped = strings.TrimSpace(why)
			}
		case "fail":
			switch {
			case e.FailedBuild != "":
				return out, fmt.Errorf("does not compile: %s",
					strings.Join(strings.Fields(compiler.String()), " "))
			case out.failed != "":
			case e.Test != "":
				out.failed = e.Test // a subtest's failure comes before its test's
			default:
				out.failed = "(the test binary ended)"
			}
		}
	}
	if !ran && out.failed == "" {
		return out, errors.New("no test matches what the table asks")
	}
	return out, nil
}
