package webauthn_test

import (
	"context"
	"errors"
	"testing"

	"github.com/verge-id/verge/core/internal/webauthn"
)

// If the host cannot check the signature, VerifyAssertion returns the host's error, before it compares the
// counter (contract 41).
func TestVerifyAssertion_HostError(t *testing.T) {
	away := errors.New("away")
	for name, algorithm := range algorithms {
		e := enrol(t, algorithm)
		answer, err := e.authenticator.Get(requestOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		e.stored.Counter = 1 << 30
		asked := 0
		verify := func(context.Context, string, []byte, []byte, []byte) (bool, error) {
			asked++
			return true, away
		}
		response := answer.JSON()
		got, err := webauthn.VerifyAssertion(t.Context(), verify, party(t), challenge, e.stored, response)
		var rejection *webauthn.Rejection
		if !errors.Is(err, away) || errors.As(err, &rejection) || got.Counter != 0 || asked != 1 {
			t.Errorf("%s: %+v, %v, asked %d times", name, got, err, asked)
		}
		answer.Signature = answer.Signature[:len(answer.Signature)-1]
		_, err = webauthn.VerifyAssertion(t.Context(), verify, party(t), challenge, e.stored, answer.JSON())
		if reason(t, err) != "signature" || asked != 1 {
			t.Errorf("%s: a short signature: %v, asked %d times", name, err, asked)
		}
	}
}
