// Package oidctest is a scripted OpenID provider: for tests of a service that redirects its users to one, and
// to try such a service without installation.
//
//	p := oidctest.Start(t, oidctest.Config{Clients: []oidctest.Client{{ID: "verge", Secret: "s"}}})
//	p.Answer(oidctest.Answer{Claims: oidctest.AgeClaims(17)})
//
// It implements the code flow with PKCE, pushed requests, the three usual ways to authenticate a client, and
// userinfo, and it rejects invalid requests like a strict provider. Answer sets the claims of the next
// logins, Rotate changes its keys, Fault breaks an endpoint, and Tamper changes tokens before they are
// signed.
//
// It verifies no user. Never let a real service trust it.
package oidctest

import (
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is given to New once.
type Config struct {
	// Issuer is the address at which the provider is served, without a slash at its end.
	Issuer string

	Clients []Client

	// Now is the clock. Nil: time.Now.
	Now func() time.Time

	// Page shows a login to a person. It ends with Finish, immediately or in a later request. Nil: every
	// login ends immediately with the provider's Answer.
	Page func(w http.ResponseWriter, r *http.Request, l Login)

	Pushed       bool // it takes pushed requests
	PushedOnly   bool // and nothing else
	HidesIssuer  bool // it sends no iss with a return
	SignUserinfo bool // its userinfo is a signed token

	// Scopes has the claims that a login gets with each scope only. Nil: every login gets all claims. If it
	// is not nil, the discovery document announces the scopes and claims.
	Scopes map[string][]string
}

// Client is a client that the provider knows.
type Client struct {
	ID     string
	Secret string // for client_secret_basic and client_secret_post
	Auth   string // client_secret_basic, client_secret_post or private_key_jwt. "": basic
	Key    any    // the public key for private_key_jwt: *ecdsa.PublicKey, *rsa.PublicKey or ed25519.PublicKey

	// ReturnURLs are the addresses that a browser may be sent back to. Nil: any.
	ReturnURLs []string

	// Algorithm signs its tokens: ES256, RS256, PS256 or EdDSA. "": ES256.
	Algorithm string
}

// Answer is how a login ends.
type Answer struct {
	Subject  string         // "": person-1
	Claims   map[string]any // in the ID token
	Userinfo map[string]any // at the userinfo endpoint. Nil: Claims
	ACR      string         // "": the first that was asked for
	Error    string         // sends the browser back with this error instead, such as access_denied
}

// Login is a login that a person takes part in.
type Login struct {
	ID       string // for Finish
	ClientID string
	Scopes   []string
	ACR      []string
	Language string // of ui_locales
	Hint     string // login_hint
}

// Provider is an http.Handler. Its functions may be called concurrently.
type Provider struct {
	config Config

	mu        sync.Mutex
	answer    Answer
	keys      map[string][]*signer // by algorithm, the current one last
	made      int                  // keys
	logins    map[string]url.Values
	pushed    map[string]url.Values
	codes     map[string]*grant
	access    map[string]*grant
	seenJTI   map[string]bool
	faults    map[string]Fault
	tamper    func(header, claims map[string]any)
	rewrite   func(token string) string
	code      func() string
	newAccess func() string
	compress  bool
	requests  []request
}

// grant is the data of a code.
type grant struct {
	client  Client
	request url.Values
	answer  Answer
	expires time.Time
	used    bool
}

// request is a request that the provider got.
type request struct {
	Method string
	Path   string
	Query  url.Values
	Form   url.Values
	Header http.Header
}

// Paths of the endpoints.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeysPath      = "/keys"
	PushPath      = "/push"
	LoginPath     = "/login"
	TokenPath     = "/token"
	UserinfoPath  = "/userinfo"
	DIDPath       = "/.well-known/did.json"
)

// New returns a provider. A client of an unknown algorithm panics.
func New(c Config) *Provider {
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Provider{
		config: c,
		answer: Answer{Claims: AgeClaims(40)},
		keys:   map[string][]*signer{},
		logins: map[string]url.Values{}, pushed: map[string]url.Values{},
		codes: map[string]*grant{}, access: map[string]*grant{},
		seenJTI: map[string]bool{}, faults: map[string]Fault{},
		code: rand.Text, newAccess: rand.Text,
	}
	for i := range p.config.Clients {
		client := &p.config.Clients[i]
		client.Algorithm = cmp.Or(client.Algorithm, "ES256")
		client.Auth = cmp.Or(client.Auth, "client_secret_basic")
		if len(p.keys[client.Algorithm]) == 0 {
			p.addKey(client.Algorithm)
		}
	}
	return p
}

