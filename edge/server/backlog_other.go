//go:build !unix

package server

import "net"

// backlogged cannot be told here.
func backlogged(net.Listener) bool { return false }
