package conformance_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/testharness"
)

// Two instances count what happens to the sessions of an integration, each what it has decided. Together they
// count everything once, by the day on which it happened.
func TestUsage(t *testing.T) {
	a := newHarness(t, nil)
	b := newHarness(t, &opts{KV: sharing(a), Keyring: a.Keyring})
	l1, l2 := a.Publisher.L1, a.Publisher.L2
	begin := func(i *testharness.Integration, at *testharness.Harness) *testharness.Page {
		url := a.Start(body{"integration_id": i.ID}).RedirectURL
		return at.Open(at.BaseURL + strings.TrimPrefix(url, a.BaseURL))
	}
	for _, outcome := range []string{"approve", "reject", "withdraw", "unknown", "cancel"} {
		begin(l1, a).Submit(outcome)
		begin(l1, b).Submit(outcome) // the other instance ends it
	}
	page := begin(l2, a)
	for range 3 {
		page = page.Submit("fail_attempt")
	}
	wantError(t, a.Validate("x"), 400, "INVALID_TOKEN")
	a.Settle() // the started events
	for range 2 {
		record(t, a, b)
	}
	day := host.DayOf(a.Now())
	wantUsage(t, a, l1, day, host.Counts{10, 2, 2, 0, 2, 2, 0})
	wantUsage(t, b, l2, day, host.Counts{1, 0, 0, 1, 0, 0, 0})
	wantLastUse(t, a, a.Publisher.SecretKey, day)

	// Past midnight the sessions that were cancelled expire, and a new one starts. A new guest, or a new
	// module, does not change its host's counts.
	b.Pause(2 * time.Hour)
	a.Advance(2 * time.Hour)
	a.Engine.Forget()
	begin(l1, a)
	record(t, a, b)
	wantUsage(t, b, l1, day, host.Counts{10, 2, 2, 0, 2, 2, 2})
	wantUsage(t, b, l1, day+1, host.Counts{1})
	wantLastUse(t, b, a.Publisher.SecretKey, day+1)
}

func record(t *testing.T, all ...*testharness.Harness) {
	t.Helper()
	for _, h := range all {
		if err := h.RecordUsage(); err != nil {
			t.Fatal(err)
		}
	}
}

func wantUsage(t *testing.T, h *testharness.Harness, i *testharness.Integration, day host.Day,
	want host.Counts) {
	t.Helper()
	days, err := h.Service.Usage().Read(t.Context(), i.ID, day, day)
	if err != nil {
		t.Fatal(err)
	}
	if got := days[0].Counts; got != want {
		t.Errorf("contract 44: on %s %v are counted, want %v of %q", day, got, want, host.Outcomes())
	}
}

func wantLastUse(t *testing.T, h *testharness.Harness, key string, day host.Day) {
	t.Helper()
	keys, _, err := h.Service.Directory().ListKeys(t.Context(), "", "", 100)
	if err != nil {
		t.Fatal(err)
	}
	used := integration.Present(integration.SecretPrefix, key).ID()
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	last, err := h.Service.Usage().LastUse(t.Context(), ids)
	if err != nil || len(last) != 1 || last[used] != day || !slices.Contains(ids, used) {
		t.Errorf("contract 44: keys were last used on %v, %v; want %s alone, on %s", last, err, used, day)
	}
}
