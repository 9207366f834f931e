package cli

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A key is kept for as long as an event that it sealed can be sent again, however soon outcomes are forgotten
// (contract 16, 27).
func TestKeyring_KeyOfPendingEvents(t *testing.T) {
	p, stdout, stderr := testProgram()
	now := time.Date(2026, 11, 24, 6, 0, 0, 0, time.UTC)
	p.Now = func() time.Time { return now }
	verge := func(args ...string) int {
		stdout.Reset()
		stderr.Reset()
		return run(t.Context(), append([]string{"keyring"}, args...), p)
	}
	if verge("generate", "/ring.json") != exitOK {
		t.Fatal(stderr)
	}
	_, made, _ := strings.Cut(stdout.String(), "with key ")
	old, _, _ := strings.Cut(made, " ")
	now = now.Add(time.Hour)
	if verge("rotate", "/ring.json") != exitOK {
		t.Fatal(stderr)
	}
	for _, at := range []struct {
		day  time.Duration
		life string
		want int
	}{
		{29, "1h", exitFailed},
		{29, "30d", exitFailed},
		{32, "60d", exitFailed},
		{32, "1h", exitOK},
	} {
		now = time.Date(2026, 11, 24, 7, 0, 0, 0, time.UTC).Add(at.day * 24 * time.Hour)
		if code := verge("retire", "/ring.json", old, "--life", at.life); code != at.want {
			t.Errorf("after %d days with outcomes of %s: exit code %d, want %d: %s%s", at.day, at.life, code,
				at.want, stdout, stderr)
		}
	}
}

// TestKeyringAdopt_Flags gives the ring by a flag, as serve takes it.
func TestKeyringAdopt_Flags(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verge.db")
	text := configFor("test", "bolt:"+path, "https://shop.example.com/hooks", "HOOK")
	p := serveFiles(t, map[string]string{
		"/verge.toml": strings.Replace(text, "keyring = \"/ring.json\"\n", "", 1)})
	args := []string{"keyring", "adopt", "--config", "/verge.toml"}
	if code := run(t.Context(), args, p); code != exitUsage {
		t.Errorf("without a ring: exit code %d: %s", code, p.stderr)
	}
	if code := run(t.Context(), append(args, "--keyring", "/ring.json"), p); code != exitOK {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}
