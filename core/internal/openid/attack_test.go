package openid

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/web"
)

// No browser is sent anywhere by a request that does not name a client and, byte for byte, one of its
// redirect URIs (RFC 9700, 2.1 and 4.11).
func TestAuthorize_NoRedirect(t *testing.T) {
	w := newFixture(t)
	plain := authorization()
	for _, c := range []struct{ name, query string }{
		{"open redirect: another host", values(plain, "redirect_uri", "https://evil.example/").Encode()},
		{"open redirect: none is given", values(plain, "redirect_uri", "-").Encode()},
		{"open redirect: empty", values(plain, "redirect_uri", "").Encode()},
		{"redirect_uri: a longer path", values(plain, "redirect_uri", redirect+"/x").Encode()},
		{"redirect_uri: a shorter path", values(plain, "redirect_uri", redirect[:len(redirect)-1]).Encode()},
		{"redirect_uri: another query", values(plain, "redirect_uri", redirect+"&next=//evil").Encode()},
		{"redirect_uri: without the query",
			values(plain, "redirect_uri", "https://shop.example/oidc/callback").Encode()},
		{"redirect_uri: a fragment", values(plain, "redirect_uri", redirect+"#x").Encode()},
		{"redirect_uri: http", values(plain, "redirect_uri", "http"+redirect[5:]).Encode()},
		{"redirect_uri: another case",
			values(plain, "redirect_uri", strings.Replace(redirect, "shop.", "SHOP.", 1)).Encode()},
		{"redirect_uri: the default port",
			values(plain, "redirect_uri", strings.Replace(redirect, "example/", "example:443/", 1)).Encode()},
		{"redirect_uri: a user name",
			values(plain, "redirect_uri", strings.Replace(redirect, "//", "//shop@evil.", 1)).Encode()},
		{"redirect_uri: a subdomain",
			values(plain, "redirect_uri", strings.Replace(redirect, "//", "//evil.", 1)).Encode()},
		{"redirect_uri: dots",
			values(plain, "redirect_uri", strings.Replace(redirect, "/oidc/", "/oidc/../oidc/", 1)).Encode()},
		{"redirect_uri: an escape",
			values(plain, "redirect_uri", strings.Replace(redirect, "oidc", "%6fidc", 1)).Encode()},
		{"redirect_uri: a backslash",
			values(plain, "redirect_uri", strings.Replace(redirect, "/oidc", `\oidc`, 1)).Encode()},
		{"redirect_uri: a space at the end", values(plain, "redirect_uri", redirect+" ").Encode()},
		{"redirect_uri: a line break", values(plain, "redirect_uri", redirect+"\r\n").Encode()},
		{"redirect_uri: javascript", values(plain, "redirect_uri", "javascript:alert(1)").Encode()},
		{"doubled redirect_uri", plain.Encode() + "&redirect_uri=" + url.QueryEscape(redirect)},
		{"doubled redirect_uri, another one", plain.Encode() + "&redirect_uri=https%3A%2F%2Fevil.example"},
		{"doubled client_id", plain.Encode() + "&client_id=" + client},
		{"badly encoded redirect_uri", values(plain, "redirect_uri", "-").Encode() + "&redirect_uri=%zz"},
		{"no client", values(plain, "client_id", "-").Encode()},
		{"client_id in capitals", values(plain, "client_id", strings.ToUpper(client)).Encode()},
		{"client_id of no integration",
			values(plain, "client_id", "22222222-4d4e-475f-906b-2f11c5eca7bd").Encode()},
		{"an empty request", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.commits = 0
			for _, method := range []string{"GET", "POST"} {
				resp := w.send(method, authorizePath, c.query, nil)
				if resp.Status != 400 || resp.Header.Has("Location") || w.commits != 0 ||
					strings.Contains(string(resp.Body), "evil") {
					t.Errorf("contract 50: %s: %d, %v, %s", method, resp.Status, resp.Header, resp.Body)
				}
			}
		})
	}
}

