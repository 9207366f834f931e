package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/strictjson"
)

// leeway is the accepted difference between the clocks of the provider and of this service.
const leeway = time.Minute

// maxSubject is the maximum length of a sub in bytes (OpenID Connect Core, 2).
const maxSubject = 255

// verifyIDToken returns the claims of an ID token after these checks (OpenID Connect Core, 3.1.3.7):
//
//   - With id_token_encryption, it is encrypted for the method's key. The other checks apply to the token
//     inside.
//   - The form: three parts of strict base64url, and JSON in which no used member is repeated.
//   - The header: alg is one of algorithms, there is no crit and no b64, and typ is JWT or application/jwt if
//     it is present. A key or an address of a key in the header is not read. See package jws.
//   - The signature, by a key of the provider that is for this algorithm.
//   - iss is the issuer, and aud contains this client. azp is this client if present, and it is present if
//     aud contains others.
//   - exp is in the future, iat and nbf are not, within the leeway. exp and iat are present.
//   - nonce is the authorization request's, so that no other login's token fits.
//   - With max_age, auth_time is present and recent enough when the browser left.
//   - acr is one of the requested values, or several of them, if any were requested.
//   - sub is present.
func (c *client) verifyIDToken(
	ctx context.Context, meta metadata, raw string, e authRequest, acr []string,
) (claims, error) {
	var err error
	if c.encryptsIDToken {
		if raw, err = c.decrypt(ctx, raw, false); err != nil {
			return claims{}, err
		}
	}
	token, err := c.verify(ctx, raw, c.providerKeys(ctx, meta), rules{issuer: c.issuer, dated: true})
	if err != nil {
		return claims{}, err
	}
	azp := token.Value("azp")
	audience, _ := token.audience()
	isOther := func(party string) bool { return party != c.clientID }
	switch {
	case azp.Present() && token.text("azp") != c.clientID,
		!azp.Present() && slices.ContainsFunc(audience, isOther):
		return claims{}, rejected(wrongAzp)
	case subtle.ConstantTimeCompare([]byte(token.text("nonce")), []byte(e.nonce)) == 0:
		return claims{}, rejected(wrongNonce)
	case c.maxAge >= 0 && !c.isRecent(token, e.began):
		return claims{}, rejected(badAuthTime)
	case len(acr) > 0 && !isWithin(acr, token.text("acr")):
		return claims{}, rejected(wrongACR)
	case token.text("sub") == "" || len(token.text("sub")) > maxSubject:
		return claims{}, rejected(badSubject)
	}
	return token, nil
}

// isWithin reports whether an acr is one of the requested values, or a list of them. Some providers join the
// values of a login by several factors with spaces. Each must be requested: any of them may be the weakest.
func isWithin(requested []string, acr string) bool {
	isOther := func(value string) bool { return !slices.Contains(requested, value) }
	return !slices.ContainsFunc(strings.Split(acr, " "), isOther)
}

// isRecent reports whether the user signed in at the provider at most maxAge before the browser left. The
// user can remove max_age from the address, so the provider's word is needed.
func (c *client) isRecent(token claims, began time.Time) bool {
	at, _ := token.date("auth_time")
	if at == nil {
		return false
	}
	oldest := began.Add(-time.Duration(c.maxAge)*time.Second - leeway)
	return !at.Before(oldest) && !at.After(c.host.Now().Add(leeway))
}

// rules are the differences between the signed tokens that a provider sends.
type rules struct {
	issuer string
	dated  bool // exp and iat must be there
	bare   bool // iss and aud may be absent
}

// verify checks form, header, signature, iss, aud and times of a signed token for this client. An error is a
// *method.Rejection, or that of a key set which could not be fetched, or of the host, which could not check
// the signature.
func (c *client) verify(ctx context.Context, raw string, keys keySource, r rules) (claims, error) {
	t, err := readJWT(raw)
	if err != nil {
		return claims{}, err
	}
	now := c.host.Now()
	k, fresh, err := keys.find(now, t)
	if err != nil {
		return claims{}, err
	}
	var token claims
	if token.Object, err = strictjson.ReadForeign(t.Payload); err != nil {
		return claims{}, rejected(badClaims)
	}
	signed, err := t.Verify(ctx, c.host.Verify, k.public)
	if err == nil && !signed && !fresh && keys.kept.MayRenew(now, policy) {
		// The provider may have replaced the key without another kid.
		if k, err = keys.renew(now, t); err == nil {
			signed, err = t.Verify(ctx, c.host.Verify, k.public)
		}
	}
	switch {
	case err != nil:
		return claims{}, err
	case !signed:
		return claims{}, rejected(badSignature)
	}
	if reason := c.check(token, r); reason != "" {
		return claims{}, rejected(reason)
	}
	if token.IsRepeated("iss", "sub", "aud", "azp", "exp", "iat", "nbf", "nonce", "acr", "at_hash",
		"auth_time") {
		return claims{}, rejected(badClaims)
	}
	if r.dated && !token.Value("iat").Present() {
		return claims{}, rejected(badIssuedAt)
	}
	return token, nil
}

