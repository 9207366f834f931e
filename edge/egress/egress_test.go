package egress

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// privateV4 has at least one address of every forbidden range.
var privateV4 = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "100.127.255.254",
	"127.0.0.1", "127.1.2.3", "127.255.255.254",
	"168.63.129.16", "169.254.0.1", "169.254.169.254", "169.254.170.2",
	"172.16.0.1", "172.31.255.255",
	"192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255",
	"198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1",
	"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
}

var privateV6 = []string{
	"::", "::1", "::2", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1",
	"2001::1", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1",
	"fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "febf::1", "fec0::1",
	"ff01::1", "ff02::1", "ff05::2", "ff0e::1",
}

// spellings returns the ways to write an IPv4 address that some resolver, gateway or tunnel accepts.
func spellings(a netip.Addr) []string {
	b := a.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	wide := strings.NewReplacer("0", "０", "1", "１", "2", "２", "3", "３", "4", "４", "5", "５", "6",
		"６", "7", "７", "8", "８", "9", "９", ".", "。")
	return []string{
		a.String(),
		a.String() + ".",
		strconv.FormatUint(uint64(n), 10),
		fmt.Sprintf("0x%08x", n),
		fmt.Sprintf("0X%X", n),
		fmt.Sprintf("0%o", n),
		fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff),
		fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff),
		wide.Replace(a.String()),
		"[::ffff:" + a.String() + "]",
		fmt.Sprintf("[::ffff:%x:%x]", n>>16, n&0xffff),
		"[64:ff9b::" + a.String() + "]",
		fmt.Sprintf("[2002:%x:%x::1]", n>>16, n&0xffff),
		fmt.Sprintf("[2001:0:4136:e378:8000:63bf:%x:%x]", ^n>>16, ^n&0xffff),
	}
}

// Contract 28: only public addresses, in any spelling.
func TestGuard_PrivateDestinations(t *testing.T) {
	var hosts []string
	for _, s := range privateV4 {
		hosts = append(hosts, spellings(netip.MustParseAddr(s))...)
	}
	for _, s := range privateV6 {
		hosts = append(hosts, "["+s+"]")
	}
	hosts = append(hosts, "[fe80::1%25lo]",
		"[::1%25lo]", "①②⑦.⓪.⓪.①", "127.0.0.1..", "0x7f.1", "0x", "1", "0", "foo.0x7f000001")
	if len(hosts) < 300 {
		t.Fatalf("only %d spellings", len(hosts))
	}
	c := New(Config{Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
		t.Errorf("%q was taken for a name and looked up", name)
		return nil, errors.New("no such name")
	}})
	for _, h := range hosts {
		_, err := c.Fetch(t.Context(), host.FetchRequest{Method: "POST", URL: "https://" + h + ":8443/"})
		if got := why(err); got != host.FetchBlocked {
			t.Errorf("contract 28: https://%s: %v", h, err)
		}
		// A digit of another script becomes an ASCII digit only when the name is dialled.
		ascii := !strings.ContainsFunc(h, func(r rune) bool { return r > 0x7f })
		if err := c.Check("https://" + h + ":8443/"); err == nil && ascii {
			t.Errorf("contract 28: https://%s can be configured", h)
		}
	}
}

// A URL that can never be reached must be rejected when it is configured. All others must be accepted.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		url string
		dev bool
		why string // part of the error; "": the URL is accepted
	}{
		{"https://hooks.publisher.example/x?y=hunter2", false, ""},
		{"https://hooks.publisher.example:8443", false, ""},
		{"https://8.8.8.8/", false, ""},
		{"https://[2606:4700::1111]:8443/", false, ""},
		{"https://[::ffff:8.8.8.8]/", false, ""},
		{"https://localhost.publisher.example/", false, ""},
		{"http://hooks.publisher.example/", false, "not https"},
		{"https://10.1.2.3/hunter2", false, "10.1.2.3 is not a public address"},
		{"https://localhost/", false, "localhost is not a public address"},
		{"https://Api.LocalHost./", false, "is not a public address"},
		{"https://127.0.0.1/", false, "is not a public address"},
		{"https://[::1]/", false, "is not a public address"},
		{"https://2130706433/", false, "number in disguise"},
		{"https://u:hunter2@hooks.publisher.example/", false, "carries a user"},
		{"http://localhost:8090/webhooks", true, ""},
		{"http://127.0.0.1:8090/", true, ""},
		{"https://[::ffff:127.0.0.1]/", true, ""},
		{"http://a.name.that.may.mean.loopback.example/", true, ""},
		{"http://192.168.0.7/", true, "plain http goes to loopback"},
		{"https://192.168.0.7/", true, "192.168.0.7 is not a public address"},
	} {
		err := New(Config{Dev: c.dev}).Check(c.url)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("contract 28: %s, dev %v: %v, want %q", c.url, c.dev, err, c.why)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("contract 13: %v", err)
		}
	}
}

