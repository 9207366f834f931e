package api

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// MaxCallback is the most bytes of a callback_url.
const MaxCallback = 2048

// CallbackParams are the parameters that the service adds to a callback, so
// that none of them may be there before.
var CallbackParams = []string{"result_token", "session_id", "state"}

// CallbackRules is what a callback_url is held against beside contract 8's
// own rules. The zero value allows https to any host.
type CallbackRules struct {
	Dev     bool     // also http to a loopback host
	Origins []string // where not empty: the only origins allowed, such as https://www.publisher.example
}

// What may be wrong with a callback_url, as its publisher reads it.
const (
	callbackTooLong   = "The URL must not be longer than 2048 bytes."
	callbackText      = "The URL must be printable ASCII without spaces, double quotes, backslashes, carets, backticks, vertical bars, angle or curly brackets; percent-encode other characters."
	callbackEscape    = "The URL holds a percent sign that is not followed by two hexadecimal digits."
	callbackFragment  = "The URL must not have a fragment."
	callbackRelative  = "The URL must be absolute, such as https://www.publisher.example/return."
	callbackScheme    = "The URL must use https."
	callbackDevScheme = "The URL must use https, or http to a loopback host."
	callbackUserinfo  = "The URL must not have a user name or password."
	callbackHost      = "The URL's host must be a DNS name in ASCII letters, digits and hyphens (punycode for others), or an IP address in its canonical form."
	callbackPort      = "The URL's port must be a number from 1 to 65535 without leading zeros, or left out with its colon."
	callbackDots      = "The URL's path must not have segments of one or two dots."
	callbackReserved  = "The URL's query must not have a parameter named result_token, session_id or state."
	callbackOrigin    = "The URL is not inside the callback origins that the integration allows."
)

// ParseCallback checks a callback_url (contract 8). problem is "" where it may
// be used, byte for byte as it was given, and otherwise a sentence for the
// publisher that repeats nothing of it. origin is the callback's origin as
// browsers write it.
//
// A browser will read the URL again, by other rules than net/url's. So this
// accepts only what leaves nothing to correct, and what every reader takes
// for the same scheme, host and port.
func ParseCallback(raw string, rules CallbackRules) (origin, problem string) {
	if len(raw) > MaxCallback {
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
		// Browsers take an escaped dot for a dot and resolve such segments; servers do not.
		if segment, _ := url.PathUnescape(segment); segment == "." || segment == ".." {
			return "", callbackDots
		}
	}
	// Some servers take a semicolon for an ampersand.
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if name, _ = url.QueryUnescape(name); slices.Contains(CallbackParams, name) {
			return "", callbackReserved
		}
	}
	origin = base.String()
	if len(rules.Origins) > 0 && !slices.ContainsFunc(rules.Origins, func(allowed string) bool { return sameOrigin(allowed, origin) }) {
		return "", callbackOrigin
	}
	return origin, ""
}

// AppendQuery returns callback with the parameters added to its query, which
// is otherwise left as it is. Callback must be one that ParseCallback accepts.
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

// escapeQuery writes a space as %20, which every reader decodes: a plus is
// left as it is by decodeURIComponent and its like, and would change a state.
func escapeQuery(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// webOrigin is scheme, host and port, normalised: lower case, no default port.
type webOrigin struct{ scheme, host, port string }

func (o webOrigin) String() string {
	if o.port == "" {
		return o.scheme + "://" + o.host
	}
	return o.scheme + "://" + o.host + ":" + o.port
}

// loopback reports whether the host names this machine by its form alone.
func (o webOrigin) loopback() bool {
	if addr, err := netip.ParseAddr(strings.Trim(o.host, "[]")); err == nil {
		return addr.IsLoopback()
	}
	return o.host == "localhost" || strings.HasSuffix(o.host, ".localhost")
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

// checkURLText looks at characters alone.
func checkURLText(raw string) (problem string) {
	for i := range len(raw) {
		c := raw[i]
		if isURLText[c] {
			continue
		}
		switch {
		case c != '#' && c != '%':
			return callbackText
		case c == '#':
			return callbackFragment
		case c == '%' && (len(raw) < i+3 || !isHex(raw[i+1]) || !isHex(raw[i+2])):
			return callbackEscape
		}
	}
	return ""
}

// isURLText has the characters that checkURLText takes wherever they stand: a
// look into a table for each, for most of what there is in a URL.
var isURLText = func() (is [256]bool) {
	for c := '!'; c <= '~'; c++ {
		is[c] = !strings.ContainsRune("#%\"<>\\^`{|}", c)
	}
	return is
}()

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// splitURL takes apart an absolute URL that checkURLText has let through.
func splitURL(raw string) (base webOrigin, path, query, problem string) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found || scheme == "" || strings.ContainsAny(scheme, "/?:@") {
		return webOrigin{}, "", "", callbackRelative
	}
	rest, query, _ = strings.Cut(rest, "?")
	authority := rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if strings.Contains(authority, "@") {
		return webOrigin{}, "", "", callbackUserinfo
	}

	host, port := authority, ""
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		host, port = authority[:i], authority[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
			return webOrigin{}, "", "", callbackPort
		}
	}
	base = webOrigin{strings.ToLower(scheme), strings.ToLower(host), port}
	if !isHost(base.host) {
		return webOrigin{}, "", "", callbackHost
	}
	if base.scheme == "https" && port == "443" || base.scheme == "http" && port == "80" {
		base.port = ""
	}
	return base, path, query, ""
}

// isHost reports whether the lower-case host is a DNS name or an IP address
// that a browser keeps as it is. Browsers read many more spellings of an
// address (0x7f.1, 2130706433, 017700000001), all of them rejected here.
func isHost(host string) bool {
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return found && err == nil && addr.Is6() && !addr.Is4In6() && addr.Zone() == "" && addr.String() == inner
	}
	if len(host) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if len(label) == 0 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isHostText[label[i]] {
				return false
			}
		}
		if strings.HasPrefix(label, punycodePrefix) && !isPunycode(label) {
			return false
		}
		last = label
	}
	// The last label decides whether browsers take the whole for an IPv4 address.
	if isNumber(last) || isHexNumber(last) {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is4()
	}
	return true
}

var isHostText = func() (is [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_") {
		is[c] = true
	}
	return is
}()

// isNumber reports whether a label has nothing but digits.
func isNumber(label string) bool {
	for i := range len(label) {
		if label[i] < '0' || label[i] > '9' {
			return false
		}
	}
	return true
}

func isHexNumber(label string) bool {
	digits, found := strings.CutPrefix(label, "0x")
	return found && strings.Trim(digits, "0123456789abcdef") == ""
}
