// Command progress runs go test and prints one line for each package when it ends: its result, its duration,
// and the numbers of tests that passed, failed and were skipped. A failed test is printed when it ends, with
// its name and its last lines. Every 30 seconds a line lists the packages that still run, or shows that Go
// compiles. The end lists the reasons of skips and the failed tests. A test that passes may add a report to
// the end: its log after a line REPORT. An unchanged package that passed before is not run again and is
// marked "cached"; its reports and skips belong to that run.
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
	err := run(cmd, r, time.Tick(beat))
	took := time.Since(begin)
	fmt.Print("\n" + r.reports.String())
	fmt.Printf("\n%s in %.0f s, with %.0f s of CPU\n", r.total(), took.Seconds(), cpu(cmd).Seconds())
	if slices.Contains(os.Args[2:], "-short") {
		fmt.Printf("%d entries of testharness/long/table.go are covered only with VERGE_LONG=1\n",
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

// programs returns the directories of installed programs with their last change. Tests that need a program
// read this variable, so Go runs them again after an installation.
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

// beat is the time between two lines about the packages that run.
const beat = 30 * time.Second

// run starts the command and reports its output until it ends. Each value of tick adds a line about the
// packages that have not ended.
func run(cmd *exec.Cmd, r *report, tick <-chan time.Time) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		failed <- readLines(out, lines)
	}()
	for lines != nil {
		select {
		case line, ok := <-lines:
			if !ok {
				lines = nil
				continue
			}
			r.line(line)
		case <-tick:
			fmt.Fprintln(r.w, r.running())
		}
	}
	if err := <-failed; err != nil {
		return errors.Join(err, cmd.Wait())
	}
	r.end()
	return cmd.Wait()
}

// readLines sends each line of in with its line end. The last line may have none.
func readLines(in io.Reader, lines chan<- []byte) error {
	buffered := bufio.NewReader(in)
	for {
		line, err := buffered.ReadBytes('\n')
		if len(line) > 0 {
			lines <- line
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// cpu returns the CPU time of the command and of all processes that it waited for.
func cpu(cmd *exec.Cmd) time.Duration {
	if cmd.ProcessState == nil {
		return 0
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