// There are five reasons for a missing response, each with its own word.
func TestFetch_ErrorReasons(t *testing.T) {
	closed := fmt.Sprintf("127.0.0.1:%d", stores.FreePort(t))
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	lookup := func(_ context.Context, name string) ([]netip.Addr, error) {
		if name == "nowhere.example" {
			return nil, errors.New("no such name")
		}
		return nil, nil
	}
	for _, c := range []struct{ rule, url, want string }{
		{"nothing listens", "https://" + closed, host.FetchRefused},
		{"the name is not found", "https://nowhere.example", host.FetchDNS},
		{"the name has no address", "https://empty.example", host.FetchDNS},
		{"it does not use TLS", "https://" + plain.Listener.Addr().String(), host.FetchTLS},
	} {
		_, err := New(Config{Dev: true, Lookup: lookup}).Fetch(t.Context(),
			host.FetchRequest{Method: "POST", URL: c.url})
		if why(err) != c.want || host.FetchCause(c.want) == "" {
			t.Errorf("%s: %v, want %s", c.rule, err, c.want)
		}
	}
	// This uses the system's own resolver, regardless of its handling of names that cannot exist (RFC
	// 6761).
	_, err := New(Config{Dev: true}).Fetch(t.Context(),
		host.FetchRequest{Method: "POST", URL: "https://nowhere.invalid"})
	if got := why(err); got != host.FetchDNS && got != host.FetchTimeout {
		t.Errorf("a name that does not exist: %v", err)
	}
}

// Contract 28: the dialled address counts, not the address that the name had before.
func TestGuard_NamesWithPrivateAddresses(t *testing.T) {
	for _, s := range append(append([]string(nil), privateV4...), privateV6...) {
		for _, a := range []netip.Addr{netip.MustParseAddr(s),
			netip.AddrFrom16(netip.MustParseAddr(s).As16())} {
			c := New(Config{Lookup: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{a}, nil
			}})
			_, err := c.Fetch(t.Context(), host.FetchRequest{Method: "POST",
				URL: "https://receiver.example/"})
			if why(err) != host.FetchBlocked {
				t.Errorf("contract 28: a name that resolves to %v: %v", a, err)
			}
		}
	}
}

// Contract 28: DNS rebinding. The first result may be dialled, the second may not. The receiver at the
// first address gets only one request.
func TestRebinding(t *testing.T) {
	s, roots := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	})
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	answers := []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "fd00:ec2::254"}
	var asked int
	c := New(Config{Dev: true, RootCAs: roots, Lookup: func(context.Context, string) ([]netip.Addr, error) {
		asked++
		return []netip.Addr{netip.MustParseAddr(answers[asked-1])}, nil
	}})
	for i, answer := range answers {
		_, err := c.Fetch(t.Context(), host.FetchRequest{
			Method: "POST",
			URL:    fmt.Sprintf("https://example.com:%d/", at.Port()),
		})
		if want := map[bool]string{true: "", false: host.FetchBlocked}[i == 0]; why(err) != want {
			t.Errorf("resolved to %s: got %v, want reason %q", answer, err, want)
		}
	}
	if asked != len(answers) {
		t.Errorf("the name was resolved %d times for %d connections", asked, len(answers))
	}
}

