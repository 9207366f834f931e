//go:build !unix

package server

import "net"

// backlogged is always false: this system does not tell.
func backlogged(net.Listener) bool { return false }
