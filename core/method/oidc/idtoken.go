package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core/internal/strict64"
	"github.com/verge-id/verge/core/web"
)

// leeway is the accepted difference between the clocks of the provider and of this service.
const leeway = time.Minute

// maxSubject is the most bytes of a sub (OpenID Connect Core, 2).
const maxSubject = 255

// verifyIDToken returns the claims of an ID token after these checks (OpenID Connect Core, 3.1.3.7):
//
//   - The form: three parts of strict base64url, and JSON in which no used member is repeated.
//   - The header: alg is one of algorithms, there is no crit and no b64, and typ is JWT or application/jwt if
//     it is present. A key or an address of a key in the header is not read.
//   - The signature, by a key of the provider that is for this algorithm.
//   - iss is the issuer, and aud has this client. azp is this client if it is there, and it is there if aud
//     has others.
//   - exp is ahead, iat and nbf are not, give or take the leeway. exp and iat are there.
//   - nonce is the authorization request's, so that no other login's token fits.
//   - With max_age, auth_time is present and recent enough when the browser left.
//   - acr is one of those that were asked for, if any were.
//   - sub is there.
func (c *client) verifyIDToken(
	ctx context.Context, meta metadata, raw string, e authRequest, acr []string,
) (claims, error) {
	token, err := c.verify(raw, c.providerKeys(ctx, meta), rules{issuer: c.issuer, dated: true})
	if err != nil {
		return claims{}, err
	}
	azp := token.Value("azp")
	audience, _ := token.GetAudience()
	isOther := func(party string) bool { return party != c.clientID }
	switch {
	case azp.Present() && token.text("azp") != c.clientID,
		!azp.Present() && slices.ContainsFunc(audience, isOther):
		return claims{}, refused(wrongAzp)
	case subtle.ConstantTimeCompare([]byte(token.text("nonce")), []byte(e.nonce)) == 0:
		return claims{}, refused(wrongNonce)
	case c.maxAge >= 0 && !c.isRecent(token, e.began):
		return claims{}, refused(badAuthTime)
	case len(acr) > 0 && !slices.Contains(acr, token.text("acr")):
		return claims{}, refused(wrongACR)
	case token.text("sub") == "" || len(token.text("sub")) > maxSubject:
		return claims{}, refused(badSubject)
	}
	return token, nil
}

// isRecent reports whether the user signed in at the provider at most maxAge before the browser left. The
// user can remove max_age from the address, so the provider's word is needed. began is zero for a request
// that began before the operator set max_age.
func (c *client) isRecent(token claims, began time.Time) bool {
	at, err := token.date("auth_time")
	if err != nil || at == nil || began.IsZero() {
		return false
	}
	oldest := began.Add(-time.Duration(c.maxAge)*time.Second - leeway)
	return !at.Before(oldest) && !at.After(c.host.Now().Add(leeway))
}

// rules are what differs between the signed tokens that a provider sends.
type rules struct {
	issuer string
	dated  bool // exp and iat must be there
}

// verify checks form, header, signature, iss, aud and times of a signed token for this client. golang-jwt
// does most of it. It does not mind a critical header, a missing iat, or a member that is there twice, so
// that is looked at first.
func (c *client) verify(raw string, keys keySource, r rules) (claims, error) {
	head, ok := readJWT(raw)
	if !ok {
		return claims{}, refused(badForm)
	}
	h, err := readHeader(head)
	if err != nil {
		return claims{}, err
	}
	now := c.host.Now()
	k, fresh, err := keys.find(now, h)
	if err != nil {
		return claims{}, err
	}
	token, err := c.parse(raw, k, r)
	if errors.Is(err, jwt.ErrTokenSignatureInvalid) && !fresh && keys.kept.mayRenew(now) {
		// The provider may have replaced the key without another kid.
		if k, err = keys.renew(now, h); err != nil {
			return claims{}, err
		}
		token, err = c.parse(raw, k, r)
	}
	if err != nil {
		return claims{}, refused(jwtReason(err))
	}
	if token.IsRepeated("iss", "sub", "aud", "azp", "exp", "iat", "nbf", "nonce", "acr", "at_hash",
		"auth_time") {
		return claims{}, refused(badClaims)
	}
	if r.dated && !token.Value("iat").Present() {
		return claims{}, refused(badIssuedAt)
	}
	return token, nil
}

