package server

import (
	"container/heap"
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// connLimiter keeps the connections of one listener within their limits. There is a
// limit for one network of clients, and one for all together. A connection is idle if
// no request is in hand on it: its head or body is still coming, or it is only
// kept alive. If there is no room for a new connection, an idle one gives way to
// it, which means that it is closed. At the limit of a network, that is one of the
// same network. At the limit of all, it is one of the network that has the most
// idle ones. Within a network, it is the one that has been idle for longest.
//
// So a client that holds connections and sends nothing displaces only its own, and
// a connection with a request in hand is never closed for another.
type connLimiter struct {
	max        int // in all
	maxPerPeer int // of one network, unless it is exempt
	exempt     func(netip.Addr) bool
	onCount    func(change int)                 // is told how the number of connections changes
	onEvict    func(c *limitedConn, why string) // is told of each that gives way, outside of the lock

	mu    sync.Mutex
	open  int // what all connections count for
	peers map[netip.Prefix]*peer
	queue evictionQueue // of peers with idle connections; the first one gives way first
	seq   uint64        // of the connection that became idle last
}

// Which limit made a connection give way, or kept it out.
const (
	limitPerAddress = "address"
	limitTotal      = "total"
)

// peer is one network of clients: an IPv4 address, or an IPv6 /64 (contract 30).
type peer struct {
	network   netip.Prefix
	exempt    bool
	open      int       // what its connections count for
	idle      list.List // of *limitedConn without a request in hand; the longest idle is first
	idleCount int       // what the idle connections count for
	index     int       // place in the queue, -1 if not there
}

// limitedConn is one connection that counts towards the limits. A request that came without
// a connection has a nil limitedConn: it counts towards no limit, and is always in hand.
type limitedConn struct {
	net.Conn
	limiter  *connLimiter
	peer     *peer
	active   int           // requests in hand
	bodies   int           // HTTP/2 streams whose body is still coming
	idleElem *list.Element // in peer.idle; nil with a request in hand
	idleSeq  uint64        // tells when it last became idle
	removed  bool
}

// count is how many connections it counts for: one, and one more for each
// body beyond the first that is still coming over it. Such a body takes as much
// memory as a connection.
func (c *limitedConn) count() int { return max(1, c.bodies) }

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

// admit lets a connection in, or returns why there is no room for it.
func (l *connLimiter) admit(conn net.Conn) (c *limitedConn, why string) {
	addr := peerOf(conn)
	network := networkOf(addr)
	l.mu.Lock()
	p := l.peers[network]
	if p == nil {
		p = &peer{network: network, index: -1, exempt: !addr.IsValid() || l.exempt(addr)}
	}
	c = &limitedConn{Conn: conn, limiter: l, peer: p}
	evicted, why := l.makeRoom(p)
	if why == "" {
		l.peers[network] = p // it is not there any more if its last connection has just given way
		p.open++
		l.open++
		l.setIdle(c)
		l.updatePeer(p)
		l.onCount(+1)
	}
	l.mu.Unlock()
	evicted.close()
	if why != "" {
		return nil, why
	}
	return c, ""
}

// makeRoom makes room for one more connection of p. It returns the
// connection that gives way, if one has to, or why none can. The caller closes that
// connection once the lock is free.
func (l *connLimiter) makeRoom(p *peer) (evicted eviction, full string) {
	switch {
	case !p.exempt && p.open >= l.maxPerPeer:
		return l.evict(p, limitPerAddress)
	case l.open >= l.max && len(l.queue) > 0:
		return l.evict(l.queue[0], limitTotal)
	case l.open >= l.max:
		return eviction{}, limitTotal
	}
	return eviction{}, ""
}

// evict removes the connection of p that has been idle for longest.
func (l *connLimiter) evict(p *peer, why string) (eviction, string) {
	front := p.idle.Front()
	if front == nil {
		return eviction{}, why
	}
	c := front.Value.(*limitedConn)
	l.remove(c)
	return eviction{c, why}, ""
}

// eviction is a connection that has given way: it no longer counts, and is not yet closed.
type eviction struct {
	conn  *limitedConn
	limit string
}

func (e eviction) close() {
	if e.conn == nil {
		return
	}
	e.conn.Conn.Close()
	e.conn.limiter.onEvict(e.conn, e.limit)
}

// remove ends the counting of c.
func (l *connLimiter) remove(c *limitedConn) {
	if c.removed {
		return
	}
	c.removed = true
	l.open -= c.count()
	c.peer.open -= c.count()
	l.setActive(c)
	l.updatePeer(c.peer)
	l.onCount(-1)
}

// empty reports whether no connection is left.
func (l *connLimiter) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open == 0
}

