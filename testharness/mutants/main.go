// Command mutants breaks the service on purpose, one small way at a time, and
// asks the tests whether they notice: `make mutants`.
//
// Each mutant in the files below table is one plausible mistake, named by the promise that it breaks. It is
// built through an overlay, so the tree never changes. The packages and tests that the table names try it, in
// that order, until one fails. If none fails, no test guards that promise: the program names the promise and
// exits 1. It also exits 1 if a mutant does not compile, or if the test that caught it fails without it as
// well.
//
// The mutants of a package are in the file of its path: table/core/internal/result.txt contains
//
//	breaks: a result token is valid at the moment when it expires
//	ask: ./core/internal/result
//	ask: ./core/internal/api
//	ask: ./testharness/conformance TestExactExpiry
//	- if !now.Before(tok.claims.Expires()) {
//	+ if now.After(tok.claims.Expires()) {
//
// The type mutant in main.go explains the fields. The lines with - are the code to change (old), those with +
// the code that replaces it (new), and an empty line ends the mutant. A long breaks continues on lines that
// begin with two spaces. A line that begins with # is a comment. Choose mistakes that a developer could make
// and a reviewer overlook; name the harm to a publisher, a user or an operator.
//
// A mutant's code is found by the package and by the code itself. Layout, comments, the file within the
// package, and the names of local variables do not matter. A test reports each mutant whose code is missing
// or appears twice.
//
// Tests that need a program which is not installed are skipped. A mutant that
// only they could have caught counts as not tried; with VERGE_REQUIRE_REAL=1 it
// counts as not caught.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// mutant is one mistake.
type mutant struct {
	at     string // testharness/mutants/table/core/api.txt:12
	breaks string // the promise, as the harm if it is broken

	// pkg is the directory of the code, below the module's root: the path of the mutant's file below table,
	// without .txt. Its Go, JavaScript and Lua files are searched, tests excepted.
	pkg string

	// of names the declaration that holds the code ("validate",
	// "Ring.Seal"); in other languages than Go, it is the file's name. It is
	// empty where the package has the code only once.
	of string

	// old is the code to change. It occurs exactly once in pkg, or in of. It need not be whole statements.
	// $name matches any code with balanced brackets, including none.
	old string

	// new is the replacement. $name is the code that it matched in old.
	new string

	// ask is a package, and after a space a pattern for its tests (go test -run) if all of them would be
	// slow. The first failing test has caught the mutant.
	ask []string

	// hang, "yes" in the file, means that the mutant is caught by a test that does not come to its
	// end. For any other mutant that is no catch: it may be the machine.
	hang bool
}

// verdict is the result of a mutant.
type verdict struct {
	mutant
	catch
	err     error  // the table's, not the mutant's
	skipped string // the reason for a skipped test
	took    time.Duration
}

func (v verdict) String() string {
	switch {
	case v.err != nil:
		return "ERROR: " + v.at + ": " + v.err.Error()
	case v.test != "":
		return v.catch.pkg + " " + v.test
	case v.skipped != "":
		return "not tried: " + v.skipped
	}
	return "NOT CAUGHT by " + strings.Join(v.ask, ", ")
}

func main() {
	only := flag.String("only", "", "try just the mutants whose name or package contains this")
	list := flag.Bool("list", false, "list the mutants and try none")
	jobs := flag.Int("jobs", 2, "number of mutants tried in parallel")
	limit := flag.Duration("timeout", 3*time.Minute, "how long one package's tests may take")
	seeds := flag.Int("simulate", 0, "run the simulator instead of the tests, with that many seeds at most")
	flag.Parse()
	if err := start(*only, *list, *jobs, *limit, *seeds); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func start(only string, list bool, jobs int, limit time.Duration, seeds int) error {
	all, err := readTable(tableFiles)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(all, func(m mutant) bool {
		return !strings.Contains(m.breaks, only) && !strings.Contains(m.pkg, only)
	})
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if list {
		return show(newTree(root), chosen)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if seeds > 0 {
		return simulate(ctx, root, chosen, seeds)
	}
	return run(ctx, root, chosen, jobs, limit)
}

// show prints where each mutant changes the code.
func show(t *tree, chosen []mutant) error {
	for _, m := range chosen {
		p, err := t.find(m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.at, err)
		}
		fmt.Printf("%s: %s\n", p, m.breaks)
	}
	return nil
}

func run(ctx context.Context, root string, chosen []mutant, jobs int, limit time.Duration) error {
	work, err := os.MkdirTemp("", "verge-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	tree := newTree(root)
	changes := make([]change, len(chosen))
	for i, m := range chosen {
		changes[i].file, changes[i].text, changes[i].err = tree.apply(m)
	}
	verdicts := make([]verdict, len(chosen))
	next := make(chan int)
	var workers sync.WaitGroup
	for range max(1, jobs) {
		workers.Go(func() {
			for i := range next {
				begin := time.Now()
				v := try(ctx, root, filepath.Join(work, fmt.Sprint(i)), chosen[i], changes[i], limit)
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

// report prints the table. wrong has the catches that do not count, with the reason.
func report(verdicts []verdict, wrong map[catch]string) error {
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "mutant\tcaught by\ts")
	caught, notTried := 0, 0
	for _, v := range verdicts {
		by := v.String()
		switch {
		case v.err != nil:
		case v.test != "" && wrong[v.top()] != "":
			by = "ERROR: " + by + " " + wrong[v.top()]
		case v.test != "":
			caught++
		case v.skipped != "" && os.Getenv("VERGE_REQUIRE_REAL") != "1":
			notTried++
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\n", v.breaks, by, v.took.Seconds())
	}
	w.Flush()
	fmt.Printf("\n%d mutants, %d caught", len(verdicts), caught)
	if notTried > 0 {
		fmt.Printf(", %d not tried because a program is not installed", notTried)
	}
	fmt.Println()
	if alive := len(verdicts) - caught - notTried; alive > 0 {
		return fmt.Errorf("%d not caught: write the missing test, or fix the table", alive)
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