// A client that is archived, or without redirect URIs, starts nothing.
func TestAuthorize_ClientsSwitchedOff(t *testing.T) {
	for name, change := range map[string]func(w *fixture, i *integration.Integration) error{
		"archived": func(w *fixture, i *integration.Integration) error {
			now := w.Clock.Now()
			i.Archived = &now
			return nil
		},
		"without redirect URIs": func(_ *fixture, i *integration.Integration) error {
			i.RedirectURIs = nil
			return nil
		},
		"of an archived publisher": func(w *fixture, _ *integration.Integration) error {
			now := w.Clock.Now()
			return w.Directory.PutPublisher(ctx, integration.Publisher{ID: "pub_a", Archived: &now})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			i, err := w.Directory.ReadIntegration(ctx, client)
			coretest.Must(t, err)
			coretest.Must(t, change(w, &i.Value))
			coretest.Must(t, w.Directory.PutIntegration(ctx, i.Value, ""))
			resp := w.send("GET", authorizePath, authorization().Encode(), nil)
			if resp.Status != 400 || resp.Header.Has("Location") {
				t.Errorf("contract 50: %d, %v", resp.Status, resp.Header)
			}
		})
	}
}

// Every other error goes to the client, with its state and the issuer, and starts nothing.
func TestAuthorize_Errors(t *testing.T) {
	w := newFixture(t)
	long := strings.Repeat("x", maxNonce+1)
	for _, c := range []struct{ name, query, want string }{
		{"no response_type", authorization("response_type", "-").Encode(), "invalid_request"},
		{"implicit flow", authorization("response_type", "id_token").Encode(), "unsupported_response_type"},
		{"implicit flow with a token", authorization("response_type", "token").Encode(),
			"unsupported_response_type"},
		{"hybrid flow", authorization("response_type", "code id_token").Encode(),
			"unsupported_response_type"},
		{"response_mode fragment", authorization("response_mode", "fragment").Encode(), "invalid_request"},
		{"response_mode form_post", authorization("response_mode", "form_post").Encode(), "invalid_request"},
		{"scope without openid", authorization("scope", "profile openid2").Encode(), "invalid_scope"},
		{"no scope", authorization("scope", "-").Encode(), "invalid_scope"},
		{"prompt none", authorization("prompt", "none").Encode(), "interaction_required"},
		{"prompt none and login", authorization("prompt", "login none").Encode(), "invalid_request"},
		{"request object", authorization("request", "eyJhbGciOiJub25lIn0.e30.").Encode(),
			"request_not_supported"},
		{"request_uri", authorization("request_uri", "https://evil.example/r").Encode(),
			"request_uri_not_supported"},
		{"registration", authorization("registration", "{}").Encode(), "registration_not_supported"},
		{"PKCE downgrade: plain", authorization("code_challenge_method", "plain").Encode(),
			"invalid_request"},
		{"PKCE downgrade: no method", authorization("code_challenge_method", "-").Encode(),
			"invalid_request"},
		{"PKCE downgrade: no challenge", authorization("code_challenge", "-").Encode(), "invalid_request"},
		{"PKCE: an empty challenge", authorization("code_challenge", "").Encode(), "invalid_request"},
		{"PKCE: a short challenge", authorization("code_challenge", digest[1:]).Encode(), "invalid_request"},
		{"PKCE: another alphabet", authorization("code_challenge", digest[1:]+"+").Encode(),
			"invalid_request"},
		{"oversize nonce", authorization("nonce", long).Encode(), "invalid_request"},
		{"doubled nonce", authorization().Encode() + "&nonce=2", "invalid_request"},
		{"doubled scope", authorization().Encode() + "&scope=openid", "invalid_request"},
		{"doubled code_challenge", authorization().Encode() + "&code_challenge=" + digest, "invalid_request"},
		{"doubled response_type", authorization().Encode() + "&response_type=token", "invalid_request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.commits = 0
			resp := w.send("GET", authorizePath, c.query, nil)
			to, err := url.Parse(resp.Header.Get("Location"))
			coretest.Must(t, err)
			q := to.Query()
			if resp.Status != 303 || !strings.HasPrefix(to.String(), redirect+"&error=") ||
				q.Get("error") != c.want || q.Get("state") != "s t/1" || q.Get("iss") != baseURL+"/oidc" ||
				q.Has("code") || w.commits != 0 {
				t.Errorf("contract 50: %d, %s, want %s", resp.Status, to, c.want)
			}
		})
	}
	q := mustQuery(t, w.send("GET", authorizePath, authorization("state", "a\nb").Encode(), nil))
	if q.Get("error") != "invalid_request" || q.Has("state") {
		t.Errorf("contract 50: a control character: %v", q)
	}
	q = mustQuery(t, w.send("GET", authorizePath, authorization().Encode()+"&state=2", nil))
	if q.Get("error") != "invalid_request" || q.Has("state") {
		t.Errorf("contract 50: doubled state: %v", q)
	}
}

