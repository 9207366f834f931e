package webauthn_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// FuzzVerifyRegistration checks that no input panics, and that each accepted credential can be stored and
// used.
func FuzzVerifyRegistration(f *testing.F) {
	for _, v := range vectors(f).Registrations {
		f.Add([]byte(v.Response))
	}
	rp := party(f)
	someKey, err := passkeytest.NewKey(passkeytest.ES256)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		c, err := webauthn.VerifyRegistration(rp, challenge, response)
		if err != nil {
			reason(t, err)
			return
		}
		if id, err := webauthn.CredentialID(response); err != nil || !bytes.Equal(id, c.ID) {
			t.Fatalf("the credential is %x, but CredentialID returns %x, %v", c.ID, id, err)
		}
		if _, err := cbor.Read(c.PublicKey, cbor.Options{Canonical: true}); err != nil || len(c.ID) > 1023 {
			t.Fatalf("id of %d bytes, key %x, %v", len(c.ID), c.PublicKey, err)
		}
		// The key can be read again: only a signature is missing.
		unsigned := passkeytest.New(testOrigin)
		if unsigned.Flags &^= passkeytest.BackedUp; !c.BackupEligible {
			unsigned.Flags &^= passkeytest.BackupEligible
		}
		unsigned.Passkeys = []*passkeytest.Passkey{{ID: c.ID, RPID: "verify.example", Key: someKey}}
		a, err := unsigned.Get(requestOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verifyAssertion(t, rp, challenge, c, a.JSON()); reason(t, err) != "signature" {
			t.Fatalf("signed by another key: %v", err)
		}
	})
}

// FuzzVerifyAssertion checks that only the signed content of the vectors is accepted, since their keys are
// gone.
func FuzzVerifyAssertion(f *testing.F) {
	file := vectors(f)
	stored := map[string]webauthn.Credential{} // by key
	var signed []string
	for _, v := range file.Assertions {
		f.Add([]byte(v.Response))
		signed = append(signed, signedParts([]byte(v.Response)))
		if c := v.Stored.credential(f); v.Rejected == "" {
			c.Counter, c.UserHandle = 0, nil
			stored[v.Stored.PublicKey] = c
		}
	}
	rp := party(f)
	f.Fuzz(func(t *testing.T, response []byte) {
		for _, c := range stored {
			_, err := verifyAssertion(t, rp, challenge, c, response)
			if err != nil {
				reason(t, err)
			} else if !slices.Contains(signed, signedParts(response)) {
				t.Fatalf("accepted: %s", response)
			}
		}
	})
}

// signedParts returns the signed fields of a response, or "" if it is no JSON.
func signedParts(response []byte) string {
	// A map, because encoding/json ignores the case of a struct's field names.
	var answer map[string]any
	if err := json.Unmarshal(response, &answer); err != nil {
		return ""
	}
	inner, _ := answer["response"].(map[string]any)
	return fmt.Sprint(inner["clientDataJSON"], inner["authenticatorData"], inner["signature"])
}
