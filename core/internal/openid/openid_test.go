package openid

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const (
	baseURL = "https://verify.verge.example"

	discoveryPath = Path + "/.well-known/openid-configuration"
	jwksPath      = Path + "/jwks"
	authorizePath = Path + "/authorize"
	tokenPath     = Path + "/token"
	userinfoPath  = Path + "/userinfo"

	client   = testhost.UUID
	other    = testhost.Other // of another publisher
	redirect = "https://shop.example/oidc/callback?shop=1"
	second   = "https://shop.example/other"
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // RFC 7636, appendix B
	digest   = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

var ctx = context.Background()

// fixture is a Provider on a test's host, with two clients of two publishers.
type fixture struct {
	*Provider
	*testhost.Host
	private *ecdsa.PrivateKey
	router  *router.Router
	commits int

	secret, publicKey, otherSecret string
}

// keys returns a private key, and it as a host and a configuration have it.
func keys(t testing.TB) (private *ecdsa.PrivateKey, file []byte, public string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	coretest.Must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	coretest.Must(t, err)
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	coretest.Must(t, err)
	return private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		base64.StdEncoding.EncodeToString(spki)
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h}
	private, file, public := keys(t)
	signer, err := signing.Open(map[string]string{KeyName(1): "1"},
		func(string) ([]byte, error) { return file, nil }, "")
	coretest.Must(t, err)
	w.private, h.Host.Sign = private, signer.Sign
	life := &lifecycle.Lifecycle{Host: h.Host, Attempts: 3, OutcomeLife: time.Hour}
	directory := integration.NewDirectory(h.Host)
	results := &result.Tokens{Host: h.Host, Lifecycle: life}
	a := &api.API{Host: h.Host, BaseURL: baseURL, Partitions: 1, Directory: directory, Lifecycle: life,
		Results: results, Limits: web.Limits{}.WithDefaults(),
		Methods: h.Opened(testhost.Catalog(sandbox.Kind))}
	parsed, err := ParseKeys([]string{public})
	coretest.Must(t, err)
	w.Provider = &Provider{Host: h.Host, BaseURL: baseURL, API: a, Directory: directory, Results: results,
		Keys: parsed}
	for n, id := range []string{client, other} {
		publisher := []string{"pub_a", "pub_b"}[n]
		coretest.Must(t, directory.PutPublisher(ctx, integration.Publisher{ID: publisher}))
		coretest.Must(t, directory.PutIntegration(ctx, integration.Integration{ID: id,
			PublisherID: publisher, Level: "L1", ChallengeAge: 25, Method: sandbox.Name,
			Webhook: integration.Webhook{Off: true}, RedirectURIs: []string{redirect, second},
			CallbackOrigins: []string{"https://shop.example"}}, ""))
	}
	w.secret, w.publicKey = w.key(t, "pub_a", ""), w.key(t, "pub_a", client)
	w.otherSecret = w.key(t, "pub_b", "")
	w.router = &router.Router{Host: h.Host, Limiter: &ratelimit.Limiter{Store: ratelimit.NewLocal(0)},
		Routes: w.Routes()}
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			w.commits++
		}
		return kvtest.Pass
	}
	return w
}

func (w *fixture) key(t testing.TB, publisher, of string) string {
	t.Helper()
	text, _, err := w.Directory.CreateKey(ctx, publisher, of, nil)
	coretest.Must(t, err)
	return text
}

// values returns parameters, given as name, value, name, value. The value "-" leaves a parameter out.
func values(base url.Values, changes ...string) url.Values {
	v := url.Values{}
	for name, list := range base {
		v[name] = slices.Clone(list)
	}
	for n := 0; n < len(changes); n += 2 {
		if v.Set(changes[n], changes[n+1]); changes[n+1] == "-" {
			v.Del(changes[n])
		}
	}
	return v
}

// authorization returns the parameters of a good authorization request.
func authorization(changes ...string) url.Values {
	return values(url.Values{"client_id": {client}, "redirect_uri": {redirect}, "response_type": {"code"},
		"scope": {"openid profile"}, "state": {"s t/1"}, "nonce": {"n-0S6_WzA2Mj"},
		"code_challenge": {digest}, "code_challenge_method": {"S256"}}, changes...)
}

func (w *fixture) send(method, path, text string, header web.Header) *web.Response {
	req := &web.Request{Method: method, Path: path, Header: web.Header{},
		Client: netip.MustParseAddr("192.0.2.1")}
	if method == "POST" {
		req.Body, req.Header["Content-Type"] = []byte(text), []string{"application/x-www-form-urlencoded"}
	} else {
		req.Query = text
	}
	maps.Copy(req.Header, header)
	return w.router.Serve(ctx, req)
}

