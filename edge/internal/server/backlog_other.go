//go:build !unix

package server

import "net"

// backlogged always returns false: this system does not report its backlog.
func backlogged(net.Listener) bool { return false }
