package wallettest

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Formats of documents.
const (
	formatMdoc  = "mso_mdoc"
	formatSDJWT = "dc+sd-jwt"
)

// SDJWT is a document in the format dc+sd-jwt, and its key binding. The Presentation
// has its issuer, dates, status and keys.
type SDJWT struct {
	Type   string         // vct
	Claims map[string]any // every claim, every member of an object and every element of an array is hidden

	Disclose [][]string // the paths of claims that are sent, with the objects that they are in

	Audience, Nonce string
	Bound           time.Time // iat of the key binding

	// Edit changes the header and the claims of a token before it is signed. Nil: nothing changes.
	Edit func(token Part, header, claims map[string]any)

	// EditDisclosures changes the disclosures that are sent. Nil: nothing changes.
	EditDisclosures func([]string) []string
}

// The tokens of an SD-JWT.
const (
	PartSDJWT   Part = "SD-JWT"
	PartBinding Part = "key binding"
)

// hasClaim reports whether a document of the wallet has a claim.
func (w *Wallet) hasClaim(path []string) bool {
	var v any = w.Claims
	for _, name := range path {
		o, _ := v.(map[string]any)
		next, ok := o[name]
		if !ok {
			return false
		}
		v = next
	}
	return true
}

// sdJWT returns the document that a request asks for.
func (w *Wallet) sdJWT(r *Request, s Session) *SDJWT {
	d := &SDJWT{Claims: maps.Clone(w.Claims), Disclose: r.Claims, Audience: r.ClientID, Nonce: r.Nonce,
		Bound: w.now()}
	if len(r.Types) > 0 {
		d.Type = r.Types[0]
	}
	if s.Handover == OpenID4VPOverDCAPI {
		d.Audience = "origin:" + s.Origin
	}
	return d
}

// Token writes an SD-JWT with key binding (RFC 9901).
func (p *Presentation) Token() (string, error) {
	d := p.SDJWT
	header := map[string]any{"alg": algorithmOf(p.Issuer.Key), "typ": formatSDJWT}
	if p.Issuer.KeyID != "" {
		header["kid"] = p.Issuer.KeyID
	} else {
		header["x5c"] = p.chain()
	}
	h := hider{disclose: d.Disclose, random: p.random}
	claims := h.hide(d.Claims, nil)
	sd, _ := claims["_sd"].([]string)
	claims["_sd"] = append(sd, Digest(randomText(p.random))) // a decoy
	maps.Copy(claims, map[string]any{"vct": d.Type, "iss": "https://issuer.example", "_sd_alg": "sha-256",
		"iat": p.Signed.Unix(), "nbf": p.ValidFrom.Unix(), "exp": p.ValidUntil.Unix(),
		"cnf": map[string]any{"jwk": jwkOf(&p.DeviceKey.PublicKey)}})
	if list := p.Status.Member("status_list"); list.Present() {
		index, _ := list.Member("idx").Integer()
		uri, _ := list.Member("uri").Text()
		claims["status"] = map[string]any{"status_list": map[string]any{"idx": index, "uri": uri}}
	}
	token, err := p.signToken(PartSDJWT, p.Issuer.Key, header, claims)
	if err != nil {
		return "", err
	}
	if d.EditDisclosures != nil {
		h.sent = d.EditDisclosures(h.sent)
	}
	text := strings.Join(append([]string{token}, h.sent...), "~") + "~"
	key := p.SignWith
	if key == nil {
		key = p.DeviceKey
	}
	binding, err := p.signToken(PartBinding, key, map[string]any{"alg": algorithmOf(key), "typ": "kb+jwt"},
		map[string]any{"aud": d.Audience, "nonce": d.Nonce, "iat": d.Bound.Unix(), "sd_hash": Digest(text)})
	return text + binding, err
}

// signToken returns a token.
func (p *Presentation) signToken(
	token Part, key *ecdsa.PrivateKey, header, claims map[string]any,
) (string, error) {
	if d := p.SDJWT; d.Edit != nil {
		d.Edit(token, header, claims)
	}
	message := part(header) + "." + part(claims)
	signature, err := signBy(p.random, key, []byte(message))
	return message + "." + encode(signature), err
}

func algorithmOf(key *ecdsa.PrivateKey) string { return jwsAlgorithms[curves[key.Curve].algorithm] }

// chain returns the issuer's certificates for x5c.
func (p *Presentation) chain() (chain []string) {
	for _, der := range p.Issuer.Chain {
		chain = append(chain, base64.StdEncoding.EncodeToString(der))
	}
	return chain
}

func jwkOf(public *ecdsa.PublicKey) map[string]any {
	point, err := public.Bytes()
	if err != nil {
		panic(err) // a key that was generated
	}
	half := len(point) / 2
	return map[string]any{"kty": "EC", "crv": public.Params().Name, "x": encode(point[1 : 1+half]),
		"y": encode(point[1+half:])}
}

// Digest returns the digest of a disclosure, in base64url.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return encode(sum[:])
}

// hider replaces claims by digests.
type hider struct {
	disclose [][]string
	sent     []string // disclosures
	random   io.Reader
}

// hide returns an object with the digests of its claims.
func (h *hider) hide(o map[string]any, path []string) map[string]any {
	list := []string{}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		at := append(slices.Clone(path), name)
		list = append(list, h.disclosure(at, name, h.inside(o[name], at)))
	}
	return map[string]any{"_sd": list}
}

// inside returns a value whose members or elements are hidden.
func (h *hider) inside(v any, path []string) any {
	switch v := v.(type) {
	case map[string]any:
		return h.hide(v, path)
	case []any:
		elements := []any{}
		for _, e := range v {
			elements = append(elements, map[string]any{"...": h.disclosure(path, "", h.inside(e, path))})
		}
		return elements
	}
	return v
}

// disclosure returns the digest of a claim, or of an element if the name is empty. The claim is sent if it or
// a claim in it is to be disclosed.
func (h *hider) disclosure(path []string, name string, value any) string {
	content := []any{randomText(h.random), name, value}
	if name == "" {
		content = []any{randomText(h.random), value}
	}
	text := Disclosure(content...)
	for _, asked := range h.disclose {
		common := min(len(asked), len(path))
		if slices.Equal(asked[:common], path[:common]) {
			h.sent = append(h.sent, text)
			break
		}
	}
	return Digest(text)
}

// Disclosure returns a disclosure: a salt, the name of a claim and its value, or a salt and an element.
func Disclosure(content ...any) string {
	b, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("wallettest: %v", err))
	}
	return encode(b)
}

// JWK returns a public key with an id.
func JWK(public *ecdsa.PublicKey, id string) map[string]any {
	jwk := jwkOf(public)
	jwk["kid"] = id
	return jwk
}
