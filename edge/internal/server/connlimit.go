package server

import (
	"container/heap"
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// connLimiter limits the connections of one listener: per client network and in total. A connection is idle
// if no request is active on it: its head or body is still arriving, or it is only kept alive. If there is
// no room for a new connection, an idle one is evicted, which means that it is closed. At a network's
// limit, that network loses a connection. At the total limit, the network with the most idle connections
// loses one. Within a network, the connection that has been idle for longest is evicted.
//
// So a client that opens connections without sending requests displaces only its own, and a connection with
// an active request is never evicted.
type connLimiter struct {
	max        int // in total
	maxPerPeer int // per network, unless it is exempt
	exempt     func(netip.Addr) bool
	onCount    func(change int)                 // receives each change of the number of connections
	onEvict    func(c *limitedConn, why string) // receives each evicted connection, without the lock held

	mu    sync.Mutex
	open  int // sum of the connections' counts
	peers map[netip.Prefix]*peer
	queue evictionQueue // peers with idle connections; the first one is evicted from first
	seq   uint64        // sequence number of the connection that became idle last
}

// The limit that caused an eviction or a rejection.
const (
	limitPerAddress = "address"
	limitTotal      = "total"
)

// peer is one network of clients: an IPv4 address, or an IPv6 /64 (contract 30).
type peer struct {
	network   netip.Prefix
	exempt    bool
	open      int       // sum of its connections' counts
	idle      list.List // *limitedConn without an active request, the longest idle first
	idleCount int       // sum of the idle connections' counts
	index     int       // index in the queue, -1 if not queued
}

// limitedConn is one connection that counts towards the limits. A request without a connection has a nil
// limitedConn: it counts towards no limit and always succeeds.
type limitedConn struct {
	net.Conn
	limiter  *connLimiter
	peer     *peer
	active   int           // number of active requests
	bodies   int           // number of HTTP/2 streams whose body is still arriving
	idleElem *list.Element // element of peer.idle; nil while a request is active
	idleSeq  uint64        // orders connections by the time when they became idle
	removed  bool
}

// count returns the number of connections that c counts for: one, and another one for each body beyond the
// first that is still arriving on it. Such a body uses as much memory as a connection.
func (c *limitedConn) count() int { return max(1, c.bodies) }

// peerOf returns the address of a connection's peer, or the zero Addr if the peer has no IP address (Unix
// socket).
func peerOf(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap().WithZone("")
}

// networkOf returns the network that an address belongs to. It returns the zero Prefix for the zero Addr.
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

// admit accepts a connection, or returns the limit that leaves no room for it.
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
		l.peers[network] = p // it is missing if its last connection has just been evicted
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

// makeRoom makes room for another connection of p. It returns the evicted connection, if one was needed, or
// the limit if none can be evicted. The caller closes that connection after releasing the lock.
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

// eviction is an evicted connection: it no longer counts, but is not closed yet.
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

// remove stops counting c.
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

// empty reports whether no connections are left.
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

// updatePeer updates the queue position of a peer whose connections have changed. It removes a peer without
// connections.
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

// Close closes the connection, which no longer counts.
func (c *limitedConn) Close() error {
	c.limiter.mu.Lock()
	c.limiter.remove(c)
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the writing side. net/http calls it before it closes a connection whose peer may still
// be sending.
func (c *limitedConn) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// beginRequest marks c as active, which prevents its eviction until endRequest. It returns false if c was
// already evicted.
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

// endRequest ends a request that beginRequest began. Without beginRequest it does nothing.
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

// beginBody reserves room until endBody for a body that arrives on an HTTP/2 stream. It returns false if
// there is no room.
func (c *limitedConn) beginBody() bool {
	if c == nil {
		return true
	}
	l := c.limiter
	l.mu.Lock()
	var evicted eviction
	full := ""
	if !c.removed && c.bodies > 0 { // the connection itself counts for the first one
		evicted, full = l.makeRoom(c.peer)
	}
	ok := full == "" && !c.removed // c itself may have been evicted
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

// addBodies changes the number of bodies that are arriving on c.
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

// evictionQueue orders peers with idle connections for eviction: first the peer with the most idle
// connections, then the peer whose connection has been idle for longest. Trusted proxies come last, because
// they forward many clients.
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

// limitListener is a listener whose connections are limited by a connLimiter.
type limitListener struct {
	net.Listener
	limiter *connLimiter
	wrap    func(*limitedConn) net.Conn
	reject  func(c net.Conn, why string) // closes a connection that is not admitted
}

// Accept waits for a connection that is within the limits.
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
