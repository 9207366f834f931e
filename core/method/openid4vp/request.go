package openid4vp

import (
	"context"
	"crypto/ecdh"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/method"
)

// keyID is what a request calls the key to which the answer is encrypted.
const keyID = "1"

// link returns the address that opens a wallet with the request, on this device or, as a QR code, on another.
// It is "" for a State that is none, which the core never hands out.
func (o *openID) link(s method.Session, q question, same bool) string {
	uri := address(s.ResponseURI, same)
	client, err := o.client(uri)
	if err != nil {
		return ""
	}
	if o.settings.key != "" {
		return o.settings.scheme + "?" + url.Values{"client_id": {client}, "request_uri": {uri}}.Encode()
	}
	query := url.Values{}
	for _, p := range o.parameters(s, q, client, uri) {
		text := p.json
		if text == nil {
			text = []byte(p.text)
		}
		query.Set(p.name, string(text))
	}
	return o.settings.scheme + "?" + query.Encode()
}

// client returns the client id of the service, which says how a wallet can tell who asks (OpenID4VP 1.0,
// 5.9).
func (o *openID) client(uri string) (string, error) {
	if o.settings.key == "" {
		return "redirect_uri:" + uri, nil
	}
	leaf := o.settings.chain[0]
	if o.settings.hash {
		hash := sha256.Sum256(leaf.Raw)
		return byHash + ":" + encoded(hash[:]), nil
	}
	u, err := url.Parse(uri)
	if err != nil || !slices.Contains(leaf.DNSNames, u.Hostname()) {
		return "", fmt.Errorf("openid4vp: the certificate is for %q and not for the host of base_url; "+
			"get one that is, "+
			"or set client_id_prefix = %q", leaf.DNSNames, byHash)
	}
	return byHost + ":" + u.Hostname(), nil
}

// parameter is one of a request: a text, or JSON.
type parameter struct {
	name, text string
	json       []byte
}

// parameters returns the request.
func (o *openID) parameters(s method.Session, q question, client, uri string) []parameter {
	mode := "direct_post"
	if o.settings.encrypted {
		mode = "direct_post.jwt"
	}
	return []parameter{
		{name: "response_type", text: "vp_token"},
		{name: "response_mode", text: mode},
		{name: "client_id", text: client},
		{name: "response_uri", text: uri},
		{name: "nonce", text: q.nonce},
		{name: "state", text: q.state},
		{name: "dcql_query", json: o.query(s.MinimumAge)},
		{name: "client_metadata", json: o.metadata(q)},
	}
}

// query asks for the elements that prove an age, in DCQL (OpenID4VP 1.0, 6): for one of them, the first if
// the wallet has it.
func (o *openID) query(age int) []byte {
	p := o.settings.profile
	type claim struct {
		ID   string   `json:"id,omitempty"`
		Path []string `json:"path"`
	}
	type credential struct {
		ID     string            `json:"id"`
		Format string            `json:"format"`
		Meta   map[string]string `json:"meta"`
		Claims []claim           `json:"claims"`
		Sets   [][]string        `json:"claim_sets,omitempty"`
	}
	c := credential{ID: p.credential, Format: mdocFormat, Meta: map[string]string{"doctype_value": p.doctype}}
	names := p.names(age)
	for _, name := range names {
		asked := claim{Path: []string{p.namespace, name}}
		if len(names) > 1 {
			asked.ID = name
			c.Sets = append(c.Sets, []string{name})
		}
		c.Claims = append(c.Claims, asked)
	}
	return asJSON(map[string]any{"credentials": []credential{c}})
}

const mdocFormat = "mso_mdoc"

// metadata says what the service reads, and the key to which the answer is encrypted.
func (o *openID) metadata(q question) []byte {
	algorithms := mdoc.Algorithms()
	m := map[string]any{"vp_formats_supported": map[string]any{mdocFormat: map[string]any{
		"issuerauth_alg_values": algorithms, "deviceauth_alg_values": algorithms}}}
	if o.settings.encrypted {
		point := private(q.walletKey).PublicKey().Bytes() // 4, x, y
		m["jwks"] = map[string]any{"keys": []map[string]string{{"kty": "EC", "use": "enc", "crv": "P-256",
			"alg": "ECDH-ES", "kid": keyID, "x": encoded(point[1:33]), "y": encoded(point[33:])}}}
		m["encrypted_response_enc_values_supported"] = []string{"A128GCM", "A256GCM"}
	}
	return asJSON(m)
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts, numbers and maps alone
	}
	return b
}

// Request implements method.Requester: it signs the request (RFC 9101). The nonce is the
// question's, so a request that is fetched twice is the same, and one response counts.
func (o *openID) Request(ctx context.Context, s method.Session, state []byte, same bool) (
	method.RequestObject, error) {
	if o.settings.key == "" || !same && !o.settings.crossDevice {
		return method.RequestObject{}, method.ErrStep
	}
	q, err := readQuestion(state)
	if err != nil {
		return method.RequestObject{}, err
	}
	uri := address(s.ResponseURI, same)
	client, err := o.client(uri)
	if err != nil {
		return method.RequestObject{}, err
	}
	var chain []string
	for _, c := range o.settings.chain {
		chain = append(chain, base64.StdEncoding.EncodeToString(c.Raw))
	}
	header := asJSON(map[string]any{"alg": algorithm, "typ": "oauth-authz-req+jwt", "x5c": chain})
	claims := map[string]any{"aud": "https://self-issued.me/v2"}
	for _, p := range o.parameters(s, q, client, uri) {
		if p.json != nil {
			claims[p.name] = json.RawMessage(p.json)
		} else {
			claims[p.name] = p.text
		}
	}
	message := encoded(header) + "." + encoded(asJSON(claims))
	signature, err := o.host.Sign(ctx, o.settings.key, algorithm, []byte(message))
	if err != nil {
		return method.RequestObject{}, fmt.Errorf("openid4vp: signing the request: %w", err)
	}
	return method.RequestObject{ContentType: "application/oauth-authz-req+jwt",
		Body: []byte(message + "." + encoded(signature))}, nil
}

// credential asks the browser (ISO/IEC 18013-7, annex C). That protocol has no alternatives, so the wallet is
// asked for each element that can decide, and sends those that the document has.
func (o *openID) credential(s method.Session, q question) *method.Credential {
	p := o.settings.profile
	return &method.Credential{Protocol: browserProtocol, Data: asJSON(map[string]string{
		"deviceRequest":  encoded(mdoc.DeviceRequest(p.doctype, p.namespace, p.names(s.MinimumAge))),
		"encryptionInfo": q.encryptionInfo(private(q.browserKey).PublicKey()),
	})}
}

// browserProtocol is the protocol of annex C.
const browserProtocol = "org-iso-mdoc"

// encryptionInfo tells a wallet that answers by way of the browser what to encrypt to.
func (q question) encryptionInfo(key *ecdh.PublicKey) string {
	return encoded(mdoc.EncryptionInfo(q.browserNonce, key))
}

// errNoHost says that the address of the service is not known.
var errNoHost = errors.New("openid4vp: the session does not say where the service is")

// origin returns the origin of the service's pages, as browsers write it.
func origin(s method.Session) (string, error) {
	u, err := url.Parse(s.ReturnURL)
	if err != nil || u.Host == "" {
		return "", errNoHost
	}
	host := u.Host
	if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		host = host[:len(host)-len(":"+port)]
	}
	return u.Scheme + "://" + host, nil
}
