package openid4vp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// keyID is the id of the response's encryption key in a request.
const keyID = "1"

// link returns the address that opens a wallet with the request, on this device or, as a QR code, on another.
// It is "" for a State that is none, which the core never hands out.
func (o *openID) link(s method.Session, q pendingRequest, same bool) string {
	uri, channel := address(s.ResponseURI, same), linkTo(same)
	client, err := o.client(uri)
	if err != nil {
		return ""
	}
	if o.settings.byReference {
		query := url.Values{"client_id": {client}, "request_uri": {uri}}
		if o.settings.profile.version == "" { // the Swiss profile has GET only
			query.Set("request_uri_method", "post")
		}
		return o.settings.scheme + "?" + query.Encode()
	}
	query := url.Values{}
	for _, p := range o.parameters(s, q, channel, client, uri) {
		text := p.json
		if text == nil {
			text = []byte(p.text)
		}
		query.Set(p.name, string(text))
	}
	return o.settings.scheme + "?" + query.Encode()
}

// client returns the client id of the service in a request by link. Its prefix tells a wallet how to verify
// the client (OpenID4VP 1.0, 5.9).
func (o *openID) client(uri string) (string, error) {
	if !o.settings.byReference {
		return "redirect_uri:" + uri, nil
	}
	return o.certified(uri)
}

// certified returns the client id that the certificate of signed requests proves, or the DID of their key.
// uri is any address of the service.
func (o *openID) certified(uri string) (string, error) {
	if id := o.settings.signer.id; id != "" {
		did, _, _ := strings.Cut(id, "#")
		return byDID + ":" + did, nil
	}
	leaf := o.settings.signer.chain[0]
	if o.settings.hash {
		hash := sha256.Sum256(leaf.Raw)
		return byHash + ":" + encoded(hash[:]), nil
	}
	u, err := url.Parse(uri)
	if err != nil || !slices.Contains(leaf.DNSNames, u.Hostname()) {
		return "", &method.SettingError{Reason: "certificate_host", Setting: certificateName + "_file",
			Err: fmt.Errorf("openid4vp: the certificate is for %q and not for the host of base_url; get a "+
				"certificate for it, or set %s = %q", leaf.DNSNames, prefixName, byHash)}
	}
	return byHost + ":" + u.Hostname(), nil
}

// parameter is one of a request: a text, or JSON.
type parameter struct {
	name, text string
	json       []byte
}

// parameters returns the request by link. Its verifier_info is a part of signed requests only: a QR code has
// no room for it.
func (o *openID) parameters(s method.Session, q pendingRequest, channel, client, uri string) []parameter {
	mode := "direct_post"
	if o.settings.encrypted {
		mode = "direct_post.jwt"
	}
	return append(o.asked(q, channel),
		parameter{name: "response_mode", text: mode},
		parameter{name: "client_id", text: client},
		parameter{name: "response_uri", text: uri},
		parameter{name: "state", text: q.state()})
}

// asked returns the parameters that every request has.
func (o *openID) asked(q pendingRequest, channel string) []parameter {
	return []parameter{
		{name: "response_type", text: "vp_token"},
		{name: "nonce", text: encoded(q.nonce(channel))},
		{name: "dcql_query", json: o.query(q.age)},
		{name: "client_metadata", json: o.metadata(q, channel)},
	}
}

// query asks for the elements that prove an age, in DCQL (OpenID4VP 1.0, 6): for one document in one of the
// formats, and for one element of it, the first if the wallet has it.
func (o *openID) query(age int) []byte {
	p := o.settings.profile
	query := struct {
		Credentials []credential `json:"credentials"`
		Sets        []options    `json:"credential_sets,omitempty"`
	}{}
	var choice options
	for _, format := range o.settings.formats {
		c := credential{ID: p.credentialIn(format), Format: format,
			Meta: map[string]any{"doctype_value": p.doctype}}
		if format == sdJWTFormat {
			c.Meta = map[string]any{"vct_values": o.settings.types}
		}
		if format == zkFormat {
			c.Meta["zk_system_type"] = o.settings.systems()
		}
		c.ask(p.elements(format, age))
		query.Credentials = append(query.Credentials, c)
		choice.Options = append(choice.Options, []string{c.ID})
	}
	if len(query.Credentials) > 1 {
		query.Sets = []options{choice}
	}
	return asJSON(query)
}

// options are a Credential Set Query: the wallet presents one of these sets of credentials.
type options struct {
	Options [][]string `json:"options"`
}

// credential is a Credential Query.
type credential struct {
	ID     string         `json:"id"`
	Format string         `json:"format"`
	Meta   map[string]any `json:"meta"`
	Claims []claim        `json:"claims"`
	Sets   [][]string     `json:"claim_sets,omitempty"`
}

type claim struct {
	ID   string   `json:"id,omitempty"`
	Path []string `json:"path"`
}

// ask asks for one of the elements.
func (c *credential) ask(elements []element) {
	for _, e := range elements {
		asked := claim{Path: e.path}
		if len(elements) > 1 {
			asked.ID = strings.ReplaceAll(e.name, ".", "_") // an id has no dots
			c.Sets = append(c.Sets, []string{asked.ID})
		}
		c.Claims = append(c.Claims, asked)
	}
}