// The guard must allow public addresses on any port.
func TestGuard_PublicDestinations(t *testing.T) {
	c := New(Config{})
	for _, s := range []string{
		"8.8.8.8:443",
		"1.1.1.1:8443",
		"9.255.255.255:22",
		"172.32.0.1:443",
		"192.169.0.1:443",
		"[2606:4700::1111]:443",
		"[2a00:1450::1]:10443",
	} {
		if err := c.guard.SafeAddrPort(netip.MustParseAddrPort(s)); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// Contract 28: beyond https, dev mode allows only loopback. No guard accepts the test's address, so a
// failing test sends no request to the network.
func TestGuard_PlainHTTP(t *testing.T) {
	c := New(Config{Dev: true, Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}})
	for _, url := range []string{"http://192.0.2.1/", "http://hooks.publisher.example/"} {
		_, err := c.Fetch(t.Context(), host.FetchRequest{Method: "POST", URL: url})
		var fetch *host.FetchError
		blocked := errors.As(err, &fetch) && fetch.Reason == host.FetchBlocked
		if !blocked || !strings.Contains(err.Error(), "loopback addresses only") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestFetch_RejectedURLs(t *testing.T) {
	for _, c := range []struct {
		rule, url string
		dev       bool
	}{
		{"contract 28: http", "http://receiver.example/", false},
		{"contract 28: http to loopback", "http://127.0.0.1/", false},
		{"contract 28: another scheme", "ftp://receiver.example/", true},
		{"contract 28: file", "file:///etc/passwd", true},
		{"contract 28: gopher", "gopher://127.0.0.1:6379/_FLUSHALL", true},
		{"contract 28: unix", "unix:///var/run/docker.sock", true},
		{"no scheme", "receiver.example", true},
		{"no host", "https:///path", true},
		{"userinfo", "https://user:hunter2@receiver.example/", true},
		{"control character", "https://receiver.example/\x00hunter2", true},
		{"contract 28: Dev allows loopback, not the private network", "http://192.168.0.1/", true},
		{"contract 28: Dev allows loopback, not metadata", "http://169.254.169.254/latest/", true},
		{"contract 28: Dev allows loopback, not this host's other names", "http://0.0.0.0/", true},
	} {
		t.Run(c.rule, func(t *testing.T) {
			_, err := New(Config{Dev: c.dev}).Fetch(t.Context(),
				host.FetchRequest{Method: "POST", URL: c.url})
			if why(err) != host.FetchBlocked {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("contract 13: the error quotes the URL: %v", err)
			}
		})
	}
}

func TestExchange(t *testing.T) {
	s, roots := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		signed := r.Header.Get("X-Service-Signature") == "t=1,v1=ab"
		if r.Method != "POST" || r.URL.RequestURI() != "/hook?x=1" || string(body) != "payload" || !signed {
			t.Errorf("got %s %s %q %v", r.Method, r.URL, body, r.Header)
		}
		if r.Header.Get("Accept-Encoding") != "" || r.Header.Get("User-Agent") != "Verge" ||
			r.ProtoMajor != 1 {
			t.Errorf("got %s %v", r.Proto, r.Header)
		}
		w.Header().Add("X-Two", "first")
		w.Header().Add("X-Two", "second")
		w.WriteHeader(418)
		io.WriteString(w, "short")
	})
	resp, err := New(Config{Dev: true, RootCAs: roots}).Fetch(t.Context(), host.FetchRequest{
		Method: "POST", URL: s.URL + "/hook?x=1", Body: []byte("payload"),
		Header: map[string]string{"X-Service-Signature": "t=1,v1=ab"},
	})
	if err != nil || resp.Status != 418 || string(resp.Body) != "short" || resp.Header["X-Two"] != "first" {
		t.Errorf("got %+v, %v", resp, err)
	}
}

// A webhook URL that an earlier release accepted is sent as a well-formed request line (contract 28).
func TestFetch_EscapedQuery(t *testing.T) {
	for query, want := range map[string]string{"shop=a b": "shop=a%20b", "a=é&b=%20": "a=%C3%A9&b=%20",
		"a=b&c": "a=b&c"} {
		u, err := (&guardedTransport{}).destination("https://a.example/hook?" + query)
		if err != nil || u.String() != "https://a.example/hook?"+want {
			t.Errorf("%q is sent as %v, %v", query, u, err)
		}
	}
}

// Contract 28: no proxy from the environment.
func TestFetch_NoEnvironmentProxy(t *testing.T) {
	var proxied atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		proxied.Store(true)
	}))
	defer proxy.Close()
	for _, v := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(v, proxy.URL)
	}
	c := New(Config{Dev: true, Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return nil, errors.New("no such name")
	}})
	// The URL's name is not loopback, because the environment's proxy never serves loopback.
	_, err := c.Fetch(t.Context(), host.FetchRequest{Method: "POST", URL: "http://receiver.example/"})
	if why(err) != host.FetchDNS || proxied.Load() || c.transport.Proxy != nil {
		t.Errorf("contract 28: got %v, proxied %v", err, proxied.Load())
	}
}