// TestAuthorize_StateLength has states at the limits. The longest request fits into an address.
func TestAuthorize_StateLength(t *testing.T) {
	w := newFixture(t)
	i, err := w.Directory.ReadIntegration(ctx, client)
	coretest.Must(t, err)
	at := func(length int) string { return redirect + strings.Repeat("x", length-len(redirect)) }
	i.Value.RedirectURIs = []string{at(100), at(1024), at(1025), at(2048)}
	coretest.Must(t, w.Directory.PutIntegration(ctx, i.Value, ""))
	for _, c := range []struct{ redirect, state int }{{100, 2048}, {1024, 2048}, {1025, 2047}, {2048, 1024}} {
		state := strings.Repeat("s", c.state)
		request := authorization("redirect_uri", at(c.redirect), "state", state, "nonce",
			strings.Repeat("n", maxNonce))
		claims := w.start(t, request)
		if back := w.finish(t, claims); back.Get("state") != state {
			t.Errorf("contract 50: redirect URI of %d bytes: another state comes back: %v", c.redirect, back)
		}
		request.Set("state", state+"s")
		resp := w.send("GET", authorizePath, request.Encode(), nil)
		if q := mustQuery(t, resp); q.Get("error") != "invalid_request" || q.Has("state") {
			t.Errorf("contract 50: redirect URI of %d bytes, state of %d: %v", c.redirect, c.state+1, q)
		}
		flow, err := token.SealFlow(w.Provider.Sealer, claims)
		coretest.Must(t, err)
		if n := len(web.HostedPath + "?flow=" + flow); n > web.MaxURL {
			t.Errorf("contract 50: the address of the page has %d bytes", n)
		}
	}
}

func mustQuery(t *testing.T, r *web.Response) url.Values {
	t.Helper()
	to, err := url.Parse(r.Header.Get("Location"))
	coretest.Must(t, err)
	return to.Query()
}

// A parameter that the provider does not use is ignored, even if it is doubled (contract 22).
func TestAuthorize_OtherParameters(t *testing.T) {
	w := newFixture(t)
	q := authorization("prompt", "login consent", "max_age", "0", "acr_values", "L2").Encode() +
		"&claims=%7B&claims=1&x=1&x=%zz&login_hint=a&display=popup&code=evil&iss=evil&error=evil"
	if resp := w.send("GET", authorizePath, q, nil); resp.Status != 303 ||
		!strings.HasPrefix(resp.Header.Get("Location"), baseURL+"/verify?flow=") {
		t.Errorf("contract 50: %d, %v", resp.Status, resp.Header)
	}
}

