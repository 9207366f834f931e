package mdoc_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

const av = "eu.europa.ec.av.1"

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// verifier is a service that asks for age_over_18. A test changes its request before a wallet reads it.
type verifier struct {
	t       *testing.T
	server  *httptest.Server
	request map[string]any
	header  map[string]any // of the signed request
	key     *ecdh.PrivateKey
	keyID   string

	signer      *ecdsa.PrivateKey // of requests
	certificate []byte
	mediaType   string

	got []url.Values
}

func newVerifier(t *testing.T) *verifier {
	t.Helper()
	v := &verifier{t: t, mediaType: "application/oauth-authz-req+jwt", keyID: "key-1"}
	v.server = httptest.NewServer(v)
	t.Cleanup(v.server.Close)
	v.server.URL = strings.Replace(v.server.URL, "127.0.0.1", "localhost", 1)
	var err error
	if v.key, err = ecdh.P256().GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	if v.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Verifier"},
		DNSNames:  []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true,
		IsCA: true,
	}
	v.certificate, err = x509.CreateCertificate(rand.Reader, template, template, &v.signer.PublicKey,
		v.signer)
	if err != nil {
		t.Fatal(err)
	}
	v.header = map[string]any{
		"typ": "oauth-authz-req+jwt", "x5c": []string{base64.StdEncoding.EncodeToString(v.certificate)},
	}
	v.request = map[string]any{
		"response_type": "vp_token", "response_mode": "direct_post", "response_uri": v.server.URL + "/box",
		"client_id": "redirect_uri:" + v.server.URL + "/box", "nonce": "nonce-0123456789abcdef",
		"state":      "state-1",
		"dcql_query": query(av, "age_over_18"),
	}
	return v
}

func query(docType string, elements ...string) map[string]any {
	var claims []any
	for _, e := range elements {
		claims = append(claims, map[string]any{"path": []string{docType, e}})
	}
	return map[string]any{"credentials": []any{map[string]any{
		"id": "proof", "format": "mso_mdoc", "meta": map[string]string{"doctype_value": docType},
		"claims": claims,
	}}}
}

// encrypted asks for an encrypted answer.
func (v *verifier) encrypted(encryptions ...string) {
	point := v.key.PublicKey().Bytes()
	metadata := map[string]any{"jwks": map[string]any{"keys": []any{map[string]string{
		"kty": "EC", "crv": "P-256", "use": "enc", "alg": "ECDH-ES", "kid": v.keyID,
		"x": encode(point[1:33]), "y": encode(point[33:]),
	}}}}
	if encryptions != nil {
		metadata["encrypted_response_enc_values_supported"] = encryptions
	}
	v.request["response_mode"], v.request["client_metadata"] = "direct_post.jwt", metadata
}

// byValue is the link with the whole request.
func (v *verifier) byValue() string {
	q := url.Values{}
	for name, value := range v.request {
		text, ok := value.(string)
		if !ok {
			b, err := json.Marshal(value)
			if err != nil {
				v.t.Fatal(err)
			}
			text = string(b)
		}
		q.Set(name, text)
	}
	return "av://?" + q.Encode()
}

// byReference is the link to the signed request.
func (v *verifier) byReference(clientID string) string {
	v.request["client_id"], v.request["aud"] = clientID, "https://self-issued.me/v2"
	q := url.Values{"client_id": {clientID}, "request_uri": {v.server.URL + "/request"}}
	return "openid4vp://?" + q.Encode()
}

func (v *verifier) hash() string {
	sum := sha256.Sum256(v.certificate)
	return "x509_hash:" + encode(sum[:])
}

func (v *verifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims(v.request))
		maps.Copy(token.Header, v.header)
		signed, err := token.SignedString(v.signer)
		if err != nil {
			v.t.Error(err)
		}
		w.Header().Set("Content-Type", v.mediaType)
		io.WriteString(w, signed)
		return
	}
	if err := r.ParseForm(); err != nil {
		v.t.Error(err)
	}
	v.got = append(v.got, r.PostForm)
	fmt.Fprintf(w, `{"redirect_uri":%q}`, v.server.URL+"/done")
}