// metadata returns the supported formats, and the key for the encryption of the response.
func (o *openID) metadata(q pendingRequest, channel string) []byte {
	formats := map[string]any{}
	for _, format := range o.settings.formats {
		if format == sdJWTFormat {
			algorithms := mdoc.JWSAlgorithms()
			formats[format] = map[string]any{"sd-jwt_alg_values": algorithms, "kb-jwt_alg_values": algorithms}
			continue
		}
		algorithms := mdoc.Algorithms()
		if format == zkFormat {
			algorithms = []int64{-7} // the circuits have ES256 alone
		}
		formats[format] = map[string]any{"issuerauth_alg_values": algorithms,
			"deviceauth_alg_values": algorithms}
	}
	m := map[string]any{"vp_formats_supported": formats}
	if !isLink(channel) || o.settings.byReference {
		for name, value := range o.settings.metadata {
			m[name] = value
		}
	}
	if o.settings.encrypted {
		point := q.key(channel).PublicKey().Bytes() // 4, x, y
		m["jwks"] = map[string]any{"keys": []map[string]string{{"kty": "EC", "use": "enc", "crv": "P-256",
			"alg": "ECDH-ES", "kid": keyID, "x": encoded(point[1:33]), "y": encoded(point[33:])}}}
		m["encrypted_response_enc_values_supported"] = o.settings.profile.encryption
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

// Parameters of a POST that fetches the request object (OpenID4VP 1.0, 5.10). responseParams has the
// parameters of responses.
const (
	walletNonce    = "wallet_nonce"
	walletMetadata = "wallet_metadata"
)

// maxWalletNonce is the maximum number of bytes of a wallet_nonce. Wallets send 16 to 64.
const maxWalletNonce = 256

// Fetches implements method.Requester. A response has one of its parameters. A request has none of them,
// but its own parameters, which are optional, or the Accept header of request objects. Without parameters it
// needs no Content-Type, because it has no content.
func (o *openID) Fetches(c method.Call) bool {
	isForm := web.MediaType(c.ContentType) == formType || c.ContentType == "" && len(c.Body) == 0
	if !o.settings.byReference || !isForm {
		return false
	}
	names := map[string]bool{} // Request and Receive check their values
	for pair := range strings.SplitSeq(string(c.Body), "&") {
		escaped, _, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(escaped); err == nil {
			names[name] = true
		}
	}
	isResponse := slices.ContainsFunc(responseParams, func(name string) bool { return names[name] })
	return !isResponse && (names[walletNonce] || names[walletMetadata] ||
		strings.Contains(strings.ToLower(c.Accept), requestType))
}

// requestType is the media type of request objects.
const requestType = "application/oauth-authz-req+jwt"

// Request implements method.Requester: it signs the request (RFC 9101). The nonce is derived from the
// pending request, so a request that is fetched twice is the same, and one response counts. A wallet that
// fetches it by POST may add its own nonce. Its wallet_metadata is not used: the request is signed by
// ES256, which every wallet knows, and is not encrypted.
func (o *openID) Request(ctx context.Context, s method.Session, state []byte, c method.Call) (
	method.RequestObject, error) {
	if !o.settings.byReference || !c.Same && !o.settings.crossDevice {
		return method.RequestObject{}, method.ErrStep
	}
	q, err := o.readPendingRequest(state, s.MinimumAge)
	if err != nil {
		return method.RequestObject{}, err
	}
	nonce, err := nonceOf(c.Body)
	if err != nil {
		return method.RequestObject{}, err
	}
	uri := address(s.ResponseURI, c.Same)
	client, err := o.client(uri)
	if err != nil {
		return method.RequestObject{}, err
	}
	parameters := o.parameters(s, q, linkTo(c.Same), client, uri)
	if nonce != "" {
		parameters = append(parameters, parameter{name: walletNonce, text: nonce})
	}
	message := o.toSign(parameters)
	signature, err := o.host.Sign(ctx, o.settings.signer.key, algorithm, message)
	if err != nil {
		return method.RequestObject{}, fmt.Errorf("openid4vp: signing the request: %w", err)
	}
	return method.RequestObject{ContentType: requestType, Body: compact(message, signature)}, nil
}

// nonceOf returns the wallet_nonce of a POST, or "". The error is a *method.Rejection.
func nonceOf(body []byte) (string, error) {
	form, err := formdata.ReadParameters(string(body), walletNonce)
	if err != nil {
		return "", rejected(walletNonce)
	}
	if !form.Has(walletNonce) {
		return "", nil
	}
	nonce := form.Get(walletNonce)
	printable := strings.IndexFunc(nonce, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if nonce == "" || len(nonce) > maxWalletNonce || !printable {
		return "", rejected(walletNonce)
	}
	return nonce, nil
}

// toSign returns the signing input of a request object (RFC 7515, 5.1), with the certificates of its key, or
// the id of the key.
func (o *openID) toSign(parameters []parameter) []byte {
	header := map[string]any{"alg": algorithm, "typ": "oauth-authz-req+jwt"}
	if o.settings.signer.id != "" {
		header["kid"] = o.settings.signer.id
	} else {
		var chain []string
		for _, der := range o.settings.signer.sent() {
			chain = append(chain, base64.StdEncoding.EncodeToString(der))
		}
		header["x5c"] = chain
	}
	if version := o.settings.profile.version; version != "" {
		header["profile_version"] = version
	}
	claims := map[string]any{"aud": "https://self-issued.me/v2"}
	for _, p := range parameters {
		if p.json != nil {
			claims[p.name] = json.RawMessage(p.json)
		} else {
			claims[p.name] = p.text
		}
	}
	if o.settings.verifierInfo != nil {
		claims[verifierInfoName] = json.RawMessage(o.settings.verifierInfo)
	}
	return []byte(encoded(asJSON(header)) + "." + encoded(asJSON(claims)))
}

// compact returns a JWS in its compact form.
func compact(message, signature []byte) []byte {
	return []byte(string(message) + "." + encoded(signature))
}
