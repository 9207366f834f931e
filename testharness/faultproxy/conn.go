package faultproxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection of a client and, behind it, one to the server.
type conn struct {
	proxy *Proxy
	n     int
	in    *net.TCPConn

	mu   sync.Mutex
	out  net.Conn // nil: none yet
	over bool
	gone chan struct{} // closed when it is over

	exchanges int          // only the client's side uses it
	answered  atomic.Bool  // the server has sent since the exchange began
	fault     atomic.Int32 // of the exchange
}

// piece is the number of bytes that Slow sends at a time.
const piece = 32

func (c *conn) serve() {
	defer c.cut()
	switch f := c.proxy.fault(exchange{Conn: c.n}); f {
	case Reject:
		c.in.SetLinger(0) // a reset: the connection was accepted, so rejecting it is too late
		return
	case HangRequest:
		io.Copy(io.Discard, c.in)
		return
	case Delay:
		if !c.sleep(c.proxy.config.Delay) {
			return
		}
	}
	out, err := net.DialTimeout("tcp", c.proxy.server, 5*time.Second)
	if err != nil {
		c.in.SetLinger(0)
		return
	}
	c.mu.Lock()
	if c.out = out; c.over {
		out.Close()
	}
	c.mu.Unlock()
	c.answered.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.pump(out, c.in, c.reply)
		if !c.hangs() { // a connection that hangs does not tell that the server is gone
			c.cut()
		}
	}()
	c.pump(c.in, out, c.request)
	c.cut()
	<-done
}

// pump reads until the connection ends, or until forward returns false.
func (c *conn) pump(from, to net.Conn, forward func(to net.Conn, b []byte) bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !forward(to, buf[:n]) || err != nil {
			return
		}
	}
}

// request handles bytes from the client.
func (c *conn) request(to net.Conn, b []byte) bool {
	f := Fault(c.fault.Load())
	if !c.hangs() && c.answered.CompareAndSwap(true, false) {
		c.exchanges++
		f = c.proxy.fault(exchange{Conn: c.n, N: c.exchanges})
		c.fault.Store(int32(f))
		if f == Delay && !c.sleep(c.proxy.config.Delay) {
			return false
		}
	}
	switch f {
	case Reject, DropRequest:
		return false
	case HangRequest:
		return true
	}
	return c.write(to, b, f)
}

// reply handles bytes from the server.
func (c *conn) reply(to net.Conn, b []byte) bool {
	switch f := Fault(c.fault.Load()); f {
	case DropReply:
		return false
	case HangRequest, HangReply:
		return true
	default:
		// Before the reply is passed on: the client's next request could come first.
		c.answered.Store(true)
		return c.write(to, b, f)
	}
}

func (c *conn) write(to net.Conn, b []byte, f Fault) bool {
	if f != Slow {
		_, err := to.Write(b)
		return err == nil
	}
	for len(b) > 0 {
		n := min(piece, len(b))
		if _, err := to.Write(b[:n]); err != nil || !c.sleep(c.proxy.config.Pace) {
			return false
		}
		b = b[n:]
	}
	return true
}

func (c *conn) hangs() bool {
	f := Fault(c.fault.Load())
	return f == HangRequest || f == HangReply
}

// sleep reports whether the connection is still there afterwards.
func (c *conn) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.gone:
		return false
	}
}

func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	close(c.gone)
	c.in.Close()
	if c.out != nil {
		c.out.Close()
	}
}
