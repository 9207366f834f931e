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

func TestLacks(t *testing.T) {
	asked := Basis{Level: "L1", MinimumAge: 18, ChallengeAge: 0}
	for _, c := range []struct {
		name   string
		change func(judged, now *Basis)
		want   string
	}{
		{"the same", func(*Basis, *Basis) {}, ""},
		{"a higher level", func(judged, _ *Basis) { judged.Level = "L2" }, ""},
		{"a lower level", func(_, now *Basis) { now.Level = "L2" }, "level"},
		{"a higher age", func(judged, _ *Basis) { judged.MinimumAge = 21 }, ""},
		{"a lower age", func(_, now *Basis) { now.MinimumAge = 21 }, "minimum_age"},
		{"a proof for an estimate", func(_, now *Basis) { now.ChallengeAge = 25 }, "challenge_age"},
		{"settings that were added", func(_, now *Basis) { now.Settings = "a" }, "method_settings"},
		{"settings that were removed", func(judged, _ *Basis) { judged.Settings = "a" }, ""},
		{"settings that changed", func(judged, now *Basis) { judged.Settings, now.Settings = "a", "b" },
			"method_settings"},
		{"nothing", func(judged, _ *Basis) { *judged = Basis{} }, "level"},
	} {
		judged, now := asked, asked
		c.change(&judged, &now)
		if got := judged.Lacks(now); got != c.want {
			t.Errorf("contract 34: %s: it lacks %q, want %q", c.name, got, c.want)
		}
	}
}