// A parameter without a value counts as absent (RFC 6749, 3.1 and 3.2).
func TestParameters_Empty(t *testing.T) {
	const all = "&request=&request_uri=&registration&response_mode=&prompt=&ui_locales=&nonce=&max_age="
	w := newFixture(t)
	unbound := authorization("nonce", "-", "state", "", "code_challenge", "", "code_challenge_method", "")
	back := w.finish(t, w.start(t, mustParse(t, unbound.Encode()+all)))
	if back.Has("state") {
		t.Errorf("contract 22: an empty state comes back: %v", back)
	}
	for _, c := range []struct {
		name, code string
		without    []string
		header     web.Header
	}{
		{"in the form", back.Get("code"), []string{"code_verifier", ""}, nil},
		{"with a header", w.code(t), []string{"client_id", "", "client_secret", ""},
			basic(client, w.secret)},
	} {
		resp := w.send("POST", tokenPath, w.exchange(c.code, c.without...).Encode(), c.header)
		if resp.Status != 200 {
			t.Errorf("contract 22: a token request, empty parameters %s: %d, %s", c.name, resp.Status,
				resp.Body)
		}
	}
	q := mustQuery(t, w.send("GET", authorizePath, authorization().Encode()+"&state=&request=", nil))
	if q.Get("error") != "invalid_request" ||
		!strings.HasPrefix(q.Get("error_description"), "state occurs twice") {
		t.Errorf("contract 22: a parameter twice, once empty: %v", q)
	}
}

func mustParse(t *testing.T, text string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(text)
	coretest.Must(t, err)
	return q
}

// Authorization requests have the rates of starts with a public key.
func TestAuthorize_Rates(t *testing.T) {
	w := newFixture(t)
	for n := range 61 {
		resp := w.send("GET", authorizePath, authorization().Encode(), nil)
		if want := map[bool]int{true: 429, false: 303}[n == 60]; resp.Status != want {
			t.Fatalf("spec, Limits: request %d of a minute: %d", n+1, resp.Status)
		}
	}
}

// An integration that is not ready starts no session for a client either.
func TestAuthorize_NotReady(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{ID: client, PublisherID: "pub_a",
		Level: "L1", ChallengeAge: 25, Method: "sandbox", RedirectURIs: []string{redirect}}, ""))
	w.Clock.Advance(10 * time.Second)
	q := mustQuery(t, w.send("GET", authorizePath, authorization().Encode(), nil))
	if q.Get("error") != "unauthorized_client" {
		t.Errorf("spec, Delivery 5: %v", q)
	}
}

