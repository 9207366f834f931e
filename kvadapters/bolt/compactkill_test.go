package bolt_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-id/verge/kvadapters/bolt"
)

// compactChild is the variable that makes the test binary the process that compacts and is killed.
const compactChild = "VERGE_BOLT_COMPACT_CHILD"

// compactForEver compacts a file until the process is killed.
func compactForEver(path string) {
	for {
		fmt.Println("compacting")
		if _, err := bolt.Compact(context.Background(), path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// A kill in any moment leaves a file with all records, and at most one unfinished copy.
func TestCompact_Kill9(t *testing.T) {
	path := bolt.ExpiredFile(t, 4000)
	records := bolt.Content(t, path)
	unfinished := 0
	rng := rand.New(rand.NewPCG(7, 11))
	for round := range 20 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), compactChild+"="+path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.IntN(30_000)) * time.Microsecond)
		child.Process.Kill()
		if err := child.Wait(); child.ProcessState.Exited() {
			t.Fatalf("round %d: the child ended on its own: %v", round, err)
		}
		left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		unfinished += len(left)
		if len(left) > 1 || !maps.Equal(bolt.Content(t, path), records) {
			t.Fatalf("round %d: the records have changed, or several copies are left: %v", round, left)
		}
	}
	t.Logf("%d of 20 kills left an unfinished copy", unfinished)
	if unfinished == 0 {
		t.Error("no kill was in the middle of a copy")
	}
	if _, err := bolt.Compact(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 {
		t.Errorf("the next run leaves %v", left)
	}
}
