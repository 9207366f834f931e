package openid4vp

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/method"
)

// pendingRequest is the State of the step that waits: the age that its requests ask for, a digest of the
// method's settings, a secret, from which nonces and keys are derived, and the signatures of the requests on
// the page. So all its requests ask the same, even if the integration's minimum age is changed (contract 34).
//
// A page offers several requests: one by link for each device, and one for each protocol of the Digital
// Credentials API. Each has its own nonce and key. A wallet signs the nonce and encrypts to the key, so its
// response to one request does not count for another one. HKDF keeps the values apart: a nonce, which
// everyone may know, does not help to find a key. A State has room for the secret, and not for all values.
type pendingRequest struct {
	age        int
	of         []byte // a digest of openID.Fingerprint
	secret     []byte
	signatures []byte
}

// The bytes of a State: a version, the age, the digest of the settings, the secret, and the signatures, each
// after the digest of its message.
const (
	stateVersion = 4 // 3 had no age and no digest

	secretSize    = 32
	randomSize    = 16 // of nonces and of the request's state
	keySize       = 32 // of private keys on P-256
	digestSize    = 16
	signatureSize = 64 // ES256
	entrySize     = digestSize + signatureSize
)

// newPendingRequest draws the secret of a request for an age, from 1 to birthdate.MaxAge.
func (o *openID) newPendingRequest(random io.Reader, age int) (q pendingRequest, err error) {
	q.age, q.of = age, digest([]byte(o.Fingerprint()))
	q.secret = make([]byte, secretSize)
	if _, err = io.ReadFull(random, q.secret); err != nil {
		return pendingRequest{}, fmt.Errorf("openid4vp: reading randomness: %w", err)
	}
	return q, nil
}

// bytes returns the State.
func (q pendingRequest) bytes() []byte {
	return slices.Concat([]byte{stateVersion, byte(q.age)}, q.of, q.secret, q.signatures)
}

// readPendingRequest reads a State. The error is method.ErrOutdated for a State of another release, for a
// request that other settings of the method have made, and for one that asks for less than the minimum age.
func (o *openID) readPendingRequest(state []byte, minimumAge int) (q pendingRequest, err error) {
	const secret = 2 + digestSize
	const least = secret + secretSize
	if len(state) < least || state[0] != stateVersion || (len(state)-least)%entrySize != 0 {
		return q, method.ErrOutdated
	}
	q = pendingRequest{int(state[1]), state[2:secret], state[secret:least], state[least:]}
	if q.age < minimumAge {
		return q, outdated("minimum_age")
	}
	if !bytes.Equal(q.of, digest([]byte(o.Fingerprint()))) {
		return q, outdated("methods." + Kind.Name)
	}
	return q, nil
}

// outdated returns the method.ErrOutdated for a setting that changed.
func outdated(setting string) error {
	return &method.SettingError{Setting: setting, Err: method.ErrOutdated}
}

// A request is known by its channel: a link, or a protocol of the Digital Credentials API.
const (
	toWallet     = "wallet"                     // on another device
	toWalletHere = "wallet" + method.SameDevice // on this device
)

// linkTo returns the channel of a link. The key binding of an SD-JWT names the client and the nonce, and not
// the response_uri, so only the nonce distinguishes the two addresses.
func linkTo(same bool) string {
	if same {
		return toWalletHere
	}
	return toWallet
}

func isLink(channel string) bool { return channel == toWallet || channel == toWalletHere }

// nonce returns the nonce of a request.
func (q pendingRequest) nonce(channel string) []byte { return q.derive("nonce", channel, randomSize) }

// state returns the parameter state of a request by link.
func (q pendingRequest) state() string { return encoded(q.derive("state", toWallet, randomSize)) }

// key returns the key to which the response to a request is encrypted.
func (q pendingRequest) key(channel string) *ecdh.PrivateKey {
	for n := 0; ; n++ { // of 2^32 values, about one is no private key
		k, err := ecdh.P256().NewPrivateKey(q.derive("key "+strconv.Itoa(n), channel, keySize))
		if err == nil {
			return k
		}
	}
}

// derive returns a value by HKDF-Expand (RFC 5869). The secret is uniform, so it needs no extraction.
func (q pendingRequest) derive(use, channel string, size int) []byte {
	b, err := hkdf.Expand(sha256.New, q.secret, "verge openid4vp "+use+" "+channel, size)
	if err != nil {
		panic("openid4vp: " + err.Error()) // only for sizes above 255 hashes
	}
	return b
}

// digest names a message among the signatures.
func digest(message []byte) []byte {
	sum := sha256.Sum256(message)
	return sum[:digestSize]
}

// signatureOf returns the signature of a message. It is not ok if the request was signed before a setting
// changed, so that the message is another one now.
func (q pendingRequest) signatureOf(message []byte) (signature []byte, ok bool) {
	wanted := digest(message)
	for rest := q.signatures; len(rest) >= entrySize; rest = rest[entrySize:] {
		if bytes.Equal(rest[:digestSize], wanted) {
			return rest[digestSize:entrySize], true
		}
	}
	return nil, false
}

// sign adds the signature of a message.
func (q *pendingRequest) sign(ctx context.Context, h method.Host, key string, message []byte) error {
	signature, err := h.Sign(ctx, key, algorithm, message)
	if err != nil {
		return fmt.Errorf("openid4vp: signing a request by %s: %w", key, err)
	}
	if len(signature) != signatureSize {
		return &method.SettingError{Reason: "not_signed",
			Err: fmt.Errorf("openid4vp: a signature by %s has %d bytes, want %d", key, len(signature),
				signatureSize)}
	}
	q.signatures = append(append(q.signatures, digest(message)...), signature...)
	return nil
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
