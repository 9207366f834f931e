package config

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

func (c *File) checkListeners(sys *System, pl *Plan, ps *problems) {
	var taken []listener
	for _, l := range []struct {
		name, given, standard string
		Plan                  *string
	}{
		{"listen.public", c.Listen.Public, "127.0.0.1:8080", &pl.Listen.Public},
		{"listen.admin", c.Listen.Admin, "127.0.0.1:8081", &pl.Listen.Admin},
		{"listen.ops", c.Listen.Ops, "127.0.0.1:8082", &pl.Listen.Ops},
	} {
		addr := cmp.Or(l.given, l.standard)
		if addr == Off && l.name != "listen.public" {
			continue
		}
		if err := CheckAddress(addr); err != nil {
			ps.add("%s: %v", l.name, err)
			continue
		}
		for _, other := range taken {
			if other.addr == addr && sharePort(other.addr, addr) {
				ps.add("%s: %s is already %s; give it another port", l.name, addr, other.name)
			} else if sharePort(other.addr, addr) {
				ps.add("%s: %s and %s of %s have the same port; give it another port", l.name, addr,
					other.addr, other.name)
			}
		}
		taken = append(taken, listener{l.name, addr})
		*l.Plan = addr
	}
	if addr := pl.Listen.Ops; addr != "" && isPublic(addr) {
		pl.warn("listen.ops: %s may be reachable from the Internet, and metrics and health need no "+
			"credential; use a loopback or private address, or a firewall", addr)
	}
	t := c.TLS
	if !t.ACME && (t.ACMEEmail != "" || t.ACMEStorage != "" || t.ACMEDirectory != "" || t.ACMECA != "" ||
		t.ACMEHTTP != "") {
		ps.add("tls: acme_email, acme_storage, acme_directory, acme_ca and acme_http are for acme = true")
	}
	switch cert, key := t.Cert, t.Key; {
	case t.ACME:
		c.checkACME(sys, pl, ps)
	case (cert == "") != (key == ""):
		ps.add("tls: cert and key go together; set both, or neither if a proxy terminates TLS")
	case cert != "":
		c.checkTLS(sys, pl, ps)
	case pl.Listen.Admin != "" && !IsLoopback(pl.Listen.Admin):
		ps.add("listen.admin: %s can be reached from other machines, and without [tls] the "+
			"operator token would be sent unencrypted; use a loopback address, or set tls.cert and "+
			"tls.key, or tls.acme", pl.Listen.Admin)
	}
}

// listener is a setting with an address.
type listener struct{ name, addr string }

// sharePort reports whether two listeners cannot have both addresses: the ports are equal, and the hosts are
// equal or one of them stands for all addresses. Names are not looked up, except localhost.
func sharePort(a, b string) bool {
	hostA, portA := hostPort(a)
	hostB, portB := hostPort(b)
	if portA != portB || portA == 0 {
		return false
	}
	return hostA == hostB || hostA == "" || hostB == ""
}

// hostPort returns the parts of a valid address. The host of all addresses is "".
func hostPort(addr string) (host string, port int) {
	host, name, _ := net.SplitHostPort(addr)
	port, _ = net.LookupPort("tcp", name)
	host = strings.ToLower(host)
	if host == "localhost" {
		host = "127.0.0.1" // net.Listen prefers it
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if host = ip.Unmap().String(); ip.Unmap().IsUnspecified() {
			host = ""
		}
	}
	return host, port
}

// CheckAddress returns an error unless addr has the form HOST:PORT. The port is a number, or a name such as
// https.
func CheckAddress(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return fmt.Errorf("%q is not HOST:PORT", addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return fmt.Errorf("%q: there is no port %s; give a number from 0 to 65535", addr, port)
	}
	return nil
}

// isPublic reports whether the Internet may reach addr. All addresses are public except loopback, private and
// link-local ones; the unspecified address is public, too.
func isPublic(addr string) bool {
	if IsLoopback(addr) {
		return false
	}
	name, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(name)
	ip = ip.Unmap()
	return err != nil || !ip.IsPrivate() && !ip.IsLinkLocalUnicast()
}

// IsLoopback reports whether only this machine can reach addr.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && IsThisMachine(host)
}

// IsThisMachine reports whether a host is this machine: localhost or a loopback address.
func IsThisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
