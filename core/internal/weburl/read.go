package weburl

import (
	"net/netip"
	"strconv"
	"strings"
)

// webOrigin is scheme, host and port in lower case, without the default port.
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

// checkURLText checks only the characters.
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

// isURLText has the characters that may stand anywhere in a URL. They are most of a URL, and a table is the
// quickest way to know them.
var isURLText = func() (is [256]bool) {
	for c := '!'; c <= '~'; c++ {
		is[c] = !strings.ContainsRune("#%\"<>\\^`{|}", c)
	}
	return is
}()

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// readURL reads an absolute URL for its base alone.
func readURL(raw string) (base webOrigin, problem string) {
	if len(raw) > maxLength {
		return webOrigin{}, callbackTooLong
	}
	if ascii := inASCII(raw); ascii != "" {
		return webOrigin{}, "The URL's host must be in ASCII; write it as " + ascii
	}
	if problem := checkURLText(raw); problem != "" {
		return webOrigin{}, problem
	}
	base, _, _, problem = splitURL(raw)
	return base, problem
}

// inASCII returns a URL with the A-label form of its host, "" if there is nothing that it can tell.
func inASCII(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	host, after := rest, ""
	if i := strings.IndexAny(rest, ":/?#"); i >= 0 {
		host, after = rest[:i], rest[i:]
	}
	if ascii := toASCII(host); found && ascii != "" && isASCII(scheme+after) {
		return scheme + "://" + ascii + after
	}
	return ""
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r > '~' }) < 0
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

// isHost reports whether the lower-case host is a DNS name or an IP address that a browser does not change.
// Browsers read many more spellings of an address (0x7f.1, 2130706433, 017700000001), all of them rejected
// here.
func isHost(host string) bool {
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return found && err == nil && addr.Is6() && !addr.Is4In6() && addr.Zone() == "" &&
			addr.String() == inner
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
