// Package weburl contains the rules for addresses from outside: the callback of a start, the origins of an
// integration, the URL of a webhook, and the addresses that a page shows or continues to. Each rule is one
// function.
//
// The rules check the text alone. The caller that connects to a name checks whether it resolves to a public
// address.
package weburl

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// maxLength is the maximum number of bytes of a callback or of a webhook's URL (contract 8, 28).
const maxLength = 2048

// Faults of an origin, in the words that its operator reads.
const (
	originForm = "an origin is https://host or https://host:port, without user name, path and query"
	originDev  = "an origin is https://host or https://host:port, in dev mode also with http, " +
		"without user name, path and query"
	originHost = "its host must be a DNS name in ASCII, or an IP address in its usual form; there are no " +
		"wildcards"
	originPort = "its port must be a number from 1 to 65535 without leading zeros"
)

// ParseOrigin checks an origin as it was typed. If problem is "", origin is the same origin as browsers write
// it: in lower case and without the default port. Otherwise problem is the fault; the A-label form of a host
// in Unicode is in it. dev also allows http.
func ParseOrigin(s string, dev bool) (origin, problem string) {
	problem = originForm
	if dev {
		problem = originDev
	}
	switch {
	case inASCII(s) != "":
		return "", "its host must be in ASCII; write it as " + inASCII(s)
	case !isASCII(s):
		return "", originHost
	case len(s) > maxLength || checkURLText(s) != "":
		return "", problem
	}
	base, path, query, wrong := splitURL(s)
	switch {
	case wrong == callbackHost:
		return "", originHost
	case wrong == callbackPort:
		return "", originPort
	case wrong != "" || path != "" || query != "" || strings.Contains(s, "?"),
		base.scheme != "https" && (!dev || base.scheme != "http"):
		return "", problem
	}
	return base.String(), ""
}

// Origins returns origins as browsers write them. A malformed origin stays unchanged.
func Origins(list []string) []string {
	all := slices.Clone(list)
	for n, s := range all {
		if origin, problem := ParseOrigin(s, true); problem == "" {
			all[n] = origin
		}
	}
	return all
}

// IsOrigin reports whether s is an origin as browsers write it. dev also allows http.
func IsOrigin(s string, dev bool) bool {
	origin, problem := ParseOrigin(s, dev)
	return problem == "" && origin == s
}

// sameOrigin reports whether configured, as someone typed it, is the normalised origin.
func sameOrigin(configured, origin string) bool {
	if configured == origin {
		return true
	}
	if checkURLText(configured) != "" {
		return false
	}
	base, path, query, problem := splitURL(configured)
	return problem == "" && (path == "" || path == "/") && query == "" && base.String() == origin
}

// CheckWebhook returns the fault of a webhook's URL, or "". It is an absolute https URL without user name and
// fragment, of at most 2048 bytes, that every client sends as it is (contract 28). dev also allows http.
func CheckWebhook(s string, dev bool) (problem string) {
	base, problem := readURL(s)
	if problem == "" && base.scheme != "https" && (!dev || base.scheme != "http") {
		return callbackScheme
	}
	return problem
}

// IsLoopback reports whether the host of a URL names this machine by its form alone.
func IsLoopback(raw string) bool {
	base, problem := readURL(raw)
	return problem == "" && base.loopback()
}

// Site returns the origin of a URL for a link on a page, and its host to show. Both are empty if a person
// should not be sent to the site. A host may have letters, marks, digits and the punctuation of names. Other
// characters can make it read as another host.
func Site(raw string) (origin, host string) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", ""
	}
	if strings.ContainsFunc(u.Host, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune(".-_:[]", r)
	}) {
		return "", ""
	}
	return u.Scheme + "://" + u.Host, u.Host
}

// IsLeave reports whether a verification method may send the browser to s: an address that IsHop allows, in
// https, without user name and fragment, of at most 2048 bytes. dev also allows http.
func IsLeave(s string, dev bool) bool {
	u, err := url.Parse(s)
	return err == nil && IsHop(s) && len(s) <= maxLength && u.User == nil && u.Fragment == "" &&
		(dev || u.Scheme == "https")
}

// IsHop reports whether browsers read s as the http(s) address that it is, both in a link and as the target
// of a refresh. Browsers allow quotes around the address of a refresh and cut white space around it off.
// They also drop tabs and newlines from every address. So s may have none of these.
func IsHop(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") &&
		!strings.ContainsFunc(s, misread)
}

// misread reports whether browsers may drop or change r in an address that a page has. In printable ASCII,
// these are quotes, backslashes and the characters of markup.
func misread(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"\\<>", r) }

// IsApp reports whether s is an address that a link may have browsers hand to an app, such as
// openid4vp://?a=b: printable ASCII with :// behind its scheme, and no scheme that a browser carries out or
// shows itself.
func IsApp(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if scheme == "http" || scheme == "https" {
		return IsHop(s)
	}
	isName := scheme != "" && scheme[0] >= 'a' && scheme[0] <= 'z' &&
		strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
	return ok && rest != "" && isName && !slices.Contains(ownSchemes, scheme) &&
		!strings.ContainsFunc(rest, misread)
}

// ownSchemes are the schemes of addresses that browsers execute or show themselves.
var ownSchemes = []string{"about", "blob", "chrome", "data", "edge", "file", "filesystem", "ftp",
	"javascript", "jar", "resource", "vbscript", "view-source", "ws", "wss"}
