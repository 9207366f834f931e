package etcd

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// address is a parsed URL.
type address struct {
	tls            bool
	user, password string
	endpoints      []string // host:port
	prefix         string   // ends in a slash
}

const defaultPort = "2379"

// parseURL reads
//
//	etcd[s]://[user:password@]host[:port][,host[:port]...][/prefix]
//
// An error does not repeat the URL, because it may hold a password.
func parseURL(s string) (address, error) {
	bad := func(format string, args ...any) (address, error) {
		return address{}, fmt.Errorf("etcd: the store's URL %s; want "+
			"etcd://[user:password@]host:port[,host:port...][/prefix], or etcds:// for TLS",
			fmt.Sprintf(format, args...))
	}
	var a address
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case !ok || scheme != "etcd" && scheme != "etcds":
		return bad("does not begin with etcd:// or etcds://")
	case strings.ContainsAny(rest, "?#"):
		return bad("has a query or a fragment, which it must not have")
	}
	a.tls = scheme == "etcds"

	authority, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, password, both := strings.Cut(authority[:i], ":")
		var err1, err2 error
		a.user, err1 = url.PathUnescape(user)
		a.password, err2 = url.PathUnescape(password)
		if err1 != nil || err2 != nil {
			return bad("has a user or password with a percent sign that no two hex digits follow")
		}
		if !both || a.user == "" || a.password == "" {
			return bad("has a user without a password or a password without a user")
		}
		authority = authority[i+1:]
	}
	for i, host := range strings.Split(authority, ",") {
		endpoint, ok := hostPort(host)
		if !ok {
			return bad("has no valid host and port in place %d", i+1)
		}
		a.endpoints = append(a.endpoints, endpoint)
	}
	prefix, err := url.PathUnescape(strings.Trim(path, "/"))
	if err != nil {
		return bad("has a prefix with a percent sign that no two hex digits follow")
	}
	if prefix == "" {
		prefix = "verge"
	}
	for i := range len(prefix) {
		if prefix[i] <= ' ' || prefix[i] > '~' {
			return bad("has a prefix with a space or a character that is not printable ASCII")
		}
	}
	a.prefix = prefix + "/"
	return a, nil
}

// hostPort completes host[:port], where a host may be an IPv6 address in brackets.
func hostPort(s string) (string, bool) {
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") || !strings.Contains(s, ":") {
		s += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return "", false
	}
	if strings.HasPrefix(s, "[") {
		if !strings.Contains(host, ":") || net.ParseIP(host) == nil {
			return "", false
		}
	} else if strings.ContainsFunc(host, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		return !letter && (r < '0' || r > '9') && r != '.' && r != '-' && r != '_'
	}) {
		return "", false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}
