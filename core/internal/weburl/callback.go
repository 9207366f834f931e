package weburl

import (
	"net/url"
	"slices"
	"strings"
)

// reserved are the parameters that the service adds to a callback. None of them may be there before.
var reserved = []string{"result_token", "session_id", "state"}

// ofOpenID are the parameters that the OpenID provider adds to a redirect URI.
var ofOpenID = []string{"code", "state", "iss", "error", "error_description"}

// CallbackRules are rules that depend on the service and the integration. The zero value allows https to any
// host.
type CallbackRules struct {
	Dev     bool     // also http to a loopback host
	Origins []string // where not empty: the only origins allowed, such as https://www.publisher.example
}

// Error texts for a callback_url.
const (
	callbackTooLong = "The URL must not be longer than 2048 bytes."
	callbackText    = "The URL must be printable ASCII without spaces, double quotes, backslashes, carets, " +
		"backticks, vertical bars, angle or curly brackets; percent-encode other characters."
	callbackEscape   = "The URL contains a percent sign that is not followed by two hexadecimal digits."
	callbackFragment = "The URL must not have a fragment."
	callbackRelative = "The URL must begin with a scheme and a host, such as " +
		"https://www.publisher.example/return."
	callbackScheme    = "The URL must use https."
	callbackDevScheme = "The URL must use https, or http to a loopback host."
	callbackUserinfo  = "The URL must not have a user name or password."
	callbackHost      = "The URL's host must be a DNS name in ASCII letters, digits and hyphens " +
		"(punycode for others), or an IP address in its canonical form."
	callbackPort = "The URL's port must be a number from 1 to 65535 without leading zeros, or be omitted " +
		"with its colon."
	callbackDots     = "The URL's path must not have segments of one or two dots."
	callbackReserved = "The URL's query must not have a parameter named result_token, session_id or state."
	redirectReserved = "The URL's query must not have a parameter named code, state, iss, error or " +
		"error_description."
	callbackOrigin = "The URL is not in the integration's callback origins."
)

// ParseCallback checks a callback_url (contract 8). If problem is "", the URL may be used unchanged, and
// origin is its origin as browsers write it. Otherwise problem is a sentence for the publisher, which does
// not repeat the URL.
//
// A browser parses the URL again, by other rules than net/url. So ParseCallback accepts only URLs that
// browsers do not change, and that every parser reads with the same scheme, host and port.
func ParseCallback(raw string, rules CallbackRules) (origin, problem string) {
	return parseCallback(raw, rules, reserved, callbackReserved)
}

// CheckRedirect returns the problem of a redirect URI of the OpenID provider (contract 50), or "". It has the
// rules of ParseCallback, with other reserved parameters.
func CheckRedirect(raw string, dev bool) (problem string) {
	_, problem = parseCallback(raw, CallbackRules{Dev: dev}, ofOpenID, redirectReserved)
	return problem
}

func parseCallback(raw string, rules CallbackRules, reserved []string, taken string) (
	origin, problem string) {
	if len(raw) > maxLength {
		return "", callbackTooLong
	}
	if problem := checkURLText(raw); problem != "" {
		return "", problem
	}
	base, path, query, problem := splitURL(raw)
	if problem != "" {
		return "", problem
	}
	if base.scheme != "https" && !(rules.Dev && base.scheme == "http" && base.loopback()) {
		if rules.Dev {
			return "", callbackDevScheme
		}
		return "", callbackScheme
	}
	for segment := range strings.SplitSeq(path, "/") {
		// Browsers take an escaped dot for a dot and resolve such segments. Servers do not.
		if segment, _ := url.PathUnescape(segment); segment == "." || segment == ".." {
			return "", callbackDots
		}
	}
	// Some servers take a semicolon for an ampersand.
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if name, _ = url.QueryUnescape(name); slices.Contains(reserved, name) {
			return "", taken
		}
	}
	origin = base.String()
	inside := func(allowed string) bool { return sameOrigin(allowed, origin) }
	if len(rules.Origins) > 0 && !slices.ContainsFunc(rules.Origins, inside) {
		return "", callbackOrigin
	}
	return origin, ""
}

// AppendQuery returns callback with the parameters added to its query, and does not change the rest.
// ParseCallback must have accepted the callback.
func AppendQuery(callback string, params [][2]string) string {
	var b strings.Builder
	b.WriteString(callback)
	_, query, separated := strings.Cut(callback, "?")
	if !separated {
		b.WriteByte('?')
	}
	separated = query == "" || strings.HasSuffix(query, "&")
	for _, p := range params {
		if !separated {
			b.WriteByte('&')
		}
		separated = false
		b.WriteString(escapeQuery(p[0]))
		b.WriteByte('=')
		b.WriteString(escapeQuery(p[1]))
	}
	return b.String()
}

// escapeQuery writes a space as %20, which every parser decodes. decodeURIComponent and others do not decode
// a plus, so a state would be returned changed.
func escapeQuery(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
