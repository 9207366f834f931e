package server

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// fakeConn is a connection from an address that records whether it was closed.
type fakeConn struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.from }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

// connLimitCase describes events of connections: with "a 10.0.0.1", connection a comes from that address,
// "a busy" and "a idle" begin and end a request on it, "a body" and "a whole" begin and end a body over
// HTTP/2, and "a close" closes it. evicted lists the evicted connections, in order. rejected lists those
// that were not admitted.
type connLimitCase struct {
	rule              string
	max, maxPerPeer   int
	happens           string
	evicted, rejected string
}

func TestConnLimits(t *testing.T) {
	for name, cases := range map[string][]connLimitCase{
		"of an address": perAddressCases, "of all": totalCases, "with bodies": bodyCases,
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.rule, c.test)
			}
		})
	}
}

var perAddressCases = []connLimitCase{
	{"there is room", 3, 2, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.2", "", ""},
	{"an address at its limit: its idlest is evicted", 9, 2, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.1", "a", ""},
	{"at an address's limit, no other address loses one",
		9, 2, "x 10.0.0.2, a 10.0.0.1, b 10.0.0.1, c 10.0.0.1", "a", ""},
	{"a limit of one", 9, 1, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.1", "a b", ""},
	{"an active connection is not evicted",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a busy, c 10.0.0.1", "b", ""},
	{"none is evicted if all are active",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a busy, b busy, c 10.0.0.1", "", "c"},
	{"after its response, it is the last to be evicted",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a busy, a idle, c 10.0.0.1", "b", ""},
	{"two requests over one connection: both have to end", 9, 2,
		"a 10.0.0.1, b 10.0.0.1, a busy, a busy, a idle, b busy, c 10.0.0.1, a idle, d 10.0.0.1", "a",
		"c"},
	{"a connection that closes makes room", 9, 2, "a 10.0.0.1, b 10.0.0.1, a close, c 10.0.0.1", "", ""},
	{"IPv4 addresses count one by one", 9, 1, "a 10.0.0.1, b 10.0.0.2, c ::ffff:10.0.0.3", "", ""},
	{"IPv4 within IPv6 is IPv4", 9, 1, "a 10.0.0.1, b ::ffff:10.0.0.1", "a", ""},
	{"contract 30: IPv6 counts by /64",
		9, 1, "a 2001:db8::1, b 2001:db8:0:0:ffff::2, c 2001:db8:0:1::1", "a", ""},
	{"a trusted proxy has no limit per address", 9, 1, "a 192.0.2.1, b 192.0.2.1, c 192.0.2.1", "", ""},
	{"connections without an address have no such limit either", 9, 1, "a unix, b unix", "", ""},
	{"events of an evicted connection have no effect",
		9, 1, "a 10.0.0.1, b 10.0.0.1, a idle, a whole, a close, c 10.0.0.1", "a b", ""},
}

var totalCases = []connLimitCase{
	{"at the total limit, the address with the most idle connections loses one",
		4, 9, "x 10.0.0.2, a 10.0.0.1, b 10.0.0.1, c 10.0.0.1, y 10.0.0.2", "a", ""},
	{"even if the new one is of that address",
		4, 9, "x 10.0.0.2, a 10.0.0.1, b 10.0.0.1, c 10.0.0.1, d 10.0.0.1, e 10.0.0.1", "a b", ""},
	{"only idle connections count for this",
		5, 9, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.1, a busy, b busy, x 10.0.0.2, y 10.0.0.2, z 10.0.0.3", "x",
		""},
	{"if all have equally many, the connection idle for longest",
		3, 9, "x 10.0.0.2, a 10.0.0.1, y 10.0.0.3, x busy, x idle, z 10.0.0.4", "a", ""},
	{"trusted proxies are evicted last",
		4, 9, "a 192.0.2.1, b 192.0.2.1, c 192.0.2.1, x 10.0.0.1, y 10.0.0.2, z 10.0.0.2", "x y", ""},
	{"trusted proxies are evicted if there are no others",
		3, 9, "a 192.0.2.1, b 192.0.2.1, c 192.0.2.1, x 10.0.0.1", "a", ""},
	{"at the total limit, all are active",
		2, 9, "a 10.0.0.1, b 10.0.0.2, a busy, b busy, c 10.0.0.3", "", "c"},
}

var bodyCases = []connLimitCase{
	{"the first arriving body does not count",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a body, b body", "", ""},
	{"each further body counts as a connection",
		9, 3, "a 10.0.0.1, b 10.0.0.1, b body, b body, b body", "a", ""},
	{"the connection with the bodies may be the evicted one",
		9, 2, "a 10.0.0.1, a body, a body, a body", "a", "a"},
	{"a body that has arrived no longer counts",
		9, 2, "a 10.0.0.1, a body, a body, a whole, b 10.0.0.1, a whole", "", ""},
	{"when a connection closes, its bodies no longer count", 4, 3,
		"a 10.0.0.1, a body, a body, a body, a close, b 10.0.0.1, c 10.0.0.1, d 10.0.0.1, e 10.0.0.2",
		"", ""},
	{"bodies count towards the total limit as well",
		4, 9, "x 10.0.0.2, a 10.0.0.1, a body, a body, y 10.0.0.3, z 10.0.0.4", "a", ""},
}

// limiterTest is a connLimiter under test, with a record of its events.
type limiterTest struct {
	*connLimiter
	conns             map[string]*fakeConn
	limited           map[string]*limitedConn
	evicted, rejected []string
	counted           int
}

func (c connLimitCase) test(t *testing.T) {
	proxy := netip.MustParseAddr("192.0.2.1")
	in := &limiterTest{conns: map[string]*fakeConn{}, limited: map[string]*limitedConn{}}
	in.connLimiter = &connLimiter{max: c.max, maxPerPeer: c.maxPerPeer, peers: map[netip.Prefix]*peer{},
		exempt:  func(a netip.Addr) bool { return a == proxy },
		onCount: func(change int) { in.counted += change },
		onEvict: func(c *limitedConn, _ string) {
			for name, of := range in.limited {
				if of == c {
					in.evicted = append(in.evicted, name)
				}
			}
		},
	}
	for what := range strings.SplitSeq(c.happens, ", ") {
		name, what, _ := strings.Cut(what, " ")
		in.happens(name, what)
	}
	if strings.Join(in.evicted, " ") != c.evicted || strings.Join(in.rejected, " ") != c.rejected {
		t.Errorf("evicted: %v, want %s; rejected: %v, want %s",
			in.evicted, c.evicted, in.rejected, c.rejected)
	}
	for name, conn := range in.conns {
		c := in.limited[name]
		if c != nil && conn.closed != c.removed || c == nil && conn.closed {
			t.Errorf("%s: closed: %v", name, conn.closed)
		}
		if slices.Contains(in.evicted, name) && c.beginRequest() {
			t.Errorf("%s was evicted and accepts a request", name)
		}
	}
	for _, c := range in.limited {
		c.Close()
	}
	if in.open != 0 || len(in.peers) != 0 || len(in.queue) != 0 || in.counted != 0 || !in.empty() {
		t.Errorf("all are closed, and %d are stored, %d peers, %d in the queue, %d open",
			in.open, len(in.peers), len(in.queue), in.counted)
	}
}

// happens executes one event of a case.
func (in *limiterTest) happens(name, what string) {
	c := in.limited[name]
	switch what {
	case "busy":
		c.beginRequest()
	case "idle":
		c.endRequest()
	case "body":
		if !c.beginBody() {
			in.rejected = append(in.rejected, name)
		}
	case "whole":
		c.endBody()
	case "close":
		c.Close()
	default:
		conn := &fakeConn{from: &net.UnixAddr{Name: "@", Net: "unix"}}
		if what != "unix" {
			conn.from = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(what), 1))
		}
		in.conns[name] = conn
		if c, _ := in.admit(conn); c != nil {
			in.limited[name] = c
		} else {
			in.rejected = append(in.rejected, name)
		}
	}
}

func TestConnsFor(t *testing.T) {
	for files, want := range map[uint64]int{0: 16384, 1: 8, 1024: 768, 20000: 15000, 65536: 16384,
		1 << 63: 16384} {
		if got := ConnsFor(files); got != want {
			t.Errorf("%d files: %d connections, want %d", files, got, want)
		}
	}
}
