package openid

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/method/sandbox"
)

// idClaims returns the claims of an ID token, without a check of its signature.
func idClaims(t *testing.T, text string) (claims map[string]any) {
	t.Helper()
	part := strings.Split(text, ".")
	if len(part) != 3 {
		t.Fatalf("not a JWT: %q", text)
	}
	raw, err := base64.RawURLEncoding.DecodeString(part[1])
	coretest.Must(t, err)
	coretest.Must(t, json.Unmarshal(raw, &claims))
	return claims
}

// All clients of a publisher have the same secrets. A code of one client is still worth nothing to another.
func TestToken_ClientsOfOnePublisher(t *testing.T) {
	const sibling = "33333333-4d4e-475f-906b-2f11c5eca7bd"
	w := newFixture(t)
	coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{ID: sibling,
		PublisherID: "pub_a", Level: "L1", ChallengeAge: 25, Method: sandbox.Name,
		Webhook:      integration.Webhook{Off: true},
		RedirectURIs: []string{redirect, second}}, ""))
	code := w.code(t)
	resp := w.send("POST", tokenPath, w.exchange(code, "client_id", sibling).Encode(), nil)
	if resp.Status != 400 || errorOf(t, resp) != "invalid_grant" {
		t.Errorf("code injection: a client of the same publisher: %d, %s", resp.Status, resp.Body)
	}
	for name, id := range map[string]string{client: code,
		sibling: w.code(t, "client_id", sibling)} {
		var got tokens
		resp := w.send("POST", tokenPath, w.exchange(id, "client_id", name).Encode(), nil)
		coretest.Must(t, json.Unmarshal(resp.Body, &got))
		if claims := idClaims(t, got.IDToken); claims["aud"] != name || claims["azp"] != nil {
			t.Errorf("ID token for another client: of %s: aud %v, azp %v", name, claims["aud"], claims["azp"])
		}
	}
}

// A client that uses several providers finds the one that responded by iss, in each response (RFC 9207).
func TestMixUp_Issuer(t *testing.T) {
	w := newFixture(t)
	var document struct {
		Issuer    string `json:"issuer"`
		Supported bool   `json:"authorization_response_iss_parameter_supported"`
	}
	discovery := w.send("GET", Path+"/.well-known/openid-configuration", "", nil)
	coretest.Must(t, json.Unmarshal(discovery.Body, &document))
	if document.Issuer != baseURL+"/oidc" || !document.Supported {
		t.Fatalf("mix-up: the discovery document has %+v", document)
	}
	denied, err := url.Parse(w.denied(t))
	coretest.Must(t, err)
	wrong := mustQuery(t, w.send("GET", authorizePath, authorization("scope", "x").Encode(), nil))
	none := mustQuery(t, w.send("GET", authorizePath, authorization("prompt", "none").Encode(), nil))
	for name, q := range map[string]url.Values{"success": w.finish(t, w.start(t, authorization())),
		"denied": denied.Query(), "wrong request": wrong, "prompt=none": none} {
		if !slices.Equal(q["iss"], []string{document.Issuer}) {
			t.Errorf("mix-up: %s: iss is %q", name, q["iss"])
		}
	}
	// An attacker's issuer in the request is ignored.
	q := mustQuery(t, w.send("GET", authorizePath,
		authorization("scope", "x").Encode()+"&iss=https://evil.example", nil))
	if !slices.Equal(q["iss"], []string{document.Issuer}) {
		t.Errorf("mix-up: the iss of the request: %q", q["iss"])
	}
}

// The provider has no login session and so no logout: no address that redirects, and no claim of a session at
// the provider that a logout token could name.
func TestLogout_None(t *testing.T) {
	w := newFixture(t)
	var document map[string]any
	discovery := w.send("GET", Path+"/.well-known/openid-configuration", "", nil)
	coretest.Must(t, json.Unmarshal(discovery.Body, &document))
	for name := range document {
		if strings.Contains(name, "session") || strings.Contains(name, "logout") ||
			strings.Contains(name, "revocation") {
			t.Errorf("logout confusion: the discovery document has %s", name)
		}
	}
	var got tokens
	resp := w.send("POST", tokenPath, w.exchange(w.code(t)).Encode(), nil)
	coretest.Must(t, json.Unmarshal(resp.Body, &got))
	claims := idClaims(t, got.IDToken)
	if claims["sid"] != nil || claims["events"] != nil {
		t.Errorf("logout confusion: the ID token has %v", claims)
	}
	request := url.Values{"id_token_hint": {got.IDToken}, "client_id": {client},
		"post_logout_redirect_uri": {"https://evil.example/"}, "logout_token": {got.IDToken}}.Encode()
	for _, path := range []string{"/logout", "/endsession", "/session/end", "/end_session", "/revoke",
		"/introspect", "/backchannel_logout", "/frontchannel_logout", "/check_session", "/register"} {
		for _, method := range []string{"GET", "POST"} {
			resp := w.send(method, Path+path, request, nil)
			if resp.Status != 404 || resp.Header.Has("Location") {
				t.Errorf("logout confusion: %s %s: %d, %v", method, path, resp.Status, resp.Header)
			}
		}
	}
	if q := mustQuery(t, w.send("GET", authorizePath, authorization("id_token_hint", got.IDToken).Encode(),
		nil)); !q.Has("flow") {
		t.Errorf("contract 22: an ID token as a hint: %v", q)
	}
}
