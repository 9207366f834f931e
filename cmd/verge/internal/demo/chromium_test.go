package demo_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/cmd/verge/internal/demo"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/kinds"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/courier"
	"github.com/verge-id/verge/testharness/wallettest"
)

// step is one thing that the browser does.
type step = chromedp.Action[chromedp.Void]

// command is a step that sends one command of the DevTools protocol.
func command[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// walk is a real browser that uses the demo and the whole service. The test moves the service's clock.
type walk struct {
	*testharness.Harness
	t      *testing.T
	ctx    context.Context
	url    string // of the shop
	others string // of the simulated other sides, which have another origin than shop and service
	held   *held
	issuer *wallettest.Issuer // of the simulated wallet's documents

	looks  []look                   // of sees
	noAxe  bool                     // of faultless
	device webauthn.AuthenticatorID // that makes and keeps passkeys, if there is one
}

// Integrations of the shop for other methods than the sandbox.
const (
	bankID   = "77777777-7777-4777-8777-777777777701"
	cameraID = "77777777-7777-4777-8777-777777777702"
	anyID    = "77777777-7777-4777-8777-777777777703"
	walletID = "77777777-7777-4777-8777-777777777704"
	appID    = "77777777-7777-4777-8777-777777777705" // answered by an app, as a wallet is
	// by a wallet that is asked by all protocols of browsers
	protocolsID = "77777777-7777-4777-8777-777777777707"
	// with passkeys; for a walk to a service that has a name
	keyID = "77777777-7777-4777-8777-777777777706"
)

func newWalk(t *testing.T, before ...step) *walk {
	t.Helper()
	return newWalkIn(t, &withoutCamera, before...)
}

// newWalkIn opens a tab of the browser in its own profile, which ends with the test.
func newWalkIn(t *testing.T, b *browser, before ...step) *walk {
	t.Helper()
	return newWalkTo(t, b, "127.0.0.1", before...)
}

// newWalkTo is newWalkIn with a service that has a name or address of this machine.
func newWalkTo(t *testing.T, b *browser, host string, before ...step) *walk {
	t.Helper()
	running := b.start(t)
	w := &walk{t: t, held: &held{}}
	listen := func(host string) (net.Listener, string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l, fmt.Sprintf("http://%s:%d", host, l.Addr().(*net.TCPAddr).Port)
	}
	serve := func(l net.Listener, site *demo.Site) {
		server := &http.Server{Handler: w.held.before(site)}
		go server.Serve(l)
		t.Cleanup(func() { site.Close(); server.Close() })
	}
	shop, url := listen("127.0.0.1")
	other, others := listen("localhost")
	secrets := &demo.Secrets{Bank: "the bank's", Camera: "the-camera's",
		Issuer: wallettest.NewIssuer(wallettest.IssuerConfig{Now: testharness.Epoch})}
	w.url, w.others, w.issuer = url, others, secrets.Issuer
	key, protocols := allProtocols(t, w.issuer)
	w.Harness = testharness.New(t, &testharness.Options{WebhookURL: url + "/webhooks",
		Keys: map[string][]byte{protocols.KeyName("private_key"): key},
		Configure: func(c *core.Config) {
			c.BaseURL = strings.Replace(c.BaseURL, "127.0.0.1", host, 1)
			c.Methods = append(demo.Methods(others, *secrets), method.Config{Name: "app", Kind: "courier"},
				protocols)
			c.Kinds = append(slices.Clip(kinds.All), courier.Kind)
		}})
	w.BaseURL = strings.Replace(w.BaseURL, "127.0.0.1", host, 1)
	w.seedMethods()
	config := demo.Config{
		BaseURL: w.BaseURL, DemoURL: url,
		SecretKey: w.Publisher.SecretKey, WebhookSecret: w.Publisher.L1.WebhookSecret,
		Offers: []demo.Offer{
			{IntegrationID: w.Publisher.L1.ID, Title: "Sandbox"},
			{IntegrationID: bankID, Title: "Demo Bank ID"},
			{IntegrationID: cameraID, Title: "Demo camera"}, {IntegrationID: walletID, Title: "Demo wallet"},
			{IntegrationID: anyID, Title: "Let me choose"},
			{IntegrationID: appID, Title: "Demo app"}, {IntegrationID: protocolsID, Title: "All protocols"},
		},
		Now: w.Now,
	}
	serve(shop, demo.New(config))
	config.DemoURL, config.Counterparts = others, secrets
	serve(other, demo.New(config))

	w.tab(running, before...)
	return w
}

// tab opens a tab in its own profile.
func (w *walk) tab(running context.Context, before ...step) {
	w.t.Helper()
	ctx, end := chromedp.NewContext(running, chromedp.WithNewBrowserContext())
	w.t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	w.t.Cleanup(cancel)
	w.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // the tab ends with the context of its first call
		w.t.Fatal(err)
	}
	w.do(before...)
}

