// Package weburl has the rules for addresses that others choose: the callback of
// a start, the origins that an integration lists, the URL of a webhook, and what
// a page shows of a site or goes on to. Each rule is one function.
//
// The rules judge the text alone. Whether a name leads to a public address is
// for whoever connects to it.
package weburl

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// maxLength is the most bytes of a callback or of a webhook's URL (contract 8, 28).
const maxLength = 2048

// IsOrigin reports whether s is an origin as browsers write it, which is how an integration must list it:
// https://host or https://host:port, in lower case, with nothing behind it. dev also allows http.
func IsOrigin(s string, dev bool) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "https" || dev && u.Scheme == "http") &&
		u.Scheme+"://"+u.Host == s && strings.ToLower(s) == s
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

// IsWebhook reports whether events may be sent to s: an absolute https URL without user name and fragment,
// of at most 2048 bytes (contract 28). dev also allows http.
func IsWebhook(s string, dev bool) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.User == nil && u.Fragment == "" && len(s) <= maxLength &&
		(u.Scheme == "https" || dev && u.Scheme == "http")
}

// Site returns what a page may say of the site that a URL leads to: its bare origin, and its host as it is
// shown. Both are empty where there is no site that a person should be sent to. A host may have letters,
// marks, digits and the punctuation of names. Other characters can make it read as another host.
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
// https, of at most 2048 bytes. dev also allows http.
func IsLeave(s string, dev bool) bool { return IsHop(s) && IsWebhook(s, dev) }

// IsHop reports whether browsers read s as the http(s) address that it is, both in a link and as the target
// of a refresh. Browsers allow quotes around the address of a refresh and cut white space around it off.
// They also drop tabs and newlines from every address. So s may have none of these.
func IsHop(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") &&
		!strings.ContainsFunc(s, misread)
}

// misread reports whether browsers may drop or change r in an address that a page has. Of printable ASCII
// these are quotes, backslashes and the signs of markup.
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

// ownSchemes are those of addresses that browsers carry out or show themselves.
var ownSchemes = []string{"about", "blob", "chrome", "data", "edge", "file", "filesystem", "ftp",
	"javascript", "jar", "resource", "vbscript", "view-source", "ws", "wss"}
