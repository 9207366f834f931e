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

// The responses that replace net/http's own. headTimeout is for a head that does not arrive in time, for
// which net/http sends no response.
var (
	headTimeout = rejection{status: http.StatusRequestTimeout, code: web.RequestTimeout,
		text: "The request header did not arrive in time."}
	notHTTP = rejection{status: http.StatusBadRequest, code: web.InvalidRequest,
		text: "The request is not well-formed HTTP: look at its URL, its Host and its header."}
	plainOnTLS = rejection{status: http.StatusBadRequest, code: web.InvalidRequest,
		text: "This address speaks https only."}
	netHTTPRejections = []rejection{
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

// rejectionFor returns the rejection that replaces a response of net/http. The status of that response
// selects it.
func rejectionFor(response []byte) rejection {
	const before = len("HTTP/1.1 ")
	if len(response) >= before+3 {
		status, err := strconv.Atoi(string(response[before : before+3]))
		for _, why := range netHTTPRejections {
			if err == nil && why.status == status {
				return why
			}
		}
	}
	return notHTTP
}

// http1Conn is an HTTP/1 connection, with or without TLS. net/http rejects some requests before a handler
// sees them, with its own texts and without an id. Requests on such a connection come one at a time. So any
// bytes written while no request is with the handler are one of those responses, and the last one on the
// connection. http1Conn writes our own instead. It passes on unread the bytes written while a request is
// with the handler.
type http1Conn struct {
	*emptyLineConn
	limited   *limitedConn
	respond   func(*web.Request, rejection) *web.Response
	onReject  func(*web.Response) // receives each response that replaces net/http's
	inHandler atomic.Bool         // from the handler's start until the response is written
	headBegun bool                // a part of the next head has arrived
	hasLine   bool                // the whole first line of the head has arrived
	head      []byte              // the first maxKeptHead bytes of the head; empty without keepHead
	keepHead  bool                // heads are stored in head
	rejected  bool                // our own response is written
}

// handlerBegins is called when the handler begins, with the length of the body or -1, and handlerEnds after
// its response is written.
func (c *http1Conn) handlerBegins(body int64) {
	c.emptyLineConn.handlerBegins(body)
	c.inHandler.Store(true)
}

func (c *http1Conn) handlerEnds() {
	c.headBegun, c.hasLine, c.head = false, false, c.head[:0]
	c.inHandler.Store(false)
	c.limited.endRequest()
}

func (c *http1Conn) Read(b []byte) (int, error) {
	n, err := c.emptyLineConn.Read(b)
	if !c.inHandler.Load() {
		c.headBegun = c.headBegun || n > 0
		if room := maxKeptHead - len(c.head); c.keepHead && room > 0 {
			c.head = append(c.head, b[:min(n, room)]...)
		}
		c.hasLine = c.hasLine || bytes.IndexByte(b[:n], '\n') >= 0
		if c.headBegun && errors.Is(err, os.ErrDeadlineExceeded) {
			c.reject(headTimeout)
		}
	}
	return n, err
}

func (c *http1Conn) Write(b []byte) (int, error) {
	if c.inHandler.Load() {
		return c.Conn.Write(b)
	}
	why := rejectionFor(b)
	if why.status == http.StatusRequestHeaderFieldsTooLarge && !c.hasLine {
		why = uriTooLong(web.MaxURL)
	}
	c.reject(why)
	return len(b), nil
}

// CloseWrite closes the writing side. net/http calls it before it closes a connection whose peer may still
// be sending.
func (c *http1Conn) CloseWrite() error { return closeWrite(c.Conn) }

// rejectionWriteTime limits the time to write a rejection. A connection's buffer accepts it immediately,
// unless the peer does not read.
const rejectionWriteTime = time.Second

func (c *http1Conn) reject(why rejection) {
	if c.rejected {
		return
	}
	c.rejected = true
	resp := c.respond(partialRequest(c.head), why)
	writeRejection(c.Conn, resp)
	c.onReject(resp)
}

// maxKeptHead is the number of bytes of a head that are searched for Accept, to decide whether to respond
// with a page. Browsers send Accept among the first headers.
const maxKeptHead = 2 << 10

// partialRequest returns the parts of a request that decide whether its rejection is a page: its path and
// the Accept headers. The method is left out, because net/http may have read its first byte while the
// previous request was with the handler. A last line that may be incomplete does not count.
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

// writeRejection writes a rejection to a connection without a request. It ignores errors, which mean that the
// peer has disconnected.
func writeRejection(c net.Conn, resp *web.Response) {
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
	c.SetWriteDeadline(time.Now().Add(rejectionWriteTime))
	c.Write(b.Bytes())
}
