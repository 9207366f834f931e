package stores

import (
	"fmt"
	"net"
	"testing"
)

func TestFreePort_IsReserved(t *testing.T) {
	t.Parallel()
	port := FreePort(t)
	if !free(port) {
		t.Errorf("a server cannot listen on %d", port)
	}
	if other, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		other.Close()
		t.Errorf("another process could reserve %d as well", port)
	}
}
