package server

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

const (
	headerXForwardedFor = "X-Forwarded-For"
	headerForwarded     = "Forwarded"
)

// clientAddr returns the client's address as defined by contract 30: the peer's, or, if the peer is a
// trusted proxy, the right-most address in the header that is not a trusted proxy.
//
// The header is read from the right. Each entry was written by the proxy to its right, and reading stops at
// the first entry that is not a trusted proxy. So text that a client puts further to the left is never
// parsed, even if it contains an open quote. Reading also stops at an entry that is not an address
// ("unknown", obfuscated, malformed): the client is then the proxy that wrote the entry. If all entries are
// trusted, the left-most one is the client.
func clientAddr(peer netip.Addr, header string, h http.Header, trusted []netip.Prefix) netip.Addr {
	at := peer.Unmap().WithZone("")
	if !contains(trusted, at) {
		return at
	}
	parse := parseXForwardedFor
	if header == headerForwarded {
		parse = parseForwarded
	}
	lines := h[header]
	for i := len(lines) - 1; i >= 0; i-- {
		rest, more := lines[i], true
		for more {
			var entry string
			rest, entry, more = cutLast(rest)
			if entry == "" {
				continue // an empty list element is no element (RFC 9110, 5.6.1)
			}
			addr, ok := parse(entry)
			if !ok {
				return at
			}
			at = addr
			if !contains(trusted, at) {
				return at
			}
		}
	}
	return at
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// unmapPrefix turns ::ffff:10.0.0.0/104 into 10.0.0.0/8, because addresses are compared unmapped.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p
}

// cutLast removes the last element of a comma-separated list whose quoted strings may contain commas. It
// reads from the right: only a quote without a backslash before it ends a quoted string. So it finds a
// well-formed last element, regardless of the text to the left.
func cutLast(list string) (rest, last string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch list[i] {
		case '"':
			if !quoted || !escaped(list, i) {
				quoted = !quoted
			}
		case ',':
			if !quoted {
				return list[:i], strings.Trim(list[i+1:], " \t"), true
			}
		}
	}
	return "", strings.Trim(list, " \t"), false
}

// escaped reports whether an odd number of backslashes precedes list[i].
func escaped(list string, i int) bool {
	n := 0
	for i > n && list[i-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// parseXForwardedFor parses one entry: an address with or without a port, IPv6 with or without brackets.
// There is no standard; proxies write these forms.
func parseXForwardedFor(entry string) (netip.Addr, bool) {
	if a, ok := plainAddr(entry); ok {
		return a, true
	}
	return parseNode(entry)
}

// parseForwarded parses one element of RFC 7239: pairs separated by semicolons, with exactly one "for".
func parseForwarded(entry string) (netip.Addr, bool) {
	node, found := "", false
	for rest, more := entry, true; more; {
		var name, value string
		var ok bool
		name, value, rest, more, ok = cutPair(rest)
		if !ok {
			return netip.Addr{}, false
		}
		if strings.EqualFold(name, "for") {
			if found {
				return netip.Addr{}, false
			}
			node, found = value, true
		}
	}
	if !found {
		return netip.Addr{}, false
	}
	return parseNode(node)
}

// cutPair removes one token=value and the following semicolon from the front. The value is a token or a
// quoted string. more reports whether there was a semicolon.
func cutPair(s string) (name, value, rest string, more, ok bool) {
	s = strings.TrimLeft(s, " \t")
	n := tokenLen(s)
	if n == 0 || n == len(s) || s[n] != '=' {
		return "", "", "", false, false
	}
	name, s = s[:n], s[n+1:]
	if strings.HasPrefix(s, `"`) {
		var b strings.Builder
		i := 1
		for ; i < len(s) && s[i] != '"'; i++ {
			if s[i] == '\\' {
				if i++; i == len(s) {
					return "", "", "", false, false
				}
			}
			b.WriteByte(s[i])
		}
		if i == len(s) {
			return "", "", "", false, false
		}
		value, s = b.String(), s[i+1:]
	} else {
		n := tokenLen(s)
		if n == 0 {
			return "", "", "", false, false
		}
		value, s = s[:n], s[n:]
	}
	s = strings.TrimLeft(s, " \t")
	if s == "" {
		return name, value, "", false, true
	}
	if s[0] != ';' {
		return "", "", "", false, false
	}
	return name, value, s[1:], true, true
}

// tokenLen returns the length of the RFC 9110 token at the front of s.
func tokenLen(s string) int {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return i
		}
	}
	return len(s)
}

// parseNode parses a node of RFC 7239, 6: an IPv4 address, or an IPv6 address in brackets, with or without
// a port. It rejects "unknown" and obfuscated names.
func parseNode(node string) (netip.Addr, bool) {
	if inner, ok := strings.CutPrefix(node, "["); ok {
		host, port, ok := strings.Cut(inner, "]")
		if !ok || !validPort(port) {
			return netip.Addr{}, false
		}
		a, ok := plainAddr(host)
		// Brackets are for IPv6, which includes mapped IPv4 addresses.
		return a, ok && strings.Contains(host, ":")
	}
	host, port := node, ""
	if i := strings.IndexByte(node, ':'); i >= 0 {
		host, port = node[:i], node[i:]
	}
	a, ok := plainAddr(host)
	return a, ok && validPort(port)
}

// validPort accepts "", ":" with 1 to 5 digits, and ":_" with an obfuscated port.
func validPort(s string) bool {
	if s == "" {
		return true
	}
	s, ok := strings.CutPrefix(s, ":")
	if !ok {
		return false
	}
	if name, ok := strings.CutPrefix(s, "_"); ok {
		inName := func(c byte) bool { return isBase64URL(c) || c == '.' }
		return name != "" && len(name) <= 40 && all(name, inName)
	}
	return 1 <= len(s) && len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}

func plainAddr(s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}
