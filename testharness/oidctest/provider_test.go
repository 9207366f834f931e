package oidctest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	backTo   = "https://verge.example/verify/return/id"
	verifier = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
)

// browser follows no redirect, so that a test sees where it is sent.
var browser = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func plainClients() []Client {
	return []Client{{ID: "verge", Secret: "s+c&t", ReturnURLs: []string{backTo}}}
}

func goodRequest() url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {"verge"}, "redirect_uri": {backTo}, "scope": {"openid age"},
		"state": {"st"}, "nonce": {"no"}, "code_challenge": {challenge(verifier)},
		"code_challenge_method": {"S256"},
	}
}

// send returns the status, the Location, and the answer if that is JSON.
func send(t *testing.T, req *http.Request) (status int, location *url.URL, answer map[string]any) {
	t.Helper()
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") == "application/json" {
		if err := json.Unmarshal(body, &answer); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	if location, err = resp.Location(); err != nil {
		location = nil
	}
	return resp.StatusCode, location, answer
}

func get(t *testing.T, address string) (int, *url.URL, map[string]any) {
	t.Helper()
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	return send(t, req)
}

// post sends a form with basic authentication where there is a secret.
func post(t *testing.T, address, secret string, form url.Values) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequest("POST", address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if secret != "" {
		req.SetBasicAuth("verge", url.QueryEscape(secret))
	}
	status, _, answer := send(t, req)
	return status, answer
}

func exchange(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {backTo},
		"code_verifier": {verifier}}
}

// code logs in and returns the code.
func (s *Server) code(t *testing.T) string {
	t.Helper()
	_, location, _ := get(t, s.URL+LoginPath+"?"+goodRequest().Encode())
	if location == nil || location.Query().Get("code") == "" || location.Query().Get("state") != "st" ||
		location.Query().Get("iss") != s.URL {
		t.Fatalf("the browser is sent to %v", location)
	}
	return location.Query().Get("code")
}

func TestLoginRequests(t *testing.T) {
	p := Start(t, Config{Clients: plainClients()})
	for _, c := range []struct {
		rule, name, value string
		problem           string // "": the browser is not sent back
	}{
		{"an unknown client", "client_id", "another", ""},
		{"an address that is not registered", "redirect_uri", backTo + "/", ""},
		{"no address", "redirect_uri", "", ""},
		{"another response type", "response_type", "token", "unsupported_response_type"},
		{"no openid", "scope", "age", "invalid_scope"},
		{"no PKCE", "code_challenge", "", "invalid_request"},
		{"plain PKCE", "code_challenge_method", "plain", "invalid_request"},
		{"no nonce", "nonce", "", "invalid_request"},
		{"no state", "state", "", "invalid_request"},
		{"an unknown request_uri", "request_uri", "urn:x", ""},
	} {
		request := goodRequest()
		request.Set(c.name, c.value)
		status, location, _ := get(t, p.URL+LoginPath+"?"+request.Encode())
		if c.problem == "" {
			if status != 400 || location != nil {
				t.Errorf("%s: %d, %v", c.rule, status, location)
			}
		} else if location == nil || location.Query().Get("error") != c.problem ||
			location.Query().Has("code") {
			t.Errorf("%s: %d, %v", c.rule, status, location)
		}
	}
}

func TestCodes(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	p := Start(t, Config{Clients: append(plainClients(), Client{ID: "other", Secret: "x"}),
		Now: func() time.Time { return now }})
	for _, c := range []struct {
		rule, name, value string
		secret            string
		status            int
		problem           string
	}{
		{"a good one", "", "", "s+c&t", 200, ""},
		{"another verifier", "code_verifier", verifier + "x", "s+c&t", 400, "invalid_grant"},
		{"another return address", "redirect_uri", backTo + "/", "s+c&t", 400, "invalid_grant"},
		{"an unknown code", "code", "x", "s+c&t", 400, "invalid_grant"},
		{"another grant", "grant_type", "password", "s+c&t", 400, "unsupported_grant_type"},
		{"another secret", "", "", "x", 401, "invalid_client"},
		{"a secret in the form of a client for basic", "client_secret", "s+c&t", "", 401, "invalid_client"},
		{"two ways to authenticate", "client_secret", "s+c&t", "s+c&t", 401, "invalid_client"},
	} {
		form := exchange(p.code(t))
		if c.name != "" {
			form.Set(c.name, c.value)
		}
		form.Set("client_id", "verge")
		status, answer := post(t, p.URL+TokenPath, c.secret, form)
		if status != c.status || c.problem != "" && answer["error"] != c.problem || c.problem == "" &&
			answer["id_token"] == nil {
			t.Errorf("%s: %d, %v", c.rule, status, answer)
		}
	}

	form := exchange(p.code(t))
	post(t, p.URL+TokenPath, "s+c&t", form)
	if status, answer := post(t, p.URL+TokenPath, "s+c&t", form); status != 400 ||
		answer["error"] != "invalid_grant" {
		t.Errorf("a code that was used: %d, %v", status, answer)
	}
	form = exchange(p.code(t))
	now = now.Add(time.Minute)
	if status, answer := post(t, p.URL+TokenPath, "s+c&t", form); status != 400 ||
		answer["error"] != "invalid_grant" {
		t.Errorf("a code after a minute: %d, %v", status, answer)
	}
	if status, _, _ := get(t, p.URL+UserinfoPath); status != 401 {
		t.Errorf("userinfo without an access token: %d", status)
	}
}

