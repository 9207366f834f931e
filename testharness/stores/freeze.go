package stores

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/wait"
)

// limit is far above the time that a server needs to start or to respond on a slow machine.
const limit = 5 * time.Minute

// freeze stops a process and waits until each of its threads has stopped. After
// the signal alone, a thread on another processor could still send an answer.
// Where there is no /proc, freeze cannot wait.
func freeze(t testing.TB, p *os.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, fmt.Sprintf("process %d has stopped", p.Pid), func() bool { return still(p.Pid) })
}

func still(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // the thread is gone
		}
		// The state comes after the program's name, which may contain anything.
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if len(state) > 0 && state[0] != 'T' {
			return false
		}
	}
	return true
}
