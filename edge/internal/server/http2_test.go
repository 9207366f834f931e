package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wait"
)

// h2Conn is an HTTP/2 connection whose frames the test writes itself, since Go's client waits for the
// server's settings.
type h2Conn struct {
	t      *testing.T
	conn   net.Conn
	frames *http2.Framer
	block  bytes.Buffer
	fields *hpack.Encoder
}

// dialHTTP2 connects, and sends the preface and empty settings. It does not read.
func dialHTTP2(t *testing.T, base string, client *tls.Config) *h2Conn {
	t.Helper()
	config := client.Clone()
	config.NextProtos = []string{"h2"}
	conn := tls.Client(dial(t, base), config)
	conn.SetDeadline(time.Now().Add(5 * time.Minute))
	c := &h2Conn{t: t, conn: conn, frames: http2.NewFramer(conn, conn)}
	c.frames.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.fields = hpack.NewEncoder(&c.block)
	io.WriteString(conn, http2.ClientPreface)
	c.frames.WriteSettings()
	return c
}

// headers opens a stream.
func (c *h2Conn) headers(stream uint32, end bool, fields ...hpack.HeaderField) {
	c.block.Reset()
	for _, f := range fields {
		c.fields.WriteField(f)
	}
	c.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(),
		EndStream: end, EndHeaders: true})
}

// post sends a whole POST request, in frames of 16 KiB. All frames are written together, so that they reach
// the server before it can read any.
func (c *h2Conn) post(stream uint32, path string, size int) {
	c.headers(stream, false, pseudo("POST", path)...)
	var all bytes.Buffer
	data := http2.NewFramer(&all, nil)
	for size > 0 {
		n := min(size, 16<<10)
		size -= n
		data.WriteData(stream, size == 0, make([]byte, n))
	}
	c.conn.Write(all.Bytes())
}

func pseudo(method, path string) (fields []hpack.HeaderField) {
	for _, f := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "x"},
		{":path", path}} {
		if f[1] != "" {
			fields = append(fields, hpack.HeaderField{Name: f[0], Value: f[1]})
		}
	}
	return fields
}

// answer returns the frame of the next response, with its status or code, and its id.
func (c *h2Conn) answer() (got, id string) {
	c.t.Helper()
	for {
		frame, err := c.frames.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.RSTStreamFrame:
			return "RST_STREAM " + f.ErrCode.String(), ""
		case *http2.GoAwayFrame:
			return "GOAWAY " + f.ErrCode.String(), ""
		case *http2.MetaHeadersFrame:
			for _, field := range f.RegularFields() {
				if field.Name == "x-request-id" {
					id = field.Value
				}
			}
			return "HEADERS " + f.PseudoValue("status"), id
		}
	}
}

// Contract 5: until a client has received the server's settings, its window is 65,535 bytes (RFC 9113,
// 6.9.2 and 6.9.3). A client that sends immediately may fill it.
func TestHTTP2_BodyBeforeSettings(t *testing.T) {
	secured, client := secure(t)
	got := make(chan int, 1)
	base, _ := start(t, Config{TLS: secured, Engine: fake{
		handle: func(_ context.Context, req *web.Request) *web.Response {
			got <- len(req.Body)
			return ok("{}")
		}}})
	for _, c := range []struct {
		rule, path string
		size, read int
	}{
		{"a body at the usual limit", "/api/v1/verify/start", web.MaxBody, web.MaxBody},
		{"a body over the limit", "/api/v1/verify/start", 60_000, web.MaxBody + 1},
		{"a part of a picture", "/verify/file", 60_000, 60_000},
		{"the whole window", "/verify/file", 65_535, 65_535},
	} {
		t.Run(c.rule, func(t *testing.T) {
			conn := dialHTTP2(t, base, client)
			conn.post(1, c.path, c.size)
			if status, _ := conn.answer(); status != "HEADERS 200" {
				t.Fatalf("contract 5: %s, want a response", status)
			}
			if n := wait.For(got); n != c.read {
				t.Errorf("contract 5: the engine received %d bytes, want %d", n, c.read)
			}
		})
	}
}
