package server

import (
	"container/heap"
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// crowd keeps the connections of one door within their limits. There is a limit
// for one network of clients, and one for all together. A connection is quiet if
// no request is in hand on it: its head or body is still coming, or it is only
// kept alive. If there is no room for a new connection, a quiet one gives way to
// it, which means that it is closed. At the limit of a network, that is one of the
// same network. At the limit of all, it is one of the network that has the most
// quiet ones. Within a network, it is the one that has been quiet for longest.
//
// So a client that holds connections and sends nothing displaces only its own, and
// a connection with a request in hand is never closed for another.
type crowd struct {
	most    int // in all
	perPeer int // of one network, unless it is exempt
	exempt  func(netip.Addr) bool
	count   func(change int)            // is told how the number of connections changes
	yielded func(m *member, why string) // is told of each that gives way, outside of the lock

	mu    sync.Mutex
	held  int // what all members count for
	peers map[netip.Prefix]*peer
	queue peerQueue // of peers with quiet members; the first one gives way first
	turn  uint64
}

// Which limit made a connection give way, or kept it out.
const (
	overPeer = "address"
	overMost = "total"
)

// peer is one network of clients: an IPv4 address, or an IPv6 /64 (contract 30).
type peer struct {
	network netip.Prefix
	exempt  bool
	held    int
	quiet   list.List // of *member without a request in hand; the longest quiet is first
	idle    int       // what the quiet members count for
	at      int       // place in the queue, -1 if not there
}

// member is one connection in the crowd. A request that came without a connection
// has a nil member: it is in no crowd, and always in hand.
type member struct {
	net.Conn
	crowd  *crowd
	peer   *peer
	inHand int
	coming int           // HTTP/2 streams whose body is still coming
	place  *list.Element // in peer.quiet; nil with a request in hand
	turn   uint64        // tells when it last became quiet
	gone   bool
}

// held is how many connections a member counts for: one, and one more for each
// body beyond the first that is still coming over it. Such a body takes as much
// memory as a connection.
func (m *member) held() int { return max(1, m.coming) }

// peerOf returns the address of a connection's peer. The zero Addr stands for peers
// without an IP address, for example of a Unix socket.
func peerOf(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// networkOf returns the network that an address counts for. The zero Addr has the zero
// Prefix.
func networkOf(addr netip.Addr) netip.Prefix {
	if !addr.IsValid() {
		return netip.Prefix{}
	}
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		panic(err) // every address of its family has so many bits
	}
	return network
}

// join lets a connection in, or returns why there is no room for it.
func (c *crowd) join(conn net.Conn) (m *member, why string) {
	addr := peerOf(conn)
	network := networkOf(addr)
	c.mu.Lock()
	p := c.peers[network]
	if p == nil {
		p = &peer{network: network, at: -1, exempt: !addr.IsValid() || c.exempt(addr)}
	}
	m = &member{Conn: conn, crowd: c, peer: p}
	gaveWay, why := c.makeRoom(p)
	if why == "" {
		c.peers[network] = p // it is not there any more if its last member has just given way
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

// makeRoom makes room for one more connection of p. It returns the member that
// gives way, if one has to, or why none can. The caller closes that member once the
// lock is free.
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

// yield takes the member of p that has been quiet for longest out of the crowd.
func (c *crowd) yield(p *peer, why string) (yielding, string) {
	front := p.quiet.Front()
	if front == nil {
		return yielding{}, why
	}
	m := front.Value.(*member)
	c.remove(m)
	return yielding{m, why}, ""
}

// yielding is a member that is no longer in the crowd and not yet closed.
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

// remove takes m out of the crowd.
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

// settle gives a peer whose members have changed its place in the queue, and forgets
// a peer without members.
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

// Close closes the connection and takes it out of the crowd.
func (m *member) Close() error {
	m.crowd.mu.Lock()
	m.crowd.remove(m)
	m.crowd.mu.Unlock()
	return m.Conn.Close()
}

// CloseWrite closes the writing side. net/http calls it before it closes a connection
// whose peer may still be sending.
func (m *member) CloseWrite() error { return closeWrite(m.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// enter takes a request into hand. Until leave, the connection does not give way.
// enter returns false if it has given way already.
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

// leave ends what enter began. Without enter it does nothing.
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

// await makes room for a body that is coming over an HTTP/2 stream. The room is
// taken until arrived. await returns false if there is no room.
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
	ok := full == "" && !m.gone // m itself may have given way
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

// peerQueue orders peers with quiet members by who gives way first: the one with
// the most quiet members, then the one whose member has been quiet for longest.
// Trusted proxies come after all others, because they speak for many clients.
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
	full  func(c net.Conn, why string) // is told of a connection that is not let in, and closes it
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