// These receivers misbehave at the level of HTTP.
func TestReceivers(t *testing.T) {
	stall := func(r *http.Request) { <-r.Context().Done() }
	flush := func(w http.ResponseWriter) { http.NewResponseController(w).Flush() }
	var redirected atomic.Bool
	for _, c := range []struct {
		rule   string
		serve  http.HandlerFunc
		reason string
		status int
		body   int
	}{
		{"contract 26: a redirect is a response and is not followed",
			func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					redirected.Store(true)
				}
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			}, "", 307, 0},
		{"contract 26: at most 64 KiB of an endless body are read", func(
			w http.ResponseWriter, r *http.Request,
		) {
			for chunk := make([]byte, 1<<16); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, "", 200, 64 << 10},
		{"contract 26: 1 GB announced", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "1000000000")
			w.Write(make([]byte, 1<<20))
			stall(r)
		}, "", 200, 64 << 10},
		{"contract 26: exactly 64 KiB", func(w http.ResponseWriter, r *http.Request) {
			w.Write(make([]byte, 64<<10))
		}, "", 200, 64 << 10},
		{"contract 26: no header within the deadline", func(w http.ResponseWriter, r *http.Request) {
			stall(r)
		}, host.FetchTimeout, 0, 0},
		{"contract 26: 2xx, then nothing", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			flush(w)
			stall(r)
		}, host.FetchTimeout, 0, 0},
		{"contract 26: the deadline holds for the body, byte by byte", func(
			w http.ResponseWriter, r *http.Request,
		) {
			for r.Context().Err() == nil {
				w.Write([]byte("x"))
				flush(w)
				time.Sleep(5 * time.Millisecond)
			}
		}, host.FetchTimeout, 0, 0},
		{"an informational response does not count", func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			flush(w)
			stall(r)
		}, host.FetchTimeout, 0, 0},
		{"the body breaks off", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10")
			w.Write([]byte("short"))
			flush(w)
			panic(http.ErrAbortHandler)
		}, host.FetchCut, 0, 0},
		{"contract 26: 63 KiB of header", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 63<<10))
		}, "", 200, 0},
		{"contract 26: a header over 64 KiB", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<16))
		}, host.FetchHeaderSize, 0, 0},
	} {
		t.Run(c.rule, func(t *testing.T) {
			s, roots := receiver(t, func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				c.serve(w, r)
			})
			cl := New(Config{Dev: true, RootCAs: roots, Timeout: deadline(c.reason)})
			resp, err := cl.Fetch(t.Context(), host.FetchRequest{Method: "POST", URL: s.URL,
				Body: []byte("payload")})
			if why(err) != c.reason || resp.Status != c.status || (c.body > 0 && len(resp.Body) != c.body) {
				t.Errorf("got status %d, %d bytes, %v; want %d, %d bytes, reason %q",
					resp.Status, len(resp.Body), err, c.status, c.body, c.reason)
			}
		})
	}
	if redirected.Load() {
		t.Error("contract 28: the redirect was followed")
	}
}

