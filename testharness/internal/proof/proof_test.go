package proof

import (
	"errors"
	"testing"
)

func TestFind(t *testing.T) {
	f := In("../../..", "testharness/internal/proof")
	for _, c := range []struct {
		name, text string
		found      bool
	}{
		{"of the home folder", "TestFind", true},
		{"a case of it", "TestFind/a case of it", true},
		{"a case that it has not", "TestFind/a case that it " + "lost", false},
		{"of another folder", "core/internal/token:TestMAC", true},
		{"of a folder with a digit", "core/method/openid4vp:TestVerdicts", true},
		{"a test that is not there", "TestNothing", false},
		{"a folder that is not there", "core/nowhere:TestMAC", false},
		{"a test of another folder, without the folder", "TestMAC", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := f.Find(c.text); (err == nil) != c.found || errors.Is(err, ErrNoName) {
				t.Errorf("%s: %v, want it found: %v", c.text, err, c.found)
			}
		})
	}
	for _, text := range []string{"", "svc_sk_", "X-Request-Id", "core/internal/token:"} {
		if err := f.Find(text); !errors.Is(err, ErrNoName) {
			t.Errorf("%q counts as the name of a test: %v", text, err)
		}
	}
}