// accept returns why the last response is no proof, "" if it proves the age.
func (v *verifier) accept(issuer *wallettest.Issuer, thumbprint []byte) string {
	v.t.Helper()
	form := v.got[len(v.got)-1]
	token, state := []byte(form.Get("vp_token")), form.Get("state")
	if jwe := form.Get("response"); jwe != "" {
		payload, err := mdoc.OpenJWE(jwe, v.key, v.keyID, false)
		if err != nil {
			return err.Error()
		}
		var inner struct {
			Token json.RawMessage `json:"vp_token"`
			State string
		}
		if err := json.Unmarshal(payload, &inner); err != nil {
			v.t.Fatal(err)
		}
		token, state = inner.Token, inner.State
	}
	var presentations map[string][]string
	err := json.Unmarshal(token, &presentations)
	if err != nil || len(presentations["proof"]) != 1 || state != "state-1" {
		v.t.Fatalf("vp_token %s, state %q, %v", token, state, err)
	}
	response, err := base64.RawURLEncoding.DecodeString(presentations["proof"][0])
	if err != nil {
		v.t.Fatal(err)
	}
	text := func(name string) string { return v.request[name].(string) }
	return verify(v.t, issuer, response,
		mdoc.OpenID4VPTranscript(text("client_id"), text("nonce"), thumbprint, text("response_uri")))
}

func verify(t *testing.T, issuer *wallettest.Issuer, response, transcript []byte) string {
	t.Helper()
	anchors, err := mdoc.ParseAnchors(issuer.PEM())
	if err != nil {
		t.Fatal(err)
	}
	p, err := mdoc.Verify(t.Context(), response, mdoc.Ask{
		DocType: av, Namespace: av, Elements: []string{"age_over_18"}, EKU: []string{wallettest.AgeSigner},
		Anchors: anchors, Transcript: transcript, Now: time.Now(),
		Verify: signing.Verify, Issued: new(mdoc.Issued),
	})
	if err != nil {
		return err.Error()
	}
	if adult, ok := p.Elements["age_over_18"].Bool(); !ok || !adult {
		return "the element is not true"
	}
	return ""
}

func TestAnswer(t *testing.T) {
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{})
	for _, c := range []struct {
		name      string
		encrypted bool
		link      func(v *verifier) string
	}{
		{"by value", false, func(v *verifier) string { return v.byValue() }},
		{"encrypted", true, func(v *verifier) string { v.encrypted(); return v.byValue() }},
		{"encrypted with A256GCM", true, func(v *verifier) string {
			v.encrypted("A192CBC", "A256GCM", "A128GCM")
			return v.byValue()
		}},
		{"signed, by the name of its host", false, func(v *verifier) string {
			return v.byReference("x509_san_dns:localhost")
		}},
		{"signed, by the certificate's hash, and encrypted", true, func(v *verifier) string {
			v.encrypted("A128GCM")
			return v.byReference(v.hash())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVerifier(t)
			reply, err := wallettest.New(issuer).Answer(t.Context(), c.link(v))
			if err != nil || reply.Status != http.StatusOK || reply.RedirectURI != v.server.URL+"/done" {
				t.Fatalf("reply %+v, %v", reply, err)
			}
			var thumbprint []byte
			if c.encrypted {
				thumbprint = mdoc.Thumbprint(v.key.PublicKey())
			}
			if why := v.accept(issuer, thumbprint); why != "" {
				t.Error(why)
			}
		})
	}
}

func TestDecline(t *testing.T) {
	v := newVerifier(t)
	w := wallettest.New(wallettest.NewIssuer(wallettest.IssuerConfig{}))
	if _, err := w.Decline(t.Context(), v.byValue()); err != nil {
		t.Fatal(err)
	}
	if got := v.got[0].Encode(); got != "error=access_denied&state=state-1" {
		t.Errorf("it posts %s", got)
	}
}

