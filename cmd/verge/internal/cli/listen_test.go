package cli

import (
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestBrowserURL(t *testing.T) {
	for _, tt := range []struct{ name, addr, bound, want string }{
		{"contract 41: passkeys need a name", "127.0.0.1:0", "127.0.0.1:8080", "http://localhost:8080"},
		{"a name stays", "localhost:8080", "127.0.0.1:8080", "http://localhost:8080"},
		{"another name stays", "Verge.Test:8080", "127.0.0.1:8080", "http://verge.test:8080"},
		{"another loopback address stays", "127.0.0.2:8080", "127.0.0.2:8080", "http://127.0.0.2:8080"},
		{"IPv6 stays", "[::1]:8080", "[::1]:8080", "http://[::1]:8080"},
		{"an address of a network stays", "192.0.2.7:8080", "192.0.2.7:8080", "http://192.0.2.7:8080"},
		{"all addresses", "0.0.0.0:8080", "0.0.0.0:8080", "http://127.0.0.1:8080"},
		{"all addresses, unsaid", ":8080", "[::]:8080", "http://127.0.0.1:8080"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := boundTo{at: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(tt.bound))}
			if got := browserURL(l, tt.addr); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

type boundTo struct {
	net.Listener
	at net.Addr
}

func (l boundTo) Addr() net.Addr { return l.at }

func TestLocalhostIsOneProgram(t *testing.T) {
	ours, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	if err := checkLocalhost(ours); err != nil {
		t.Errorf("the port is free: %v", err)
	}
	_, port, err := net.SplitHostPort(ours.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp6", "[::1]:"+port)
	if err != nil {
		t.Skipf("SKIP: there is no [::1] here: %v", err)
	}
	defer other.Close()
	err = checkLocalhost(ours)
	want := "[::1]:" + port + " is in use by another program"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want: %s", err, want)
	}
}