// check returns the reason why the claims of a token, whose signature is good, do not count for this client.
// It is "" if they do.
func (c *client) check(token claims, r rules) (reason string) {
	now := c.host.Now()
	exp, okExp := token.date("exp")
	iat, okIat := token.date("iat")
	nbf, okNbf := token.date("nbf")
	issuer := token.text("iss")
	audience, okAudience := token.audience()
	switch {
	case issuer != "" && r.issuer != "" && issuer != r.issuer:
		return wrongIssuer
	case len(audience) > 0 && !slices.Contains(audience, c.clientID):
		return wrongParty
	case exp != nil && !now.Before(exp.Add(leeway)):
		return expired
	case iat != nil && now.Before(iat.Add(-leeway)):
		return badIssuedAt
	case nbf != nil && now.Before(nbf.Add(-leeway)):
		return notYetValid
	case !okExp, !okIat, !okNbf, !okAudience, r.dated && exp == nil,
		(token.Value("aud").Present() || !r.bare) && len(audience) == 0,
		(token.Value("iss").Present() || !r.bare) && issuer == "":
		return badClaims
	}
	return ""
}

// readJWT reads a signed token. The typ of a JWT may be missing.
func readJWT(raw string) (jws.Token, error) {
	t, err := jws.Read(raw, jws.Rules{Size: maxDocument, Algorithms: algorithms, Types: []string{"JWT", ""}})
	t.Algorithm = known(t.Algorithm)
	switch err {
	case nil:
		return t, nil
	case jws.ErrForm, jws.ErrSize:
		return t, rejected(badForm)
	case jws.ErrCritical:
		return t, rejected(critical)
	case jws.ErrAlgorithm:
		return t, fmt.Errorf("oidc: a token is signed by %s; let the provider sign for this client by one "+
			"of %s: %w", named(t.Algorithm), strings.Join(algorithms, ", "), rejected(badAlgorithm))
	}
	return t, rejected(badHeader)
}

// named returns an algorithm of a token's header, for logs.
func named(algorithm string) string { return fmt.Sprintf("%.32q", algorithm) }

// latest is the last second that a claim may name; dates far beyond every clock are a mistake or an attack.
const latest = 1 << 40

// date returns a claim that is a NumericDate (RFC 7519, 2), nil if it is absent. It is not ok for another
// value.
func (c claims) date(name string) (at *time.Time, ok bool) {
	v := c.Value(name)
	if !v.Present() {
		return nil, true
	}
	seconds, ok := v.Number()
	if !ok || seconds < 0 || seconds > latest {
		return nil, false
	}
	t := time.Unix(int64(seconds), 0)
	return &t, true
}

// audience returns the claim aud: a text, or a list of texts. It is empty if aud is absent or an empty text,
// and not ok for a list of other values.
func (c claims) audience() (parties []string, ok bool) {
	v := c.Value("aud")
	if s, ok := v.Text(); ok {
		parties = []string{s}
	} else {
		list, _ := v.List()
		if parties = texts(v); len(parties) != len(list) {
			return nil, false
		}
	}
	if len(parties) == 1 && parties[0] == "" {
		return nil, true
	}
	return parties, true
}

// fitsAccess reports whether an access token was issued with an ID token, if the ID token
// contains at_hash (OpenID Connect Core, 3.1.3.6). SHA-512 belongs to EdDSA with Ed25519.
func (c claims) fitsAccess(access string) bool {
	if !c.Value("at_hash").Present() {
		return true
	}
	short := sha256.Sum256([]byte(access))
	long := sha512.Sum512([]byte(access))
	for _, hash := range [][]byte{short[:16], long[:32]} {
		if base64.RawURLEncoding.EncodeToString(hash) == c.text("at_hash") {
			return true
		}
	}
	return false
}