// Nothing but the code itself, its client, its redirect URI, its verifier and the publisher's secret key gets
// an ID token, and no rejected request uses the code.
func TestToken_Attacks(t *testing.T) {
	w := newFixture(t)
	code := w.code(t)
	unbound := w.code(t, "code_challenge", "-", "code_challenge_method", "-")
	own := basic(client, w.secret)
	browser := web.Header{"Origin": {"https://shop.example"}}
	for _, c := range []struct {
		name   string
		form   url.Values
		header web.Header
		want   string
	}{
		{"token endpoint by a public key", w.exchange(code, "client_secret", w.publicKey), nil,
			"invalid_client"},
		{"public key in the header", w.exchange(code, "client_secret", "-"), basic(client, w.publicKey),
			"invalid_client"},
		{"public client", w.exchange(code, "client_secret", "-"), nil, "invalid_client"},
		{"empty secret", w.exchange(code, "client_secret", ""), nil, "invalid_client"},
		{"another publisher's secret", w.exchange(code, "client_secret", w.otherSecret), nil,
			"invalid_client"},
		{"secret as a Bearer token", w.exchange(code, "client_secret", "-"),
			web.Header{"Authorization": {"Bearer " + w.secret}}, "invalid_client"},
		{"client assertion", w.exchange(code, "client_secret", "-", "client_assertion", "eyJ.e30.",
			"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"), nil,
			"invalid_client"},
		{"secret from a browser", w.exchange(code), browser, "invalid_client"},
		{"two Authorization headers", w.exchange(code, "client_secret", "-"),
			web.Header{"Authorization": append(own["Authorization"], own["Authorization"]...)},
			"invalid_client"},
		{"secret in header and form", w.exchange(code), own, "invalid_request"},
		{"another client_id in the form", w.exchange(code, "client_secret", "-", "client_id", other), own,
			"invalid_request"},
		{"no client_id", w.exchange(code, "client_id", "-"), nil, "invalid_client"},

		{"code injection: another client", w.exchange(code, "client_id", other,
			"client_secret", w.otherSecret), nil, "invalid_grant"},
		{"code injection: another verifier", w.exchange(code, "code_verifier", strings.Repeat("v", 43)), nil,
			"invalid_grant"},
		{"PKCE downgrade: no verifier", w.exchange(code, "code_verifier", "-"), nil, "invalid_grant"},
		{"PKCE downgrade: the challenge as verifier", w.exchange(code, "code_verifier", digest), nil,
			"invalid_grant"},
		{"PKCE downgrade: a verifier without a challenge", w.exchange(unbound), nil, "invalid_grant"},
		{"PKCE downgrade: an empty verifier", w.exchange(code, "code_verifier", ""), nil, "invalid_grant"},
		{"another registered redirect_uri", w.exchange(code, "redirect_uri", second), nil, "invalid_grant"},
		{"no redirect_uri", w.exchange(code, "redirect_uri", "-"), nil, "invalid_request"},
		{"an altered code", w.exchange(code[:len(code)-1] + "A"), nil, "invalid_grant"},
		{"no code", w.exchange("-", "code", "-"), nil, "invalid_request"},
		{"an empty code", w.exchange(""), nil, "invalid_request"},
		{"oversize code", w.exchange(code + strings.Repeat("A", 10_000)), nil, "invalid_grant"},

		{"no grant_type", w.exchange(code, "grant_type", "-"), nil, "invalid_request"},
		{"password grant", w.exchange(code, "grant_type", "password"), nil, "unsupported_grant_type"},
		{"refresh", w.exchange(code, "grant_type", "refresh_token"), nil, "unsupported_grant_type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp := w.send("POST", tokenPath, c.form.Encode(), c.header)
			status := map[bool]int{true: 401, false: 400}[c.want == "invalid_client"]
			if resp.Status != status || errorOf(t, resp) != c.want ||
				resp.Header.Get("Cache-Control") != "no-store" ||
				(status == 401) != resp.Header.Has("Www-Authenticate") ||
				strings.Contains(string(resp.Body), w.secret) {
				t.Errorf("contract 50: %d, %v, %s; want %s", resp.Status, resp.Header, resp.Body, c.want)
			}
		})
	}
	for _, doubled := range []string{"code=x", "client_id=" + client, "redirect_uri=x", "code_verifier=x",
		"client_secret=x", "grant_type=authorization_code"} {
		resp := w.send("POST", tokenPath, w.exchange(code).Encode()+"&"+doubled, nil)
		if resp.Status != 400 || errorOf(t, resp) != "invalid_request" {
			t.Errorf("contract 50: doubled %s: %d, %s", doubled, resp.Status, resp.Body)
		}
	}
	for _, used := range []url.Values{w.exchange(code), w.exchange(unbound, "code_verifier", "-")} {
		if resp := w.send("POST", tokenPath, used.Encode(), nil); resp.Status != 200 {
			t.Errorf("contract 50: a rejected request has used the code: %d, %s", resp.Status, resp.Body)
		}
	}
}

func TestToken_Requests(t *testing.T) {
	w := newFixture(t)
	form := w.exchange(w.code(t)).Encode()
	for _, c := range []struct {
		name   string
		body   string
		header web.Header
		want   int
	}{
		{"JSON", "{}", web.Header{"Content-Type": {"application/json"}}, 415},
		{"no type", form, web.Header{"Content-Type": nil}, 415},
		{"two types", form, web.Header{"Content-Type": {"application/x-www-form-urlencoded",
			"application/json"}}, 415},
		{"oversize", form + "&x=" + strings.Repeat("x", web.MaxBody), nil, 413},
		{"compressed", form, web.Header{"Content-Encoding": {"gzip"}}, 415},
	} {
		if resp := w.send("POST", tokenPath, c.body, c.header); resp.Status != c.want {
			t.Errorf("contract 50: %s: %d, want %d", c.name, resp.Status, c.want)
		}
	}
	if resp := w.send("GET", tokenPath, form, nil); resp.Status != 405 {
		t.Errorf("contract 50: GET: %d", resp.Status)
	}
}