// start sends an authorization request and returns the claims of the flow token.
func (w *fixture) start(t testing.TB, request url.Values) token.FlowClaims {
	t.Helper()
	resp := w.send("GET", authorizePath, request.Encode(), nil)
	flow, ok := strings.CutPrefix(resp.Header.Get("Location"), baseURL+web.HostedPath+"?flow=")
	if resp.Status != 303 || !ok {
		t.Fatalf("authorize: %d, %v, %s", resp.Status, resp.Header, resp.Body)
	}
	claims, _, err := token.OpenFlow(w.Provider.Sealer, flow)
	coretest.Must(t, err)
	return claims
}

// finish ends the session of a request as the hosted pages do, and returns the parameters of its return.
func (w *fixture) finish(t testing.TB, claims token.FlowClaims) url.Values {
	t.Helper()
	id, err := session.ParseID(w.Provider.Sealer, claims.Session)
	coretest.Must(t, err)
	i, err := w.Directory.Integration(ctx, id.Integration)
	coretest.Must(t, err)
	s := lifecycle.Session{ID: id, Text: claims.Session, Integration: i, OpenID: len(claims.OpenID) > 0}
	_, err = w.Results.Lifecycle.Fire(ctx, s, lifecycle.Step{Trigger: session.Succeeded})
	coretest.Must(t, err)
	r, version, err := w.Results.Lifecycle.Load(ctx, id)
	coretest.Must(t, err)
	result, err := w.Results.Claims(ctx, s, r, version, w.Clock.Now())
	coretest.Must(t, err)
	to, err := Callback(w.Provider.Sealer, baseURL, &claims, result, r.Age, w.Clock.Now())
	coretest.Must(t, err)
	back, err := url.Parse(to)
	coretest.Must(t, err)
	return back.Query()
}

func (w *fixture) denied(t testing.TB, changes ...string) string {
	t.Helper()
	claims := w.start(t, authorization(changes...))
	return Denied(baseURL, &claims)
}

