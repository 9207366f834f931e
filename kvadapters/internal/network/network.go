// Package network decides which hosts of a store's URL are on this machine.
package network

import (
	"net"
	"net/netip"
	"strings"
)

// IsRemote reports whether a host, with or without a port, may be another machine. A missing name is this
// machine: clients then connect to it or to a socket.
func IsRemote(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else {
		host = strings.Trim(host, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return host != "" && host != "localhost" && (err != nil || !ip.Unmap().IsLoopback())
}
