package verdict

import (
	"encoding/json"
	"testing"
)

func TestSettings_None(t *testing.T) {
	for _, none := range []string{"", "{}", "null"} {
		if got := Settings(json.RawMessage(none)); got != "" {
			t.Errorf("%q has the digest %q", none, got)
		}
	}
	a, b := Settings(json.RawMessage(`{"floor":12}`)), Settings(json.RawMessage(`{"floor":13}`))
	if a == "" || a == b {
		t.Errorf("two settings have the digests %q and %q", a, b)
	}
}

func TestDigest_DifferentTexts(t *testing.T) {
	seen := map[string][]string{}
	for _, texts := range [][]string{nil, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"", "ab"}, {"b", "a"}} {
		digest := Digest(texts...)
		if other, ok := seen[digest]; ok || len(digest) != 22 {
			t.Errorf("%q has the digest %q, and so has %q", texts, digest, other)
		}
		seen[digest] = texts
	}
}

func TestSuffices(t *testing.T) {
	asked := Basis{Level: "L1", MinimumAge: 18, ChallengeAge: 0}
	for _, c := range []struct {
		name   string
		change func(judged, now *Basis)
		want   bool
	}{
		{"the same", func(*Basis, *Basis) {}, true},
		{"a higher level", func(judged, _ *Basis) { judged.Level = "L2" }, true},
		{"a lower level", func(_, now *Basis) { now.Level = "L2" }, false},
		{"a higher age", func(judged, _ *Basis) { judged.MinimumAge = 21 }, true},
		{"a lower age", func(_, now *Basis) { now.MinimumAge = 21 }, false},
		{"a proof for an estimate", func(_, now *Basis) { now.ChallengeAge = 25 }, false},
		{"settings that were added", func(_, now *Basis) { now.Settings = "a" }, false},
		{"settings that were removed", func(judged, _ *Basis) { judged.Settings = "a" }, true},
		{"settings that changed", func(judged, now *Basis) { judged.Settings, now.Settings = "a", "b" },
			false},
		{"nothing", func(judged, _ *Basis) { *judged = Basis{} }, false},
	} {
		judged, now := asked, asked
		c.change(&judged, &now)
		if got := judged.Suffices(now); got != c.want {
			t.Errorf("contract 34: %s: %v, want %v", c.name, got, c.want)
		}
	}
}