// browser is a Chromium that the walks of this process share. To start one takes more time than a walk.
type browser struct {
	flags func(dir string) ([]chromedp.ExecAllocatorOption, error) // in addition to the usual ones; nil: none

	once sync.Once
	ctx  context.Context
	err  error
	stop func()
}

var withoutCamera, withCamera = browser{}, browser{flags: cameraFlags}

// TestMain ends the browsers.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, b := range []*browser{&withoutCamera, &withCamera} {
		if b.stop != nil {
			b.stop()
		}
	}
	os.Exit(code)
}

// start returns the context of the browser. The first call starts it.
func (b *browser) start(t *testing.T) context.Context {
	t.Helper()
	program := chromium.Program(t)
	b.once.Do(func() { b.err = b.run(program) })
	if b.err != nil {
		t.Fatalf("Chromium does not start: %v", b.err)
	}
	return b.ctx
}

func (b *browser) run(program string) error {
	dir, err := os.MkdirTemp("", "verge-chromium-")
	if err != nil {
		return err
	}
	b.stop = func() { os.RemoveAll(dir) }
	options := append(chromium.Options(program, filepath.Join(dir, "profile")),
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"))
	if b.flags != nil {
		more, err := b.flags(dir)
		if err != nil {
			return err
		}
		options = append(options, more...)
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	b.ctx, b.stop = ctx, func() {
		end()
		stop()
		os.RemoveAll(dir)
	}
	return chromedp.Do(ctx)
}

// seedMethods puts the integrations of the methods into the store.
func (w *walk) seedMethods() {
	w.t.Helper()
	site := integration.Site{Publishers: []integration.SitePublisher{{ID: w.Publisher.ID, Name: "shop"}}}
	for _, i := range []integration.SiteIntegration{
		{ID: bankID, Name: "bank", Level: "L2", ChallengeAge: 18, Method: "bank"},
		{ID: cameraID, Name: "camera", Level: "L1", ChallengeAge: 25, Method: "camera"},
		{ID: walletID, Name: "wallet", Level: "L2", ChallengeAge: 18, Method: "wallet"},
		{ID: appID, Name: "app", Level: "L2", ChallengeAge: 18, Method: "app"},
		{ID: protocolsID, Name: "protocols", Level: "L2", ChallengeAge: 18, Method: "protocols"},
		{ID: anyID, Name: "any", Level: "L1", ChallengeAge: 25,
			Methods: []string{"bank", "camera", "sandbox"}},
		{ID: keyID, Name: "key", Level: "L2", ChallengeAge: 18, Methods: []string{"bank", "wallet"},
			Passkeys: integration.PasskeysService},
	} {
		i.Publisher, i.WebhookURL, i.Secret = w.Publisher.ID, w.url+"/webhooks", w.Publisher.L1.WebhookSecret
		site.Integrations = append(site.Integrations, i)
	}
	directory := w.Service.Directory()
	if err := directory.Put(context.Background(), site, integration.KeepRemoved, nil); err != nil {
		w.t.Fatal(err)
	}
}

// held can hold the requests for a path back, so that the page before stays on the screen.
type held struct {
	mu   sync.Mutex
	path string
	gate chan struct{}
	came atomic.Bool // a request that is held back
}

func (h *held) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		gate := h.gate
		if r.URL.Path != h.path {
			gate = nil
		}
		h.mu.Unlock()
		if gate != nil {
			h.came.Store(true)
			select {
			case <-gate:
			case <-r.Context().Done():
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// hold holds requests for a path back until release is called.
func (h *held) hold(path string) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.path, h.gate = path, make(chan struct{})
	h.came.Store(false)
	return sync.OnceFunc(func() { close(h.gate) })
}

func (w *walk) do(steps ...step) {
	w.t.Helper()
	for n, s := range steps {
		steps[n] = whenThere(s)
	}
	ctx, cancel := context.WithTimeout(w.ctx, 3*time.Minute) // the tab lives on, for the report
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.picture("failure")
		w.t.Fatalf("%v\nat: %s\nthe page reads:\n%s", err, w.location(), w.text())
	}
}

// press clicks the one element that the selector finds and waits for the next page. A hop page may leave
// before it is loaded. Chromium then never reports that it is, so after 20 s press looks for another page.
func (w *walk) press(selector string) {
	w.t.Helper()
	before := w.loaded()
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	_, err := chromedp.RunResponse(ctx, chromedp.Click(selector))
	if ctx.Err() != nil {
		w.wait("the page after "+selector, func() bool {
			at, err := chromedp.Run(w.ctx, chromedp.Evaluate[float64](
				`document.readyState === "complete" ? performance.timeOrigin : 0`))
			return err == nil && at != 0 && at != before
		})
		return
	}
	if err != nil {
		w.t.Fatalf("pressing %s: %v\nat: %s\nthe page reads:\n%s", selector, err, w.location(), w.text())
	}
}

// arrives waits until the browser has moved to an address that begins with prefix and has
// loaded that page.
func (w *walk) arrives(prefix string) {
	w.t.Helper()
	w.wait(prefix, func() bool {
		// Between two pages a browser has neither a state nor an address.
		at, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](`document.readyState + " " + location.href`))
		return err == nil && strings.HasPrefix(at, "complete "+prefix)
	})
}

