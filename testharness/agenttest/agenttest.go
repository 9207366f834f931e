// Package agenttest runs OpenSSH's agent for tests, with keys in memory or in a token of SoftHSM (PKCS#11). A
// test is skipped where a program is missing.
package agenttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// Agent is a running ssh-agent.
type Agent struct {
	Socket string

	t   testing.TB
	dir string
	cmd *exec.Cmd
	env []string // of its clients and of the agent
}

// Start starts an agent without keys. The test ends it.
func Start(t testing.TB) *Agent {
	t.Helper()
	for _, program := range []string{"ssh-agent", "ssh-add", "ssh-keygen"} {
		testenv.Program(t, program)
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	a := &Agent{t: t, dir: dir, Socket: filepath.Join(dir, "s")}
	a.env = append(
		os.Environ(),
		"SSH_AUTH_SOCK="+a.Socket,
		"SOFTHSM2_CONF="+filepath.Join(dir, "softhsm2.conf"),
		"SSH_ASKPASS_REQUIRE=force",
		"SSH_ASKPASS="+filepath.Join(dir, "askpass"),
	)
	a.Restart()
	t.Cleanup(a.Stop)
	return a
}

// Restart starts the agent again. It has no keys then.
func (a *Agent) Restart() {
	a.t.Helper()
	a.Stop()
	a.cmd = exec.Command("ssh-agent", "-D", "-a", a.Socket, "-P", "/usr/lib/*")
	a.cmd.Env = a.env
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	wait.Until(a.t, "the agent", func() bool { _, err := os.Stat(a.Socket); return err == nil })
}

// Stop ends the agent, and removes its socket.
func (a *Agent) Stop() {
	if a.cmd == nil {
		return
	}
	a.Continue()
	a.cmd.Process.Kill()
	a.cmd.Wait()
	os.Remove(a.Socket)
	a.cmd = nil
}

// Pause makes the agent hang: it accepts connections and does not respond.
func (a *Agent) Pause() { a.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends Pause.
func (a *Agent) Continue() { a.cmd.Process.Signal(syscall.SIGCONT) }

// Run runs a program with the agent's environment, and returns its output.
func (a *Agent) Run(program string, args ...string) string {
	a.t.Helper()
	cmd := exec.Command(testenv.Program(a.t, program), args...)
	cmd.Env = a.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		a.t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Add adds a new key, such as by "-t", "ecdsa", "-b", "256". It returns the key's name in settings and the
// file of its public key.
func (a *Agent) Add(generate ...string) (reference, public string) {
	a.t.Helper()
	file := filepath.Join(a.dir, fmt.Sprintf("key%d", time.Now().UnixNano()))
	a.Run("ssh-keygen", append([]string{"-q", "-N", "", "-f", file}, generate...)...)
	a.Run("ssh-add", "-q", file)
	return a.reference(file + ".pub"), file + ".pub"
}

// Remove removes the key with that public key.
func (a *Agent) Remove(public string) { a.t.Helper(); a.Run("ssh-add", "-q", "-d", public) }

// module is SoftHSM's library, the driver of a token in a file.
const module = "/usr/lib/softhsm/libsofthsm2.so"

// AddToken creates a token of SoftHSM with a key of P-256 in it, and adds the token to the agent. The key was
// generated in the token, and cannot be exported. It returns the key's name in settings.
func (a *Agent) AddToken() (reference string) {
	a.t.Helper()
	testenv.File(a.t, module)
	tokens := filepath.Join(a.dir, "tokens")
	for name, text := range map[string]string{
		"softhsm2.conf": "directories.tokendir = " + tokens + "\nobjectstore.backend = file\n",
		"askpass":       "#!/bin/sh\necho 4711\n",
	} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o700); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := os.Mkdir(tokens, 0o700); err != nil {
		a.t.Fatal(err)
	}
	a.Run("softhsm2-util", "--init-token", "--free", "--label", "verge", "--pin", "4711", "--so-pin", "4711")
	a.Run("pkcs11-tool", "--module", module, "--login", "--pin", "4711", "--keypairgen", "--key-type",
		"EC:prime256v1", "--label", "verge", "--id", "01", "--usage-sign")
	a.InsertToken()
	held := strings.Split(strings.TrimSpace(a.Run("ssh-add", "-L")), "\n")
	public := filepath.Join(a.dir, "token.pub")
	if err := os.WriteFile(public, []byte(held[len(held)-1]+"\n"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return a.reference(public)
}

// InsertToken adds the token of AddToken again.
func (a *Agent) InsertToken() { a.t.Helper(); a.Run("ssh-add", "-q", "-s", module) }

// RemoveToken removes the token from the agent, as if it were unplugged.
func (a *Agent) RemoveToken() { a.t.Helper(); a.Run("ssh-add", "-q", "-e", module) }

// reference returns the name of a key in settings, as OpenSSH prints its fingerprint.
func (a *Agent) reference(public string) string {
	a.t.Helper()
	fields := strings.Fields(a.Run("ssh-keygen", "-l", "-f", public))
	return "agent:" + fields[1]
}