func TestPushedRequests(t *testing.T) {
	p := Start(t, Config{Clients: plainClients(), PushedOnly: true})
	if status, location, _ := get(t, p.URL+LoginPath+"?"+goodRequest().Encode()); status != 400 {
		t.Errorf("a request that was not pushed: %d, %v", status, location)
	}
	if status, answer := post(t, p.URL+PushPath, "x", goodRequest()); status != 401 {
		t.Errorf("another secret: %d, %v", status, answer)
	}
	bad := goodRequest()
	bad.Set("redirect_uri", "https://attacker.example")
	if status, answer := post(t, p.URL+PushPath, "s+c&t", bad); status != 400 ||
		answer["error"] != "invalid_request" {
		t.Errorf("an address that is not registered: %d, %v", status, answer)
	}
	status, answer := post(t, p.URL+PushPath, "s+c&t", goodRequest())
	reference, _ := answer["request_uri"].(string)
	if status != 201 || reference == "" {
		t.Fatalf("%d, %v", status, answer)
	}
	address := p.URL + LoginPath + "?client_id=verge&request_uri=" + url.QueryEscape(reference)
	if _, location, _ := get(t, address); location == nil || location.Query().Get("code") == "" {
		t.Errorf("the browser is sent to %v", location)
	}
	if status, _, _ := get(t, address); status != 400 {
		t.Errorf("a request that was used: %d", status)
	}
	plain := Start(t, Config{Clients: plainClients()})
	if status, _ := post(t, plain.URL+PushPath, "s+c&t", goodRequest()); status != 404 {
		t.Errorf("a provider without pushed requests: %d", status)
	}
}

func TestClientAssertions(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := Start(t, Config{Clients: []Client{{ID: "verge", Auth: "private_key_jwt", Key: &key.PublicKey}}})
	for i, c := range []struct {
		rule, name string
		value      any
		key        any
		good       bool
	}{
		{"a good one", "", nil, key, true},
		{"for the token endpoint", "aud", p.URL + TokenPath, key, true},
		{"for another server", "aud", "https://attacker.example", key, false},
		{"of another client", "iss", "another", key, false},
		{"about another client", "sub", "another", key, false},
		{"expired", "exp", time.Now().Add(-time.Minute).Unix(), key, false},
		{"without an end", "exp", nil, key, false},
		{"without an id", "jti", nil, key, false},
		{"by another key", "", nil, foreign, false},
		{"with an id that was used", "jti", "id-0", key, false},
	} {
		claims := jwt.MapClaims{"iss": "verge", "sub": "verge", "aud": p.URL, "jti": fmt.Sprintf("id-%d", i),
			"iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
		if c.name != "" {
			claims[c.name] = c.value
		}
		if claims[c.name] == nil {
			delete(claims, c.name)
		}
		assertion, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		form := exchange("unknown")
		form.Set("client_id", "verge")
		form.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		form.Set("client_assertion", assertion)
		// An authenticated client gets the error for an unknown code.
		if _, answer := post(t, p.URL+TokenPath, "", form); (answer["error"] == "invalid_grant") != c.good {
			t.Errorf("%s: %v", c.rule, answer)
		}
	}
}

// TestPage: a person takes part, and the login ends in a later request.
func TestPage(t *testing.T) {
	var shown Login
	p := Start(t, Config{Clients: plainClients(),
		Page: func(w http.ResponseWriter, _ *http.Request, l Login) {
			shown = l
			fmt.Fprint(w, "Who are you?")
		}})
	request := goodRequest()
	request.Set("acr_values", "substantial high")
	request.Set("ui_locales", "de")
	request.Set("login_hint", "country:DK")
	if status, location, _ := get(t, p.URL+LoginPath+"?"+request.Encode()); status != 200 || location != nil {
		t.Fatalf("the page: %d, %v", status, location)
	}
	if shown.ClientID != "verge" || len(shown.Scopes) != 2 || len(shown.ACR) != 2 || shown.Language != "de" ||
		shown.Hint != "country:DK" {
		t.Errorf("the page got %+v", shown)
	}
	for i, want := range []int{http.StatusSeeOther, http.StatusNotFound} {
		rec := &recorder{header: http.Header{}}
		p.Finish(rec, &http.Request{Method: "POST", URL: &url.URL{Path: "/done"}}, shown.ID,
			Answer{Error: "access_denied"})
		if rec.status != want || i == 0 && !strings.Contains(rec.header.Get("Location"),
			"error=access_denied") {
			t.Errorf("the end number %d: %d, %v", i+1, rec.status, rec.header)
		}
	}
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }

func TestRotateAndRequests(t *testing.T) {
	p := Start(t, Config{Clients: append(plainClients(), Client{ID: "ps", Algorithm: "PS256"},
		Client{ID: "ed", Algorithm: "EdDSA"})})
	ids := func() string {
		_, _, answer := get(t, p.URL+KeysPath)
		return fmt.Sprint(answer["keys"])
	}
	before := ids()
	if n := len(p.KeySet()["keys"].([]any)); n != 3 {
		t.Errorf("there are %d keys, want one for each algorithm", n)
	}
	p.Rotate()
	if after := ids(); before == after || len(p.KeySet()["keys"].([]any)) != 3 {
		t.Error("Rotate leaves the keys")
	}
	if n := p.Count(KeysPath); n != 2 || len(p.Requests()) != 2 || p.Count(KeysPath) != 0 {
		t.Errorf("the provider has counted %d requests, want 2, and forgets them", n)
	}
}

func TestTLS(t *testing.T) {
	p := StartTLS(t, Config{Clients: plainClients()})
	roots := x509.NewCertPool()
	roots.AddCert(p.Root)
	trusting := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	resp, err := trusting.Get(p.URL + DiscoveryPath)
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(p.URL, "https://") {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	trusting.CloseIdleConnections()
	if resp, err := http.Get(p.URL + DiscoveryPath); err == nil {
		t.Errorf("a client without the certificate got %d", resp.StatusCode)
	}
}
