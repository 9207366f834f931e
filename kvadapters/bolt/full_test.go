//go:build linux || darwin

package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
)

// fullChild is the variable that makes the test binary fill the disk of the path in it.
const fullChild = "VERGE_BOLT_FULL_CHILD"

func init() { children[fullChild] = commitUntilFull }

// commitUntilFull limits its files to two megabytes and commits until one no longer fits. It prints each
// commit that returned nil, and then the first error.
func commitUntilFull(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 2 << 20, Max: 64 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println("setrlimit:", err)
		return
	}
	s, err := bolt.Open(path, bolt.Config{})
	if err != nil {
		fmt.Println("open:", err)
		return
	}
	for i := range 1000 {
		err = s.Commit(context.Background(), fullTx(i))
		if err != nil {
			break
		}
		fmt.Println("kept", i)
	}
	unavailable := errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, kv.ErrUnknown)
	says := func(part string) bool { return strings.Contains(err.Error(), part) }
	fmt.Println("unavailable", unavailable && says(path) && says(syscall.EFBIG.Error()))

	fmt.Println("because", err)
	_, get := s.Get(context.Background(), kv.Key{Partition: "p", Name: "0"})
	commit := s.Commit(context.Background(), fullTx(1001))
	fmt.Println("read", get)
	rejected := errors.Is(commit, kv.ErrUnavailable) && !errors.Is(commit, kv.ErrUnknown)
	fmt.Println("stopped", rejected && s.Failing() != nil)
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		fmt.Println("setrlimit:", err)
	}
	for s.Failing() != nil {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("again", s.Commit(context.Background(), fullTx(1001)))
	fmt.Println("closed", s.Close())
}

func fullTx(i int) kv.Tx {
	return kv.Tx{
		ID:        fmt.Sprint("tx", i),
		Partition: "p",
		Puts:      []kv.Put{{Name: fmt.Sprint(i), Value: make([]byte, 50_000)}},
	}
}

func TestStore_FullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verge.db")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fullChild+"="+path)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	kept := strings.Count(string(out), "kept")
	if kept == 0 {
		t.Fatalf("no commit succeeded before the disk was full:\n%s", out)
	}
	for want, why := range map[string]string{
		"unavailable true": "the commit that met the full disk was not ErrUnavailable with the path and " +
			"the system's error",
		"read <nil>":   "a commit that is on disk could not be read",
		"stopped true": "the store continued after a failed write",
		"again <nil>":  "the store did not recover automatically once there was room",
		"closed <nil>": "the store did not close",
	} {
		if !strings.Contains(string(out), want+"\n") {
			t.Errorf("%s:\n%s", why, out)
		}
	}
	s, err := bolt.Open(path, bolt.Config{})
	if err != nil {
		t.Fatalf("opening with room again: %v", err)
	}
	defer s.Close()
	for i := range kept {
		it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: fmt.Sprint(i)})
		if err != nil || len(it.Value) != 50_000 {
			t.Errorf("commit %d returned before the disk was full, and cannot be read now: %v", i, err)
		}
	}
	if err := s.Commit(t.Context(), fullTx(1002)); err != nil {
		t.Errorf("a commit with room again: %v", err)
	}
}