func (w *walk) wait(what string, done func() bool) {
	w.t.Helper()
	for !done() {
		if err := w.ctx.Err(); err != nil {
			w.t.Fatalf("this did not happen in time: %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (w *walk) outcome(name string) {
	w.t.Helper()
	w.press(`form[data-outcome="` + name + `"] button`)
}

func (w *walk) open(url string) {
	w.t.Helper()
	w.do(chromedp.Navigate(url))
}

// verify begins a verification on the demo and ends on the hosted page.
func (w *walk) verify() {
	w.t.Helper()
	w.open(w.url + "/")
	w.press(`form[action="/start"] button`)
	if at := w.location(); !strings.HasPrefix(at, w.BaseURL+"/verify?") {
		w.t.Fatalf("the demo did not lead to the hosted page but to %s:\n%s", at, w.text())
	}
}

// get runs a step and returns its result.
func get[T any](w *walk, find chromedp.Action[T]) T {
	w.t.Helper()
	v, err := chromedp.Run(w.ctx, whenThere(find))
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// whenThere does an action again that Chromium has rejected because one page had gone and the next one had
// not come. A page that loads itself again can be between the two at any time.
func whenThere[T any](do chromedp.Action[T]) chromedp.Action[T] {
	return func(ctx context.Context, t *chromedp.Target) (v T, err error) {
		for {
			v, err = do(ctx, t)
			if err == nil || ctx.Err() != nil ||
				!strings.Contains(err.Error(), "Not attached to an active page") {
				return v, err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (w *walk) location() string { w.t.Helper(); return get(w, chromedp.Location()) }

func (w *walk) text() string { w.t.Helper(); return get(w, chromedp.Text("body")) }

func (w *walk) attribute(selector, name string) string {
	w.t.Helper()
	return get(w, chromedp.AttributeValue(selector, name)).Value
}

// reads fails the test unless the page says all of that.
func (w *walk) reads(parts ...string) {
	w.t.Helper()
	text := w.text()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			w.picture("failure")
			w.t.Fatalf("the page at %s does not contain %q:\n%s", w.location(), part, text)
		}
	}
}

// inbox delivers the events that are due. It fails the test unless the inbox has exactly these events,
// with good signatures.
func (w *walk) inbox(types ...string) {
	w.t.Helper()
	w.Settle()
	w.open(w.url + "/inbox")
	w.picture("inbox")
	got := get(w, chromedp.Evaluate[[]string](
		`[...document.querySelectorAll("#deliveries > li")].map(li => li.innerText)`))
	if len(got) != len(types) {
		w.t.Fatalf("the inbox has %d events, want %v:\n%s", len(got), types, strings.Join(got, "\n---\n"))
	}
	// Both were sent at the same time, so their order is not certain.
	for _, want := range types {
		if !slices.ContainsFunc(got, func(entry string) bool {
			return strings.HasPrefix(entry, want) && strings.Contains(entry, "Signature verified")
		}) {
			w.t.Errorf("the inbox has no verified %s:\n%s", want, strings.Join(got, "\n---\n"))
		}
	}
}

// pictures is the folder that VERGE_PICTURES names, if it names one.
func pictures() string { return os.Getenv("VERGE_PICTURES") }

// picture keeps a screenshot in that folder, for a person to look at.
func (w *walk) picture(name string) {
	dir := pictures()
	if dir == "" {
		return
	}
	png, err := chromedp.Run(w.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		w.t.Logf("no picture: %v", err)
		return
	}
	file := strings.NewReplacer("/", "-", " ", "-").Replace(w.t.Name()) + "-" + name + ".png"
	if err := os.WriteFile(filepath.Join(dir, file), png, 0o644); err != nil {
		w.t.Error(err)
	}
}

func TestChromium(t *testing.T) {
	t.Run("spec: approved, back with the facts, webhooks arrive", func(t *testing.T) {
		w := newWalk(t)
		w.open(w.url + "/")
		w.picture("shop")
		w.verify()
		w.picture("method")
		w.outcome("approve")
		w.arrives(w.url)
		if at := w.location(); strings.Contains(at, "result_token") {
			t.Errorf("the browser ended at %s, want the demo without the token in the address", at)
		}
		w.reads("Your age is verified", "L1", "25")
		w.picture("facts")
		w.do(chromedp.Reload())
		w.reads("Your age is verified")
		w.inbox("started", "completed")
	})

	t.Run("contract 23: a final no fails immediately", func(t *testing.T) {
		w := newWalk(t)
		w.verify()
		w.outcome("reject")
		if href := w.attribute(`main a[rel~="noreferrer"]`, "href"); strings.TrimSuffix(href, "/") != w.url {
			t.Errorf("the link back leads to %q, want the plain origin %s (contract 24)", href, w.url)
		}
		w.picture("failed")
		w.inbox("started", "failed")
	})

	t.Run("contract 23: cancelled, retried, approved", func(t *testing.T) {
		w := newWalk(t)
		w.verify()
		w.outcome("cancel")
		w.picture("cancelled")
		w.press(`main a[href^="/verify?"]`)
		w.outcome("fail_attempt")
		w.picture("attempt")
		w.outcome("approve")
		w.arrives(w.url)
		w.reads("Your age is verified")
		w.inbox("started", "completed")
	})

	t.Run("contract 23: the third failed attempt is the last", func(t *testing.T) {
		w := newWalk(t)
		w.verify()
		for range 3 {
			w.outcome("fail_attempt")
		}
		w.picture("attempts")
		w.inbox("started", "failed")
	})

	t.Run("contract 24: expired", func(t *testing.T) {
		w := newWalk(t)
		w.verify()
		w.Advance(10 * time.Minute)
		w.do(chromedp.Reload())
		w.reads("expired")
		w.picture("expired")
		w.inbox("started", "expired")
	})

	t.Run("contract 17: back button after success, the hop again", func(t *testing.T) {
		w := newWalk(t)
		w.verify()
		hosted := w.location()
		w.outcome("approve")
		w.arrives(w.url)
		w.reads("Your age is verified")
		w.open(hosted)
		w.reads("used", "It worked")
		w.picture("used")
		w.inbox("started", "completed")
	})

	t.Run("contract 10: German on a phone, without cookies and scripts", func(t *testing.T) {
		w := newWalk(t, chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile),
			command(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
				Headers: network.Headers{"Accept-Language": "de-AT,de;q=0.9,en;q=0.5"}}))
		w.verify()
		w.do(command(emulation.SetScriptExecutionDisabled,
			emulation.SetScriptExecutionDisabledParams{Value: true}),
			command(network.ClearBrowserCookies, cdp.Empty{}), chromedp.Reload())
		if lang := w.attribute("html", "lang"); lang != "de" {
			t.Errorf("the page is in %q, want de", lang)
		}
		w.picture("method")
		w.outcome("cancel")
		w.picture("cancelled")
		w.press(`main a[href^="/verify?"]`)
		w.outcome("reject")
		w.picture("failed")
	})
}
