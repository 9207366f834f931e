// Command progress runs go test and says one line for each package when it ends: whether it is ok, how long
// it took, and how many of its tests passed, failed and were skipped. What failed follows in full. At the end
// it says what was skipped and why. A test that passes may have something to show at the end: what it logs
// after a line REPORT. A package that is as it was when it last passed is not run again; it is "cached" then,
// and its reports and skips are those of that run.
//
//	go run ./testharness/internal/progress go test -json -short ./...
//
// It exits with 1 if a test failed, or if go test itself did.
package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/verge-id/verge/testharness/long"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "progress: name the command to run, such as: progress go test -json ./...")
		os.Exit(2)
	}
	begin := time.Now()
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "VERGE_PROGRAMS="+programs())
	r := newReport(os.Stdout)
	err := run(cmd, r)
	took := time.Since(begin)
	fmt.Print("\n" + r.reports.String())
	fmt.Printf("\n%s in %.0f s, with %.0f s of CPU\n", r.total(), took.Seconds(), cpu(cmd).Seconds())
	if slices.Contains(os.Args[2:], "-short") {
		fmt.Printf("%d entries of testharness/long/table.go say what only VERGE_LONG=1 covers\n",
			len(long.Table))
	}
	if r.failed() || err != nil {
		// The command's own error is news only if no test has failed.
		if !r.failed() {
			fmt.Fprintf(os.Stderr, "progress: %s: %v\n", cmd, err)
		}
		os.Exit(1)
	}
}

// programs sums up the directories where programs are: by when something was added to one or removed from it.
// Tests that need a program read this variable, so Go runs them again after one was installed.
func programs() string {
	h := sha256.New()
	elsewhere, _ := filepath.Glob("/usr/local/lib/*/node_modules")
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), elsewhere...) {
		if info, err := os.Stat(dir); err == nil {
			fmt.Fprintln(h, dir, info.ModTime().UnixNano())
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// run starts the command and reports what it writes until it ends.
func run(cmd *exec.Cmd, r *report) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, cmd.Wait())
		}
	}
	r.end()
	return cmd.Wait()
}

// cpu is what the command and everything that it waited for have used.
func cpu(cmd *exec.Cmd) time.Duration {
	if cmd.ProcessState == nil {
		return 0
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
