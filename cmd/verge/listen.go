package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// listen opens addr. what names the flag or setting that addr comes from.
func listen(addr, what string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program: choose another port with %s "+
			"(port 0 takes any free one)", addr, what)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s: no permission to listen there: choose a port above 1023 with %s", addr, what)
	}
	return nil, fmt.Errorf("%s: %w; set %s to HOST:PORT", addr, err, what)
}

// checkAddr returns an error unless addr has the form HOST:PORT.
func checkAddr(addr string) error {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return fmt.Errorf("%q is not HOST:PORT", addr)
	}
	return nil
}

// httpURL is where a client on this machine reaches l.
func httpURL(l net.Listener) string {
	at := netip.MustParseAddrPort(l.Addr().String())
	ip := at.Addr()
	if ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return "http://" + netip.AddrPortFrom(ip, at.Port()).String()
}

// isPublic reports whether the Internet may reach addr. It is so unless addr is loopback, private
// or link-local; the address that stands for all addresses is public.
func isPublic(addr string) bool {
	if isLoopback(addr) {
		return false
	}
	name, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(name)
	ip = ip.Unmap()
	return err != nil || !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
}

// isLoopback reports whether only this machine can reach addr.
func isLoopback(addr string) bool {
	name, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
