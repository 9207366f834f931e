package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

func (c *config) checkListeners(p *program, pl *plan, ps *problems) {
	taken := map[string]string{}
	for _, l := range []struct {
		name, given, standard string
		planned               *string
	}{
		{"listen.public", c.Listen.Public, "127.0.0.1:8080", &pl.listen.public},
		{"listen.admin", c.Listen.Admin, "127.0.0.1:8081", &pl.listen.admin},
		{"listen.ops", c.Listen.Ops, "127.0.0.1:8082", &pl.listen.ops},
	} {
		addr := l.given
		if addr == "" {
			addr = l.standard
		}
		if addr == off && l.name != "listen.public" {
			continue
		}
		if err := checkAddr(addr); err != nil {
			ps.add("%s: %v", l.name, err)
			continue
		}
		if other := taken[addr]; other != "" && !strings.HasSuffix(addr, ":0") {
			ps.add("%s: %s is already %s; give it another port", l.name, addr, other)
		}
		taken[addr], *l.planned = l.name, addr
	}
	if addr := pl.listen.ops; addr != "" && isPublic(addr) {
		pl.warnings.add("listen.ops: %s may be reached from the Internet, and metrics and health ask for no "+
			"credential; use a loopback or private address, or see that a firewall is in front", addr)
	}
	t := c.TLS
	if !t.ACME && (t.ACMEEmail != "" || t.ACMEStorage != "" || t.ACMEDirectory != "" || t.ACMECA != "" ||
		t.ACMEHTTP != "") {
		ps.add("tls: acme_email, acme_storage, acme_directory, acme_ca and acme_http are for acme = true")
	}
	switch cert, key := t.Cert, t.Key; {
	case t.ACME:
		c.checkACME(p, pl, ps)
	case (cert == "") != (key == ""):
		ps.add("tls: cert and key go together; set both, or neither if a proxy in front does TLS")
	case cert != "":
		c.checkTLS(p, pl, ps)
	case pl.listen.admin != "" && !isLoopback(pl.listen.admin):
		ps.add("listen.admin: %s can be reached from other machines, and without [tls] the "+
			"operator token would go there in the clear; use a loopback address, or set tls.cert and "+
			"tls.key, or tls.acme", pl.listen.admin)
	}
}

// listen opens addr; what names the flag or setting that holds it.
func listen(addr, what string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use by another program: choose another port with %s "+
			"(port 0 takes any free one)", addr, what)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s: no permission to listen there: a port below 1024 takes "+
			"CAP_NET_BIND_SERVICE, which edge/deploy/systemd/port-443.conf adds to the unit; or choose a "+
			"higher port with %s",
			addr, what)
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // without the address, which the message names already
	}
	return nil, fmt.Errorf("%s: %w; set %s to an address and a port of this machine", addr, err, what)
}

// checkAddr returns an error unless addr has the form HOST:PORT. The port is a number, or a name such as
// https.
func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return fmt.Errorf("%q is not HOST:PORT", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: there is no port %s; give a number from 0 to 65535", addr, port)
	}
	return nil
}

// httpURL is where a client on this machine reaches l.
func httpURL(l net.Listener) string {
	at := netip.MustParseAddrPort(l.Addr().String())
	ip := at.Addr()
	if ip.IsUnspecified() {
		ip = ipv4Loopback
	}
	return "http://" + netip.AddrPortFrom(ip, at.Port()).String()
}

// browserURL is where a browser on this machine reaches l, which listens at addr. It is localhost for
// 127.0.0.1, because passkeys need a host with a name.
func browserURL(l net.Listener, addr string) string {
	at := netip.MustParseAddrPort(l.Addr().String())
	name, _, _ := net.SplitHostPort(addr)
	if _, err := netip.ParseAddr(name); err == nil || name == "" {
		if at.Addr() != ipv4Loopback {
			return httpURL(l)
		}
		name = "localhost"
	}
	return fmt.Sprintf("http://%s:%d", strings.ToLower(name), at.Port())
}

// checkLocalhost returns an error if another program has the port of l on the other loopback address.
// Browsers may take that one for localhost.
func checkLocalhost(l net.Listener) error {
	at := netip.MustParseAddrPort(l.Addr().String())
	if at.Addr() != ipv4Loopback {
		return nil
	}
	other := netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()).String()
	free, err := net.Listen("tcp", other)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"%s is in use by another program, which would get what browsers send to localhost: "+
				"choose another port with --addr", other)
	}
	if err != nil {
		return nil // there is no such address here
	}
	return free.Close()
}

var ipv4Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

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
