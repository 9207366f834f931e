package webauthn_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// flips calls do with each bit of b inverted in turn.
func flips(b []byte, do func(at int)) {
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		do(i / 8)
		b[i/8] ^= 1 << (i % 8)
	}
}

// An assertion is signed: changing any bit of it is detected.
func TestVerifyAssertion_ChangedBits(t *testing.T) {
	for name, algorithm := range algorithms {
		e := enrol(t, algorithm)
		answer, err := e.authenticator.Get(requestOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		verify := func() error {
			_, err := verifyAssertion(t, party(t), challenge, e.stored, answer.JSON())
			return err
		}
		if err := verify(); err != nil {
			t.Fatalf("%s: without a change: %v", name, err)
		}
		for part, b := range map[string][]byte{
			"authenticatorData": answer.AuthenticatorData, "signature": answer.Signature,
			"clientDataJSON": answer.ClientData, "id": answer.ID, "userHandle": answer.UserHandle,
		} {
			tried := 0
			flips(b, func(at int) {
				tried++
				if verify() == nil {
					t.Errorf("%s: a changed bit of byte %d of %s is accepted", name, at, part)
				}
			})
			if tried < 64 {
				t.Errorf("%s: %s has %d bits", name, part, tried)
			}
		}
	}
}

// A registration is not signed. This test lists the effects of each changed bit.
func TestVerifyRegistration_ChangedBits(t *testing.T) {
	a := passkeytest.New(testOrigin)
	answer, err := a.Create(options(t))
	if err != nil {
		t.Fatal(err)
	}
	right, err := webauthn.VerifyRegistration(party(t), challenge, answer.JSON())
	if err != nil {
		t.Fatal(err)
	}

	ignored := bytes.Index(answer.ClientData, []byte("crossOrigin"))
	flips(answer.ClientData, func(at int) {
		_, err := webauthn.VerifyRegistration(party(t), challenge, answer.JSON())
		if inName := at >= ignored && at < ignored+len("crossOrigin"); err == nil && !inName {
			t.Errorf("a changed bit of byte %d of the client data is accepted", at)
		}
	})

	format := bytes.Index(answer.Attestation, []byte("none"))
	data := bytes.Index(answer.Attestation, answer.AuthenticatorData)
	var changes []string
	flips(answer.Attestation, func(at int) {
		got, err := webauthn.VerifyRegistration(party(t), challenge, answer.JSON())
		if err != nil {
			return
		}
		change := "nothing"
		if got.Counter != right.Counter {
			change = "the counter"
		} else if got.BackedUp != right.BackedUp {
			change = "the backup"
		} else if at >= format && at < format+4 {
			change = "the format"
		}
		changes = append(changes, change)
		if change == "nothing" && at != data+32 && (at < data+37 || at >= data+37+16) {
			t.Errorf("a changed bit of byte %d of the attestation object is accepted", at)
		}
		if !bytes.Equal(got.ID, right.ID) || !bytes.Equal(got.PublicKey, right.PublicKey) {
			t.Errorf("a changed bit of byte %d makes another credential", at)
		}
	})
	// 16 bytes of the authenticator's kind and two reserved flags have no effect.
	all := strings.Join(changes, ",")
	for change, want := range map[string]int{"nothing": 16*8 + 2, "the counter": 32, "the backup": 1} {
		if got := strings.Count(all, change); got != want {
			t.Errorf("%d bits change %s, want %d", got, change, want)
		}
	}
}
