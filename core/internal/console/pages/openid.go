package pages

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/operate"
)

// openIDClient is a product that can be a client of the OpenID provider.
type openIDClient struct {
	name   string
	before string // the part before ends in the usual path of its redirect URI
	ends   string // the end of its redirect URI; "": the product accepts any
	advice string
	config string // with @issuer, @client, @redirect and @age
}

// openIDClients are the products with a configuration. SECRET_KEY stands for the secret.
var openIDClients = []openIDClient{
	{name: "oauth2-proxy", ends: "/oauth2/callback",
		advice: "Set upstreams to your site, and cookie_secret to 32 random characters.",
		config: `provider = "oidc"
oidc_issuer_url = "@issuer"
client_id = "@client"
client_secret = "SECRET_KEY"
redirect_url = "@redirect"
scope = "openid"
code_challenge_method = "S256"
insecure_oidc_skip_nonce = false
oidc_email_claim = "sub"
email_domains = ["*"]
skip_provider_button = true
cookie_secret = "COOKIE_SECRET"
upstreams = ["http://127.0.0.1:8000/"]
`},
	{name: "Apache",
		advice: "For mod_auth_openidc, in the virtual host of your site. Write a long random text into the " +
			"file oidc-passphrase. A user who was not verified sees Apache's error page. Do not set " +
			"OIDCDefaultURL: Apache would begin another verification instead.",
		config: `OIDCProviderMetadataURL @issuer/.well-known/openid-configuration
OIDCClientID @client
OIDCClientSecret SECRET_KEY
OIDCRedirectURI @redirect
OIDCScope openid
OIDCPKCEMethod S256
OIDCCryptoPassphrase "exec:/usr/bin/cat /etc/apache2/oidc-passphrase"
<Location "/">
  AuthType openid-connect
  Require valid-user
</Location>
`},
	{name: "Keycloak", before: "/realms/REALM", ends: "/broker/verge/endpoint",
		advice: "Save it as verge.json, and run: kcadm.sh create identity-provider/instances -r REALM -f " +
			"verge.json. Keycloak creates a user for each verification.",
		config: `{
  "alias": "verge",
  "displayName": "Verge",
  "providerId": "oidc",
  "enabled": true,
  "config": {
    "issuer": "@issuer",
    "authorizationUrl": "@issuer/authorize",
    "tokenUrl": "@issuer/token",
    "userInfoUrl": "@issuer/userinfo",
    "jwksUrl": "@issuer/jwks",
    "useJwksUrl": "true",
    "validateSignature": "true",
    "clientId": "@client",
    "clientSecret": "SECRET_KEY",
    "clientAuthMethod": "client_secret_basic",
    "defaultScope": "openid",
    "pkceEnabled": "true",
    "pkceMethod": "S256"
  }
}
`},
	{name: "NextAuth", before: "/api", ends: "/auth/callback/verge",
		advice: "Put the client secret into the environment variable VERGE_SECRET_KEY.",
		config: `import NextAuth from "next-auth";

export const { handlers, auth, signIn, signOut } = NextAuth({
  providers: [{
    id: "verge", name: "Verge", type: "oidc",
    issuer: "@issuer",
    clientId: "@client",
    clientSecret: process.env.VERGE_SECRET_KEY,
    authorization: { params: { scope: "openid" } },
    checks: ["pkce", "state", "nonce"],
    profile: (claims) => ({ id: claims.sub, verified: claims.age_equal_or_over["@age"] === true }),
  }],
});
`},
}

// redirectURI returns the redirect URI that the product uses: a registered one with the required end, or else
// the usual one at the site of the first.
func (c openIDClient) redirectURI(registered []string) string {
	for _, uri := range registered {
		if strings.HasSuffix(uri, c.ends) {
			return uri
		}
	}
	u, err := url.Parse(registered[0])
	if err != nil { // cannot be registered
		return registered[0]
	}
	return u.Scheme + "://" + u.Host + c.before + c.ends
}

// configuration returns the product's configuration for an integration, without the secret. Redirect URIs
// have no double quotes and no control characters (weburl.CheckRedirect), so they fit between quotes.
func (c openIDClient) configuration(issuer string, i operate.Integration) string {
	return strings.NewReplacer("@issuer", issuer, "@client", i.ID, "@age", strconv.Itoa(i.Minimum()),
		"@redirect", c.redirectURI(i.RedirectURIs)).Replace(c.config)
}

// redirectsPath returns the path of the setting of redirect URIs.
func redirectsPath(f *Frame, integration string) string {
	return f.path("integrations", integration) + "#save-integration-redirect_uris"
}

// secretHint names the keys that can be the client secret by their last characters.
func secretHint(keys operate.Page[operate.Key]) string {
	text := "A secret key of this publisher"
	if len(keys.Items) == 0 && keys.Next == "" {
		return text + ", which has no secret key."
	}
	for n, k := range keys.Items {
		if n == 0 {
			text += ": …" + k.Last4
		} else {
			text += ", …" + k.Last4
		}
	}
	return text + "."
}