// parse has golang-jwt verify a token by one key.
func (c *client) parse(raw string, k key, r rules) (token claims, err error) {
	options := []jwt.ParserOption{
		jwt.WithValidMethods(k.verify),
		jwt.WithIssuer(r.issuer),
		jwt.WithAudience(c.clientID),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(c.host.Now),
		jwt.WithStrictDecoding(),
	}
	if r.dated {
		options = append(options, jwt.WithExpirationRequired())
	}
	_, err = jwt.NewParser(options...).ParseWithClaims(raw, &token, func(*jwt.Token) (any, error) {
		return k.public, nil
	})
	return token, err
}

// jwtReason says why golang-jwt refused a token. Its own text may repeat a claim, so it is not kept.
func jwtReason(err error) string {
	for _, known := range []struct {
		err    error
		reason string
	}{
		{jwt.ErrTokenSignatureInvalid, badSignature},
		{jwt.ErrTokenMalformed, badClaims},
		{jwt.ErrTokenInvalidIssuer, wrongIssuer},
		{jwt.ErrTokenInvalidAudience, wrongParty},
		{jwt.ErrTokenExpired, expired},
		{jwt.ErrTokenUsedBeforeIssued, badIssuedAt},
		{jwt.ErrTokenNotValidYet, notYetValid},
	} {
		if errors.Is(err, known.err) {
			return known.reason
		}
	}
	return badClaims
}

// readJWT returns the header of a compact JWS. It refuses the JSON form, an encrypted token, which has five
// parts, and what is not strict base64url.
func readJWT(raw string) (header []byte, ok bool) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return nil, false
	}
	for i, part := range parts {
		b, ok := strict64.Decode(part)
		if !ok || len(b) == 0 {
			return nil, false
		}
		if i == 0 {
			header = b
		}
	}
	return header, true
}

// header is what is used of a token's header.
type header struct{ algorithm, keyID string }

func readHeader(raw []byte) (header, error) {
	o, err := web.ReadForeign(raw)
	if err != nil {
		return header{}, refused(badHeader)
	}
	c := claims{o}
	h := header{c.text("alg"), c.text("kid")}
	switch {
	case o.Has("crit"), o.Has("b64"):
		return header{}, refused(critical)
	case !slices.Contains(algorithms, h.algorithm):
		return header{}, refused(badAlgorithm)
	case o.Value("kid").Present() && h.keyID == "",
		o.Value("typ").Present() && !isJWT(c.text("typ")):
		return header{}, refused(badHeader)
	}
	return h, nil
}

// isJWT reports whether a typ names a JWT. "application/" may be left out (RFC 7515, 4.1.9).
func isJWT(typ string) bool {
	return strings.EqualFold(typ, "JWT") || strings.EqualFold(typ, "application/jwt")
}

// UnmarshalJSON has golang-jwt see the claims as the strict reader does.
func (c *claims) UnmarshalJSON(raw []byte) (err error) {
	c.Object, err = web.ReadForeign(raw)
	return err
}

// latest is the last second that a claim may name; dates far beyond every clock are a mistake or an attack.
const latest = 1 << 40

// date returns a claim that is a NumericDate (RFC 7519, 2), nil if it is absent.
func (c claims) date(name string) (*jwt.NumericDate, error) {
	v := c.Value(name)
	if !v.Present() {
		return nil, nil
	}
	seconds, ok := v.Number()
	if !ok || seconds < 0 || seconds > latest {
		return nil, jwt.ErrInvalidType
	}
	return jwt.NewNumericDate(time.Unix(int64(seconds), 0)), nil
}

// The following implement jwt.Claims.

func (c claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.date("exp") }
func (c claims) GetIssuedAt() (*jwt.NumericDate, error)       { return c.date("iat") }
func (c claims) GetNotBefore() (*jwt.NumericDate, error)      { return c.date("nbf") }
func (c claims) GetIssuer() (string, error)                   { return c.text("iss"), nil }
func (c claims) GetSubject() (string, error)                  { return c.text("sub"), nil }

func (c claims) GetAudience() (jwt.ClaimStrings, error) {
	v := c.Value("aud")
	if s, ok := v.Text(); ok {
		return jwt.ClaimStrings{s}, nil
	}
	list, _ := v.List()
	audience := texts(v)
	if len(audience) != len(list) {
		return nil, jwt.ErrInvalidType
	}
	return audience, nil
}

// fitsAccess reports whether an access token is the one that an ID token was issued with, where the ID token
// says so (at_hash, OpenID Connect Core, 3.1.3.6). SHA-512 belongs to EdDSA with Ed25519.
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