func (l *connLimiter) setIdle(c *limitedConn) {
	l.seq++
	c.idleSeq = l.seq
	c.idleElem = c.peer.idle.PushBack(c)
	c.peer.idleCount += c.count()
}

func (l *connLimiter) setActive(c *limitedConn) {
	if c.idleElem != nil {
		c.peer.idle.Remove(c.idleElem)
		c.idleElem = nil
		c.peer.idleCount -= c.count()
	}
}

// updatePeer gives a peer whose connections have changed its place in the queue, and forgets
// a peer without connections.
func (l *connLimiter) updatePeer(p *peer) {
	switch {
	case p.idle.Len() > 0 && p.index < 0:
		heap.Push(&l.queue, p)
	case p.idle.Len() > 0:
		heap.Fix(&l.queue, p.index)
	case p.index >= 0:
		heap.Remove(&l.queue, p.index)
	}
	if p.open == 0 {
		delete(l.peers, p.network)
	}
}

// Close closes the connection, which counts no more.
func (c *limitedConn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the writing side. net/http calls it before it closes a connection
// whose peer may still be sending.
func (c *limitedConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// beginRequest takes a request into hand. Until endRequest, the connection does not give way.
// beginRequest returns false if it has given way already.
func (c *limitedConn) beginRequest() bool {
	if c == nil {
		return true
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.removed {
		return false
	}
	c.active++
	c.limiter.setActive(c)
	c.limiter.updatePeer(c.peer)
	return true
}

// endRequest ends what beginRequest began. Without beginRequest it does nothing.
func (c *limitedConn) endRequest() {
	if c == nil {
		return
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if c.active == 0 || c.removed {
		return
	}
	if c.active--; c.active == 0 {
		c.limiter.setIdle(c)
		c.limiter.updatePeer(c.peer)
	}
}

// beginBody makes room for a body that is coming over an HTTP/2 stream. The room is
// taken until endBody. beginBody returns false if there is no room.
func (c *limitedConn) beginBody() bool {
	if c == nil {
		return true
	}
	l := c.limiter
	l.mu.Lock()
	var evicted eviction
	full := ""
	if !c.removed && c.bodies > 0 { // the first one is the connection's own
		evicted, full = l.makeRoom(c.peer)
	}
	ok := full == "" && !c.removed // c itself may have given way
	if ok {
		l.addBodies(c, +1)
	}
	l.mu.Unlock()
	evicted.close()
	return ok
}

func (c *limitedConn) endBody() {
	if c == nil {
		return
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	if !c.removed {
		c.limiter.addBodies(c, -1)
	}
}

// addBodies changes how many bodies are coming over c.
func (l *connLimiter) addBodies(c *limitedConn, change int) {
	before := c.count()
	c.bodies += change
	change = c.count() - before
	l.open += change
	c.peer.open += change
	if c.idleElem != nil {
		c.peer.idleCount += change
		l.updatePeer(c.peer)
	}
}

// evictionQueue orders peers with idle connections by who gives way first: the one with
// the most idle connections, then the one whose connection has been idle for longest.
// Trusted proxies come after all others, because they speak for many clients.
type evictionQueue []*peer

func (q evictionQueue) Len() int { return len(q) }

func (q evictionQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.exempt != b.exempt {
		return b.exempt
	}
	if a.idleCount != b.idleCount {
		return a.idleCount > b.idleCount
	}
	return a.idle.Front().Value.(*limitedConn).idleSeq < b.idle.Front().Value.(*limitedConn).idleSeq
}

func (q evictionQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *evictionQueue) Push(x any) {
	p := x.(*peer)
	p.index = len(*q)
	*q = append(*q, p)
}

// Pop implements heap.Interface.
func (q *evictionQueue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	p.index = -1
	(*q)[last] = nil
	*q = (*q)[:last]
	return p
}

// limitListener is a listener whose connections are within the limits of a connLimiter.
type limitListener struct {
	net.Listener
	limiter *connLimiter
	wrap    func(*limitedConn) net.Conn
	reject  func(c net.Conn, why string) // is told of a connection that is not let in, and closes it
}

// Accept waits for a connection that there is room for.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c, why := l.limiter.admit(conn)
		if c != nil {
			return l.wrap(c), nil
		}
		l.reject(conn, why)
	}
}
