package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Program returns the path of a real program for a test: the first of the names that is installed. If it
// finds no program, it skips the test, or fails it with VERGE_REQUIRE_REAL=1, as in CI.
func Program(t testing.TB, names ...string) string {
	t.Helper()
	installed()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("VERGE_REQUIRE_REAL") == "1" {
		t.Fatalf("%s is not installed, and VERGE_REQUIRE_REAL=1 forbids to skip; .ci/install installs it",
			names[0])
	}
	t.Skipf("SKIP: %s is not installed; .ci/install installs it", names[0])
	return ""
}

// File is like Program for a file that is no program.
func File(t testing.TB, path string) string {
	t.Helper()
	installed()
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if os.Getenv("VERGE_REQUIRE_REAL") == "1" {
		t.Fatalf("%s is missing, and VERGE_REQUIRE_REAL=1 forbids to skip; .ci/install installs it", path)
	}
	t.Skipf("SKIP: %s is missing; .ci/install installs it", path)
	return ""
}

// installed makes Go run a test again after programs were installed. Go caches the results of a package whose
// files and variables are unchanged, but it does not see directories outside of the module. make test puts a
// digest of the program directories into this variable.
func installed() { os.Getenv("VERGE_PROGRAMS") }
