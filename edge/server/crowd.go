package server

import (
	"container/heap"
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// crowd keeps the connections of one door within their limits: so many of one
// network of clients, so many in all. A connection on which no request is in
// hand (its head or body is still coming, or it is kept alive) does nothing for
// anybody, so where there is no room, one of those gives way to a new one: of
// the network at its limit its own, and of all the network's that has the most
// of them. Within a network that is the one that has done nothing for longest.
//
// So whoever holds connections and says nothing takes them from himself, and
// one whose request is in hand never loses it.
type crowd struct {
	most    int // in all
	perPeer int // of one network, unless it is exempt
	exempt  func(netip.Addr) bool
	count   func(change int)            // of the connections
	yielded func(m *member, why string) // told, outside of the lock, of each that gives way

	mu    sync.Mutex
	held  int // by all members
	peers map[netip.Prefix]*peer
	queue peerQueue // of those with quiet members, who gives way first
	turn  uint64
}

// Why a connection gave way or was not let in.
const (
	overPeer = "address"
	overMost = "total"
)

// peer is one network of clients: an IPv4 address, or an IPv6 /64 (contract 30).
type peer struct {
	network netip.Prefix
	exempt  bool
	held    int
	quiet   list.List // of *member without a request in hand, longest first
	idle    int       // what those count for
	at      int       // in the queue, -1 if not there
}

// member is one connection in the crowd. A nil one, of a request that came
// without a connection, is in no crowd and always in hand.
type member struct {
	net.Conn
	crowd  *crowd
	peer   *peer
	inHand int
	coming int           // HTTP/2 streams whose body is still coming
	place  *list.Element // among the peer's quiet; nil with a request in hand
	turn   uint64        // when it last became quiet
	gone   bool
}

// held is what a member counts for: itself, and each body beyond the first
// that is still coming over it, for that takes as much memory as a connection.
func (m *member) held() int { return max(1, m.coming) }

// networkOf is whom a connection counts for. The zero Prefix stands for peers
// without an IP address, as those of a Unix socket are.
func networkOf(c net.Conn) (netip.Addr, netip.Prefix) {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, netip.Prefix{}
	}
	addr, bits := at.Addr().Unmap().WithZone(""), 32
	if addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		panic(err) // an address always has so many bits
	}
	return addr, network
}

// join lets a connection in, or returns why there is no room for it.
func (c *crowd) join(conn net.Conn) (m *member, why string) {
	addr, network := networkOf(conn)
	c.mu.Lock()
	p := c.peers[network]
	if p == nil {
		p = &peer{network: network, at: -1, exempt: !addr.IsValid() || c.exempt(addr)}
	}
	m = &member{Conn: conn, crowd: c, peer: p}
	gaveWay, why := c.makeRoom(p)
	if why == "" {
		c.peers[network] = p // again, if its last member has just given way
		p.held++
		c.held++
		c.setQuiet(m)
		c.settle(p)
		c.count(+1)
	}
	c.mu.Unlock()
	gaveWay.close()
	if why != "" {
		return nil, why
	}
	return m, ""
}

// makeRoom makes room for one more of p. It returns who has to go for it, or
// why nobody can. The caller closes it once the lock is free.
func (c *crowd) makeRoom(p *peer) (gaveWay yielding, full string) {
	switch {
	case !p.exempt && p.held >= c.perPeer:
		return c.yield(p, overPeer)
	case c.held >= c.most && len(c.queue) > 0:
		return c.yield(c.queue[0], overMost)
	case c.held >= c.most:
		return yielding{}, overMost
	}
	return yielding{}, ""
}

// yield takes the quietest member of p out of the crowd.
func (c *crowd) yield(p *peer, why string) (yielding, string) {
	front := p.quiet.Front()
	if front == nil {
		return yielding{}, why
	}
	m := front.Value.(*member)
	c.remove(m)
	return yielding{m, why}, ""
}

// yielding is a member that is out of the crowd and still connected.
type yielding struct {
	m   *member
	why string
}

func (y yielding) close() {
	if y.m == nil {
		return
	}
	y.m.Conn.Close()
	y.m.crowd.yielded(y.m, y.why)
}

// remove takes m out of all accounts.
func (c *crowd) remove(m *member) {
	if m.gone {
		return
	}
	m.gone = true
	c.held -= m.held()
	m.peer.held -= m.held()
	c.setBusy(m)
	c.settle(m.peer)
	c.count(-1)
}

