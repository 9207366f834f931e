package oidc_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/oidctest"
)

// inserting adds members to each JSON object that comes from a path.
type inserting struct {
	host.Fetcher
	path, members string // path "": all
}

func (i inserting) Fetch(ctx context.Context, r host.FetchRequest) (host.FetchResponse, error) {
	resp, err := i.Fetcher.Fetch(ctx, r)
	at, parseErr := url.Parse(r.URL)
	if err == nil && parseErr == nil && (i.path == "" || at.Path == i.path) {
		resp.Body = []byte(strings.Replace(string(resp.Body), "{", "{"+i.members, 1))
	}
	return resp, err
}

// TestForeignMembers: in a provider's message, members that Verge does not use may occur twice, and those
// that it uses may not (contract 22).
func TestForeignMembers(t *testing.T) {
	const unknown = `"x":1,"x":2,"y":{"z":1,"z":[{"v":1,"v":2}]},`
	for _, c := range []struct {
		rule, path, members string
		reason              string // "": the login is approved
	}{
		{"contract 22: unknown members twice", "", unknown, ""},
		{"contract 22: the issuer twice", oidctest.DiscoveryPath, `"issuer":"a",`,
			"discovery_issuer_differs"},
		{"contract 22: an endpoint twice", oidctest.DiscoveryPath, `"token_endpoint":"https://a.example",`,
			"discovery_member"},
		{"contract 22: the keys' address twice", oidctest.DiscoveryPath, `"jwks_uri":"https://a.example",`,
			"discovery_member"},
		{"contract 22: the announcement of iss twice", oidctest.DiscoveryPath,
			`"authorization_response_iss_parameter_supported":false,`, "discovery_member"},
		{"contract 22: lists that only method check uses", oidctest.DiscoveryPath,
			`"id_token_signing_alg_values_supported":[],"token_endpoint_auth_methods_supported":[],` +
				`"id_token_encryption_alg_values_supported":[],` +
				`"id_token_encryption_alg_values_supported":[],`, ""},
		{"contract 22: a demand for pushed requests twice", oidctest.DiscoveryPath,
			`"require_pushed_authorization_requests":false,"require_pushed_authorization_requests":false,`,
			"discovery_member"},
		{"contract 22: the keys twice", oidctest.KeysPath, `"keys":[],`, "jwks"},
		{"contract 22: the reference twice", oidctest.PushPath, `"request_uri":"urn:a",`, "par_member"},
		{"contract 22: the ID token twice", oidctest.TokenPath, `"id_token":"a",`, "token_member"},
		{"contract 22: the access token twice", oidctest.TokenPath, `"access_token":"a",`,
			"userinfo_no_access_token"},
		{"contract 22: the token's type twice", oidctest.TokenPath, `"token_type":"bearer",`, "token_member"},
		{"contract 22: the subject twice", oidctest.UserinfoPath, `"sub":"a",`, "userinfo_sub_differs"},
		{"contract 22: the claim twice", oidctest.UserinfoPath, `"is_over_18":true,`, "jwt_claims"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			w := newWalk(t, oidctest.Config{Pushed: true}, settings{"userinfo": true})
			w.host.Fetch = inserting{w.host.Fetch, c.path, c.members}
			w.open()
			d, err := w.leave()
			if err == nil {
				d, err = w.login()
			}
			if c.reason == "" {
				wantVerdict(t, c.rule, d, err, method.Approved)
			} else {
				wantRejection(t, c.rule, d, err, c.reason)
			}
		})
	}
}
