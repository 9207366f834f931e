package promises

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/testenv"
)

// A command links this package, and must not get the flags of package testing.
func TestImports_NoTesting(t *testing.T) {
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command, which lists imports, is missing")
	}
	testenv.Source(t)
	out, err := exec.Command(goCommand, "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if slices.Contains(deps, "testing") || !slices.Contains(deps, "context") {
		t.Errorf("the dependencies are %v", deps)
	}
}

type store struct{ kv.KV }

type metered struct {
	store
	kv.Meter
}

func TestLacking(t *testing.T) {
	plain := Harness{KV: store{}, ClockRuns: true}
	full := Harness{KV: metered{}, Reopen: func() kv.KV { return nil }}
	for needs, lacking := range map[Needs]string{
		nothing: "", Idle: "", // the caller decides about these
		StillClock: "needs a clock", Restart: "no durability", Meter: "no rate counters",
	} {
		p := Promise{Needs: needs}
		if got := p.Lacking(plain); !strings.Contains(got, lacking) || lacking == "" && got != "" {
			t.Errorf("needs %b: %q, want %q", needs, got, lacking)
		}
		if got := p.Lacking(full); got != "" {
			t.Errorf("needs %b: %q of a harness that has all", needs, got)
		}
	}
}

func TestPromises_DistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for _, group := range Groups() {
		for _, p := range group.Promises {
			if p.Name == "" || p.About == "" || p.prove == nil || seen[p.Name] {
				t.Errorf("%s: %q about %q, seen before: %v", group.Name, p.Name, p.About, seen[p.Name])
			}
			seen[p.Name] = true
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d promises", len(seen))
	}
}

// away is an unreachable store.
type away struct{}

func (away) Get(context.Context, kv.Key) (kv.Item, error) { return kv.Item{}, kv.ErrUnavailable }
func (away) Commit(context.Context, kv.Tx) error          { return kv.ErrUnavailable }
func (away) List(context.Context, kv.Key, string, int) ([]kv.Item, error) {
	return nil, kv.ErrUnavailable
}
func (away) Claim(
	context.Context, kv.Partition, time.Time, time.Duration, int,
) ([]kv.Task, time.Time, error) {
	return nil, time.Time{}, kv.ErrUnavailable
}
func (away) Spend(context.Context, kv.Partition, time.Time, []kv.Charge) ([]time.Time, error) {
	return nil, errors.New("away")
}

// told collects reports without a *testing.T.
type told struct {
	mu    sync.Mutex
	first string
}

func (*told) Helper() {}

func (t *told) Errorf(format string, _ ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == "" {
		t.first = format
	}
}

type fatal struct{}

func (t *told) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(fatal{})
}

func (t *told) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first != ""
}

// Every proof must report a fault of a store that never responds.
func TestPromises_UnreachableStore(t *testing.T) {
	for _, group := range Groups() {
		for _, p := range group.Promises {
			w := new(told)
			func() {
				defer func() {
					if v := recover(); v != nil && v != (fatal{}) {
						panic(v)
					}
				}()
				p.Prove(t.Context(), w, Harness{
					KV:      away{},
					Now:     time.Now,
					Advance: func(time.Duration) {},
					Reopen:  func() kv.KV { return away{} },
				})
			}()
			if w.first == "" {
				t.Errorf("%s/%s holds on a store that never responds", group.Name, p.Name)
			}
		}
	}
}
