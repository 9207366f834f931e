package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// check runs `serve --check` with the configuration of the site.
func (s *site) check() (code int, stdout, stderr string) {
	s.t.Helper()
	p, out, err := testProgram()
	p.FS = afero.NewOsFs()
	p.Getenv = func(name string) (string, bool) {
		v, ok := map[string]string{"VERGE_OPERATOR_TOKEN": testToken, "HOOK": testSecret}[name]
		return v, ok
	}
	code = run(s.t.Context(), []string{"serve", "--check", "--config", s.config}, p)
	return code, out.String(), err.String()
}

// setPartitions changes store.partitions, which is the last line of the configuration.
func (s *site) setPartitions(from, to string) {
	s.t.Helper()
	b, err := os.ReadFile(s.config)
	if err != nil {
		s.t.Fatal(err)
	}
	text, found := strings.CutSuffix(string(b), "partitions = "+from+"\n")
	if !found {
		s.t.Fatalf("the configuration does not end with %s partitions: %s", from, b)
	}
	if err := os.WriteFile(s.config, []byte(text+"partitions = "+to+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// `serve --check` compares store.partitions with the number that the store's sessions use, and reports fewer
// with the words of a start.
func TestCheckComparesThePartitionsWithTheStore(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (kv string){
		"bolt":  func(t *testing.T) string { return "bolt:" + filepath.Join(t.TempDir(), "verge.db") },
		"redis": func(t *testing.T) string { return stores.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := newEvents(t)
			sink.trust(testSecret)
			s := newSite(t, open(t), sink.URL, "[store]\npartitions = 4\n")
			if code, out, stderr := s.check(); code != exitOK {
				t.Fatalf("before the store is used, --check ends with %d: %s%s", code, out, stderr)
			}
			in := s.start()
			if code, out, stderr := s.check(); code != exitOK {
				t.Errorf("next to a server, --check ends with %d: %s%s", code, out, stderr)
			} else if name == "bolt" && !strings.Contains(out, "not compared") ||
				name == "bolt" && !strings.Contains(out, "let it run") {
				t.Errorf("--check does not report that the store was not compared: %s", out)
			}
			in.cmd.Process.Signal(syscall.SIGTERM)
			wait.For(in.ended)
			if code, out, stderr := s.check(); code != exitOK ||
				!strings.Contains(out, "as in the store's set") {
				t.Errorf("with as many partitions, --check ends with %d: %s%s", code, out, stderr)
			}

			s.setPartitions("4", "2")
			code, _, stderr := s.check()
			const says = "store.partitions: 2, but sessions of this store are spread over 4; set " +
				"it to 4 or more"
			if code != exitUsage || !strings.Contains(stderr, says) {
				t.Fatalf("with fewer partitions, --check ends with %d: %s\nwant %d and %q", code, stderr,
					exitUsage, says)
			}
			fewer := s.launch()
			wait.For(fewer.ended)
			if code := fewer.cmd.ProcessState.ExitCode(); code != exitUsage ||
				!strings.Contains(fewer.logs.String(), stderr) {
				t.Errorf("--check says %s\nand a start ends with %d: %s", stderr, code, fewer.logs)
			}
		})
	}
}

// Contract 47: a path that is no store is an error, as at a start. A store without a response is a warning.
func TestCheck_StoreNotReadable(t *testing.T) {
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes")
	if err := os.WriteFile(notes, bytes.Repeat([]byte("no store\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, kv string
		code     int
		says     string
	}{
		{"a directory", "bolt:" + dir, exitUsage,
			dir + ": not a regular file, but a directory or a device; name a file"},
		{"a file of another kind", "bolt:" + notes, exitUsage, notes + ": neither of its two meta pages"},
		{"a server that does not respond", "redis://127.0.0.1:1", exitOK,
			"warning: the store was not read, so nothing was compared with it: store: redis: "},
	} {
		s := newSite(t, c.kv, "https://shop.example.com/hooks", "")
		if code, out, stderr := s.check(); code != c.code || !strings.Contains(stderr, c.says) ||
			(code == exitOK) != strings.Contains(out, "is valid") {
			t.Errorf("%s: --check ends with %d: %s%s", c.name, code, out, stderr)
		}
	}
}

// To look into a store that does not exist would make it.
func TestCheckMakesNoStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verge.db")
	s := newSite(t, "bolt:"+path, "https://shop.example.com/hooks", "")
	if code, out, stderr := s.check(); code != exitOK {
		t.Fatalf("--check ends with %d: %s%s", code, out, stderr)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("--check has made the store: %v", err)
	}
}
