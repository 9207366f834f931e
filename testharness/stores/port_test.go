package stores

import (
	"fmt"
	"net"
	"testing"
)

func TestFreePort_IsReserved(t *testing.T) {
	t.Parallel()
	port := FreePort(t)
	http3, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	http3.Close()
	if !free(port) {
		t.Errorf("a server cannot listen on %d", port)
	}
	if other, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port+10000)); err == nil {
		other.Close()
		t.Errorf("another process could reserve %d as well", port)
	}
}
