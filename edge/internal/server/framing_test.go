package server

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// everyPath has a path of each kind, handled by the server, the engine or a stream.
var everyPath = []string{"/", "/api/v1/verify/start", "/verify", "/verify/file", "/nowhere", AlivePath,
	ReadyPath}

// onEach runs a test on the public listener in the clear and over TLS, and on the ops listener.
func onEach(t *testing.T, paths []string, test func(t *testing.T, path string, conn func() net.Conn)) {
	secured, client := secure(t)
	ops := listen(t)
	clear, _ := start(t, Config{Engine: fake{}, Ops: ops})
	encrypted, _ := start(t, Config{Engine: fake{}, TLS: secured})
	for name, base := range map[string]string{"in the clear": clear, "over TLS": encrypted,
		"ops": "http://" + ops.Addr().String()} {
		for _, path := range paths {
			t.Run(name+" "+path, func(t *testing.T) {
				test(t, path, func() net.Conn {
					conn := dial(t, base)
					if base == encrypted {
						conn = tls.Client(conn, client)
					}
					conn.SetDeadline(time.Now().Add(5 * time.Minute))
					return conn
				})
			})
		}
	}
}

// Contract 5: a proxy may see a different end of such a request than the server does, so nothing may follow
// it on the same connection (RFC 9112, 6.1).
func TestDoubtfulFraming_ClosesConnection(t *testing.T) {
	const next = "GET /next HTTP/1.1\r\nHost: x\r\n\r\n"
	onEach(t, everyPath, func(t *testing.T, path string, dial func() net.Conn) {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			for _, c := range []struct {
				rule, version, header, body string
				closes                      bool
			}{
				{"a length alone", "1.1", "Content-Length: 2\r\n", "{}", false},
				{"chunked and a length", "1.1", "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
					"0\r\n\r\n", true},
				{"a length and chunked", "1.1", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
					"0\r\n\r\n", true},
				{"chunked in HTTP/1.0", "1.0",
					"Connection: keep-alive\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
					"0\r\n\r\n", true},
			} {
				conn := dial()
				in := bufio.NewReader(conn)
				fmt.Fprintf(conn, "%s %s HTTP/%s\r\nHost: x\r\n%s\r\n%s%s", method, path, c.version, c.header,
					c.body, next)
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("contract 5: %s %s: %v", method, c.rule, err)
				}
				io.Copy(io.Discard, resp.Body)
				_, err = http.ReadResponse(in, nil)
				if (err != nil) != c.closes {
					t.Errorf("contract 5: %s, %s: %d, and the next request: %v; closes: want %v", method,
						c.rule, resp.StatusCode, err, c.closes)
				}
			}
		}
	})
}

// Contract 5: a client that waits for "100 Continue" is not asked for a body that is too large (RFC 9110,
// 10.1.1).
func TestExpect_TooLargeBody(t *testing.T) {
	onEach(t, everyPath, func(t *testing.T, path string, dial func() net.Conn) {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			conn := dial()
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"+
				"Content-Length: %d\r\n\r\n", method, path, 8<<20)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			ops := strings.HasPrefix(t.Name(), "TestExpect_TooLargeBody/ops")
			want := 413
			if ops || path == AlivePath || path == ReadyPath {
				want = resp.StatusCode // no body is read for this path
			}
			if resp.StatusCode != want || resp.StatusCode == 100 {
				t.Errorf("contract 5: %s: %d, want %d", method, resp.StatusCode, want)
			}
			if want == 413 {
				wantRejection(t, resp, 413, "PAYLOAD_TOO_LARGE")
			}
		}
	})
}

// TestTooLargeBody_ResponseArrives: contract 5: a proxy that asks for the end of the connection can read the
// response to a body that is not read.
func TestTooLargeBody_ResponseArrives(t *testing.T) {
	body := strings.Repeat("x", 64<<10)
	onEach(t, []string{"/", "/api/v1/verify/start"}, func(t *testing.T, path string, dial func() net.Conn) {
		for _, request := range []string{
			"POST %s HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s",
			"POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		} {
			var err error
			for range 10 { // the server waits half a second, and this client may be slower
				conn := dial()
				io.WriteString(conn, fmt.Sprintf(request, path, len(body), body))
				if _, err = io.ReadAll(conn); err == nil {
					break
				}
			}
			if err != nil && !strings.HasPrefix(t.Name(), "TestTooLargeBody_ResponseArrives/ops") {
				t.Errorf("%q: %v", request, err)
			}
		}
	})
}

// Contract 5: one empty line before a request is skipped (RFC 9112, 2.2).
func TestFraming_EmptyLine(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	onEach(t, []string{"/"}, func(t *testing.T, _ string, dial func() net.Conn) {
		if strings.Contains(t.Name(), "ops") {
			return // the ops listener responds as net/http does: see the package's documentation
		}
		for _, c := range []struct {
			rule   string
			parts  []string
			status int
		}{
			{"one", []string{"\r\n" + request}, 200},
			{"a single one", []string{"\r\n", request}, 200},
			{"one in two parts", []string{"\r", "\n" + request}, 200},
			{"two", []string{"\r\n\r\n" + request}, 400},
			{"half of one", []string{"\r" + request}, 400},
			{"a space", []string{" " + request}, 400},
		} {
			conn := dial()
			in := bufio.NewReader(conn)
			for round := range 2 { // the second follows a response on the same connection
				for _, part := range c.parts {
					io.WriteString(conn, part)
					time.Sleep(5 * time.Millisecond) // makes the parts usually arrive separately
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatalf("contract 5: %s: %v", c.rule, err)
				}
				io.Copy(io.Discard, resp.Body)
				if resp.StatusCode != c.status {
					t.Errorf("contract 5: %s, round %d: %d, want %d", c.rule, round, resp.StatusCode,
						c.status)
				}
				if resp.StatusCode != 200 {
					break
				}
			}
		}
	})
}
