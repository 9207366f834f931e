package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/kit"
)

// TestTheUnitIsGood has systemd read the unit and judge how much it leaves open. The drop-ins of its comments
// are read, too.
func TestTheUnitIsGood(t *testing.T) {
	t.Parallel()
	analyze := kit.Program(t, "systemd-analyze")
	unit := read(t, "systemd/verge.service")
	here, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dropIns := strings.Split(unit, "\n#   [Service]\n")[1:]
	if len(dropIns) != 3 {
		t.Fatalf("the unit shows %d drop-ins, want 3", len(dropIns))
	}
	for _, c := range []struct {
		name, dropIn string
		exposure     string // at most, in tenths
	}{
		{"as it is", "", "15"},
		{"with a port below 1024", dropIns[0], "20"},
		{"with the engine wasm", dropIns[1], "18"},
		{"with few addresses", dropIns[2], "13"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "verge.service")
			text, install, _ := strings.Cut(unit, "[Install]")
			text = strings.ReplaceAll(text, "/usr/local/bin/verge", here) // a program that is there
			for line := range strings.Lines(c.dropIn) {
				setting, ok := strings.CutPrefix(line, "#   ")
				if !ok {
					break
				}
				text += setting
			}
			if err := os.WriteFile(path, []byte(text+"[Install]"+install), 0o644); err != nil {
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

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
