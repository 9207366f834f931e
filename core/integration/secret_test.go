package integration

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"
)

// TestWeakSecret: a secret must not consist of what guessers try first.
func TestWeakSecret(t *testing.T) {
	for _, c := range []struct {
		name, secret string
		names        []string
		weak         bool
	}{
		{"a season, a year, a word", "summer-2026-shop", nil, true},
		{"too short", "9fK2mQ7xR4tZ8pL", nil, true},
		{"words alone", "webhook-secret-production-key", nil, true},
		{"a word and a sequence", "password1234567890", nil, true},
		{"one character again and again", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", nil, true},
		{"two characters again and again", "abababababababababababababababab", nil, true},
		{"the publisher's name and a year", "Acme-Cinema-Berlin-2026!", []string{"Acme Cinema", "Berlin"},
			true},
		{"the same name, unknown here", "Acme-Cinema-Berlin-2026!", nil, false},
		{"hexadecimal digits", "5f3a9c0be1d2487f", nil, false},
		{"letters and digits", "q7Zk1v0mXo2hT5c8", nil, false},
		{"four words of a list", "correct horse battery staple", nil, false},
		{"what whsec_ introduces", "whsec_Jx2m9QpL0vTzR4kW", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if why := SecretProblem(c.secret, false, c.names...); (why != "") != c.weak {
				t.Errorf("%q: %q, want weak %v", c.secret, why, c.weak)
			}
		})
	}
	for range 200 {
		s, err := GenerateSecret(rand.Reader)
		if err != nil || SecretProblem(s, false) != "" {
			t.Fatalf("a generated secret: %v, %s", err, SecretProblem(s, false))
		}
		key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(s, "whsec_"))
		if err != nil || len(key) != 32 {
			t.Fatalf("contract 51: %s is not the base64 of 32 bytes: %v", s, err)
		}
	}
}
