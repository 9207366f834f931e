package host

import (
	"slices"
	"strings"
	"testing"
)

func TestOutcomesAreDistinct(t *testing.T) {
	all := Outcomes()
	if distinct := slices.Compact(slices.Sorted(slices.Values(all))); len(distinct) != len(all) {
		t.Errorf("the list has an outcome twice: %q", all)
	}
	var c Counts
	for i, outcome := range all {
		if !c.Add(outcome, uint64(i+1)) || c.Of(outcome) != uint64(i+1) || c[i] != uint64(i+1) {
			t.Errorf("%s is counted as %d, want %d", outcome, c.Of(outcome), i+1)
		}
	}
	if before := c; c.Add("other", 1) || c != before {
		t.Error("what is no outcome was counted")
	}
	if sum := c.Plus(Counts{1}); sum[0] != 2 || sum[1] != 2 || sum[6] != 7 {
		t.Errorf("the sums are %v", sum)
	}
}

func TestUsageEvent_Valid(t *testing.T) {
	const id, key = "694069ac-4d4e-475f-906b-2f11c5eca7bd", "key_0a4e1f7c1b2d4c3e"
	for _, c := range []struct {
		name string
		t    UsageEvent
		want bool
	}{
		{"a start", UsageEvent{Integration: id, Outcome: OutcomeStarted}, true},
		{"a key", UsageEvent{Key: key}, true},
		{"nothing", UsageEvent{}, false},
		{"an outcome that is not in the list", UsageEvent{Integration: id, Outcome: "other"}, false},
		{"no outcome", UsageEvent{Integration: id}, false},
		{"an integration in upper case", UsageEvent{
			Integration: strings.ToUpper(id), Outcome: OutcomeStarted},
			false},
		{"an integration without dashes", UsageEvent{Integration: strings.ReplaceAll(id, "-", "a"),
			Outcome: OutcomeStarted}, false},
		{"a slash in the integration", UsageEvent{Integration: "/" + id[1:], Outcome: OutcomeStarted}, false},
		{"a longer integration", UsageEvent{Integration: id + "0", Outcome: OutcomeStarted}, false},
		{"a key and an integration", UsageEvent{Integration: id, Outcome: OutcomeStarted, Key: key}, false},
		{"a key and an outcome", UsageEvent{Outcome: OutcomeStarted, Key: key}, false},
		{"another prefix", UsageEvent{Key: "kex_" + key[4:]}, false},
		{"a longer key", UsageEvent{Key: key + "0"}, false},
		{"a key with a slash", UsageEvent{Key: key[:19] + "/"}, false},
	} {
		if got := c.t.Valid(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
