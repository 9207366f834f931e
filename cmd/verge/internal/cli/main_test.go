package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// TestMain puts two commands on the path. "verge" is built from cmd/verge, for scripts and for tests that
// send signals to a process. "verge-troubled" is this test binary as the same command, with a disk that fails
// when a test requests it.
func TestMain(m *testing.M) {
	// A person who runs the tests may have set variables for a real server. A child keeps the variables that
	// its test has set.
	if filepath.Base(os.Args[0]) != troubledVerge {
		for _, v := range os.Environ() {
			name, _, _ := strings.Cut(v, "=")
			if strings.HasPrefix(name, "VERGE_") && !slices.Contains(ofTests, name) {
				os.Unsetenv(name)
			}
		}
	}
	testscript.Main(tests{m}, map[string]func(){troubledVerge: func() {
		boltDisk = testDisk()
		os.Exit(Main())
	}})
}

const troubledVerge = "verge-troubled"

// tests are the tests of this package, in the process that runs them.
type tests struct{ *testing.M }

// shared is a directory for what several tests need and one of them makes.
var shared string

func (ts tests) Run() (code int) {
	var err error
	if shared, err = os.MkdirTemp("", "verge-tests-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(shared)
	if os.Getenv(recipeOf) == "" { // otherwise the process that started this one has built it
		if err := buildVerge(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return ts.M.Run()
}

// buildVerge builds the command and puts it on the path. This test binary would not do: it does not record
// which wazero it has, so it would compile each module again that the tests share with the command.
func buildVerge() error {
	dir := filepath.Join(shared, "bin")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	// In contrast to go build, go run keeps the linked program for the next time.
	run := exec.Command("go", "run", "-buildvcs=false", "-exec", "cp", "../..", filepath.Join(dir, "verge"))
	if out, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("building the command: %w: %s", err, out)
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// ofTests are the variables that the tests themselves read.
var ofTests = []string{"VERGE_REQUIRE_REAL", "VERGE_SEED", "VERGE_BEFORE", "VERGE_PICTURES",
	"VERGE_LONGFELLOW_PROVER"}

// testDisk is the disk of a verge that a test has started. It works, unless the test wants it to fail.
var testDisk = func() (good bolt.Disk) { return good }

// TestScripts runs the command as a user does. testdata/script has one file for each promise.
func TestScripts(t *testing.T) {
	testenv.Source(t)
	t.Parallel()
	ways := long.Pick(t, "TestScripts", [][]string{{"--check"}}, [][]string{{"--check"}, nil})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"waitfor": waitForFile,
			"mode":    checkMode,
			"refused": rejectedIn(ways),
			"sides":   otherSides,
			"keep":    keep,
			"choose":  chooseOutcome,
			"narrow":  narrow,
		},
		Setup: func(e *testscript.Env) error {
			corpus, err := filepath.Abs("../../../../testharness/corpus/testdata")
			e.Setenv("CORPUS", corpus)
			return err
		},
	})
}
