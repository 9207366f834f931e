package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/verge-id/verge/core/web"
)

// takeBody waits for the body. During that time the request counts only for its connection, and a large
// body for its reserved memory. large is nil if maxBody is at most web.MaxBody.
func (l *listener) takeBody(r *http.Request, c *limitedConn, req *web.Request, maxBody int,
	large *largeBody) *rejection {
	if r.ContentLength == 0 {
		return nil
	}
	if r.ProtoMajor == 2 {
		if !c.beginBody() {
			return &serviceBusy
		}
		defer c.endBody()
	}
	var err error
	req.Body, err = readBody(r, maxBody, large)
	if errors.Is(err, errNoBodyMemory) || err != nil && large.wasEvicted() {
		return &serviceBusy
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return &bodyTimeout
	}
	if err != nil {
		return &bodyBroken
	}
	return nil
}

// closeSlowly makes net/http wait before it closes a connection whose peer may still be sending a body that
// is not read. If the request has "Connection: close", as of a proxy, net/http would close the connection
// right after the response. The peer's next bytes then reset the connection, and a proxy drops the response,
// returns 502 and may treat this instance as failed. After a MaxBytesReader has reached its limit, net/http
// closes the writing side, and the connection half a second later.
func closeSlowly(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.Close && int64(len(body)) != r.ContentLength {
		_, _ = http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0).Read(make([]byte, 1))
	}
}

var bodyBuffers = sync.Pool{New: func() any { b := make([]byte, web.MaxBody+1); return &b }}

// readBody reads at most one byte more than the route accepts, so that the core can detect a body that is
// too large. With the pooled buffer, a small body does not cost 16 KiB. A larger one costs as much memory
// as has arrived.
func readBody(r *http.Request, maxBody int, large *largeBody) (body []byte, err error) {
	buf := bodyBuffers.Get().(*[]byte)
	defer bodyBuffers.Put(buf)
	most := maxBody + 1
	for n := 0; ; {
		m, err := r.Body.Read((*buf)[n:min(len(*buf), most-len(body))])
		n += m
		switch {
		case err == io.EOF, err == nil && len(body)+n == most:
			if !large.complete() {
				return nil, errNoBodyMemory
			}
			return append(body, (*buf)[:n]...), nil
		case err != nil:
			return nil, err
		case n == len(*buf):
			if !large.reserve(int64(n)) {
				return nil, errNoBodyMemory
			}
			body, n = append(body, *buf...), 0
		}
	}
}
