package server

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/web"
)

// The answers that stand in for net/http's own. headTimeout is for a head that does
// not arrive in time, which net/http does not answer at all.
var (
	headTimeout = refusal{status: http.StatusRequestTimeout, code: web.RequestTimeout,
		text: "The request header did not arrive in time."}
	notHTTP = refusal{status: http.StatusBadRequest, code: web.InvalidRequest,
		text: "The request is not well-formed HTTP: look at its URL, its Host and its header."}
	plainOnTLS = refusal{status: http.StatusBadRequest, code: web.InvalidRequest,
		text: "This address speaks https only."}
	netHTTPRefusals = []refusal{
		notHTTP,
		{status: http.StatusExpectationFailed, code: web.InvalidRequest,
			text: "The only expectation that is met is 100-continue."},
		{status: http.StatusRequestHeaderFieldsTooLarge, code: web.InvalidRequest,
			text: "The request header is too large."},
		{status: http.StatusNotImplemented, code: web.InvalidRequest,
			text: "The only transfer coding that is understood is chunked."},
		{status: http.StatusHTTPVersionNotSupported, code: web.InvalidRequest,
			text: "The versions of HTTP that are spoken here are 1.0, 1.1 and, over TLS, 2."},
	}
)

// refusalFor returns what stands in for an answer that net/http wrote by itself. The
// status in that answer tells which it is.
func refusalFor(answer []byte) refusal {
	const before = len("HTTP/1.1 ")
	if len(answer) >= before+3 {
		status, err := strconv.Atoi(string(answer[before : before+3]))
		for _, why := range netHTTPRefusals {
			if err == nil && why.status == status {
				return why
			}
		}
	}
	return notHTTP
}

// http1Conn is an HTTP/1 connection, with or without TLS. net/http answers some
// requests before any handler sees them, in its own words and without an id.
// Requests come one after the other on such a connection. So whatever is written
// while no request is with the handler is one of those answers, and the last answer
// on the connection. http1Conn writes ours instead. It does not look at what is
// written while a request is with the handler.
type http1Conn struct {
	net.Conn
	limited   *limitedConn
	respond   func(*web.Request, refusal) *web.Response
	onRefuse  func(*web.Response) // is told of each answer that stands in for net/http's
	inHandler atomic.Bool         // from the handler's start until the answer is written
	headBegun bool                // a part of the next head has come
	skipped   bool                // the empty line before the next head has come and was left out
	hasLine   bool                // the whole first line of it has come
	head      []byte              // the first maxKeptHead bytes of it, or nothing without keepHead
	keepHead  bool                // heads are kept
	refused   bool                // our answer is written
}

// handlerBegins is called when the handler begins, and handlerEnds once its answer is written.
func (c *http1Conn) handlerBegins() { c.inHandler.Store(true) }
func (c *http1Conn) handlerEnds() {
	c.headBegun, c.skipped, c.hasLine, c.head = false, false, false, c.head[:0]
	c.inHandler.Store(false)
	c.limited.endRequest()
}

func (c *http1Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.inHandler.Load() {
		if !c.headBegun && !c.skipped {
			n, err = c.skipEmptyLine(b, n, err)
		}
		c.headBegun = c.headBegun || n > 0
		if room := maxKeptHead - len(c.head); c.keepHead && room > 0 {
			c.head = append(c.head, b[:min(n, room)]...)
		}
		c.hasLine = c.hasLine || bytes.IndexByte(b[:n], '\n') >= 0
		if c.headBegun && errors.Is(err, os.ErrDeadlineExceeded) {
			c.refuse(headTimeout)
		}
	}
	return n, err
}

// skipEmptyLine removes an empty line from the front of b, of which n bytes have been read with the error
// err. Some clients send one behind a body (RFC 9112, 2.2). It returns the bytes of the head that are in b.
func (c *http1Conn) skipEmptyLine(b []byte, n int, err error) (int, error) {
	if n == 1 && b[0] == '\r' && len(b) > 1 && err == nil {
		var more int
		more, err = c.Conn.Read(b[1:])
		n += more
	}
	if !bytes.HasPrefix(b[:n], []byte("\r\n")) {
		return n, err
	}
	c.skipped = true
	if n = copy(b, b[2:n]); n > 0 || err != nil {
		return n, err
	}
	return c.Conn.Read(b)
}

func (c *http1Conn) Write(b []byte) (int, error) {
	if c.inHandler.Load() {
		return c.Conn.Write(b)
	}
	why := refusalFor(b)
	if why.status == http.StatusRequestHeaderFieldsTooLarge && !c.hasLine {
		why = uriTooLong(web.MaxURL)
	}
	c.refuse(why)
	return len(b), nil
}

// CloseWrite closes the writing side. net/http calls it before it closes a connection
// whose peer may still be sending.
func (c *http1Conn) CloseWrite() error { return closeWrite(c.Conn) }

// refusalWriteTime bounds the writing of a refusal. A connection's buffer takes it at once
// unless the peer reads nothing.
const refusalWriteTime = time.Second

func (c *http1Conn) refuse(why refusal) {
	if c.refused {
		return
	}
	c.refused = true
	resp := c.respond(partialRequest(c.head), why)
	writeRefusal(c.Conn, resp)
	c.onRefuse(resp)
}

// maxKeptHead is how much of a head is looked at to find out whether a person waits for
// the answer. Browsers send Accept among the first headers.
const maxKeptHead = 2 << 10

// partialRequest returns what decides whether a request that net/http refuses is answered by a
// page: its path and what it accepts. The method is left out, because net/http may have
// read the first byte of it while the request before was with the handler. A last line
// that may be cut off does not count.
func partialRequest(head []byte) *web.Request {
	req := &web.Request{Header: web.Header{}}
	lines := strings.Split(string(head), "\n")
	for n, line := range lines[:len(lines)-1] {
		if n == 0 {
			if words := strings.Fields(line); len(words) > 1 {
				req.Path, _, _ = strings.Cut(words[1], "?")
			}
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		switch name = http.CanonicalHeaderKey(name); name {
		case "Accept", "Accept-Language":
			req.Header[name] = append(req.Header[name], strings.TrimSpace(value))
		}
	}
	return req
}

// writeRefusal writes a refusal to a connection that has no request. It ignores errors, which
// mean that the peer has gone.
func writeRefusal(c net.Conn, resp *web.Response) {
	h := http.Header(resp.Header).Clone()
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	h.Set("Connection", "close")
	h.Set("Content-Length", strconv.Itoa(len(resp.Body)))
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(resp.Status) + " " + http.StatusText(resp.Status) + "\r\n")
	if err := h.Write(&b); err != nil {
		panic(err) // writing to a buffer does not fail
	}
	b.WriteString("\r\n")
	b.Write(resp.Body)
	c.SetWriteDeadline(time.Now().Add(refusalWriteTime))
	c.Write(b.Bytes())
}
