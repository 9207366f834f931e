package main

import (
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the verge command as well, for scripts and
// for the tests that need a process to send signals to.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "VERGE_") {
			os.Unsetenv(name) // whoever runs the tests may have set it for a real server
		}
	}
	testscript.Main(m, map[string]func(){"verge": main})
}

// TestScripts runs the command as a user does: testdata/script has one file for each thing that it promises.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"waitfor": waitForFile,
			"mode":    checkMode,
		},
	})
}
