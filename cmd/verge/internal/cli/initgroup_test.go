//go:build unix

package cli

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
)

// TestInit_Group creates the files of a server as root. The server runs as another user of the group, and
// reads the key ring again after root has rotated it.
func TestInit_Group(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestInit_Group")
	const other = 65534 // the user without rights
	group, err := user.LookupGroupId("65534")
	if os.Getuid() != 0 || err != nil {
		t.Skip("SKIP: only root creates files for another group: ", err)
	}
	dir := t.TempDir()
	for _, open := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	asRoot := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("verge", args...).CombinedOutput(); err != nil {
			t.Fatalf("verge %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	files := filepath.Join(dir, "verge")
	asRoot("init", files, "--group", group.Name, "--base-url", "https://verify.example.com")
	ring := filepath.Join(files, "keyring.json")

	in := &served{logs: new(lines), ended: make(chan struct{})}
	in.cmd = exec.Command(readable(t, dir), "serve", "--config", filepath.Join(files, "verge.toml"),
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0")
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: other, Gid: other}}
	in.cmd.Stderr, in.cmd.Dir = in.logs, dir
	launched := &site{t: t, key: "unused"}
	launched.run(in)
	launched.ready(in)

	asRoot("keyring", "rotate", ring, "--seals-in", "0s")
	wait.Until(t, "the server uses the new key", func() bool {
		return strings.Contains(in.metric(t, "verge_keyring_sealing_key"), newest(t, ring))
	})
	for _, name := range []string{"keyring.json", "operator-token", "webhook-secret", "verge.toml"} {
		info, err := os.Stat(filepath.Join(files, name))
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		if info.Mode() != 0o640 || owner.Uid != 0 || owner.Gid != other {
			t.Errorf("%s has mode %v, owner %d and group %d", name, info.Mode(), owner.Uid, owner.Gid)
		}
	}
	if err := in.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if wait.For(in.ended); in.cmd.ProcessState.ExitCode() != exitOK {
		t.Errorf("%v: %s", in.cmd.ProcessState, in.logs)
	}
}

// readable returns a copy of the command that each user can run.
func readable(t *testing.T, dir string) string {
	t.Helper()
	path, err := exec.LookPath("verge")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "copied")
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