// empty reports whether no connection is left.
func (c *crowd) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held == 0
}

func (c *crowd) setQuiet(m *member) {
	c.turn++
	m.turn = c.turn
	m.place = m.peer.quiet.PushBack(m)
	m.peer.idle += m.held()
}

func (c *crowd) setBusy(m *member) {
	if m.place != nil {
		m.peer.quiet.Remove(m.place)
		m.place = nil
		m.peer.idle -= m.held()
	}
}

// settle puts a peer whose members have changed where it belongs.
func (c *crowd) settle(p *peer) {
	switch {
	case p.quiet.Len() > 0 && p.at < 0:
		heap.Push(&c.queue, p)
	case p.quiet.Len() > 0:
		heap.Fix(&c.queue, p.at)
	case p.at >= 0:
		heap.Remove(&c.queue, p.at)
	}
	if p.held == 0 {
		delete(c.peers, p.network)
	}
}

// Close ends the connection and its place in the crowd.
func (m *member) Close() error {
	m.crowd.mu.Lock()
	m.crowd.remove(m)
	m.crowd.mu.Unlock()
	return m.Conn.Close()
}

// CloseWrite is what net/http asks of a connection that it closes slowly.
func (m *member) CloseWrite() error { return closeWrite(m.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// enter takes a request into hand: from here to leave the connection does not
// give way. It returns false if it has given way already.
func (m *member) enter() bool {
	if m == nil {
		return true
	}
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	if m.gone {
		return false
	}
	m.inHand++
	m.crowd.setBusy(m)
	m.crowd.settle(m.peer)
	return true
}

// leave ends what enter began, if it did.
func (m *member) leave() {
	if m == nil {
		return
	}
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	if m.inHand == 0 || m.gone {
		return
	}
	if m.inHand--; m.inHand == 0 {
		m.crowd.setQuiet(m)
		m.crowd.settle(m.peer)
	}
}

// await makes room for a body that is coming over an HTTP/2 stream, until
// arrived. It returns false if there is none.
func (m *member) await() bool {
	if m == nil {
		return true
	}
	c := m.crowd
	c.mu.Lock()
	var gaveWay yielding
	full := ""
	if !m.gone && m.coming > 0 { // the first one is the connection's own
		gaveWay, full = c.makeRoom(m.peer)
	}
	ok := full == "" && !m.gone // which may have been the one to go
	if ok {
		c.hold(m, +1)
	}
	c.mu.Unlock()
	gaveWay.close()
	return ok
}

func (m *member) arrived() {
	if m == nil {
		return
	}
	m.crowd.mu.Lock()
	defer m.crowd.mu.Unlock()
	if !m.gone {
		m.crowd.hold(m, -1)
	}
}

// hold changes how many bodies are coming over m.
func (c *crowd) hold(m *member, change int) {
	before := m.held()
	m.coming += change
	change = m.held() - before
	c.held += change
	m.peer.held += change
	if m.place != nil {
		m.peer.idle += change
		c.settle(m.peer)
	}
}

// peerQueue orders peers with quiet members by who gives way first: the one
// with the most of them, then the one with the quietest. Trusted proxies, which
// speak for many, come after all others.
type peerQueue []*peer

func (q peerQueue) Len() int { return len(q) }

func (q peerQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.exempt != b.exempt {
		return b.exempt
	}
	if a.idle != b.idle {
		return a.idle > b.idle
	}
	return a.quiet.Front().Value.(*member).turn < b.quiet.Front().Value.(*member).turn
}

func (q peerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push implements heap.Interface.
func (q *peerQueue) Push(x any) {
	p := x.(*peer)
	p.at = len(*q)
	*q = append(*q, p)
}

// Pop implements heap.Interface.
func (q *peerQueue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	p.at = -1
	(*q)[last] = nil
	*q = (*q)[:last]
	return p
}

// gate is a listener whose connections are members of the crowd.
type gate struct {
	net.Listener
	crowd *crowd
	wrap  func(*member) net.Conn
	full  func(c net.Conn, why string) // is told of one that is not let in, and closes it
}

// Accept waits for a connection that there is room for.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		m, why := g.crowd.join(conn)
		if m != nil {
			return g.wrap(m), nil
		}
		g.full(conn, why)
	}
}