// tokens is the body of a token response.
type tokens struct {
	AccessToken string `json:"access_token"`
	IDToken     string `json:"id_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
}

// code completes a good request, changed as authorization does, and returns its code.
func (w *fixture) code(t testing.TB, changes ...string) string {
	t.Helper()
	return w.finish(t, w.start(t, authorization(changes...))).Get("code")
}

// exchange returns the parameters of a good token request.
func (w *fixture) exchange(code string, changes ...string) url.Values {
	return values(url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {client},
		"redirect_uri": {redirect}, "code_verifier": {verifier}, "client_secret": {w.secret}}, changes...)
}

func basic(id, secret string) web.Header {
	return web.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))}}
}

func errorOf(t testing.TB, r *web.Response) string {
	t.Helper()
	var body struct{ Error string }
	coretest.Must(t, json.Unmarshal(r.Body, &body))
	return body.Error
}

func TestProvider_Success(t *testing.T) {
	w := newFixture(t)
	began := w.Clock.Now()
	claims := w.start(t, authorization("ui_locales", "xx de-CH en"))
	if claims.Language != "de" || string(claims.Callback) != redirect || *claims.StateText() != "s t/1" {
		t.Errorf("contract 50: the flow token has %+v", claims)
	}
	back := w.finish(t, claims)
	if back.Get("state") != "s t/1" || back.Get("iss") != baseURL+"/oidc" || back.Get("shop") != "1" ||
		back.Has("result_token") || back.Has("session_id") || len(back) != 4 {
		t.Fatalf("contract 50: the return has %v", back)
	}
	resp := w.send("POST", tokenPath, w.exchange(back.Get("code"), "client_secret", "-").Encode(),
		basic(client, w.secret))
	if resp.Status != 200 || resp.Header.Get("Cache-Control") != "no-store" ||
		resp.Header.Get("Pragma") != "no-cache" {
		t.Fatalf("RFC 6749, 5.1: %d, %v, %s", resp.Status, resp.Header, resp.Body)
	}
	var got tokens
	coretest.Must(t, json.Unmarshal(resp.Body, &got))
	var id jwt.MapClaims
	parsed, err := jwt.ParseWithClaims(got.IDToken, &id, func(tk *jwt.Token) (any, error) {
		if tk.Header["kid"] != w.Keys[0].id {
			return nil, errors.New("another key")
		}
		return w.private.Public(), nil
	}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithTimeFunc(w.Clock.Now), jwt.WithAudience(client),
		jwt.WithIssuer(baseURL+"/oidc"), jwt.WithExpirationRequired())
	if err != nil || !parsed.Valid {
		t.Fatalf("contract 50: the ID token: %v", err)
	}
	for name, want := range map[string]any{"nonce": "n-0S6_WzA2Mj", "acr": "L1", "session_id": claims.Session,
		"auth_time": float64(began.Unix()), "exp": float64(w.Clock.Now().Add(grantLife).Unix())} {
		if id[name] != want {
			t.Errorf("contract 50: %s is %v, want %v", name, id[name], want)
		}
	}
	if ages, _ := json.Marshal(id["age_equal_or_over"]); string(ages) != `{"18":true}` {
		t.Errorf("contract 50: age_equal_or_over is %s", ages)
	}
	if len(id) != 10 {
		t.Errorf("contract 50: the ID token has other claims: %v", id)
	}
	info := w.send("GET", userinfoPath, "", web.Header{"Authorization": {"Bearer " + got.AccessToken}})
	var claimsOf map[string]any
	coretest.Must(t, json.Unmarshal(info.Body, &claimsOf))
	if info.Status != 200 || claimsOf["sub"] != id["sub"] || claimsOf["acr"] != "L1" || len(claimsOf) != 5 {
		t.Errorf("contract 50: userinfo: %d %s", info.Status, info.Body)
	}
	head := w.send("HEAD", userinfoPath, "", web.Header{"Authorization": {"Bearer " + got.AccessToken}})
	if head.Status != info.Status {
		t.Errorf("contract 5: HEAD of userinfo: %d, and GET %d", head.Status, info.Status)
	}
	w.Clock.Advance(grantLife)
	info = w.send("GET", userinfoPath, "", web.Header{"Authorization": {"Bearer " + got.AccessToken}})
	if info.Status != 401 || errorOf(t, info) != "invalid_token" {
		t.Errorf("contract 50: userinfo after 5 minutes: %d %s", info.Status, info.Body)
	}
}

func TestRoutes_Methods(t *testing.T) {
	w := newFixture(t)
	keys := w.Keys
	for _, c := range []struct{ name, method, path, allow string }{
		{"contract 5: GET of authorize acts, so it has no HEAD", "HEAD", "/authorize", "GET, POST"},
		{"contract 5: OPTIONS of authorize", "OPTIONS", "/authorize", "GET, POST"},
		{"contract 5: GET of a token", "GET", "/token", "POST"},
		{"contract 7: OPTIONS of a token", "OPTIONS", "/token", "POST"},
		{"contract 5: POST of the keys", "POST", "/jwks", "GET, HEAD"},
		{"contract 5: PUT of the document", "PUT", "/.well-known/openid-configuration", "GET, HEAD"},
		{"contract 5: PUT of userinfo", "PUT", "/userinfo", "GET, HEAD, POST"},
		{"contract 5, 404: OPTIONS of another path", "OPTIONS", "/logout", ""},
		{"contract 5, 404: GET of another path", "GET", "/token/", ""},
	} {
		want := 405
		if c.allow == "" {
			want = 404
		}
		w.Keys = keys
		if r := w.send(c.method, Path+c.path, "", nil); r.Status != want || r.Header.Get("Allow") != c.allow {
			t.Errorf("%s: %d, Allow %q", c.name, r.Status, r.Header.Get("Allow"))
		}
		w.Keys = nil
		if r := w.send(c.method, Path+c.path, "", nil); r.Status != 404 {
			t.Errorf("contract 50: without keys: %s: %d", c.name, r.Status)
		}
	}
}

// Every session has its own subject.
func TestSubject(t *testing.T) {
	w := newFixture(t)
	one, two := w.start(t, authorization()), w.start(t, authorization())
	if subjectOf(one.Session) == subjectOf(two.Session) || subjectOf(one.Session) == "" {
		t.Error("contract 50: two sessions have one subject")
	}
}

// The age is the minimum at the time of the verdict, even if the integration changes afterwards.
func TestAge_OfTheVerdict(t *testing.T) {
	w := newFixture(t)
	code := w.code(t)
	i, err := w.Directory.ReadIntegration(ctx, client)
	coretest.Must(t, err)
	raised := i.Value
	raised.MinimumAge = 21
	coretest.Must(t, w.Directory.PutIntegration(ctx, raised, ""))
	w.Clock.Advance(10 * time.Second) // longer than the cache
	resp := w.send("POST", tokenPath, w.exchange(code).Encode(), nil)
	var got tokens
	coretest.Must(t, json.Unmarshal(resp.Body, &got))
	_, rest, _ := strings.Cut(got.IDToken, ".")
	payload, _, _ := strings.Cut(rest, ".")
	claims, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || !strings.Contains(string(claims), `"age_equal_or_over":{"18":true}`) {
		t.Errorf("contract 50: %s, %v", claims, err)
	}
}

func TestKeys(t *testing.T) {
	_, _, good := keys(t)
	_, _, next := keys(t)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	coretest.Must(t, err)
	long, err := x509.MarshalPKIXPublicKey(p384.Public())
	coretest.Must(t, err)
	der, _ := base64.StdEncoding.DecodeString(good)
	der[len(der)-1] ^= 1
	for _, c := range []struct {
		name  string
		texts []string
	}{
		{"not base64", []string{"%"}}, {"empty", []string{""}}, {"a second one is bad", []string{good, "x"}},
		{"P-384", []string{base64.StdEncoding.EncodeToString(long)}},
		{"not on the curve", []string{base64.StdEncoding.EncodeToString(der)}},
		{"twice", []string{good, good}}, {"twice, with another between", []string{good, next, good}},
		{"too many", slices.Repeat([]string{good}, maxKeys+1)},
	} {
		if k, err := ParseKeys(c.texts); err == nil || k != nil {
			t.Errorf("contract 50: %s: %v, %v", c.name, k, err)
		}
	}
	k, err := ParseKeys([]string{good, next})
	if err != nil || len(k) != 2 || KeyName(2) != "oidc-provider_2" {
		t.Errorf("contract 50: %v, %v", k, err)
	}
}

func TestDocuments(t *testing.T) {
	w := newFixture(t)
	resp := w.send("GET", discoveryPath, "", nil)
	var d map[string]any
	coretest.Must(t, json.Unmarshal(resp.Body, &d))
	for name, path := range map[string]string{"issuer": Path, "authorization_endpoint": authorizePath,
		"token_endpoint": tokenPath, "userinfo_endpoint": userinfoPath, "jwks_uri": jwksPath} {
		if d[name] != baseURL+path {
			t.Errorf("contract 50: %s is %v", name, d[name])
		}
	}
	if d["authorization_response_iss_parameter_supported"] != true {
		t.Error("RFC 9207: the issuer in responses is not announced")
	}
	for _, name := range []string{"end_session_endpoint", "backchannel_logout_supported",
		"frontchannel_logout_supported", "check_session_iframe", "registration_endpoint",
		"introspection_endpoint", "revocation_endpoint"} {
		if _, has := d[name]; has {
			t.Errorf("contract 50: %s is announced and does not exist", name)
		}
	}
	set := w.send("GET", jwksPath, "", nil)
	if strings.Contains(string(set.Body), `"d"`) || !strings.Contains(string(set.Body), w.Keys[0].id) {
		t.Errorf("contract 50: the key set is %s", set.Body)
	}
	for _, path := range []string{discoveryPath, jwksPath} {
		resp := w.send("GET", path, "", nil)
		if resp.Header.Get("Cache-Control") != "public, max-age=300" {
			t.Errorf("contract 50: %s is not cached: %v", path, resp.Header)
		}
	}
	w.Keys = nil
	for _, path := range []string{discoveryPath, jwksPath, authorizePath, userinfoPath} {
		if resp := w.send("GET", path, "", nil); resp.Status != 404 {
			t.Errorf("contract 50: %s without a key: %d", path, resp.Status)
		}
	}
}

// The user who goes back without a success takes an error along, with state and issuer.
func TestDenied(t *testing.T) {
	w := newFixture(t)
	back, err := url.Parse(w.denied(t))
	coretest.Must(t, err)
	q := back.Query()
	if q.Get("error") != "access_denied" || q.Get("state") != "s t/1" || q.Get("iss") != baseURL+"/oidc" ||
		q.Has("code") || !strings.HasPrefix(back.String(), redirect+"&") {
		t.Errorf("contract 50: %s", back)
	}
	back, err = url.Parse(w.denied(t, "state", "-"))
	if err != nil || back.Query().Has("state") {
		t.Errorf("contract 50: a state that no one gave: %s, %v", back, err)
	}
}

// If the key cannot sign, the code is not used.
func TestToken_SigningFails(t *testing.T) {
	w := newFixture(t)
	code := w.code(t)
	sign := w.Provider.Sign
	w.Provider.Sign = func(context.Context, string, string, []byte) ([]byte, error) {
		return nil, errors.New("no key")
	}
	if resp := w.send("POST", tokenPath, w.exchange(code).Encode(), nil); resp.Status != 503 {
		t.Errorf("contract 50: without a key: %d %s", resp.Status, resp.Body)
	}
	w.Provider.Sign = sign
	if resp := w.send("POST", tokenPath, w.exchange(code).Encode(), nil); resp.Status != 200 {
		t.Errorf("contract 50: with the key again: %d %s", resp.Status, resp.Body)
	}
}

func TestStoreError(t *testing.T) {
	w := newFixture(t)
	code := w.code(t)
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Method == "Commit" {
			return kvtest.LoseRequest
		}
		return kvtest.Pass
	}
	resp := w.send("POST", tokenPath, w.exchange(code).Encode(), nil)
	if resp.Status != 503 || strings.Contains(string(resp.Body), "id_token") {
		t.Errorf("contract 50: %d %s", resp.Status, resp.Body)
	}
}
