package host

import (
	"slices"
	"time"

	"github.com/verge-id/verge/core/internal/metric"
)

// Measurement is an event of a verification method that is worth a metric.
type Measurement struct {
	Method string        // the method's name
	Event  string        // MethodFetched, MethodFetchFailed or an event of the core, such as "begun"
	Reason string        // why; "" for an event that speaks for itself
	Took   time.Duration // of MethodFetched and MethodFetchFailed
}

// MethodFetched and MethodFetchFailed are requests to the provider of a method. The engine's host measures
// them, not the core. The reason of the second is a Fetch constant.
const (
	MethodFetched     = "fetched"
	MethodFetchFailed = "fetch_failed"
)

var (
	methodEvents = metric.MethodEvents()
	fetchEvents  = []string{MethodFetched, MethodFetchFailed}
)

// methodReasons has every reason that a method gives: those of failed attempts, of fetches, and of
// rejections.
var methodReasons = []string{
	"below", "unsure", "not_live", "no_face", "unconfirmed", "unproven", "other_age",
	"document_expired", "issuer_untrusted", "other_document", "document_revoked", "signer_revoked",
	FetchBlocked, FetchTimeout, FetchDNS, FetchRefused, FetchTLS, FetchNetwork,
	FetchStatusLine, FetchHeaderLine, FetchHeaderSize, FetchCut, FetchMalformed,
	FetchUnavailable,

	"outdated", // a verdict that was kept

	// errors that a setting causes
	"address_too_long", "certificate_host", "init_error", "integration_settings", "no_address",
	"no_challenge_age", "no_proof", "not_decrypted", "not_signed",

	// users' passkeys
	"passkey_answer", "passkey_unknown", "passkey_blocked", "passkey_over", "passkey_trust",
	"passkey_elsewhere", "passkey_level",
	"passkey_method", "passkey_age", "passkey_stricter",

	// rejections of oidc and estimator
	"return_iss_differs", "return_iss_missing", "return_malformed",
	"return_error", "status", "media_type", "too_large", "json", "discovery_member",
	"discovery_issuer_differs", "jwks", "par_member", "par_required", "token_member",
	"token_error", "at_hash",
	"jwt_form", "jwt_header", "jwt_crit", "jwt_alg", "jwt_no_key", "jwt_signature", "jwt_claims",
	"jwt_iss", "jwt_aud", "jwt_azp", "jwt_exp", "jwt_iat", "jwt_nbf", "jwt_nonce", "jwt_acr",
	"jwt_auth_time", "jwt_sub", "userinfo_sub_differs", "userinfo_no_access_token",
	"return_error_invalid_request",
	"return_error_unauthorized_client", "return_error_unsupported_response_type",
	"return_error_invalid_scope", "return_error_server_error", "return_error_temporarily_unavailable",
	"return_error_interaction_required", "return_error_login_required",
	"return_error_account_selection_required", "return_error_consent_required",
	"return_error_invalid_request_uri", "return_error_unmet_authentication_requirements",
	"token_error_invalid_request", "token_error_invalid_client", "token_error_invalid_grant",
	"token_error_unauthorized_client", "token_error_unsupported_grant_type",
	"token_error_invalid_scope", "token_error_invalid_redirect_uri", "age_missing",
	"age_out_of_range", "answer_not_json", "answer_too_large", "deviation_missing",
	"deviation_out_of_range", "face_unknown", "liveness_unknown",

	// rejections of openid4vp, and of the documents that it reads
	"answer_form", "answer_state", "answer_protocol", "not_encrypted", "vp_token",
	"vp_token_credential", "vp_token_presentations", "vp_token_encoding", "jwe_payload",
	"response_encoding", "cross_device", "unverified", "trust_lists", "wallet_error_invalid_request",
	"wallet_error_invalid_scope", "wallet_error_invalid_client", "wallet_error_unauthorized_client",
	"wallet_error_unsupported_response_type", "wallet_error_server_error",
	"wallet_error_temporarily_unavailable", "wallet_error_vp_formats_not_supported",
	"wallet_error_invalid_request_uri_method", "wallet_error_invalid_transaction_data",
	"wallet_error_wallet_unavailable", "wallet_error_unknown",

	"cbor", "version", "documents", "member", "document_type", "chain", "certificate",
	"certificate_extension", "certificate_key", "certificate_validity", "certificate_authority",
	"certificate_path", "certificate_usage", "certificate_eku", "untrusted", "cose", "cose_critical",
	"cose_algorithm", "issuer_signature", "mso", "mso_version", "mso_document_type",
	"mso_digest_algorithm", "mso_validity", "mso_expired", "mso_not_yet_valid",
	"mso_signed_outside_certificate", "mso_device_key", "item", "item_random", "element_twice",
	"too_many_elements", "digest_missing", "digest_mismatch",
	"status_missing", "status_malformed", "status_index", "crl_missing", "status_unavailable",
	"status_unknown", "crl_unavailable",
	"device_auth", "device_mac", "transcript", "device_signature", "jwe_form", "jwe_header",
	"jwe_algorithm", "jwe_key_id", "jwe_ephemeral_key", "jwe_not_opened", "hpke_form",
	"hpke_not_opened", "zk_proof", "zk_circuit", "zk_timestamp", "zk_missing", "zk_unavailable",

	"sd_jwt_size", "sd_jwt_form", "sd_jwt_token", "sd_jwt_payload", "sd_jwt_type", "sd_jwt_dates",
	"sd_jwt_expired", "sd_jwt_not_yet_valid", "sd_jwt_signed_outside_certificate",
	"sd_jwt_digest_algorithm", "sd_jwt_disclosure", "sd_jwt_disclosure_twice",
	"sd_jwt_disclosure_unused", "sd_jwt_digest", "sd_jwt_digest_twice", "sd_jwt_reserved_name",
	"sd_jwt_claim_twice", "sd_jwt_depth", "sd_jwt_key", "key_binding", "key_binding_audience",
	"key_binding_nonce", "key_binding_hash", "key_binding_date", "key_binding_signature",
}

// NewMeasurement returns the measurement of an event that a core reports. An event or a reason outside the
// lists becomes "other": a module may be newer than its host, or hostile. The events of fetches become
// "other" too, since a core does not measure them. The name of the method is not checked, because only the
// metrics have the list of configured methods.
func NewMeasurement(method, event, reason string) Measurement {
	return Measurement{Method: method, Event: among(methodEvents, event), Reason: reasonOf(reason)}
}

// Listed returns m with the event and the reason of the lists.
func (m Measurement) Listed() Measurement {
	if !slices.Contains(fetchEvents, m.Event) {
		m.Event = among(methodEvents, m.Event)
	}
	m.Reason = reasonOf(m.Reason)
	return m
}

func reasonOf(reason string) string {
	if reason == "" {
		return ""
	}
	return among(methodReasons, reason)
}