// Requests that a wallet rejects.
func TestOpenRejects(t *testing.T) {
	other := func(t *testing.T) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(wallettest.NewIssuer(wallettest.IssuerConfig{}).Root)
		return pool
	}
	set := func(name string, value any) func(*verifier) string {
		return func(v *verifier) string { v.request[name] = value; return v.byValue() }
	}
	for name, c := range map[string]struct {
		link      func(*verifier) string
		verifiers func(*testing.T) *x509.CertPool
		want      string
	}{
		"an unsigned request with another's client_id": {set("client_id", "x509_san_dns:localhost"), nil,
			"client_id"},
		"an unsigned request without a prefix": {set("client_id", "http://localhost/box"), nil,
			"client_id"},
		"no nonce":              {set("nonce", ""), nil, "nonce"},
		"another response_type": {set("response_type", "code"), nil, "response_type"},
		"another response_mode": {set("response_mode", "fragment"), nil,
			"response_mode"},
		"a query for another": {set("dcql_query", query(av, "age_over_99")), nil,
			"none of the sets"},
		"no query": {set("dcql_query", map[string]any{}), nil, "mso_mdoc"},
		"a key is missing": {set("response_mode", "direct_post.jwt"), nil,
			"client_metadata"},
		"a link that is no link": {func(*verifier) string { return "av://%zz" }, nil,
			"link"},
		"a parameter twice": {func(v *verifier) string { return v.byValue() + "&nonce=other" }, nil,
			"nonce twice"},
		"another name in the link": {func(v *verifier) string {
			link := v.byReference("x509_san_dns:localhost")
			v.request["client_id"] = v.hash()
			return link
		}, nil, "in the link"},
		"a host that is not the certificate's": {func(v *verifier) string {
			return v.byReference("x509_san_dns:verify.example")
		}, nil, "the certificate"},
		"a hash that is not the certificate's": {
			func(v *verifier) string { return v.byReference("x509_hash:AAAA") }, nil,
			"the certificate"},
		"an unknown prefix": {func(v *verifier) string { return v.byReference("did:example:1") },
			nil, "knows"},
		"another type of token": {func(v *verifier) string {
			v.header["typ"] = "JWT"
			return v.byReference(v.hash())
		}, nil, "typ"},
		"another media type": {func(v *verifier) string {
			v.mediaType = "application/json"
			return v.byReference(v.hash())
		}, nil, "application/json"},
		"no certificate": {func(v *verifier) string {
			v.header["x5c"] = []string{}
			return v.byReference(v.hash())
		}, nil, "x5c"},
		"a signature by another key": {func(v *verifier) string {
			v.signer, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			return v.byReference(v.hash())
		}, nil, "signature"},
		"another audience": {func(v *verifier) string {
			link := v.byReference(v.hash())
			v.request["aud"] = "https://wallet.example"
			return link
		}, nil, "aud"},
		"an authority that is not accepted": {func(v *verifier) string { return v.byReference(v.hash()) },
			other, "unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVerifier(t)
			w := wallettest.New(wallettest.NewIssuer(wallettest.IssuerConfig{}))
			if c.verifiers != nil {
				w.Verifiers = c.verifiers(t)
			}
			r, err := w.Open(t.Context(), c.link(v))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, error %v, want one about %q", r, err, c.want)
			}
		})
	}
}

// The wallet takes the first set of claims that it has.
func TestClaimSets(t *testing.T) {
	v := newVerifier(t)
	q := query(av, "age_over_18", "age_over_25")
	credential := q["credentials"].([]any)[0].(map[string]any)
	for i, claim := range credential["claims"].([]any) {
		claim.(map[string]any)["id"] = fmt.Sprint(i)
	}
	credential["claim_sets"] = [][]string{{"1"}, {"0"}}
	v.request["dcql_query"] = q
	w := wallettest.New(wallettest.NewIssuer(wallettest.IssuerConfig{}))
	r, err := w.Open(t.Context(), v.byValue())
	if err != nil || fmt.Sprint(r.Elements) != "[age_over_18]" {
		t.Fatalf("%+v, %v", r, err)
	}
	w.Elements["age_over_25"] = true
	if r, err = w.Open(t.Context(), v.byValue()); err != nil || fmt.Sprint(r.Elements) != "[age_over_25]" {
		t.Fatalf("%+v, %v", r, err)
	}
}

func TestCredential(t *testing.T) {
	const origin = "https://verify.example"
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	info := encode(mdoc.EncryptionInfo(make([]byte, 16), key.PublicKey()))
	items := mdoc.Items{DocType: av, Namespace: av, Elements: []string{"age_over_18"}}
	data, err := json.Marshal(map[string]string{
		"deviceRequest":  encode(mdoc.DeviceRequest(items, nil)),
		"encryptionInfo": info,
	})
	if err != nil {
		t.Fatal(err)
	}
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{})
	w := wallettest.New(issuer)
	open := func(changes ...func(*wallettest.Presentation)) string {
		t.Helper()
		answer, err := w.Credential(origin, "org-iso-mdoc", data, changes...)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Response string }
		if err := json.Unmarshal(answer, &got); err != nil {
			t.Fatal(err)
		}
		sealed, err := base64.RawURLEncoding.DecodeString(got.Response)
		if err != nil {
			t.Fatal(err)
		}
		transcript := mdoc.DCAPITranscript(info, origin)
		response, err := mdoc.OpenHPKE(sealed, key, transcript)
		if err != nil {
			return err.Error()
		}
		return verify(t, issuer, response, transcript)
	}
	if why := open(); why != "" {
		t.Error(why)
	}
	why := open(func(p *wallettest.Presentation) { p.Session.Origin = "https://evil.example" })
	if !strings.Contains(why, "hpke_not_opened") {
		t.Errorf("a response to another origin: %q", why)
	}
	why = open(func(p *wallettest.Presentation) { p.Set("age_over_18", false) })
	if why != "the element is not true" {
		t.Errorf("an element that is false: %q", why)
	}
	if _, err := w.Credential(origin, "openid4vp-v1-unsigned", data); err == nil {
		t.Error("another protocol is accepted")
	}
}
