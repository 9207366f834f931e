package server

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// fakeConn is a connection from an address, which knows whether it was closed.
type fakeConn struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return c.from }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

// crowdCase says in words what happens to a crowd: with "a 10.0.0.1", connection a comes from that
// address, "a enter" and "a leave" begin and end a request on it, "a await" and "a arrived" begin and end
// a body over HTTP/2, and "a close" closes it. gone are the connections that gave way, in that order. full
// are those that were not let in.
type crowdCase struct {
	rule          string
	most, perPeer int
	happens       string
	gone, full    string
}

func TestCrowd(t *testing.T) {
	for name, cases := range map[string][]crowdCase{
		"of an address": crowdOfAnAddress, "of all": crowdOfAll, "with bodies": crowdWithBodies,
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.rule, c.test)
			}
		})
	}
}

var crowdOfAnAddress = []crowdCase{
	{"there is room", 3, 2, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.2", "", ""},
	{"an address at its limit: its idlest gives way", 9, 2, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.1", "a", ""},
	{"at an address's limit, no other address loses one",
		9, 2, "x 10.0.0.2, a 10.0.0.1, b 10.0.0.1, c 10.0.0.1", "a", ""},
	{"a limit of one", 9, 1, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.1", "a b", ""},
	{"one with a request in hand does not give way",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a enter, c 10.0.0.1", "b", ""},
	{"none gives way if all have a request in hand",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a enter, b enter, c 10.0.0.1", "", "c"},
	{"once its request is answered, it is the last to give way",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a enter, a leave, c 10.0.0.1", "b", ""},
	{"two requests over one connection: both have to end", 9, 2,
		"a 10.0.0.1, b 10.0.0.1, a enter, a enter, a leave, b enter, c 10.0.0.1, a leave, d 10.0.0.1", "a",
		"c"},
	{"a connection that closes makes room", 9, 2, "a 10.0.0.1, b 10.0.0.1, a close, c 10.0.0.1", "", ""},
	{"IPv4 addresses count one by one", 9, 1, "a 10.0.0.1, b 10.0.0.2, c ::ffff:10.0.0.3", "", ""},
	{"IPv4 within IPv6 is IPv4", 9, 1, "a 10.0.0.1, b ::ffff:10.0.0.1", "a", ""},
	{"contract 30: IPv6 counts by /64",
		9, 1, "a 2001:db8::1, b 2001:db8:0:0:ffff::2, c 2001:db8:0:1::1", "a", ""},
	{"a trusted proxy has no limit of its own", 9, 1, "a 192.0.2.1, b 192.0.2.1, c 192.0.2.1", "", ""},
	{"connections without an address have no limit either", 9, 1, "a unix, b unix", "", ""},
	{"a connection that has given way changes nothing more",
		9, 1, "a 10.0.0.1, b 10.0.0.1, a leave, a arrived, a close, c 10.0.0.1", "a b", ""},
}

var crowdOfAll = []crowdCase{
	{"at the limit of all, the address with the most idle ones loses one",
		4, 9, "x 10.0.0.2, a 10.0.0.1, b 10.0.0.1, c 10.0.0.1, y 10.0.0.2", "a", ""},
	{"also if the new one is of that address",
		4, 9, "x 10.0.0.2, a 10.0.0.1, b 10.0.0.1, c 10.0.0.1, d 10.0.0.1, e 10.0.0.1", "a b", ""},
	{"only idle ones count for that",
		5, 9, "a 10.0.0.1, b 10.0.0.1, c 10.0.0.1, a enter, b enter, x 10.0.0.2, y 10.0.0.2, z 10.0.0.3", "x",
		""},
	{"if all have as many, the one that was idle for longest",
		3, 9, "x 10.0.0.2, a 10.0.0.1, y 10.0.0.3, x enter, x leave, z 10.0.0.4", "a", ""},
	{"trusted proxies give way after all others",
		4, 9, "a 192.0.2.1, b 192.0.2.1, c 192.0.2.1, x 10.0.0.1, y 10.0.0.2, z 10.0.0.2", "x y", ""},
	{"trusted proxies give way if there are no others",
		3, 9, "a 192.0.2.1, b 192.0.2.1, c 192.0.2.1, x 10.0.0.1", "a", ""},
	{"at the limit of all, all have a request in hand",
		2, 9, "a 10.0.0.1, b 10.0.0.2, a enter, b enter, c 10.0.0.3", "", "c"},
}

var crowdWithBodies = []crowdCase{
	{"the first body that is coming does not count",
		9, 2, "a 10.0.0.1, b 10.0.0.1, a await, b await", "", ""},
	{"each further body counts as a connection",
		9, 3, "a 10.0.0.1, b 10.0.0.1, b await, b await, b await", "a", ""},
	{"the connection with the bodies may be the one that gives way",
		9, 2, "a 10.0.0.1, a await, a await, a await", "a", "a"},
	{"a body that has arrived does not count any more",
		9, 2, "a 10.0.0.1, a await, a await, a arrived, b 10.0.0.1, a arrived", "", ""},
	{"when a connection closes, its bodies do not count any more", 4, 3,
		"a 10.0.0.1, a await, a await, a await, a close, b 10.0.0.1, c 10.0.0.1, d 10.0.0.1, e 10.0.0.2",
		"", ""},
	{"bodies count at the limit of all as well",
		4, 9, "x 10.0.0.2, a 10.0.0.1, a await, a await, y 10.0.0.3, z 10.0.0.4", "a", ""},
}

// crowding is a crowd under a test, and what has happened to it.
type crowding struct {
	*crowd
	conns      map[string]*fakeConn
	members    map[string]*member
	gone, full []string
	open       int
}

func (c crowdCase) test(t *testing.T) {
	proxy := netip.MustParseAddr("192.0.2.1")
	in := &crowding{conns: map[string]*fakeConn{}, members: map[string]*member{}}
	in.crowd = &crowd{most: c.most, perPeer: c.perPeer, peers: map[netip.Prefix]*peer{},
		exempt: func(a netip.Addr) bool { return a == proxy },
		count:  func(change int) { in.open += change },
		yielded: func(m *member, _ string) {
			for name, of := range in.members {
				if of == m {
					in.gone = append(in.gone, name)
				}
			}
		},
	}
	for what := range strings.SplitSeq(c.happens, ", ") {
		name, what, _ := strings.Cut(what, " ")
		in.happens(name, what)
	}
	if strings.Join(in.gone, " ") != c.gone || strings.Join(in.full, " ") != c.full {
		t.Errorf("gave way: %v, want %s; not let in: %v, want %s", in.gone, c.gone, in.full, c.full)
	}
	for name, conn := range in.conns {
		m := in.members[name]
		if m != nil && conn.closed != m.gone || m == nil && conn.closed {
			t.Errorf("%s: closed: %v", name, conn.closed)
		}
		if slices.Contains(in.gone, name) && m.enter() {
			t.Errorf("%s has given way and takes a request into hand", name)
		}
	}
	for _, m := range in.members {
		m.Close()
	}
	if in.held != 0 || len(in.peers) != 0 || len(in.queue) != 0 || in.open != 0 || !in.empty() {
		t.Errorf("all have gone, and %d are held, %d peers, %d in the queue, %d open",
			in.held, len(in.peers), len(in.queue), in.open)
	}
}

// happens does what a case says of a connection.
func (in *crowding) happens(name, what string) {
	m := in.members[name]
	switch what {
	case "enter":
		m.enter()
	case "leave":
		m.leave()
	case "await":
		if !m.await() {
			in.full = append(in.full, name)
		}
	case "arrived":
		m.arrived()
	case "close":
		m.Close()
	default:
		conn := &fakeConn{from: &net.UnixAddr{Name: "@", Net: "unix"}}
		if what != "unix" {
			conn.from = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(what), 1))
		}
		in.conns[name] = conn
		if m, _ := in.join(conn); m != nil {
			in.members[name] = m
		} else {
			in.full = append(in.full, name)
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
