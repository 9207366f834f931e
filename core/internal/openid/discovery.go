package openid

import (
	"context"
	"strings"

	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/web"
)

// metadata is the discovery document (OpenID Connect Discovery 1.0, 3; RFC 9207, 3), with @ for the issuer. A
// subject stands for one session, so two clients never share one (pairwise).
const metadata = `{"issuer":"@","authorization_endpoint":"@/authorize","token_endpoint":"@/token",` +
	`"userinfo_endpoint":"@/userinfo","jwks_uri":"@/jwks","scopes_supported":["openid"],` +
	`"response_types_supported":["code"],"response_modes_supported":["query"],` +
	`"grant_types_supported":["authorization_code"],"acr_values_supported":["L1","L2"],` +
	`"subject_types_supported":["pairwise"],"id_token_signing_alg_values_supported":["ES256"],` +
	`"token_endpoint_auth_methods_supported":["client_secret_basic","client_secret_post"],` +
	`"claims_supported":["iss","aud","exp","iat","nonce","sub","auth_time","acr","age_equal_or_over",` +
	`"session_id"],"code_challenge_methods_supported":["S256"],` +
	`"ui_locales_supported":["en","de","es","fr","pt","it"],"claims_parameter_supported":false,` +
	`"request_parameter_supported":false,"request_uri_parameter_supported":false,` +
	`"authorization_response_iss_parameter_supported":true}`

func (p *Provider) discovery(context.Context, *router.Call) (*web.Response, error) {
	return public(strings.ReplaceAll(metadata, "@", p.BaseURL+Path)), nil
}

func (p *Provider) jwks(context.Context, *router.Call) (*web.Response, error) {
	set := `{"keys":[`
	for _, k := range p.Keys {
		set += strings.TrimSuffix(k.json, "}") + `,"kid":"` + k.id + `","use":"sig","alg":"ES256"},`
	}
	return public(strings.TrimSuffix(set, ",") + "]}"), nil
}

// public returns a document that caches may keep for five minutes. A new key is published for longer before
// it signs.
func public(body string) *web.Response {
	r := web.JSONBytes(200, []byte(body))
	r.Header.Set("Cache-Control", "public, max-age=300")
	return r
}
