package workers_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/verge-id/verge/testharness/workerd"
)

// The Worker and the native server read a Prefer alike.
func TestTheWorkerAndTheServerReadAPreferenceAlike(t *testing.T) {
	b, err := os.ReadFile("../server/testdata/prefer.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Prefer  []string
		Seconds int
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) < 20 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
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
