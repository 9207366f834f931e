package openid4vp

import (
	"crypto/ecdh"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/method"
)

// question is what makes one request unlike every other: it is the State of the step that waits. A wallet's
// answer is signed over the nonce, so it counts for this question alone.
type question struct {
	nonce, state string // of the request to a wallet, in base64url

	browserNonce []byte // of the request to the browser

	// The keys to which answers are encrypted: a wallet's, and one that comes by way of the browser. No key
	// has two uses. They are made when they are needed (private), since that takes a guest a while.
	walletKey, browserKey []byte
}

// The bytes of a State: a version, and then what the question has.
const (
	stateVersion = 1

	randomSize = 16 // of nonces and of the request's state
	keySize    = 32 // of private keys on P-256

	stateSize = 1 + 3*randomSize + 2*keySize
)

// newQuestion draws one. It returns its State as well.
func newQuestion(random io.Reader) (state []byte, err error) {
	state = make([]byte, stateSize)
	state[0] = stateVersion
	draw := func(b []byte) {
		if err == nil {
			_, err = io.ReadFull(random, b)
		}
	}
	draw(state[1 : 1+3*randomSize])
	for n := 1 + 3*randomSize; n < stateSize; n += keySize {
		// Of 2^32 draws, about one is no private key.
		for draw(state[n : n+keySize]); err == nil && !isKey(state[n:n+keySize]); {
			draw(state[n : n+keySize])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("openid4vp: reading randomness: %w", err)
	}
	return state, nil
}

func isKey(b []byte) bool {
	_, err := ecdh.P256().NewPrivateKey(b)
	return err == nil
}

// errState says that a State is not one that newQuestion has made.
var errState = errors.New("openid4vp: the state of the step is not one of this kind")

// readQuestion reads a State.
func readQuestion(state []byte) (q question, err error) {
	if len(state) != stateSize || state[0] != stateVersion {
		return q, errState
	}
	rest := state[1:]
	take := func(n int) []byte {
		b := rest[:n]
		rest = rest[n:]
		return b
	}
	q.nonce, q.state = encoded(take(randomSize)), encoded(take(randomSize))
	q.browserNonce = take(randomSize)
	q.walletKey, q.browserKey = take(keySize), take(keySize)
	return q, nil
}

// private returns one of the keys of a question.
func private(key []byte) *ecdh.PrivateKey {
	k, err := ecdh.P256().NewPrivateKey(key)
	if err != nil {
		panic("openid4vp: a sealed key is none: " + err.Error()) // newQuestion has drawn it, and looked
	}
	return k
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// decoded reads base64url that stands for at least one byte.
func decoded(s string) ([]byte, bool) {
	b, ok := strict64.Decode(s)
	return b, ok && len(b) > 0
}

// address returns the response_uri for the same device, or for another.
func address(uri string, same bool) string {
	if same {
		return uri + method.SameDevice
	}
	return uri
}
