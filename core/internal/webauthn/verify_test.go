package webauthn_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/testharness/passkeytest"
)

func TestVerifyRegistration(t *testing.T) {
	for _, c := range allRegistrations() {
		t.Run(c.name, func(t *testing.T) {
			got, err := webauthn.VerifyRegistration(party(t), challenge, c.answer(t))
			if r := reason(t, err); r != c.reason {
				t.Fatalf("rejected for %q, want %q", r, c.reason)
			}
			if (err == nil) != (len(got.ID) > 0 && len(got.PublicKey) > 0) {
				t.Errorf("got %+v with the error %v", got, err)
			}
		})
	}
}

func TestVerifyAssertion(t *testing.T) {
	for _, c := range allAssertions() {
		t.Run(c.name, func(t *testing.T) {
			e, answer := c.answer(t)
			got, err := verifyAssertion(t, party(t), challenge, e.stored, answer)
			if r := reason(t, err); r != c.reason {
				t.Fatalf("rejected for %q, want %q", r, c.reason)
			}
			if err != nil && (got.Counter != 0 || got.BackedUp || got.UserHandle != nil) {
				t.Errorf("got %+v with the error %v", got, err)
			}
			if errors.Is(err, webauthn.ErrCounter) != (c.reason == "counter") {
				t.Errorf("%v is ErrCounter: %v", err, errors.Is(err, webauthn.ErrCounter))
			}
		})
	}
}

// The stored credential has the authenticator's data, and the next response is checked against it.
func TestVerifyRegistration_StoredCredential(t *testing.T) {
	for name, algorithm := range algorithms {
		e := enrol(t, algorithm)
		e.authenticator.Counts, e.key.Counter = true, 6
		if !bytes.Equal(e.stored.ID, e.key.ID) || !bytes.Equal(e.stored.PublicKey, e.key.Key.Public()) ||
			!e.stored.BackupEligible || !e.stored.BackedUp || e.stored.Counter != 0 {
			t.Errorf("%s: stored %+v", name, e.stored)
		}
		e.authenticator.Flags &^= passkeytest.BackedUp
		answer, err := e.authenticator.Get(requestOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		id, err := webauthn.CredentialID(answer.JSON())
		if err != nil || !bytes.Equal(id, e.stored.ID) {
			t.Errorf("%s: the credential id is %x, %v", name, id, err)
		}
		got, err := verifyAssertion(t, party(t), challenge, e.stored, answer.JSON())
		if err != nil || got.Counter != 7 || got.BackedUp || !bytes.Equal(got.UserHandle, testUser.Handle) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
		e.stored.Counter = got.Counter
		_, err = verifyAssertion(t, party(t), challenge, e.stored, answer.JSON())
		if !errors.Is(err, webauthn.ErrCounter) {
			t.Errorf("%s: the same response again: %v", name, err)
		}
	}
}

// A short challenge and a zero relying party are always rejected.
func TestVerify_FailsClosed(t *testing.T) {
	e, answer := assertion{}.answer(t)
	created := registration{}.answer(t)
	for _, c := range []struct {
		name      string
		party     webauthn.RelyingParty
		challenge []byte
		reason    string
	}{
		{"no challenge", party(t), nil, "challenge_short"},
		{"an empty challenge", party(t), []byte{}, "challenge_short"},
		{"a challenge of 15 bytes", party(t), challenge[:15], "challenge_short"},
		{"the challenge of another session", party(t), bytes.Repeat([]byte{2}, 32), "challenge"},
		{"no relying party", webauthn.RelyingParty{}, challenge, "origin"},
	} {
		_, err := verifyAssertion(t, c.party, c.challenge, e.stored, answer)
		if got := reason(t, err); got != c.reason {
			t.Errorf("%s: assertion rejected for %q, want %q", c.name, got, c.reason)
		}
		_, err = webauthn.VerifyRegistration(c.party, c.challenge, created)
		if got := reason(t, err); got != c.reason {
			t.Errorf("%s: registration rejected for %q, want %q", c.name, got, c.reason)
		}
	}
	for _, crossed := range []error{
		func() error { _, err := webauthn.VerifyRegistration(party(t), challenge, answer); return err }(),
		func() error {
			_, err := verifyAssertion(t, party(t), challenge, e.stored, created)
			return err
		}(),
	} {
		if got := reason(t, crossed); got != "member" {
			t.Errorf("a response of the other ceremony is rejected for %q", got)
		}
	}
	if _, err := webauthn.CredentialID([]byte(`{"id":"AAAA"}`)); reason(t, err) != "member" {
		t.Errorf("an id alone is read: %v", err)
	}
}
