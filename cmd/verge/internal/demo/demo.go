// Package demo is the publisher of `verge dev`: a small shop that must verify its customers' age, and an
// inbox that shows the received webhooks.
//
// It is written as a publisher would write it, and it uses the service only through the public API.
// client.go makes the three calls. shop.go sends a browser to the service and handles its return. inbox.go
// receives webhooks and checks them with core/webhook. Use it as an example.
//
// The site also simulates the providers of three verification methods, so that they can be tested without an
// installation: an identity provider, an age estimator (pretend.go) and a wallet (wallet.go). These files are
// not examples.
//
// It is a demonstration. All data is in memory. Anyone who can reach the site can read the inbox, so
// `verge dev` binds it to the loopback address.
package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Config has the values of a publisher's dashboard, and the addresses of the shop and the service.
type Config struct {
	BaseURL string // of the service, without a trailing slash
	DemoURL string // of this site, as browsers reach it, without a trailing slash

	SecretKey     string
	KeyInShell    string // the secret key as a shell reads it, for commands on pages; "": $SECRET_KEY
	WebhookSecret string
	Offers        []Offer // at least one; the page preselects the first

	// SignIn creates a link that signs a browser in to the service's console. Nil: the site has no such page.
	SignIn func(context.Context) (string, error)

	// Counterparts are the secrets of the simulated providers. Nil: the site simulates none.
	Counterparts *Secrets

	// HTTPClient calls the API. Nil: a client with a timeout of 15 seconds that follows no redirects, so that
	// no other server gets the secret key.
	HTTPClient *http.Client

	Now    func() time.Time // nil: time.Now
	Random io.Reader        // nil: crypto/rand
	Log    *slog.Logger     // nil: discard
}

// Offer is a verification that a visitor of the shop can choose.
type Offer struct {
	IntegrationID string // bare UUID
	Title, Text   string
}

// Site is the whole site. Register Close with http.Server.RegisterOnShutdown. Otherwise an open inbox
// prevents the server's shutdown.
type Site struct {
	conf     Config
	api      client
	browsers browsers
	inbox    *inbox
	pretend  *pretend // nil: it simulates no provider
	handler  http.Handler

	closed    chan struct{}
	closeOnce sync.Once
}

var _ http.Handler = (*Site)(nil)

//go:embed templates static
var files embed.FS

// Accent is the accent colour of the shop.
const Accent = "#1f5c4d"

// Logo returns the logo of the shop, a PNG file.
func Logo() []byte {
	b, err := files.ReadFile("static/mark.png")
	if err != nil {
		panic(err) // embedded when this was built
	}
	return b
}

// New returns the site. It starts no goroutines.
func New(conf Config) *Site {
	if conf.HTTPClient == nil {
		conf.HTTPClient = &http.Client{
			Timeout:       15 * time.Second,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if conf.Now == nil {
		conf.Now = time.Now
	}
	if conf.Random == nil {
		conf.Random = rand.Reader
	}
	if conf.Log == nil {
		conf.Log = slog.New(slog.DiscardHandler)
	}
	s := &Site{
		conf:     conf,
		api:      client{base: conf.BaseURL, key: conf.SecretKey, http: conf.HTTPClient},
		browsers: browsers{byID: map[string]*browser{}},
		closed:   make(chan struct{}),
	}
	s.inbox = newInbox(s.random(4))

	static, err := fs.Sub(files, "static")
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.shop)
	mux.HandleFunc("POST /start", s.start)
	mux.HandleFunc("GET /callback", s.callback)
	mux.HandleFunc("GET /result", s.result)
	mux.HandleFunc("POST /forget", s.forget)
	mux.HandleFunc("GET /sessions/{id}", s.session)
	mux.HandleFunc("POST /webhooks", s.receive)
	mux.HandleFunc("GET /inbox", s.showInbox)
	mux.HandleFunc("GET /inbox/stream", s.streamInbox)
	mux.HandleFunc("GET /inbox.json", s.listInbox)
	mux.HandleFunc("GET "+ConsolePath, s.console)
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServerFS(static)))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.problem(w, http.StatusNotFound, problem{
			Title: "Page not found",
			Text:  "The address may be mistyped.",
		})
	})
	if conf.Counterparts != nil {
		s.pretend = newPretend(s)
		s.pretend.register(mux)
	}
	s.handler = s.guard(http.NewCrossOriginProtection().Handler(mux))
	return s
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends the inbox's open streams. The site still serves requests.
func (s *Site) Close() { s.closeOnce.Do(func() { close(s.closed) }) }

// guard sets the headers of every response.
func (s *Site) guard(next http.Handler) http.Handler {
	policy :=
		"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
			"base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
	// The response to the shop's form is a redirect to the service. Chromium also applies form-action to
	// redirects of a form.
	if u, err := url.Parse(s.conf.BaseURL); err == nil && u.Host != "" {
		policy += " " + u.Scheme + "://" + u.Host
	}
	var alias string // of the site's host, for browsers
	if u, err := url.Parse(s.conf.DemoURL); err == nil && u.Hostname() == "127.0.0.1" {
		alias = "localhost:" + u.Port()
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		// With no-referrer, browsers would post a form with "Origin: null". A browser without Sec-Fetch-Site
		// would then look like a request from another site.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		// The callback goes to DemoURL, and a cookie of another host would be missing there.
		if alias != "" && r.Host == alias && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			h.Set("Location", s.conf.DemoURL+r.URL.RequestURI())
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// random returns n random bytes in hexadecimal.
func (s *Site) random(n int) string {
	b := make([]byte, n)
	if _, err := io.ReadFull(s.conf.Random, b); err != nil {
		panic("demo: no randomness: " + err.Error())
	}
	return hex.EncodeToString(b)
}

var pages = func() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(template.FuncMap{
		"short": short,
	}).ParseFS(files, "templates/layout.html", "templates/delivery.html"))
	set := map[string]*template.Template{}
	add := func(name string, parts ...string) {
		parts = append(parts, "templates/"+name+".html")
		set[name] = template.Must(template.Must(base.Clone()).ParseFS(files, parts...))
	}
	for _, name := range []string{"shop", "result", "session", "inbox", "problem"} {
		add(name)
	}
	for _, name := range []string{"bank", "estimator", "wallet"} {
		add(name, "templates/pretend.html") // with their own layout
	}
	return set
}()

// short keeps the beginning and the end of a long id, because people compare these.
func short(id string) string {
	const head, tail = 16, 6
	if len(id) <= head+tail+1 {
		return id
	}
	return id[:head] + "…" + id[len(id)-tail:]
}

// render sends a page. If the template fails, it sends no part of the page.
func (s *Site) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := pages[name].ExecuteTemplate(&b, "layout", data); err != nil {
		s.conf.Log.Error("demo: page not rendered", "page", name, "error", err)
		http.Error(w, "This page cannot be shown.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}