// Requests that are rejected unread count too (rule 30).
func TestRates_MalformedRequests(t *testing.T) {
	for _, c := range []struct {
		path, body string
		header     web.Header
		status, n  int
	}{
		{authorizePath, "x", web.Header{"Content-Type": {"text/plain"}}, 415, 60},
		{authorizePath, strings.Repeat("x", web.MaxBody+1), nil, 413, 60},
		{tokenPath, "x", web.Header{"Content-Type": {"text/plain"}}, 415, 600},
		{userinfoPath, strings.Repeat("x", web.MaxBody+1), nil, 413, 600},
	} {
		w := newFixture(t)
		for n := range c.n + 1 {
			want := c.status
			if n == c.n {
				want = 429
			}
			if resp := w.send("POST", c.path, c.body, c.header); resp.Status != want {
				t.Errorf("contract 30: POST %s, request %d: %d, want %d", c.path, n+1, resp.Status, want)
				break
			}
		}
	}
}

// A session that an instance of an earlier release completed has no age to vouch for.
func TestCallback_NoAge(t *testing.T) {
	w := newFixture(t)
	claims := w.start(t, authorization())
	to, err := Callback(w.Provider.Sealer, baseURL, &claims, token.ResultClaims{}, 0, w.Clock.Now())
	back, _ := url.Parse(to)
	if err != nil || back.Query().Get("error") != "access_denied" || back.Query().Has("code") {
		t.Errorf("contract 50: %s, %v", to, err)
	}
}

// A code works once, for one minute, however many codes a session had.
func TestToken_Replay(t *testing.T) {
	w := newFixture(t)
	claims := w.start(t, authorization())
	code := w.finish(t, claims).Get("code")
	id, err := session.ParseID(w.Provider.Sealer, claims.Session)
	coretest.Must(t, err)
	w.Clock.Advance(codeLife - time.Second)
	again := w.finish(t, claims).Get("code") // the user has loaded the page again
	if resp := w.send("POST", tokenPath, w.exchange(code).Encode(), nil); resp.Status != 200 {
		t.Fatalf("contract 50: after 59 s: %d, %s", resp.Status, resp.Body)
	}
	for name, used := range map[string]string{"the code": code, "another code of the session": again} {
		resp := w.send("POST", tokenPath, w.exchange(used).Encode(), nil)
		if resp.Status != 400 || errorOf(t, resp) != "invalid_grant" {
			t.Errorf("contract 17: %s again: %d, %s", name, resp.Status, resp.Body)
		}
	}
	if _, err := w.Store.Get(ctx, id.UsedKey()); err != nil {
		t.Errorf("contract 17: the store does not know the used code: %v", err)
	}
	late := w.code(t)
	w.Clock.Advance(codeLife)
	resp := w.send("POST", tokenPath, w.exchange(late).Encode(), nil)
	if resp.Status != 400 || errorOf(t, resp) != "invalid_grant" {
		t.Errorf("contract 50: after 60 s: %d, %s", resp.Status, resp.Body)
	}
}

