package conformance_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

const redirectURI = "https://shop.example/oidc?shop=1"

// newProvider returns a harness with an OpenID provider that has two keys, and with a client.
func newProvider(t *testing.T) *testharness.Harness {
	t.Helper()
	keys := map[string][]byte{}
	for n := range 2 {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		der, err := x509.MarshalPKCS8PrivateKey(private)
		must(err)
		keys[core.ProviderKeyName(n+1)] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	h := newHarness(t, &opts{Keys: keys})
	h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) {
		i.RedirectURIs = []string{redirectURI}
	})
	return h
}

// authorize sends an authorization request, and returns the session's page.
func authorize(t *testing.T, h *testharness.Harness) *testharness.Page {
	t.Helper()
	q := url.Values{"client_id": {h.Publisher.L1.ID}, "redirect_uri": {redirectURI}, "scope": {"openid"},
		"response_type": {"code"}, "state": {"q7"}, "nonce": {"n1"}}
	r := h.Do("GET", "/oidc/authorize?"+q.Encode(), nil, nil)
	if r.Status != 303 || !strings.HasPrefix(r.Header.Get("Location"), h.BaseURL+"/verify?flow=") {
		t.Fatalf("contract 50: %d, %v, %s", r.Status, r.Header, r.Body)
	}
	return h.Open(r.Header.Get("Location"))
}

// keyOf returns the key of an ID token in the published key set.
func keyOf(h *testharness.Harness, id any) *ecdsa.PublicKey {
	set, _ := h.Do("GET", "/oidc/jwks", nil, nil).JSON()["keys"].([]any)
	for _, k := range set {
		if jwk := k.(map[string]any); jwk["kid"] == id {
			x, _ := base64.RawURLEncoding.DecodeString(jwk["x"].(string))
			y, _ := base64.RawURLEncoding.DecodeString(jwk["y"].(string))
			key, _ := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
			return key
		}
	}
	return nil
}

// A client's verification succeeds on every store and engine, and is a session like all others (contract 50).
func TestOpenIDProvider(t *testing.T) {
	h := newProvider(t)
	page := authorize(t, h).Submit("approve")
	back, err := url.Parse(page.Hop)
	must(err)
	if q := back.Query(); q.Get("state") != "q7" || q.Get("iss") != h.BaseURL+"/oidc" ||
		q.Get("shop") != "1" {
		t.Fatalf("contract 50: the browser goes to %s", page.Hop)
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")},
		"redirect_uri": {redirectURI}, "client_id": {h.Publisher.L1.ID},
		"client_secret": {h.Publisher.SecretKey}}
	exchange := func() *testharness.Response {
		return h.Do("POST", "/oidc/token", testharness.Headers("Content-Type",
			"application/x-www-form-urlencoded"), []byte(form.Encode()))
	}
	if r := h.Validate(back.Query().Get("code")); r.Code() != "INVALID_TOKEN" {
		t.Errorf("contract 15: validate with a code: %d %s", r.Status, r.Body)
	}
	r := exchange()
	var claims jwt.MapClaims
	_, err = jwt.ParseWithClaims(r.Text("id_token"), &claims, func(token *jwt.Token) (any, error) {
		return keyOf(h, token.Header["kid"]), nil
	}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithTimeFunc(h.Now), jwt.WithIssuer(h.BaseURL+"/oidc"),
		jwt.WithAudience(h.Publisher.L1.ID))
	if err != nil || claims["nonce"] != "n1" || claims["acr"] != "L1" {
		t.Fatalf("contract 50: %d %s: %v, %v", r.Status, r.Body, claims, err)
	}
	if r := exchange(); r.Status != 400 || r.Text("error") != "invalid_grant" {
		t.Errorf("contract 17: the code again: %d %s", r.Status, r.Body)
	}
	info := h.Do("GET", "/oidc/userinfo", testharness.Bearer(r.Text("access_token")), nil)
	if info.Status != 200 || info.Text("sub") != claims["sub"] {
		t.Errorf("contract 50: userinfo: %d %s", info.Status, info.Body)
	}
	text, _ := claims["session_id"].(string)
	if got := h.Reconcile(text); got.Text("status") != "COMPLETED" {
		t.Errorf("spec, Reconcile: %s", got.Body)
	}
	h.Settle()
	var events []string
	for _, d := range h.Sink.Deliveries() {
		if d.Event.SessionID == text {
			events = append(events, d.Event.Type)
		}
	}
	slices.Sort(events)
	if !slices.Equal(events, []string{webhook.TypeCompleted, webhook.TypeStarted}) {
		t.Errorf("spec, Events: the session has %q", events)
	}
}

// TestOpenIDProvider_LongState: the longest state comes back, even with a long redirect URI (contract 50).
func TestOpenIDProvider_LongState(t *testing.T) {
	h := newProvider(t)
	long := redirectURI + strings.Repeat("x", 1024-len(redirectURI))
	h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) { i.RedirectURIs = []string{long} })
	send := func(state string) *url.URL {
		q := url.Values{"client_id": {h.Publisher.L1.ID}, "redirect_uri": {long}, "scope": {"openid"},
			"response_type": {"code"}, "state": {state}, "nonce": {strings.Repeat("n", 256)}}
		r := h.Do("GET", "/oidc/authorize?"+q.Encode(), nil, nil)
		to, err := url.Parse(r.Header.Get("Location"))
		must(err)
		return to
	}
	state := strings.Repeat("s", 2048)
	if q := send(state + "s").Query(); q.Get("error") != "invalid_request" || q.Has("state") {
		t.Errorf("contract 50: a state of 2,049 bytes: %v", q)
	}
	back, err := url.Parse(h.Open(send(state).String()).Submit("approve").Hop)
	must(err)
	if q := back.Query(); q.Get("state") != state || q.Get("code") == "" {
		t.Errorf("contract 50: the browser goes to %s", back)
	}
	h.Settle()
	if !slices.ContainsFunc(h.Sink.Deliveries(), func(d testharness.Delivery) bool {
		return strings.Contains(string(d.Body), `"publisher_state":"`+state+`"`)
	}) {
		t.Error("contract 50: no event has the state")
	}
}

// A user who goes back without a success is reported to the client, from every page.
func TestOpenIDProvider_Denied(t *testing.T) {
	h := newProvider(t)
	for name, walk := range map[string]func(*testharness.Page) *testharness.Page{
		"cancelled": func(p *testharness.Page) *testharness.Page { return p.Submit("cancel") },
		"rejected":  func(p *testharness.Page) *testharness.Page { return p.Submit("reject") },
		"expired": func(p *testharness.Page) *testharness.Page {
			h.Advance(10*time.Minute + time.Second)
			return p.Reload()
		},
	} {
		page := walk(authorize(t, h))
		at := slices.IndexFunc(page.Links, func(link string) bool {
			return strings.HasPrefix(link, redirectURI)
		})
		if at < 0 {
			t.Errorf("contract 50: %s: the page has the links %q", name, page.Links)
			continue
		}
		to, err := url.Parse(page.Links[at])
		must(err)
		if q := to.Query(); q.Get("error") != "access_denied" || q.Get("state") != "q7" || q.Has("code") {
			t.Errorf("contract 50: %s: the page leads to %s", name, to)
		}
	}
}
