//go:build !linux

package server

import "net"

// refuseNew has no counterpart here: a connection that is set up but not yet
// accepted when the listener closes is reset. DrainDelay keeps that away from
// clients that come through a balancer.
func refuseNew(net.Listener) (waiting func() bool) { return nil }
