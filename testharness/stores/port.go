package stores

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// FreePort is a free port of the loopback for a server that is about to start.
// The port 10,000 above it is free, too: the nodes of a Cluster use it among
// themselves. Both are below the range that systems give to outgoing
// connections. The tests make thousands of those, and one of them could take the
// port before the server does.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 11000 + rand.IntN(10000)
		if _, given := givenPorts.LoadOrStore(port, true); !given && free(port) && free(port+10000) {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

var givenPorts sync.Map // by this process

func free(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}
