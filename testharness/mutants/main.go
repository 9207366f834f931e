// Command mutants breaks the service on purpose, one small way at a time, and
// asks the tests whether they notice: `make mutants`.
//
// Each mutant of the table is one plausible mistake, named by the promise it
// breaks. It is built through an overlay, so the tree never changes, and tested
// by the packages and tests that the table names, in that order, until one
// fails. A mutant that no test catches is a promise that nobody guards: the
// program says which and exits 1. So it does if a mutant does not compile, or
// if the test that caught it fails without it as well.
//
// Tests that need a program which is not installed are skipped, and a mutant
// that only they could have caught counts as not asked; with
// VERGE_REQUIRE_REAL=1 it counts as alive.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// mutant is one mistake.
type mutant struct {
	breaks string // the promise, said by what goes wrong
	file   string // below the module's root
	old    string // occurs exactly once in file
	new    string // what stands there instead

	// ask names a package, and behind a space the tests of it (as go test
	// -run takes them) where all of them would take long. The first one that
	// fails has caught the mutant.
	ask []string

	// hang says that the mutant is caught by a test that does not come to its
	// end. Of any other mutant that is no catch: it may be the machine.
	hang bool
}

// verdict is what became of a mutant.
type verdict struct {
	mutant
	catch
	err     error  // the table's, not the mutant's
	skipped string // why some test was not asked
	took    time.Duration
}

func (v verdict) String() string {
	switch {
	case v.err != nil:
		return "ERROR: " + v.err.Error()
	case v.test != "":
		return v.pkg + " " + v.test
	case v.skipped != "":
		return "not asked: " + v.skipped
	}
	return "NOBODY: asked " + strings.Join(v.ask, ", ")
}

func main() {
	only := flag.String("only", "", "try just the mutants whose name or file contains this")
	list := flag.Bool("list", false, "list the mutants and try none")
	jobs := flag.Int("jobs", 2, "how many to try at once")
	limit := flag.Duration("timeout", 3*time.Minute, "how long one package's tests may take")
	flag.Parse()
	var chosen []mutant
	for _, m := range table {
		if strings.Contains(m.breaks, *only) || strings.Contains(m.file, *only) {
			chosen = append(chosen, m)
		}
	}
	if *list {
		for _, m := range chosen {
			fmt.Printf("%s: %s\n", m.file, m.breaks)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, chosen, *jobs, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, chosen []mutant, jobs int, limit time.Duration) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "verge-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	verdicts := make([]verdict, len(chosen))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, jobs) {
		workers.Go(func() {
			for i := range next {
				begin := time.Now()
				v := try(ctx, root, filepath.Join(work, fmt.Sprint(i)), chosen[i], limit)
				v.took = time.Since(begin)
				verdicts[i] = v
				fmt.Printf("%4.0f s  %s\n        %s\n", v.took.Seconds(), v.breaks, v)
			}
		})
	}
	for i := range chosen {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return report(verdicts, confirm(ctx, root, verdicts, limit))
}

// report prints the table. wrong says which catches are none, and why.
func report(verdicts []verdict, wrong map[catch]string) error {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mutant\tcaught by\ts")
	caught, notAsked := 0, 0
	for _, v := range verdicts {
		by := v.String()
		switch {
		case v.err != nil:
		case v.test != "" && wrong[v.top()] != "":
			by = "ERROR: " + by + " " + wrong[v.top()]
		case v.test != "":
			caught++
		case v.skipped != "" && os.Getenv("VERGE_REQUIRE_REAL") != "1":
			notAsked++
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\n", v.breaks, by, v.took.Seconds())
	}
	w.Flush()
	fmt.Printf("\n%d mutants, %d caught", len(verdicts), caught)
	if notAsked > 0 {
		fmt.Printf(", %d not asked for want of a program", notAsked)
	}
	fmt.Println()
	if alive := len(verdicts) - caught - notAsked; alive > 0 {
		return fmt.Errorf("%d not caught: write the test that is missing, or mend the table", alive)
	}
	return nil
}

// moduleRoot is the nearest directory above with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", fmt.Errorf("no go.mod here or above; run it in the module")
		}
		dir = filepath.Dir(dir)
	}
}
