package corpus

import (
	"testing"

	"github.com/verge-id/verge/edge/transcript"
	"github.com/verge-id/verge/edge/wasmhost"
	"github.com/verge-id/verge/testharness/guestcode"
	"github.com/verge-id/verge/testharness/testenv"
)

// With the clock and the randomness fixed, the core as a guest answers every
// request of the corpus with the same bytes as natively and asks for the same
// effects, byte for byte.
func TestEnginesAreTheSame(t *testing.T) {
	module := testenv.Module(t)
	guest, err := wasmhost.Compile(t.Context(), module,
		wasmhost.CompileConfig{Cache: guestcode.Cache(t, module)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { guest.Close() })
	engines := []transcript.Engine{{}, {Guest: guest}, {Guest: guest, HostSeals: true}}
	totals := make([]transcript.Summary, len(engines))
	for _, p := range recordings {
		t.Run(p.name, func(t *testing.T) {
			recorded := read(t, p.name)
			for n, e := range engines {
				sum, differs, err := recorded.Replay(t.Context(), e)
				if err != nil {
					t.Fatal(err)
				}
				if differs != nil {
					t.Fatalf("%s differs at %s", e, differs)
				}
				totals[n].Add(sum)
			}
		})
	}
	for n, e := range engines {
		t.Logf("%s: %+v", e, totals[n])
		if totals[n] != totals[0] || totals[n].Steps < 2000 {
			t.Errorf("%s: %+v, and natively %+v", e, totals[n], totals[0])
		}
	}
}