// Answer sets how the next logins end.
func (p *Provider) Answer(a Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = a
}

// Tamper has f change the header and claims of every signed token before it is signed. Nil: none.
func (p *Provider) Tamper(f func(header, claims map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tamper = f
}

// Rewrite has f change, or encrypt, every ID token and every signed userinfo after it was signed. Nil: none.
func (p *Provider) Rewrite(f func(token string) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rewrite = f
}

// Codes has f make the authorization codes.
func (p *Provider) Codes(f func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = f
}

// AccessTokens has f make the access tokens.
func (p *Provider) AccessTokens(f func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newAccess = f
}

// Compress has the provider send every body as gzip, even if the request does not accept it.
func (p *Provider) Compress() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.compress = true
}

// Requests returns the provider's requests, and forgets them.
func (p *Provider) Requests() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := p.requests
	p.requests = nil
	return got
}

// Count returns how many requests of a path the provider has got since Requests was called.
func (p *Provider) Count(path string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.requests {
		if r.Path == path {
			n++
		}
	}
	return n
}

// AgeClaims returns the claims about a person of that age in Denmark, as of the providers in Verge's presets.
func AgeClaims(age int) map[string]any {
	claims := map[string]any{"idtoken_type": "av"}
	country := map[string]any{"country": "DK"}
	for _, over := range []int{15, 16, 18, 21} {
		claims[fmt.Sprintf("is_over_%d", over)] = age >= over
		claims[fmt.Sprintf("age_over_%d", over)] = age >= over
		country[fmt.Sprintf("is_over_%d", over)] = age >= over
	}
	claims["http://ageverification.criipto.com"] = country
	claims["idbrokerdk_age_verified"] = fmt.Sprintf("18:%t", age >= 18)
	return claims
}

// AgeProof returns a setting "proof" of a method: the claim of AgeClaims for that age.
func AgeProof(age int) map[string]any {
	return map[string]any{"claim": []string{fmt.Sprintf("is_over_%d", age)}, "equals": true, "age": age}
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the form cannot be read", http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.requests = append(p.requests, request{r.Method, r.URL.Path, r.URL.Query(), r.PostForm,
		r.Header.Clone()})
	fault, broken := p.faults[r.URL.Path]
	compress := p.compress
	p.mu.Unlock()
	if compress {
		packed := &packer{ResponseWriter: w, z: gzip.NewWriter(w)}
		defer packed.z.Close()
		w = packed
	}
	if broken {
		fault.serve(w, r)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET " + DiscoveryPath:
		writeJSON(w, http.StatusOK, p.discovery())
	case "GET " + KeysPath:
		writeJSON(w, http.StatusOK, p.keySet())
	case "GET " + DIDPath:
		writeJSON(w, http.StatusOK, p.didDocument())
	case "POST " + PushPath:
		p.push(w, r)
	case "GET " + LoginPath, "POST " + LoginPath:
		p.login(w, r)
	case "POST " + TokenPath:
		p.token(w, r)
	case "GET " + UserinfoPath, "POST " + UserinfoPath:
		p.userinfo(w, r)
	default:
		http.NotFound(w, r)
	}
}

// packer compresses a body.
type packer struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (p *packer) WriteHeader(status int) {
	p.Header().Set("Content-Encoding", "gzip")
	p.ResponseWriter.WriteHeader(status)
}

func (p *packer) Write(b []byte) (int, error) {
	p.Header().Set("Content-Encoding", "gzip")
	return p.z.Write(b)
}