// deadline is short if the test waits for it, and long otherwise.
func deadline(reason string) time.Duration {
	if reason == host.FetchTimeout {
		return 150 * time.Millisecond
	}
	return time.Minute
}

func TestGzipBomb(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(make([]byte, 16<<20))
	z.Close()
	s, roots := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes())
	})
	resp, err := New(Config{Dev: true, RootCAs: roots}).Fetch(t.Context(),
		host.FetchRequest{Method: "GET", URL: s.URL})
	if err != nil || !bytes.Equal(resp.Body, bomb.Bytes()[:min(bomb.Len(), 64<<10)]) {
		t.Errorf("the body was changed: %d of %d bytes, %v", len(resp.Body), bomb.Len(), err)
	}
}

// Contract 36: some providers compress unasked. The limit applies to the decompressed body.
func TestMethod_Gzip(t *testing.T) {
	packed := func(parts ...string) string {
		var all bytes.Buffer
		for _, part := range parts {
			z := gzip.NewWriter(&all)
			io.WriteString(z, part)
			z.Close()
		}
		return all.String()
	}
	zeros := func(n int) string { return string(make([]byte, n)) }
	for _, c := range []struct {
		rule, coding, body string
		want               string
		fails              bool
	}{
		{"gzip", "gzip", packed("content"), "content", false},
		{"gzip by its old name, in capitals", "X-GZIP", packed("content"), "content", false},
		{"gzip of two parts", "gzip", packed("con", "tent"), "content", false},
		{"no body", "gzip", "", "", false},
		{"a body as long as the limit", "gzip", packed(zeros(methodMaxBody)), zeros(methodMaxBody), false},
		{"a bomb", "gzip", packed(zeros(16 << 20)), zeros(methodMaxBody), false},
		{"a bomb of many small parts", "gzip", strings.Repeat(packed(""), 1<<17), "", true},
		{"a body that is not gzip", "gzip", "content", "", true},
		{"a body that breaks off", "gzip", packed("content")[:20], "", true},
		{"no coding", "", "content", "content", false},
		{"identity", "identity", "content", "content", false},
		{"a coding that was not requested", "br", "content", "content", false},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var asked atomic.Value
			s, roots := receiver(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Store(r.Header.Get("Accept-Encoding"))
				if c.coding != "" {
					w.Header().Set("Content-Encoding", c.coding)
				}
				io.WriteString(w, c.body)
			})
			resp, err := New(Config{Dev: true, RootCAs: roots}).Fetch(t.Context(),
				host.FetchRequest{Method: "GET", URL: s.URL, For: "bank"})
			if got := asked.Load(); got != "identity" {
				t.Errorf("it asks for %q", got)
			}
			var failed *host.FetchError
			if c.fails && (!errors.As(err, &failed) || failed.Reason != host.FetchMalformed) {
				t.Errorf("got %d bytes, %v; want %s", len(resp.Body), err, host.FetchMalformed)
			}
			if !c.fails && (err != nil || string(resp.Body) != c.want) {
				t.Errorf("got %d bytes, %v; want %d", len(resp.Body), err, len(c.want))
			}
		})
	}
}

// goodbye is a connection whose peer ends its response, as if it were complete, when we hang up. Over TLS
// this can cross our own close notification.
type goodbye struct {
	net.Conn
	answer        *strings.Reader
	asked, hungUp chan struct{}
	ask, hangUp   sync.Once
}

func (g *goodbye) Write(b []byte) (int, error) {
	g.ask.Do(func() { close(g.asked) })
	return len(b), nil
}

func (g *goodbye) Close() error { g.hangUp.Do(func() { close(g.hungUp) }); return nil }

func (g *goodbye) Read(b []byte) (int, error) {
	wait.For(g.asked)
	if g.answer.Len() > 0 {
		return g.answer.Read(b)
	}
	wait.For(g.hungUp)
	return 0, io.EOF
}

