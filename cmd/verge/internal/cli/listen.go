package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"github.com/verge-id/verge/cmd/verge/internal/config"
)

// listen opens addr; what is the name of its flag or setting.
func listen(addr, what string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, &portError{addr, what}
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("%s: no permission to listen: a port below 1024 needs "+
			"CAP_NET_BIND_SERVICE, which edge/deploy/systemd/port-443.conf adds to the unit; or choose a "+
			"higher port with %s",
			addr, what)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // without the address, which the message names already
	}
	return nil, fmt.Errorf("%s: %w; set %s to an address and a port of this machine", addr, err, what)
}

// opening is a listener to open.
type opening struct {
	l          *net.Listener
	addr, what string // without an address, it is not opened; what is the name of the flag or setting
}

// listenAll opens listeners, up to the first error. The caller closes them.
func listenAll(all ...opening) (err error) {
	for _, open := range all {
		if open.addr == "" {
			continue
		}
		if err := config.CheckAddress(open.addr); err != nil {
			return usagef("%s: %w", open.what, err)
		}
		if *open.l, err = listen(open.addr, open.what); err != nil {
			return err
		}
	}
	return nil
}

// closeAll closes the listeners that are open.
func closeAll(all ...net.Listener) {
	for _, l := range all {
		if l != nil {
			l.Close()
		}
	}
}

// portError reports a port that another program has.
type portError struct {
	addr, what string // what is the name of the flag or setting
}

func (e *portError) Error() string {
	return fmt.Sprintf("%s is in use by another program: choose another port with %s "+
		"(port 0 takes any free one)", e.addr, e.what)
}

// httpURL returns the URL of l for a client on this machine.
func httpURL(l net.Listener) string {
	at := netip.MustParseAddrPort(l.Addr().String())
	ip := at.Addr()
	if ip.IsUnspecified() {
		ip = ipv4Loopback
	}
	return "http://" + netip.AddrPortFrom(ip, at.Port()).String()
}

// browserURL returns the URL of l, which listens at addr, for a browser on this machine. It has localhost for
// 127.0.0.1, because passkeys need a host name.
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
// Browsers may use that one for localhost.
func checkLocalhost(l net.Listener) error {
	at := netip.MustParseAddrPort(l.Addr().String())
	if at.Addr() != ipv4Loopback {
		return nil
	}
	other := netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()).String()
	free, err := net.Listen("tcp", other)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf(
			"%s is in use by another program, which would receive requests to localhost: "+
				"choose another port with --addr", other)
	}
	if err != nil {
		return nil // there is no such address here
	}
	return free.Close()
}

var ipv4Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
