package stores

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
)

func TestFreeze(t *testing.T) {
	if _, err := os.Stat("/proc/self/task"); err != nil {
		t.Skip("SKIP: no /proc with the state of a process")
	}
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if still(cmd.Process.Pid) {
		t.Error("a process that runs stands still")
	}
	freeze(t, cmd.Process)
	if !still(cmd.Process.Pid) {
		t.Error("a frozen process runs")
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
