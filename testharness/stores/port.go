package stores

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// FreePort is a free TCP port of the loopback for a server that is about to start. The port 10,000 above it
// is free, too: the nodes of a Cluster use it among themselves. Both are below the range that systems give
// to outgoing connections. The tests make thousands of those, and one of them could take the port before the
// server does.
//
// The UDP port 10,000 above it stays open until the test process ends. It reserves the TCP port, so that the
// tests of two packages do not choose the same one. The UDP port of the same number is free for HTTP/3.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 11000 + rand.IntN(10000)
		reserved, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port+10000))
		if err != nil {
			continue
		}
		if free(port) && free(port+10000) {
			reservations.Store(port, reserved)
			return port
		}
		reserved.Close()
	}
	t.Fatal("no port is free")
	return 0
}

// reservations keeps the UDP ports open: the collector closes a socket without a reference.
var reservations sync.Map

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
