package server

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/web"
)

// What net/http refuses by itself, told by the status that it writes, and what
// it says nothing to: a head that does not arrive in time.
var (
	headTimeout = refusal{status: http.StatusRequestTimeout, code: reply.RequestTimeout, text: "The request header did not arrive in time."}
	notHTTP     = refusal{status: http.StatusBadRequest, code: reply.InvalidRequest, text: "The request is not well-formed HTTP: look at its URL, its Host and its header."}
	plainOnTLS  = refusal{status: http.StatusBadRequest, code: reply.InvalidRequest, text: "This address speaks https only."}
	ownRefusals = []refusal{
		notHTTP,
		{status: http.StatusExpectationFailed, code: reply.InvalidRequest, text: "The only expectation that is met is 100-continue."},
		{status: http.StatusRequestHeaderFieldsTooLarge, code: reply.InvalidRequest, text: "The request header is too large."},
		{status: http.StatusNotImplemented, code: reply.InvalidRequest, text: "The only transfer coding that is understood is chunked."},
		{status: http.StatusHTTPVersionNotSupported, code: reply.InvalidRequest, text: "The versions of HTTP that are spoken here are 1.0, 1.1 and, over TLS, 2."},
	}
)

// ownRefusal returns our words for an answer that net/http wrote by itself.
func ownRefusal(answer []byte) refusal {
	const before = len("HTTP/1.1 ")
	if len(answer) >= before+3 {
		status, err := strconv.Atoi(string(answer[before : before+3]))
		for _, why := range ownRefusals {
			if err == nil && why.status == status {
				return why
			}
		}
	}
	return notHTTP
}

// spoken is an HTTP/1 connection, in the clear or inside of TLS. net/http
// answers some requests before any handler sees them, in words of its own and
// without an id. On such a connection requests come one after the other, so
// whatever is written while none of them is with the handler is one of those
// answers, the last on its connection: spoken puts ours in its place. It looks
// at nothing that is written while one is.
type spoken struct {
	net.Conn
	m     *member
	told  func(*web.Response) // of each answer in the place of net/http's
	busy  atomic.Bool         // from the handler's start until the answer is written
	begun bool                // something of the next head has come
	line  bool                // and the whole first line
	over  bool                // ours is written
}

// handled is called as the handler begins, idle once its answer is written.
func (c *spoken) handled() { c.busy.Store(true) }
func (c *spoken) idle() {
	c.begun, c.line = false, false
	c.busy.Store(false)
	c.m.leave()
}

func (c *spoken) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.busy.Load() {
		c.begun = c.begun || n > 0
		c.line = c.line || bytes.IndexByte(b[:n], '\n') >= 0
		if c.begun && errors.Is(err, os.ErrDeadlineExceeded) {
			c.refuse(headTimeout)
		}
	}
	return n, err
}

func (c *spoken) Write(b []byte) (int, error) {
	if c.busy.Load() {
		return c.Conn.Write(b)
	}
	why := ownRefusal(b)
	if why.status == http.StatusRequestHeaderFieldsTooLarge && !c.line {
		why = uriTooLong
	}
	c.refuse(why)
	return len(b), nil
}

// CloseWrite is what net/http asks of a connection that it closes slowly.
func (c *spoken) CloseWrite() error { return closeWrite(c.Conn) }

// sayTime bounds the writing of a refusal, which a connection's buffer takes
// at once unless its peer reads nothing.
const sayTime = time.Second

func (c *spoken) refuse(why refusal) {
	if c.over {
		return
	}
	c.over = true
	c.told(say(c.Conn, why))
}

// say writes a refusal to a connection without a request. An error is the
// peer gone: there is nobody left to tell.
func say(c net.Conn, why refusal) *web.Response {
	resp := why.json("")
	h := http.Header(resp.Header).Clone()
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Connection", "close")
	h.Set("Content-Length", strconv.Itoa(len(resp.Body)))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(why.status) + " " + http.StatusText(why.status) + "\r\n")
	if err := h.Write(&b); err != nil {
		panic(err) // a buffer takes everything
	}
	b.WriteString("\r\n")
	b.Write(resp.Body)
	c.SetWriteDeadline(time.Now().Add(sayTime))
	c.Write(b.Bytes())
	return resp
}
