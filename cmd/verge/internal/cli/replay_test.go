package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// The same command replays a guest. It finds a guest that answers differently: here one with another text for
// a token that was used.
func TestReplayInAGuest(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestReplayInAGuest")
	guests, wasm := newGuests(t), testenv.Module(t)
	const says, instead = "The result token has been used.", "The result token has been eaten"
	corpus := "../../../../testharness/corpus/testdata/results.jsonl.gz"
	for _, c := range []struct {
		name string
		wasm []byte
		code int
		says []string
	}{
		{"same.wasm", wasm, exitOK, []string{"OK: " + corpus + ", engine wasm: "}},
		{"other.wasm", changed(t, wasm, says, instead), exitFailed,
			[]string{"DIFFERS: " + corpus + ", engine wasm, step 9, contract 5: used", says, instead}},
	} {
		if c.code == exitOK && !long.Run(t, "TestReplayInAGuest") {
			continue
		}
		path := guests.put(c.name, c.wasm)
		guests.compile(path)
		var stdout, stderr bytes.Buffer
		p, _, _ := testProgram()
		p.FS, p.stdout, p.stderr = afero.NewOsFs(), &stdout, &stderr
		args := []string{"replay", "--engine", "wasm", "--module", path, "--module-cache", guests.cache(),
			corpus}
		if code := run(t.Context(), args, p); code != c.code || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d: %s", c.name, code, stderr.String())
		}
		for _, text := range c.says {
			if !strings.Contains(stdout.String(), text) {
				t.Errorf("%s: it does not contain %q:\n%s", c.name, text, stdout.String())
			}
		}
	}
}
