// Package network decides which hosts of a store's URL are on this machine.
package network

import (
	"net"
	"net/netip"
	"strings"
)

// IsLocal reports whether a host, with or without a port, is certainly this machine. A missing name is:
// clients connect to this machine or to a socket then.
func IsLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.Trim(host, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
