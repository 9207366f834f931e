package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// load returns work that sends requests over a number of connections.
func load(b *testing.B, connections int, addr string, request func(i int) []byte) work {
	return loadFor(b, "200", connections, addr, request)
}

// loadFor is load for responses with another status.
func loadFor(b *testing.B, status string, connections int, addr string, request func(i int) []byte) work {
	conns := make([]*conn, connections)
	for i := range conns {
		c, err := dial(addr)
		if err != nil {
			b.Fatal(err)
		}
		c.status = status
		b.Cleanup(func() { c.Close() })
		conns[i] = c
	}
	return func(from, to int) error {
		return parallelFrom(connections, from, to, func(worker, i int) error {
			_, err := conns[worker].ask(request(i))
			return err
		})
	}
}

// conn is a connection of an HTTP client. It takes less processor time than net/http.
type conn struct {
	net.Conn
	r      *bufio.Reader
	status string // that responses must have
	body   []byte
}

func dial(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, r: bufio.NewReaderSize(c, 8<<10), status: "200"}, nil
}

// ask sends a request and returns the body of a response with the status and a Content-Length. The body is
// valid until the next request.
func (c *conn) ask(request []byte) (body []byte, err error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	ok := bytes.HasPrefix(line, []byte("HTTP/1.1 "+c.status))
	status := strings.TrimSpace(string(line[:min(len(line), 40)]))
	length := 0
	for {
		if line, err = c.r.ReadSlice('\n'); err != nil {
			return nil, err
		}
		if len(line) <= 2 {
			break
		}
		if value, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return nil, err
			}
		}
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	body = c.body[:length]
	if _, err = io.ReadFull(c.r, body); err == nil && !ok {
		err = fmt.Errorf("%s: %s", status, body)
	}
	return body, err
}

// askOnce sends a request over a new connection.
func askOnce(b *testing.B, addr string, request []byte) (body []byte) {
	b.Helper()
	c, err := dial(addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if body, err = c.ask(request); err != nil {
		b.Fatal(err)
	}
	return body
}

// always returns the same request.
func always(request []byte) func(int) []byte { return func(int) []byte { return request } }

// request returns the bytes of one request.
func request(method, path, key string, body string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", method, path, benchHost,
		key)
	b.WriteString("User-Agent: bench\r\nAccept: */*\r\n")
	if body != "" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.WriteString(body)
	return b.Bytes()
}

// serve runs a handler on a loopback port until the benchmark ends, and returns its address.
func serve(b *testing.B, h http.HandlerFunc) (addr string) {
	b.Helper()
	l := listen(b)
	s := &http.Server{Handler: h}
	go s.Serve(l)
	b.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

func listen(b *testing.B) net.Listener {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// floor serves a handler that reads the body and writes n bytes.
func floor(b *testing.B, n int) (addr string) {
	answer := bytes.Repeat([]byte("x"), n)
	return serve(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Write(answer)
	})
}
