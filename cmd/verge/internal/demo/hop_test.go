package demo_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
)

// publisher is a site with many host names. It redirects as a test wants, and records the requests.
type publisher struct {
	port string

	mu    sync.Mutex
	asked []string // scheme, host and the request's own bytes behind it
	from  []string // Referer of each
}

func newPublisher(t *testing.T, listen string) *publisher {
	t.Helper()
	l, err := net.Listen("tcp", listen)
	if err != nil {
		t.Skipf("no program can listen on %s: %v", listen, err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{port: port}
	server := &http.Server{Handler: p}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return p
}

func (p *publisher) at(host, path string) string { return "http://" + host + ":" + p.port + path }

func (p *publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/favicon.ico" {
		http.NotFound(w, r)
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, "http://"+r.Host+r.RequestURI)
	p.from = append(p.from, r.Referer())
	p.mu.Unlock()
	to := ""
	switch r.URL.Path {
	case "/apex":
		to = p.at("www.shop.localhost", "/end?"+r.URL.RawQuery)
	case "/away":
		to = p.at("other.example", "/end?"+r.URL.RawQuery)
	case "/app":
		to = "myapp://return?" + r.URL.RawQuery
	}
	if to != "" {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	io.WriteString(w, "<title>publisher</title><p>welcome back")
}

func (p *publisher) last() (asked, from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		return "", ""
	}
	return p.asked[len(p.asked)-1], p.from[len(p.from)-1]
}

// back presses the Back button. It does not wait for the next page, because the hop may already continue
// from there.
func (w *walk) back() {
	w.t.Helper()
	get(w, chromedp.Evaluate[bool]("setTimeout(() => history.back(), 0), true"))
}

// begin starts a session with that callback and opens its page.
func (w *walk) begin(callback string) testharness.Started {
	w.t.Helper()
	s := w.Start(testharness.Body{"callback_url": callback, "state": "the state"})
	w.open(s.RedirectURL)
	return s
}

// isHop fails the test unless the page is the hop to the callback.
func (w *walk) isHop(callback string) {
	w.t.Helper()
	w.reads("Your age is confirmed", "Continue")
	if href := w.attribute("a[data-hop]", "href"); !strings.HasPrefix(href,
		callback+"?result_token=svc_rt_") {
		w.t.Errorf("the link leads to %s, want %s", href, callback)
	}
}

func TestHop(t *testing.T) {
	w := newWalk(t)
	p := newPublisher(t, "127.0.0.1:0")
	for _, c := range []struct{ name, callback, end string }{
		{"a callback that stays", p.at("shop.localhost", "/end"), p.at("shop.localhost", "/end?")},
		{"a callback that redirects from the apex to www",
			p.at("shop.localhost", "/apex"), p.at("www.shop.localhost", "/end?")},
		{"a callback that redirects to another site",
			p.at("shop.localhost", "/away"), p.at("other.example", "/end?")},
		{"a host with an underscore", p.at("my_shop.localhost", "/end"), p.at("my_shop.localhost", "/end?")},
		{"a host with an underscore that redirects",
			p.at("my_shop.localhost", "/apex"), p.at("www.shop.localhost", "/end?")},
	} {
		t.Run("contract 22: "+c.name, func(t *testing.T) {
			w := *w
			w.t = t
			s := w.begin(c.callback)
			w.outcome("approve")
			w.arrives(c.end)
			asked, from := p.last()
			if from != "" {
				t.Errorf("the browser told the publisher where the user came from: %s", from)
			}
			if !strings.HasPrefix(asked, c.end) ||
				!strings.Contains(asked, "session_id="+s.SessionID+"&state=the%20state") {
				t.Errorf("the publisher was asked for %s", asked)
			}
		})
	}

	t.Run("contract 22: a callback that redirects to an app leaves a page with a link", func(t *testing.T) {
		w := *w
		w.t = t
		w.tab(withoutCamera.start(t)) // later Chromium asks about the app, and this tab rejects clicks
		callback := p.at("shop.localhost", "/app")
		s := w.begin(callback)
		w.outcome("approve")
		w.wait("the callback", func() bool {
			asked, _ := p.last()
			return strings.HasPrefix(asked, callback)
		})
		w.arrives(s.RedirectURL)
		w.isHop(callback)
		w.picture("app")
	})

	t.Run("contract 22: without scripts", func(t *testing.T) {
		w := *w
		w.t = t
		script := func(off bool) step {
			return command(emulation.SetScriptExecutionDisabled,
				emulation.SetScriptExecutionDisabledParams{Value: off})
		}
		w.begin(p.at("shop.localhost", "/apex"))
		w.do(script(true), chromedp.Reload())
		w.outcome("approve")
		w.arrives(p.at("www.shop.localhost", "/end?"))
		w.do(script(false))
	})

	resultToken := func(asked string) string {
		_, rest, _ := strings.Cut(asked, "result_token=")
		token, _, _ := strings.Cut(rest, "&")
		return token
	}
	end := p.at("shop.localhost", "/end")
	t.Run("contract 17: Back hops again until the result has been fetched", func(t *testing.T) {
		w := *w
		w.t = t
		w.begin(end)
		w.outcome("approve")
		w.arrives(end)
		first, _ := p.last()
		w.back()
		w.wait("the hop", func() bool { again, _ := p.last(); return again != first })
		w.arrives(end)
		again, _ := p.last()
		if r := w.Validate(resultToken(again)); r.Status != 200 {
			t.Errorf("validate: %d %s", r.Status, r.Body)
		}
		if r := w.Validate(resultToken(first)); r.Code() != "ALREADY_USED" {
			t.Errorf("the first token is another one: %d %s", r.Status, r.Body)
		}
	})
	t.Run("contract 24: Back after it has been fetched says that it worked", func(t *testing.T) {
		w := *w
		w.t = t
		s := w.begin(end)
		w.outcome("approve")
		w.arrives(end)
		asked, _ := p.last()
		if r := w.Validate(resultToken(asked)); r.Status != 200 {
			t.Errorf("validate: %d %s", r.Status, r.Body)
		}
		w.back()
		w.arrives(s.RedirectURL)
		w.reads("This link has been used", "It worked")
		w.picture("back")
	})
}

// TestHopAddress hops to addresses with every character that a callback may have. Browsers have rules of
// their own for the address of a refresh.
func TestHopAddress(t *testing.T) {
	long.Skip(t, "TestHopAddress")
	w := newWalk(t)
	v4 := newPublisher(t, "127.0.0.1:0")
	callbacks := []string{
		v4.at("127.0.0.1", "/"), v4.at("127.0.0.1", "/?"), v4.at("127.0.0.1", "/?a"),
		v4.at("127.0.0.1", "/?a&"),
		v4.at("127.0.0.1", "/;url=http://other.example/"),
		v4.at("127.0.0.1", "/?url='http://other.example/'"),
		v4.at("127.0.0.1", "/'a'?'b'"), v4.at("127.0.0.1", "/a;b,c;d?e;f,g"),
		v4.at("127.0.0.1", "/%22%27%2C%3B%20%09%0A?%22%27%2C%3B%20%09%0A"),
		v4.at("127.0.0.1", "/&amp;?a&amp;b&lt;&quot;&#39;&copy"),
		v4.at("127.0.0.1", "//a//b"), v4.at("127.0.0.1", "/a:b@c?d:e@f/g?h"),
		v4.at("127.0.0.1", "/[]()*!$~-._+=?[]()*!$~-._+="), v4.at("127.0.0.1", "/"+strings.Repeat("'", 1000)),
		v4.at("LOCALHOST", "/Upper?CASE"), v4.at("a_b.localhost", "/x"), v4.at("_.localhost", "/"),
	}
	t.Run("contract 8: an IPv6 address", func(t *testing.T) {
		v6 := newPublisher(t, "[::1]:0")
		hopTo(t, w, v6, v6.at("[::1]", "/return?a=1"))
	})
	const alphabet = "abz019!$&'()*+,-./:;=?@[]_~&';,?"
	rng := rand.New(rand.NewPCG(22, 8))
	for range 24 {
		var b strings.Builder
		b.WriteByte('/')
		for range 1 + rng.IntN(40) {
			if rng.IntN(6) == 0 {
				fmt.Fprintf(&b, "%%%02X", rng.IntN(256))
				continue
			}
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		callbacks = append(callbacks, v4.at("127.0.0.1", b.String()))
	}
	taken := 0
	for _, callback := range callbacks {
		if r := w.TryStart(testharness.Body{"callback_url": callback}); r.Status != 200 {
			continue // by chance a segment of dots, say
		}
		taken++
		t.Run("contract 8: byte for byte: "+callback, func(t *testing.T) { hopTo(t, w, v4, callback) })
	}
	if taken < len(callbacks)-6 {
		t.Errorf("the API accepted only %d of %d callbacks", taken, len(callbacks))
	}
}

func hopTo(t *testing.T, w *walk, p *publisher, callback string) {
	t.Helper()
	s := w.Start(testharness.Body{"callback_url": callback})
	want := w.Approve(s).URL
	// Browsers change two things in every address: they write the host in lower case, and they escape
	// an apostrophe in a query.
	host, rest, _ := strings.Cut(strings.TrimPrefix(want, "http://"), "/")
	path, query, _ := strings.Cut(rest, "?")
	want = "http://" + strings.ToLower(host) + "/" + path + "?" + strings.ReplaceAll(query, "'", "%27")
	want, _, _ = strings.Cut(want, "result_token=")
	other := *w
	other.t = t
	other.open(s.RedirectURL)
	other.arrives(want + "result_token=svc_rt_")
	if asked, _ := p.last(); !strings.HasPrefix(asked, want+"result_token=svc_rt_") {
		t.Errorf("the publisher was asked for %s, want %s", asked, want)
	}
}
