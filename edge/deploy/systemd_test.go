package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

// TestSystemd_Unit makes systemd read the unit and rate its exposure. It also reads the drop-in next to it
// and the settings in its comments.
func TestSystemd_Unit(t *testing.T) {
	t.Parallel()
	analyze := testenv.Program(t, "systemd-analyze")
	unit := read(t, "systemd/verge.service")
	here, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dropIns := strings.Split(unit, "\n#   [Service]\n")[1:]
	if len(dropIns) != 2 {
		t.Fatalf("the unit shows %d drop-ins, want 2", len(dropIns))
	}
	for line := range strings.Lines(unit) {
		name, command, _ := strings.Cut(line, "=")
		program, _, _ := strings.Cut(command, " ")
		if strings.HasPrefix(name, "Exec") && program != "/usr/local/bin/verge" && program != "/bin/sh" {
			t.Errorf("a minimal Debian may not have what %s needs: %s", name, program)
		}
	}
	if !strings.Contains(unit, "\nLimitCORE=0\n") {
		t.Error("contract 13: a core dump would have keys")
	}
	_, port, _ := strings.Cut(read(t, "systemd/port-443.conf"), "[Service]\n")
	if !strings.Contains(port, "\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\n") {
		t.Errorf("the drop-in for port 443 gives no right to it: %s", port)
	}
	for _, c := range []struct {
		name, dropIn string
		exposure     string // at most, in tenths
	}{
		{"as it is", "", "15"},
		{"with a port below 1024", port, "20"},
		{"with the engine wasm", uncommented(dropIns[0]), "18"},
		{"with few addresses", uncommented(dropIns[1]), "13"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "verge.service")
			text, install, _ := strings.Cut(unit, "[Install]")
			text = strings.ReplaceAll(text, "/usr/local/bin/verge", here) // a program that is there
			if err := os.WriteFile(path, []byte(text+c.dropIn+"[Install]"+install), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{
				{"verify", "--man=no", path},
				{"security", "--offline=true", "--no-pager", "--threshold=" + c.exposure, path},
			} {
				out, err := exec.Command(analyze, args...).CombinedOutput()
				if err != nil || args[0] == "verify" && strings.Contains(string(out), path) {
					t.Errorf("systemd-analyze %v: %v\n%s", args, err, out)
				}
			}
		})
	}
}

// uncommented returns the settings at the beginning of a comment.
func uncommented(comment string) (settings string) {
	for line := range strings.Lines(comment) {
		setting, ok := strings.CutPrefix(line, "#   ")
		if !ok {
			break
		}
		settings += setting
	}
	return settings
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
