package server

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
)

// scripted is a connection on which the parts arrive one at a time. An empty part is a read deadline.
type scripted struct {
	net.Conn
	parts []string
}

func (s *scripted) Read(b []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	part := s.parts[0]
	if part == "" {
		s.parts = s.parts[1:]
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(b, part)
	s.parts[0] = part[n:]
	if s.parts[0] == "" {
		s.parts = s.parts[1:]
	}
	return n, nil
}

// readAll reads everything that arrives, with a buffer of size bytes.
func readAll(t *testing.T, c *emptyLineConn, size int) string {
	t.Helper()
	var all strings.Builder
	for {
		b := make([]byte, size)
		n, err := c.Read(b)
		all.Write(b[:n])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case errors.Is(err, io.EOF):
			return all.String()
		case err != nil:
			t.Fatal(err)
		}
	}
}

// Contract 5: one empty line before a request is skipped, and no other bytes are (RFC 9112, 2.2).
func TestEmptyLineConn(t *testing.T) {
	const head = "POST / HTTP/1.1\r\nHost: x\r\n\r\n"
	type request struct {
		parts []string
		body  int64 // length that the handler learns after these parts
		want  string
	}
	for _, c := range []struct {
		rule     string
		requests []request
	}{
		{"before the first request", []request{{[]string{"\r\n" + head}, 0, head}}},
		{"in two parts", []request{{[]string{"\r", "\n" + head}, 0, head}}},
		{"with a deadline in its middle", []request{{[]string{"\r", "", "\n", "", head}, 0, head}}},
		{"alone", []request{{[]string{"\r\n", head}, 0, head}}},
		{"only one", []request{{[]string{"\r\n", "\r\n" + head}, 0, "\r\n" + head}}},
		{"half of one", []request{{[]string{"\r", head}, 0, "\r" + head}}},
		{"a part of a head", []request{{[]string{"POST / HTTP/1.1", "\r\nHost: x\r\n", "\r\n"}, 0, head}}},
		{"a part of a body", []request{{[]string{head, "\r\n\r\n"}, 4, head + "\r\n\r\n"}}},
		{"after a body", []request{
			{[]string{head + "ab"}, 2, head + "ab"}, {[]string{"\r\n" + head}, 0, head}}},
		{"after a body, before each", []request{
			{[]string{head, "ab"}, 2, head + "ab"}, {[]string{"\r", "\n" + head}, 0, head},
			{[]string{"\r\n", head}, 0, head}}},
		{"after a head with line feeds alone", []request{
			{[]string{"GET / HTTP/1.1\nHost: x\n\n"}, 0, "GET / HTTP/1.1\nHost: x\n\n"},
			{[]string{"\r\n" + head}, 0, head}}},
		{"not in the head of a request that was sent before the response", []request{
			{[]string{head + "POST / HTTP/1.1"}, 0, head + "POST / HTTP/1.1"},
			{[]string{"\r\nHost: x\r\n\r\n"}, 0, "\r\nHost: x\r\n\r\n"},
			{[]string{"\r\n" + head}, 0, "\r\n" + head}}},
		{"not in the body of a request that was sent before the response", []request{
			{[]string{head + head}, 0, head + head}, {nil, int64(len(head)), ""},
			{[]string{"\r\nab"}, 0, "\r\nab"}}},
		{"not after a chunked body, whose end is not known", []request{
			{[]string{head + "0\r\n"}, -1, head + "0\r\n"},
			{[]string{"\r\n" + head}, 0, "\r\n" + head}}},
	} {
		for _, size := range []int{1, 2, 3, 4096} {
			wire := &scripted{}
			conn := newEmptyLineConn(wire)
			for n, r := range c.requests {
				wire.parts = append([]string(nil), r.parts...)
				if got := readAll(t, conn, size); got != r.want {
					t.Errorf("contract 5: %s, request %d, %d bytes at a time: %q, want %q", c.rule, n, size,
						got, r.want)
				}
				conn.handlerBegins(r.body)
			}
		}
	}
}

// Contract 5: bytes have the same meaning in any parts.
func FuzzEmptyLineConn(f *testing.F) {
	f.Add("\r\nGET / HTTP/1.1\r\n\r\nab", uint8(3), uint8(1))
	f.Add("\r\r\n\n", uint8(1), uint8(9))
	f.Fuzz(func(t *testing.T, text string, cut, size uint8) {
		read := func(parts []string, size int) string {
			return readAll(t, newEmptyLineConn(&scripted{parts: parts}), size)
		}
		at := min(int(cut), len(text))
		var parts []string
		for _, p := range []string{text[:at], text[at:]} {
			if p != "" {
				parts = append(parts, p)
			}
		}
		var whole []string
		if text != "" {
			whole = []string{text}
		}
		if got, want := read(parts, int(size)+1), read(whole, len(text)+1); got != want {
			t.Errorf("%q in parts, %d bytes at a time: %q, want %q", text, int(size)+1, got, want)
		}
	})
}
