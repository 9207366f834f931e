package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"
)

// TestTooOpen is the rule for the modes of files with secrets.
func TestTooOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode                fs.FileMode
		byRoot, secretMount bool
		want                bool
	}{
		{mode: 0o600}, {mode: 0o400}, {mode: 0o700},
		{mode: 0o640, want: true}, {mode: 0o604, want: true}, {mode: 0o444, want: true},
		{mode: 0o640, byRoot: true}, {mode: 0o440, byRoot: true},
		{mode: 0o660, byRoot: true, want: true}, {mode: 0o644, byRoot: true, want: true},
		{mode: 0o604, byRoot: true, want: true}, {mode: 0o650, byRoot: true, want: true},
		{mode: 0o444, secretMount: true}, {mode: 0o644, secretMount: true}, {mode: 0o440, secretMount: true},
		{mode: 0o646, secretMount: true, want: true}, {mode: 0o664, secretMount: true, want: true},
		{mode: 0o777, byRoot: true, secretMount: true, want: true},
	} {
		if got := tooOpen(c.mode, c.byRoot, c.secretMount); got != c.want {
			t.Errorf("mode %04o, owned by root: %v, in a mount for secrets: %v: too open is %v, want %v",
				c.mode, c.byRoot, c.secretMount, got, c.want)
		}
	}
	for _, c := range []struct {
		path               string
		inMemory, readOnly bool
		want               bool
	}{
		{"/etc/secrets/..2026_11_22/ring", true, true, true}, // Kubernetes
		{"/run/secrets/ring", true, true, true},              // Docker Swarm
		{"/run/secrets/ring", true, false, true},             // Podman
		{"/run/secrets/ring", false, true, true},             // Docker Compose: a file of the host
		{"/run/secrets/ring", false, false, false},
		{"/run/secrets-of-mine/ring", true, false, false},
		{"/dev/shm/ring", true, false, false},
		{"/tmp/ring", true, false, false},
		{"/etc/verge/ring", false, true, false}, // a machine whose system is read-only has users, too
		{"/etc/verge/ring", false, false, false},
	} {
		if got := isSecretMount(c.path, c.inMemory, c.readOnly); got != c.want {
			t.Errorf("%s, in memory: %v, read-only: %v: a mount for secrets is %v, want %v",
				c.path, c.inMemory, c.readOnly, got, c.want)
		}
	}
}

// TestReadPrivateOfRoot: a file of root may be read by its group, and by nobody else.
func TestReadPrivateOfRoot(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root on Linux can make a file of root")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mode  fs.FileMode
		owner int
		good  bool
	}{
		{0o640, 0, true}, {0o440, 0, true}, {0o600, 4711, true},
		{0o640, 4711, false}, {0o644, 0, false}, {0o660, 0, false},
	} {
		if err := os.Chown(path, c.owner, 4711); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := readPrivate(afero.NewOsFs(), path)
		if (err == nil) != c.good || err != nil &&
			!strings.Contains(err.Error(), "have root own it with mode 640") {
			t.Errorf("mode %04o of user %d: %v", c.mode, c.owner, err)
		}
	}
}

// TestSecretsOfContainers mounts secrets as Kubernetes and Docker do, at their default modes, and checks a
// configuration there. The same files where every user of a machine could read them are refused.
func TestSecretsOfContainers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("such mounts are recognised on Linux alone")
	}
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody mount in a namespace: %v %s", err, out)
	}
	const script = `set -e
verge init made >/dev/null
tee verge.toml >/dev/null <<EOF
mode = "test"
base_url = "https://verify.example.com"
kv = "memory"
keyring = "$1/keyring.json"
operator_token_file = "$1/operator-token"
EOF
mkdir -p "$1"
[ "$2" = host ] || mount -t tmpfs tmpfs "$1"
if [ "$2" = kubernetes ]; then
	mkdir "$1/..2026_11_22" && ln -s ..2026_11_22 "$1/..data"
	for f in keyring.json operator-token; do
		cp "made/$f" "$1/..data/$f" && chmod 644 "$1/..data/$f" && ln -s "..data/$f" "$1/$f"
	done
else
	for f in keyring.json operator-token; do cp "made/$f" "$1/$f" && chmod 444 "$1/$f"; done
fi
[ "$3" = rw ] || mount -o remount,bind,ro "$1"
verge serve --config verge.toml --check`
	for _, c := range []struct{ name, kind, mount, says string }{
		{"a volume of Kubernetes", "kubernetes", "ro", "verge.toml is good"},
		{"a directory in memory that can be written", "kubernetes", "rw",
			"can be read by others (mode 0644)"},
		{"a directory of Docker", "docker", "ro", "verge.toml is good"},
		{"a directory of the disk", "host", "rw", "can be read by others (mode 0444)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mounted := filepath.Join(dir, "mounted")
			cmd := exec.Command("unshare", "-rm", "sh", "-c", script, "sh", mounted, c.kind, c.mount)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			good := strings.HasSuffix(c.says, "is good")
			if (err == nil) != good || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// TestVariablesAreKnown: every variable that a text or a program of this repository names is one that
// checkVariables knows.
func TestVariablesAreKnown(t *testing.T) {
	t.Parallel()
	known, err := knownVariables()
	if err != nil {
		t.Fatal(err)
	}
	foreign := []string{"VERGE_SITE", "VERGE_SITE_2"}      // of Workers
	mistyped := []string{"files_test.go", "secrets.txtar"} // these try names that there are not
	name := regexp.MustCompile(`\bVERGE(_[A-Z0-9]+)+\b`)
	found := map[string]bool{}
	err = filepath.WalkDir("../../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && slices.Contains([]string{".git", "dist", "node_modules", ".verge"},
			d.Name()) {
			if d != nil && d.IsDir() {
				return filepath.SkipDir
			}
			return err
		}
		texts := []string{".go", ".md", ".toml", ".txtar", ".yaml", ".service"}
		if slices.Contains(mistyped, d.Name()) || !slices.Contains(texts, filepath.Ext(path)) {
			return nil
		}
		b, err := os.ReadFile(path)
		for _, v := range name.FindAllString(string(b), -1) {
			found[v] = true
			if !slices.Contains(known, v) && !slices.Contains(foreign, v) {
				t.Errorf("%s names %s, which is no variable; add it to the table in "+
					"variables.go, or correct it", path,
					v)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		if !found[v] {
			t.Errorf("nothing names %s", v)
		}
	}
}

// TestCheckVariables: the names that are refused, and what is said.
func TestCheckVariables(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	p.now = time.Now
	p.environ = []string{"PATH=/bin", "VERGEX=1", "VERGE_KV=memory", "VERGE_LONG=1", "VERGE_NAMED=1",
		"VERGE_EMPTY=",
		"VERGE_PORT=tcp://10.0.0.1:80", "VERGE_OPS_PORT_80_TCP_PROTO=tcp", "VERGE_OPS_SERVICE_PORT=80"}
	var ps problems
	checkVariables(p, []string{"VERGE_NAMED"}, &ps)
	if len(ps) != 0 {
		t.Errorf("refused: %v", ps)
	}
	p.environ = []string{"VERGE_PORT=80", "VERGE_OPERATOR_TOKN=s3cret", "VERGE_NAMED=1", "VERGE_=1"}
	checkVariables(p, nil, &ps)
	if len(ps) != 4 || strings.Contains(strings.Join(ps, " "), "s3cret") ||
		!strings.Contains(strings.Join(ps, " "), "VERGE_OPERATOR_TOKN; did you mean VERGE_OPERATOR_TOKEN?") {
		t.Errorf("said: %q", ps)
	}
}
