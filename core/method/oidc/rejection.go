package oidc

import "github.com/verge-id/verge/core/method"

// Reasons to reject data of the provider or the browser. They are constants, for logs and metrics.
const (
	// Of the browser's return. These say that the return does not belong to the request that it carries.
	badIssuer  = "return_iss_differs" // a mix-up of two providers (RFC 9207)
	noIssuer   = "return_iss_missing" // though the provider announces it
	badReturn  = "return_malformed"   // neither a code nor an error, or both, or too long
	otherError = "return_error"       // an error that OAuth does not know

	// Of the provider's documents.
	badStatus    = "status"
	badMediaType = "media_type"
	tooLarge     = "too_large"
	badJSON      = "json"
	badDiscovery = "discovery_member"
	otherIssuer  = "discovery_issuer_differs"
	badKeySet    = "jwks"

	// Responses to a pushed request and of the token endpoint.
	badPush       = "par_member"
	pushRequired  = "par_required" // though the setting pushed is off
	badTokens     = "token_member"
	unknownError  = "token_error"
	badAccessHash = "at_hash"

	// Of a signed token.
	badForm      = "jwt_form"
	badHeader    = "jwt_header"
	critical     = "jwt_crit"
	badAlgorithm = "jwt_alg"
	noKey        = "jwt_no_key"
	badSignature = "jwt_signature"
	badClaims    = "jwt_claims"
	wrongIssuer  = "jwt_iss"
	wrongParty   = "jwt_aud"
	wrongAzp     = "jwt_azp"
	expired      = "jwt_exp"
	badIssuedAt  = "jwt_iat"
	notYetValid  = "jwt_nbf"
	wrongNonce   = "jwt_nonce"
	wrongACR     = "jwt_acr"
	badSubject   = "jwt_sub"
	badAuthTime  = "jwt_auth_time" // absent, or longer ago than max_age allows

	// Of an encrypted token. Wallets have the same reasons.
	notEncrypted  = "not_encrypted"
	badJWE        = "jwe_form"
	badJWEHeader  = "jwe_header"
	badEncryption = "jwe_algorithm"
	badEphemeral  = "jwe_ephemeral_key"
	notOpened     = "jwe_not_opened"

	// Of the userinfo endpoint.
	otherSubject = "userinfo_sub_differs"
	noAccess     = "userinfo_no_access_token"
)

func rejected(reason string) error { return &method.Rejection{Reason: reason} }

// returnErrors are the errors of an authorization endpoint by their OAuth and OpenID Connect names. The value
// is the reason. Others are otherError, so that no log repeats the browser's text.
var returnErrors = map[string]string{
	"invalid_request":                   "return_error_invalid_request",
	"unauthorized_client":               "return_error_unauthorized_client",
	"unsupported_response_type":         "return_error_unsupported_response_type",
	"invalid_scope":                     "return_error_invalid_scope",
	"server_error":                      "return_error_server_error",
	"temporarily_unavailable":           "return_error_temporarily_unavailable",
	"interaction_required":              "return_error_interaction_required",
	"login_required":                    "return_error_login_required",
	"account_selection_required":        "return_error_account_selection_required",
	"consent_required":                  "return_error_consent_required",
	"invalid_request_uri":               "return_error_invalid_request_uri",
	"unmet_authentication_requirements": "return_error_unmet_authentication_requirements",
}

// tokenErrors are the same for the token endpoint and for pushed requests.
var tokenErrors = map[string]string{
	"invalid_request":        "token_error_invalid_request",
	"invalid_client":         "token_error_invalid_client",
	"invalid_grant":          "token_error_invalid_grant",
	"unauthorized_client":    "token_error_unauthorized_client",
	"unsupported_grant_type": "token_error_unsupported_grant_type",
	"invalid_scope":          "token_error_invalid_scope",
	"invalid_redirect_uri":   "token_error_invalid_redirect_uri",
}