func (p *Provider) discovery() map[string]any {
	issuer := p.config.Issuer
	document := map[string]any{
		"issuer":                                issuer,
		"authorization_endpoint":                issuer + LoginPath,
		"token_endpoint":                        issuer + TokenPath,
		"userinfo_endpoint":                     issuer + UserinfoPath,
		"jwks_uri":                              issuer + KeysPath,
		"response_types_supported":              []string{"code"},
		"subject_types_supported":               []string{"pairwise"},
		"id_token_signing_alg_values_supported": p.algorithms(),
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{
			"client_secret_basic", "client_secret_post", "private_key_jwt",
		},
		"authorization_response_iss_parameter_supported": !p.config.HidesIssuer,
	}
	if p.config.Scopes != nil {
		document["scopes_supported"] = slices.Sorted(maps.Keys(p.config.Scopes))
		document["claims_supported"] = slices.Sorted(slices.Values(slices.Concat(
			slices.Collect(maps.Values(p.config.Scopes))...)))
	}
	if p.config.Pushed || p.config.PushedOnly {
		document["pushed_authorization_request_endpoint"] = issuer + PushPath
		document["require_pushed_authorization_requests"] = p.config.PushedOnly
	}
	return document
}

func (p *Provider) client(id string) (Client, bool) {
	at := slices.IndexFunc(p.config.Clients, func(c Client) bool { return c.ID == id })
	if at < 0 {
		return Client{}, false
	}
	return p.config.Clients[at], true
}

// checkRequest returns an OAuth error for an authorization request, or "". If mayReturn is false, the return
// address is invalid and the browser must not be redirected there.
func (p *Provider) checkRequest(request url.Values) (problem string, mayReturn bool) {
	client, ok := p.client(request.Get("client_id"))
	if !ok {
		return "unauthorized_client", false
	}
	back := request.Get("redirect_uri")
	if u, err := url.Parse(back); err != nil || u.Host == "" ||
		client.ReturnURLs != nil && !slices.Contains(client.ReturnURLs, back) {
		return "invalid_request", false
	}
	switch {
	case request.Get("response_type") != "code":
		return "unsupported_response_type", true
	case !slices.Contains(strings.Fields(request.Get("scope")), "openid"):
		return "invalid_scope", true
	case request.Get("code_challenge_method") != "S256", len(request.Get("code_challenge")) != 43,
		request.Get("state") == "", request.Get("nonce") == "":
		return "invalid_request", true
	}
	return "", true
}

