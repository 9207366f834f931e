package workers_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/verge-id/verge/edge/internal/bothdoors"
	"github.com/verge-id/verge/testharness/workerd"
)

// The Worker and the native server read a Prefer alike.
func TestBothDoorsReadAPreferenceAlike(t *testing.T) {
	cases := bothdoors.Preferences(t)
	var all [][]string
	for _, c := range cases {
		all = append(all, c.Prefer)
	}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := workerd.Shared(t).Client().Post("http://control.localhost/prefer", "", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got []int
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || len(got) != len(cases) {
		t.Fatalf("%d answers, want %d, %v", len(got), len(cases), err)
	}
	for i, c := range cases {
		if got[i] != c.Seconds {
			t.Errorf("RFC 7240: the Worker takes %q for %d seconds, want %d", c.Prefer, got[i], c.Seconds)
		}
	}
}
