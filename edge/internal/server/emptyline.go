package server

import (
	"net"
	"sync"
)

// emptyLineConn removes one empty line before each request. Some clients send one after a body (RFC 9112,
// 2.2), and net/http rejects it. The line is removed only where a request is known to begin: anywhere else
// it may be part of a head, and without it the peer and the server would see different requests.
//
// net/http reads a byte of the next request while the handler of the previous one runs, so the place
// follows from the lengths of the head and the body. After a chunked body, or a request that was sent
// before its predecessor's response, no more lines are removed on the connection.
type emptyLineConn struct {
	net.Conn
	cr      bool   // a "\r" arrived where a request begins and is held back
	removed bool   // the empty line before this request was removed
	pending []byte // bytes to return before others

	mu    sync.Mutex // for the fields below: the handler may begin during a read
	at    requestPosition
	known bool // at is right
}

// requestPosition counts the bytes of a request that net/http has received.
type requestPosition struct {
	received int64
	head     int64 // length of the head, or 0 as long as it has not arrived
	body     int64 // length of the body; valid if handled
	handled  bool  // the handler has begun
	inLine   bool  // the current line of the head is not empty so far
}

func newEmptyLineConn(c net.Conn) *emptyLineConn {
	// The end of an empty request is the beginning of the first one.
	return &emptyLineConn{Conn: c, known: true, at: requestPosition{handled: true}}
}

func (c *emptyLineConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return c.Conn.Read(b)
	}
	for len(c.pending) == 0 {
		n, err := c.Conn.Read(b)
		if n > 0 && c.atBegin() {
			n = c.removeLine(b, n)
		}
		if n > 0 || err != nil {
			c.count(b[:n])
			return n, err
		}
	}
	n := copy(b, c.pending)
	c.pending = c.pending[n:]
	c.count(b[:n])
	return n, nil
}

// removeLine removes an empty line from the front of b, into which n bytes were read. It returns the number
// of bytes that are left there. They may be in c.pending instead.
func (c *emptyLineConn) removeLine(b []byte, n int) int {
	switch {
	case c.removed:
		return n
	case c.cr && b[0] == '\n':
		c.cr, c.removed = false, true
		return copy(b, b[1:n])
	case c.cr:
		c.cr = false
		c.pending = append([]byte{'\r'}, b[:n]...)
		return 0
	case b[0] == '\r' && n == 1:
		c.cr = true
		return 0
	case b[0] == '\r' && b[1] == '\n':
		c.removed = true
		return copy(b, b[2:n])
	}
	return n
}

// atBegin reports whether the next byte is the first one of a request.
func (c *emptyLineConn) atBegin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known && c.at.handled && c.at.received == c.at.head+c.at.body
}

// count follows the bytes that net/http receives.
func (c *emptyLineConn) count(b []byte) {
	if len(b) == 0 {
		return
	}
	begins := c.atBegin()
	c.mu.Lock()
	defer c.mu.Unlock()
	if begins {
		c.at, c.removed = requestPosition{inLine: true}, false // an empty first line does not end the head
	}
	c.at.count(b)
}

func (p *requestPosition) count(b []byte) {
	for i := 0; i < len(b) && p.head == 0; i++ {
		switch {
		case b[i] == '\n' && !p.inLine:
			p.head = p.received + int64(i) + 1
		case b[i] != '\r':
			p.inLine = b[i] != '\n'
		}
	}
	p.received += int64(len(b))
}

// handlerBegins receives the length of the body, -1 if its head does not state it.
func (c *emptyLineConn) handlerBegins(body int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = c.known && !c.at.handled
	c.at.handled, c.at.body = true, body
}