func TestFetch_EndAfterDeadline(t *testing.T) {
	cl := New(Config{Dev: true, Timeout: deadline(host.FetchTimeout)})
	cl.transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		return &goodbye{answer: strings.NewReader("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhalf"),
			asked: make(chan struct{}), hungUp: make(chan struct{})}, nil
	}
	resp, err := cl.Fetch(t.Context(), host.FetchRequest{Method: "POST", URL: "http://127.0.0.1"})
	if why(err) != host.FetchTimeout {
		t.Errorf("contract 26: got status %d, body %q, %v; want a timeout", resp.Status, resp.Body, err)
	}
}

// says is a receiver that reads a request, sends a text and closes the connection.
func says(text string) func(net.Conn) {
	return func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, text)
	}
}

// These receivers misbehave below the level of HTTP (contract 26).
func TestConnections(t *testing.T) {
	for _, c := range []struct {
		rule   string
		serve  func(net.Conn)
		reason string
	}{
		{"reset at once", func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) }, host.FetchNetwork},
		{"closed after the request", func(c net.Conn) { http.ReadRequest(bufio.NewReader(c)) },
			host.FetchNetwork},
		{"not HTTP", says("SSH-2.0-OpenSSH_9.6\r\n"), host.FetchStatusLine},
		{"contract 26: the status 000", says("HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n"),
			host.FetchStatusLine},
		{"a status of two digits", says("HTTP/1.1 20 OK\r\n\r\n"), host.FetchStatusLine},
		{"a status in words", says("HTTP/1.1 OK\r\n\r\n"), host.FetchStatusLine},
		{"a version that does not exist", says("HTTP/x 200 OK\r\n\r\n"), host.FetchStatusLine},
		{"a header line without a colon", says("HTTP/1.1 200 OK\r\nhello\r\n\r\n"), host.FetchHeaderLine},
		{"the end within the status line", says("HTTP/1.1 2"), host.FetchStatusLine},
		{"the end within the header", says("HTTP/1.1 200 OK\r\nA: b\r\n"), host.FetchCut},
		{"the end within the body", says("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), host.FetchCut},
		{"the end within a chunk", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
			host.FetchCut},
		{"a chunk without a size", says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"),
			host.FetchMalformed},
		{"a length that is not a number", says("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
			host.FetchMalformed},
		{"contract 26: a header that drips", func(c net.Conn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; ; i++ {
				if _, err := fmt.Fprintf(c, "X-%d: y\r\n", i); err != nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}, host.FetchTimeout},
		{"protocols switched unasked, then silence", func(c net.Conn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
			io.Copy(io.Discard, c)
		}, host.FetchMalformed},
	} {
		t.Run(c.rule, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					go func() { defer conn.Close(); c.serve(conn) }()
				}
			}()
			cl := New(Config{Dev: true, Timeout: deadline(c.reason)})
			_, err = cl.Fetch(t.Context(), host.FetchRequest{
				Method: "POST",
				URL:    "http://" + l.Addr().String(),
				Body:   []byte("x"),
			})
			if why(err) != c.reason {
				t.Errorf("got %v, want reason %q", err, c.reason)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	now := time.Now()
	const closing = 0xffff // a maxVersion: the server closes the connection
	for _, c := range []struct {
		rule             string
		name             string
		notAfter         time.Time
		maxVersion       uint16
		trusted, stalled bool
		reason           string
		fault            string // contract 48: in the error's text, for the operator's log
	}{
		{"a good certificate", "127.0.0.1", now.Add(time.Hour), 0, true, false, "", ""},
		{"expired", "127.0.0.1", now.Add(-time.Hour), 0, true, false, host.FetchTLS,
			"x509: certificate has expired"},
		{"for another name", "192.0.2.1", now.Add(time.Hour), 0, true, false, host.FetchTLS,
			"x509: certificate is valid for 192.0.2.1, not 127.0.0.1"},
		{"from an unknown authority", "127.0.0.1", now.Add(time.Hour), 0, false, false, host.FetchTLS,
			"x509: certificate signed by unknown authority"},
		{"TLS 1.1", "127.0.0.1", now.Add(time.Hour), tls.VersionTLS11, true, false, host.FetchTLS,
			"tls: "},
		{"a server that closes the connection", "127.0.0.1", now.Add(time.Hour), closing, true, false,
			host.FetchTLS, "tls: the server closed the connection during the handshake"},
		{"contract 26: a handshake that stalls", "127.0.0.1", now.Add(time.Hour), 0, true, true,
			host.FetchTimeout, ""},
	} {
		t.Run(c.rule, func(t *testing.T) {
			cert := certificate(t, c.name, c.notAfter)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.TLS = &tls.Config{
				Certificates: []tls.Certificate{cert},
				MinVersion:   tls.VersionTLS10,
				MaxVersion:   c.maxVersion,
			}
			url := ""
			if c.maxVersion == closing {
				s.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
					return nil, hello.Conn.Close()
				}
				s.TLS.MaxVersion = 0
			}
			if c.stalled {
				// its backlog accepts connections, but no one responds
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				url = "https://" + l.Addr().String()
			} else {
				s.StartTLS()
				defer s.Close()
				url = s.URL
			}
			roots := x509.NewCertPool()
			if c.trusted {
				roots.AddCert(cert.Leaf)
			}
			cfg := Config{Dev: true, RootCAs: roots}
			if c.stalled {
				cfg.ConnectTimeout = 100 * time.Millisecond
			}
			_, err := New(cfg).Fetch(t.Context(), host.FetchRequest{Method: "POST", URL: url})
			if why(err) != c.reason {
				t.Errorf("got %v, want reason %q", err, c.reason)
			}
			if err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("got %v, want %q in it", err, c.fault)
			}
		})
	}
}

// Contract 26: many events share one connection, and a connection is not kept after a body was cut.
func TestConnectionReuse(t *testing.T) {
	for _, c := range []struct {
		rule  string
		bytes int
		conns int64
	}{
		{"complete responses share a connection", 10, 1},
		{"a cut response closes its connection", 1 << 20, 5},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var opened atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Write(make([]byte, c.bytes))
			}))
			s.Config.ConnState = func(_ net.Conn, st http.ConnState) {
				if st == http.StateNew {
					opened.Add(1)
				}
			}
			s.Start()
			defer s.Close()
			cl := New(Config{Dev: true})
			for range 5 {
				if _, err := cl.Fetch(t.Context(), host.FetchRequest{Method: "POST",
					URL: s.URL}); err != nil {
					t.Fatal(err)
				}
			}
			if opened.Load() != c.conns {
				t.Errorf("%d connections for 5 requests, want %d", opened.Load(), c.conns)
			}
		})
	}
}