func (p *Provider) push(w http.ResponseWriter, r *http.Request) {
	if !p.config.Pushed && !p.config.PushedOnly {
		http.NotFound(w, r)
		return
	}
	client, ok := p.authenticate(r)
	if !ok {
		writeError(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	r.PostForm.Set("client_id", client.ID)
	if problem, _ := p.checkRequest(r.PostForm); problem != "" {
		writeError(w, http.StatusBadRequest, problem)
		return
	}
	reference := "urn:ietf:params:oauth:request_uri:" + rand.Text()
	p.mu.Lock()
	p.pushed[reference] = r.PostForm
	p.mu.Unlock()
	writeJSON(w, http.StatusCreated, map[string]any{"request_uri": reference, "expires_in": 60})
}

func (p *Provider) login(w http.ResponseWriter, r *http.Request) {
	request := r.Form
	if reference := r.Form.Get("request_uri"); reference != "" {
		p.mu.Lock()
		pushed, ok := p.pushed[reference]
		delete(p.pushed, reference)
		p.mu.Unlock()
		if !ok || pushed.Get("client_id") != r.Form.Get("client_id") {
			http.Error(w, "this request is not known", http.StatusBadRequest)
			return
		}
		request = pushed
	} else if p.config.PushedOnly {
		http.Error(w, "requests must be pushed", http.StatusBadRequest)
		return
	}
	problem, mayReturn := p.checkRequest(request)
	if !mayReturn {
		http.Error(w, "this client or its return address is not registered", http.StatusBadRequest)
		return
	}
	id := rand.Text()
	p.mu.Lock()
	p.logins[id] = maps.Clone(request)
	answer := p.answer
	p.mu.Unlock()
	if problem != "" {
		p.Finish(w, r, id, Answer{Error: problem})
		return
	}
	if p.config.Page == nil {
		p.Finish(w, r, id, answer)
		return
	}
	p.config.Page(w, r, Login{
		ID:       id,
		ClientID: request.Get("client_id"),
		Scopes:   strings.Fields(request.Get("scope")),
		ACR:      strings.Fields(request.Get("acr_values")),
		Language: request.Get("ui_locales"),
		Hint:     request.Get("login_hint"),
	})
}

// Finish ends a login: it sends the browser back with a code, or with the answer's error. A login that is
// over or was never there is a 404.
func (p *Provider) Finish(w http.ResponseWriter, r *http.Request, id string, a Answer) {
	p.mu.Lock()
	request, ok := p.logins[id]
	delete(p.logins, id)
	p.mu.Unlock()
	if !ok {
		http.Error(w, "this login is over", http.StatusNotFound)
		return
	}
	back := url.Values{"state": {request.Get("state")}}
	if !p.config.HidesIssuer {
		back.Set("iss", p.config.Issuer)
	}
	if a.Error != "" {
		back.Set("error", a.Error)
		back.Set("error_description", "The provider is configured to return this error.")
	} else {
		client, _ := p.client(request.Get("client_id"))
		p.mu.Lock()
		code := p.code()
		p.codes[code] = &grant{client: client, request: request, answer: a,
			expires: p.config.Now().Add(time.Minute)}
		p.mu.Unlock()
		back.Set("code", code)
	}
	separator := "?"
	if strings.Contains(request.Get("redirect_uri"), "?") {
		separator = "&"
	}
	http.Redirect(w, r, request.Get("redirect_uri")+separator+back.Encode(), http.StatusSeeOther)
}

func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	client, ok := p.authenticate(r)
	if !ok {
		writeError(w, http.StatusUnauthorized, "invalid_client")
		return
	}
	if r.PostForm.Get("grant_type") != "authorization_code" {
		writeError(w, http.StatusBadRequest, "unsupported_grant_type")
		return
	}
	p.mu.Lock()
	g := p.codes[r.PostForm.Get("code")]
	good := g != nil && !g.used && g.client.ID == client.ID && p.config.Now().Before(g.expires) &&
		g.request.Get("redirect_uri") == r.PostForm.Get("redirect_uri") &&
		g.request.Get("code_challenge") == challenge(r.PostForm.Get("code_verifier"))
	if good {
		g.used = true
	}
	p.mu.Unlock()
	if !good {
		writeError(w, http.StatusBadRequest, "invalid_grant")
		return
	}

	p.mu.Lock()
	access := p.newAccess()
	p.access[access] = g
	p.mu.Unlock()
	now := p.config.Now()
	claims := map[string]any{
		"iss": p.config.Issuer, "aud": client.ID, "sub": g.answer.subject(),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"nonce": g.request.Get("nonce"), "at_hash": halfHash(access, client.Algorithm),
		"auth_time": now.Unix(),
	}
	if acr := g.answer.acr(g.request); acr != "" {
		claims["acr"] = acr
	}
	maps.Copy(claims, p.released(g, g.answer.Claims))
	idToken, err := p.sign(client.Algorithm, claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"id_token": idToken, "access_token": access, "token_type": "Bearer", "expires_in": 300,
	})
}

func (p *Provider) userinfo(w http.ResponseWriter, r *http.Request) {
	access, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	p.mu.Lock()
	g := p.access[access]
	p.mu.Unlock()
	if g == nil {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		http.Error(w, "this access token is not known", http.StatusUnauthorized)
		return
	}
	claims := map[string]any{"sub": g.answer.subject()}
	if g.answer.Userinfo != nil {
		maps.Copy(claims, p.released(g, g.answer.Userinfo))
	} else {
		maps.Copy(claims, p.released(g, g.answer.Claims))
	}
	if !p.config.SignUserinfo {
		writeJSON(w, http.StatusOK, claims)
		return
	}
	signed := map[string]any{"iss": p.config.Issuer, "aud": g.client.ID}
	maps.Copy(signed, claims)
	token, err := p.sign(g.client.Algorithm, signed)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/jwt")
	fmt.Fprint(w, token)
}

// released returns the claims of a login that its scopes release.
func (p *Provider) released(g *grant, all map[string]any) map[string]any {
	if p.config.Scopes == nil {
		return all
	}
	released := map[string]any{}
	for scope := range strings.FieldsSeq(g.request.Get("scope")) {
		for _, name := range p.config.Scopes[scope] {
			if v, ok := all[name]; ok {
				released[name] = v
			}
		}
	}
	return released
}

func (a Answer) subject() string {
	if a.Subject == "" {
		return "person-1"
	}
	return a.Subject
}

func (a Answer) acr(request url.Values) string {
	if asked := strings.Fields(request.Get("acr_values")); a.ACR == "" && len(asked) > 0 {
		return asked[0]
	}
	return a.ACR
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}

func writeError(w http.ResponseWriter, status int, name string) {
	writeJSON(w, status, map[string]any{"error": name})
}
