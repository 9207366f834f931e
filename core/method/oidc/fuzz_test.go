package oidc_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/edge/signing"
)

// canned answers each address with fixed bytes.
type canned map[string]string

func (c canned) Fetch(_ context.Context, r host.FetchRequest) (host.FetchResponse, error) {
	body := c[r.URL]
	return host.FetchResponse{
		Status: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body),
	}, nil
}

// zeros are the randomness of a test that has to know the nonce.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

const fuzzIssuer = "https://id.example"

const fuzzDiscovery = `{"issuer":"https://id.example","authorization_endpoint":"https://id.example/a",` +
	`"token_endpoint":"https://id.example/t","jwks_uri":"https://id.example/k"}`

// A public key whose private key is not available here: no fuzzed token can be valid.
const fuzzKeys = `{"keys":[{"kty":"EC","crv":"P-256","kid":"1",` +
	`"x":"i94jh4QBV1j6uR0ZjcWLE4w7_pWdpgvjtx3X454LL4Q","y":"Zd-uyqD0vWzWe3SA8q253rILHy234YkzlX58YBsXmSM"}]}`

// FuzzProvider: no input from the provider and the browser panics or is approved.
func FuzzProvider(f *testing.F) {
	token := func(header, claims string) string {
		encode := base64.RawURLEncoding.EncodeToString
		return `{"id_token":"` + encode([]byte(header)) + "." + encode([]byte(claims)) + "." +
			encode(make([]byte, 64)) + `","token_type":"Bearer"}`
	}
	good := token(`{"alg":"ES256","kid":"1"}`,
		`{"iss":"https://id.example","aud":"verge","sub":"1","exp":1800000000,`+
			`"iat":1700000000,"nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","is_over_18":true}`)
	f.Add(fuzzDiscovery, fuzzKeys, good, "code=x")
	f.Add(fuzzDiscovery, fuzzKeys, token(`{"alg":"none"}`, `{}`), "code=x&iss=https://id.example")
	f.Add(fuzzDiscovery,
		`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`, good,
		"code=x")
	f.Add(fuzzDiscovery, fuzzKeys, `{"error":"invalid_grant"}`, "error=access_denied")
	f.Add(`{"issuer":"https://id.example"}`, `[]`, `{`, "state=%zz")
	f.Fuzz(func(t *testing.T, discovery, keys, answer, query string) {
		form, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		now := time.Unix(1750000000, 0)
		m, err := oidc.Kind.Open(method.Config{
			Settings: []byte(`{"issuer":"` + fuzzIssuer + `","client_id":"verge",` +
				`"proof":{"claim":["is_over_18"],"equals":true,"age":18}}`),
			Secrets: map[string]string{"client_secret": "s"},
		}, method.Host{
			Now: func() time.Time { return now }, Random: zeros{}, Verify: signing.Verify,
			Fetch: canned{fuzzIssuer + "/.well-known/openid-configuration": discovery,
				fuzzIssuer + "/k": keys, fuzzIssuer + "/t": answer},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := method.Session{MinimumAge: 18, ReturnURL: "https://verge.example/verify/return/id"}
		d, err := m.Act(context.Background(), s, method.Step{Form: url.Values{"outcome": {"begin"}}})
		if err != nil {
			return
		}
		if u, parseErr := url.Parse(d.Leave.URL); parseErr != nil || u.Scheme != "https" ||
			len(d.Leave.URL) > 2048 {
			t.Fatalf("the browser is sent to %q", d.Leave.URL)
		}
		d, err = m.Act(context.Background(), s, method.Step{Form: form, Back: true, State: d.State})
		if err == nil && d.Verdict != method.Cancelled {
			t.Fatalf("it decides %+v", d)
		}
		rejection := (*method.Rejection)(nil)
		if errors.As(err, &rejection) && strings.Trim(rejection.Reason,
			"abcdefghijklmnopqrstuvwxyz_0123456789") != "" {
			t.Fatalf("the reason %q is not a constant", rejection.Reason)
		}
	})
}

// FuzzSettings: what Check lets through, Open opens, and no mistake panics.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"issuer":"https://id.example","client_id":"verge",` +
		`"proof":{"claim":["a"],"equals":true,"age":18}}`))
	f.Add([]byte(`{"preset":"idura-age","country":"DK","issuer":"https://id.example","client_id":"verge"}`))
	f.Add([]byte(`{"preset":"govuk-one-login","client_id":"verge","credential":{"did":"did:web:%3A"}}`))
	f.Add([]byte(`{"proof":[{"require":[{"claim":[""]}]}],"parameters":{"":1},"claims":{},"acr_values":"a b"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := method.Config{Settings: raw, Secrets: map[string]string{"client_secret": "s"}}
		wrong := oidc.Kind.Check(c)
		m, err := oidc.Kind.Open(c, method.Host{})
		if (err == nil) != (len(wrong) == 0) {
			t.Fatalf("Check: %v; Open: %v", wrong, err)
		}
		if err == nil {
			m.Show(method.Session{}, nil)
			if problems := oidc.Kind.Narrow(c, nil); len(problems) > 0 {
				t.Fatalf("an integration without settings: %v", problems)
			}
		}
	})
}

// FuzzNarrow: an integration's settings never panic, and what passes has nothing but acr_values.
func FuzzNarrow(f *testing.F) {
	f.Add([]byte(`{"acr_values":["high"]}`))
	f.Add([]byte(`{"acr_values":"high low","scope":null}`))
	config := method.Config{
		Settings: []byte(`{"issuer":"https://id.example","client_id":"verge","acr_values":"high substantial",` +
			`"proof":{"claim":["a"],"equals":true,"age":18}}`),
		Secrets: map[string]string{"client_secret": "s"},
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if wrong := oidc.Kind.Narrow(config, raw); len(wrong) == 0 {
			for _, word := range []string{"issuer", "proof", "client", "scope"} {
				if strings.Contains(string(raw), `"`+word) {
					t.Fatalf("%q passes", raw)
				}
			}
		}
	})
}
