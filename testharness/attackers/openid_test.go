package attackers

var openIDRequests = foothold{"Anyone who sends a browser to the OpenID provider", []row{
	{
		says:  "They start sessions of a client within the rates of a public key.",
		tries: "authorization requests, over and over",
		gets:  "429 after 60 in a minute from an address",
		proof: []string{"core/internal/openid:TestAuthorize_Rates"},
	},
	{
		tries: "a client that is archived, not ready, or without redirect URIs",
		gets:  "no session",
		proof: []string{"core/internal/openid:TestAuthorize_ClientsSwitchedOff",
			"core/internal/openid:TestAuthorize_NotReady"},
	},
	{
		says: "A browser leaves only for a redirect URI that the client has registered, byte for byte.",
		tries: "other hosts, paths, ports, cases, escapes, dots, user names and fragments in " +
			"`redirect_uri`; two of them; none",
		gets:  "400, and no redirect",
		proof: []string{"core/internal/openid:TestAuthorize_NoRedirect"},
	},
	{
		says: "A code counts once, within a minute, with the publisher's secret key, and for its own " +
			"client, redirect URI and PKCE challenge.",
		tries: "a code again; another code of the session; a code after 60 seconds",
		gets:  "`invalid_grant`",
		proof: []string{"core/internal/openid:TestToken_Replay",
			"testharness/conformance:TestOpenIDProvider"},
	},
	{
		tries: "a stolen code at another client or redirect URI, without the verifier, with another one, " +
			"or after the challenge was removed from the request",
		gets:  "`invalid_grant`; the code is not used",
		proof: []string{"core/internal/openid:TestToken_Attacks"},
	},
	{
		tries: "PKCE by `plain`, and doubled parameters",
		gets:  "`invalid_request`, and no session",
		proof: []string{"core/internal/openid:TestAuthorize_Errors"},
	},
	{
		says:  "A public key, and the secret key of another publisher, get no ID token.",
		tries: "both at the token endpoint, a client without a secret, and a secret from a page",
		gets:  "401 `invalid_client`",
		proof: []string{"core/internal/openid:TestToken_Attacks"},
	},
	{
		says:  "An ID token names one client, and is no access token.",
		tries: "ID tokens, codes, result tokens and keys for userinfo, and each of them as a code",
		gets:  "401 `invalid_token`; `invalid_grant`",
		proof: []string{"core/internal/openid:TestTokenKinds", "core/internal/openid:TestProvider_Success"},
	},
	{
		says:  "The issuer in each response lets a client detect a mix-up.",
		tries: "success, errors and denials",
		gets:  "`iss` in each",
		proof: []string{"core/internal/openid:TestProvider_Success",
			"core/internal/openid:TestAuthorize_Errors", "core/internal/openid:TestDenied"},
	},
	{
		says:  "The provider has no logout, and accepts no request objects.",
		tries: "`request`, `request_uri` and `registration`; endpoints for logout",
		gets:  "errors of OpenID Connect; none is announced",
		proof: []string{"core/internal/openid:TestAuthorize_Errors", "core/internal/openid:TestDocuments"},
	},
}}
