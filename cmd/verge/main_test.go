package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/verge-id/verge/kvadapters/bolt"
)

// TestMain makes this test binary the verge command as well. Scripts use it, and so do tests that send
// signals to a process.
func TestMain(m *testing.M) {
	// A person who runs the tests may have set variables for a real server. A child that a script
	// runs as "verge" keeps the variables that the script has set.
	if filepath.Base(os.Args[0]) != "verge" {
		for _, v := range os.Environ() {
			name, _, _ := strings.Cut(v, "=")
			if strings.HasPrefix(name, "VERGE_") && !slices.Contains(ofTests, name) {
				os.Unsetenv(name)
			}
		}
	}
	testscript.Main(tests{m}, map[string]func(){"verge": func() {
		boltDisk = testDisk()
		main()
	}})
}

// tests are those of this package, in the process that runs them.
type tests struct{ *testing.M }

// shared is a directory for what several tests need and one of them makes.
var shared string

func (ts tests) Run() (code int) {
	var err error
	if shared, err = os.MkdirTemp("", "verge-tests-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(shared)
	return ts.M.Run()
}

// ofTests are the variables that the tests themselves read.
var ofTests = []string{"VERGE_REQUIRE_REAL", "VERGE_SEED", "VERGE_BEFORE", "VERGE_PICTURES"}

// testDisk is the disk of a verge that a test has started. It works, unless the test wants it to fail.
var testDisk = func() (good bolt.Disk) { return good }

// TestScripts runs the command as a user does. testdata/script has one file for each promise.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"waitfor": waitForFile,
			"mode":    checkMode,
			"refused": refusedAlike,
			"sides":   otherSides,
			"keep":    keep,
			"choose":  chooseOutcome,
			"narrow":  narrow,
		},
		Setup: func(e *testscript.Env) error {
			corpus, err := filepath.Abs("../../testharness/corpus/testdata")
			e.Setenv("CORPUS", corpus)
			return err
		},
	})
}
