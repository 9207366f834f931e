// Package jws reads signed tokens in the compact form of JWS (RFC 7515), such as ID tokens and status lists.
//
// [Read] checks the form and the header of a token. Its payload must not be used before [Token.Verify] has
// verified the signature. If the header has certificates ([Token.Chain]), the caller checks that they lead
// to a trust anchor.
//
// # Errors
//
// An error of Read is an [Error], a constant without data of the token, so it may be logged.
//
// # Limits
//
// The JSON form, detached payloads, encrypted tokens and critical headers are rejected. Keys and addresses
// of keys in the header (jwk, jku, x5u) are ignored.
package jws

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// Error is the reason why a token is rejected.
type Error string

func (e Error) Error() string { return "jws: " + string(e) }

// Errors of Read.
const (
	ErrSize      Error = "the token is too large"
	ErrForm      Error = "the token has other parts than three of strict base64url"
	ErrHeader    Error = "the header is not JSON, or has a member of another type"
	ErrCritical  Error = "the header has critical members, and none is known"
	ErrType      Error = "the token is of another type (typ)"
	ErrAlgorithm Error = "the algorithm is not allowed"
)

// Rules are the tokens that a reader accepts. With an empty field, every token is rejected.
type Rules struct {
	Size       int      // the maximum number of bytes
	Algorithms []string // names of host.VerifyFunc
	Types      []string // values of typ, without "application/". "": typ may be missing
}

// Token is a token whose signature was not verified.
type Token struct {
	Algorithm string
	KeyID     string // "" if the header has none
	Payload   []byte

	Signed    []byte // the signing input, as it was sent
	Signature []byte

	x5c strictjson.Value
}

// Read reads a token.
func Read(text string, r Rules) (t Token, err error) {
	if len(text) > r.Size {
		return Token{}, ErrSize
	}
	var parts [3][]byte
	rest, more := text, true
	for i := range parts {
		var part string
		if !more {
			return Token{}, ErrForm
		}
		part, rest, more = strings.Cut(rest, ".")
		b, ok := strict64.Decode(part)
		if !ok || len(b) == 0 {
			return Token{}, ErrForm
		}
		parts[i] = b
	}
	if more {
		return Token{}, ErrForm
	}
	t.Payload, t.Signature = parts[1], parts[2]
	t.Signed = []byte(text[:strings.LastIndexByte(text, '.')])
	return t, t.readHeader(parts[0], r)
}

// readHeader reads the header.
func (t *Token) readHeader(raw []byte, r Rules) error {
	o, err := strictjson.ReadForeign(raw)
	if err != nil {
		return ErrHeader
	}
	t.Algorithm, _ = o.Value("alg").Text()
	t.KeyID, _ = o.Value("kid").Text()
	t.x5c = o.Value("x5c")
	typ, okType := o.Value("typ").Text()
	switch {
	case o.Has("crit"), o.Has("b64"):
		return ErrCritical
	case okType != o.Value("typ").Present() || okType && typ == "", !r.allows(typ):
		return ErrType
	case !slices.Contains(r.Algorithms, t.Algorithm):
		return ErrAlgorithm
	case o.Value("kid").Present() && t.KeyID == "":
		return ErrHeader
	}
	return nil
}

// allows reports whether a typ is allowed. "application/" may be left out, and the case does not matter
// (RFC 7515, 4.1.9).
func (r Rules) allows(typ string) bool {
	const prefix = "application/"
	if len(typ) > len(prefix) && strings.EqualFold(typ[:len(prefix)], prefix) {
		typ = typ[len(prefix):]
	}
	return slices.ContainsFunc(r.Types, func(t string) bool { return strings.EqualFold(t, typ) })
}

// Verify reports whether the token is signed by a key. The error is the host's, which could not check it.
func (t Token) Verify(ctx context.Context, verify host.VerifyFunc, k signature.Key) (bool, error) {
	return k.Verify(ctx, verify, t.Algorithm, t.Signed, t.Signature)
}

// Chain returns the certificates of x5c, in DER. It is not ok if the header has none, or if they cannot be
// read.
func (t Token) Chain() (chain [][]byte, ok bool) {
	list, ok := t.x5c.List()
	if !ok {
		return nil, false
	}
	for _, v := range list {
		text, _ := v.Text()
		der, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(der) == 0 {
			return nil, false
		}
		chain = append(chain, der)
	}
	return chain, true
}