func FuzzDestination(f *testing.F) {
	for _, s := range []string{
		"https://a/",
		"http://127.0.0.1",
		"https://[::1]:80/",
		"https://a@b",
		"https://0x7f.1",
		"//x",
		"https://a:b",
		"https://%31",
	} {
		f.Add(s)
	}
	c := New(Config{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})
	f.Fuzz(func(t *testing.T, raw string) {
		// All names mean loopback here, and no test address is public. So every URL must be rejected,
		// except one with a literal public address.
		if u, err := c.destination(raw); err == nil {
			if a, err := netip.ParseAddr(u.Hostname()); err == nil && c.guard.SafeAddr(a.Unmap()) == nil {
				t.Skip("a public address")
			}
			if strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r > 0x7f }) {
				t.Skip("may map to a public address")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := c.Fetch(ctx, host.FetchRequest{Method: "POST", URL: raw}); err == nil {
			t.Errorf("%q was fetched", raw)
		}
	})
}

func why(err error) string {
	if fe, ok := errors.AsType[*host.FetchError](err); ok {
		return fe.Reason
	}
	if err != nil {
		return "not a FetchError: " + err.Error()
	}
	return ""
}

// receiver starts an HTTPS server on loopback and returns the roots that trust it.
func receiver(t *testing.T, serve http.HandlerFunc) (*httptest.Server, *x509.CertPool) {
	s := httptest.NewUnstartedServer(serve)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return s, roots
}

func certificate(t *testing.T, ip string, notAfter time.Time) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "receiver"},
		NotBefore: notAfter.Add(-24 * time.Hour), NotAfter: notAfter,
		IPAddresses: []net.IP{net.ParseIP(ip)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
