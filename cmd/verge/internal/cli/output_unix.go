//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// killGroup makes the end of cmd's context kill it and all processes that it started.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