// A token of one kind is never accepted as another.
func TestTokenKinds(t *testing.T) {
	w := newFixture(t)
	code := w.code(t)
	var got tokens
	resp := w.send("POST", tokenPath, w.exchange(w.code(t)).Encode(), nil)
	coretest.Must(t, json.Unmarshal(resp.Body, &got))
	claims := w.start(t, authorization())
	resultToken, err := token.SealResult(w.Provider.Sealer, token.ResultClaims{Session: claims.Session,
		Completed: token.At(w.Clock.Now()), Outcome: "x"})
	coretest.Must(t, err)
	for name, text := range map[string]string{"a code": code, "an ID token": got.IDToken,
		"a result token": resultToken, "a secret key": w.secret, "nothing": "",
		"an altered token": got.AccessToken + "A"} {
		resp := w.send("GET", userinfoPath, "", web.Header{"Authorization": {"Bearer " + text}})
		if resp.Status != 401 || errorOf(t, resp) != "invalid_token" {
			t.Errorf("contract 15: %s as an access token: %d, %s", name, resp.Status, resp.Body)
		}
	}
	for name, text := range map[string]string{"an access token": got.AccessToken,
		"an ID token": got.IDToken, "a result token": resultToken} {
		resp := w.send("POST", tokenPath, w.exchange(text).Encode(), nil)
		if resp.Status != 400 || errorOf(t, resp) != "invalid_grant" {
			t.Errorf("contract 15: %s as a code: %d, %s", name, resp.Status, resp.Body)
		}
	}
	if _, err := w.Results.Open(code); err == nil {
		t.Error("contract 15: a code opens as a result token")
	}
	for name, header := range map[string]web.Header{"none": nil, "two": {"Authorization": {
		"Bearer " + got.AccessToken, "Bearer " + got.AccessToken}}, "Basic": basic(client, w.secret)} {
		if resp := w.send("GET", userinfoPath, "access_token="+got.AccessToken, header); resp.Status != 401 {
			t.Errorf("contract 50: userinfo with credentials %s: %d", name, resp.Status)
		}
	}
}

// Logs have no code, token, state or nonce.
func TestLog_NoSecrets(t *testing.T) {
	w := newFixture(t)
	code := w.code(t)
	w.send("POST", tokenPath, w.exchange(code, "code_verifier", "-").Encode(), nil)
	w.send("GET", authorizePath, authorization("scope", "x").Encode(), nil)
	logged := w.Logged.String()
	if !strings.Contains(logged, "authorization code rejected") ||
		!strings.Contains(logged, "authorization request rejected") {
		t.Fatalf("contract 48: the log has %s", logged)
	}
	for _, secret := range []string{code, w.secret, "n-0S6", "s t/1", "shop=1", digest} {
		if strings.Contains(logged, secret) {
			t.Errorf("contract 13: the log has %q: %s", secret, logged)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add(authorization().Encode())
	f.Add("response_type=code&scope=openid&code_challenge_method=S256&code_challenge=" + digest)
	f.Add("scope=openid&scope=%zz&prompt=none+login&request=")
	f.Fuzz(func(t *testing.T, text string) {
		s, bad := readRequest(text, redirect)
		challenge, nonce, ok := strings.Cut(string(s.Request), ".")
		if bad == nil && (!ok || len(nonce) > maxNonce || challenge != "" && len(challenge) != 43) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

// The texts of errors need no escapes in JSON.
func TestFaults(t *testing.T) {
	for _, f := range []*fault{faultRedirect, faultState, faultRequest, faultRequestURI,
		faultRegistration, faultNoType, faultType, faultMode, faultScope, faultNonce, faultPrompt,
		faultInteraction, faultMethod, faultChallenge, faultNotReady, faultUnavailable, errDenied, errAccess,
		errCredentials, errCode, faultBoth, faultClientID, faultNoGrant, faultGrantType, faultNoCode,
		faultNoURI, {"invalid_request", formdata.ParameterError("code").Error()}} {
		var body struct {
			Code string `json:"error"`
			Text string `json:"error_description"`
		}
		if err := json.Unmarshal(f.response(400, "").Body, &body); err != nil || body.Code != f.code ||
			body.Text != f.description || strings.ContainsFunc(f.description,
			func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
			t.Errorf("RFC 6749, 5.2: %+v, %v", f, err)
		}
	}
}

func FuzzCredentials(f *testing.F) {
	f.Add("Basic eDp5", "client_id=x")
	f.Add("basic eDo=", "client_secret=")
	f.Add("Bearer x", "")
	f.Fuzz(func(t *testing.T, header, form string) {
		q, err := url.ParseQuery(form)
		if err != nil {
			return
		}
		_, secret, bad := credentials(web.Header{"Authorization": {header}}, q)
		if bad != nil && secret != "" {
			t.Errorf("%q, %q: a secret with an error", header, form)
		}
	})
}
