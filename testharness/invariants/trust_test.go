package invariants_test

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/passkeytest"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wallettest"
)

// I16: a result or passkey never counts for more than its verdict, and only while its trust remains. Four
// services on one store have the same wallet method with different trust anchors, or another kind. Sessions
// continue at another service than the starting one. At the same time, publishers change the requested age,
// end passkeys and are archived. A model determines after each step which results may count.
func TestI16NothingStandsForMoreThanWasJudged(t *testing.T) {
	t.Parallel()
	eachEngine(t, trusts)
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		trusts(t, setup{Store: openRedis(t, stores.StartCluster(t, 3).URL()+"&"+patient), Shared: true})
	})
}

// sharedURL is the address of all services of the test. Passkeys need a host name.
const sharedURL = "http://localhost:8470"

// trusting is the services, and their model.
type trusting struct {
	t        *testing.T
	rng      *rand.Rand
	services []*service
	trusts   [][]*wallettest.Issuer // by service
	issuers  []*wallettest.Issuer
	shops    []*shop
	waiting  []*walk // sessions whose wallet has responded
	keys     []heldKey
	met      map[string]int
}

// shop is a publisher with one integration.
type shop struct {
	publisher, integration string
	minimum                int
	saved                  time.Time // time of its latest change
	ended                  time.Time // time at which its passkeys were ended
	archived               bool
}

// walk is a session in a browser.
type walk struct {
	w       *trusting
	http    *http.Client
	through *service // currently serves the browser
	shop    *shop
	issuer  *wallettest.Issuer
	proven  int // the highest age in the wallet's response
	at      *url.URL
	wait    string
	page    string
}

// heldKey is a passkey with its basis.
type heldKey struct {
	device *passkeytest.Authenticator
	shop   *shop
	issuer *wallettest.Issuer
	proven int
	at     time.Time // not after the session completed
}

func trusts(t *testing.T, c setup) {
	seed := faultproxy.Seed(t, 1)
	w := &trusting{t: t, rng: rand.New(rand.NewPCG(seed, 16)), met: map[string]int{}}
	for range 2 {
		w.issuers = append(w.issuers, wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(),
			EKU: wallettest.AgeSigner}))
	}
	c.BaseURL = sharedURL
	for _, trusted := range [][]*wallettest.Issuer{w.issuers, w.issuers[:1], w.issuers[1:], nil} {
		c.Methods = []method.Config{w.wallet(trusted)}
		s := newService(t, c)
		c.Keyring, c.Key, c.Sink, c.Clock = s.keyring, s.key, s.sink, s.clock
		w.services, w.trusts = append(w.services, s), append(w.trusts, trusted)
	}
	for n := range 3 {
		w.open(n)
	}
	steps := long.Pick(t, "TestI16NothingStandsForMoreThanWasJudged", 60, 600*times())
	for n := 0; n < steps && !t.Failed(); n++ {
		w.step()
	}
	w.undisturbed()
	t.Logf("seed %d: %v", seed, w.met)
}

// wallet returns the method of a service: a sandbox if there is no issuer.
func (w *trusting) wallet(trusted []*wallettest.Issuer) method.Config {
	w.t.Helper()
	if trusted == nil {
		return method.Config{Name: "wallet", Kind: sandbox.Name}
	}
	var anchors []string
	for _, i := range trusted {
		anchors = append(anchors, string(i.PEM()))
	}
	b, err := json.Marshal(map[string]any{"profile": "eu-av", "trust_anchors": anchors})
	must(w.t, err)
	return method.Config{Name: "wallet", Kind: "openid4vp", Settings: b}
}

// open adds a shop, or replaces its publisher.
func (w *trusting) open(n int) {
	w.t.Helper()
	s := &shop{publisher: fmt.Sprintf("pub_%d_%d", n, w.rng.Uint32()),
		integration: fmt.Sprintf("5b0c7f0e-9a53-4c8e-8d0f-%012x", w.rng.Uint64N(1<<48)), minimum: 16}
	must(w.t, w.services[0].Directory().PutPublisher(context.Background(),
		integration.Publisher{ID: s.publisher, Name: "Shop"}))
	w.save(s)
	if n < len(w.shops) {
		w.shops[n] = s
		return
	}
	w.shops = append(w.shops, s)
}

// save writes a shop's integration through one of the services.
func (w *trusting) save(s *shop) {
	w.t.Helper()
	must(w.t, pick(w, w.services).Directory().PutIntegration(context.Background(), integration.Integration{
		ID: s.integration, PublisherID: s.publisher, Name: "Shop", Level: "L2", ChallengeAge: 25,
		MinimumAge: s.minimum, Method: "wallet", Passkeys: integration.PasskeysService,
		Webhook: integration.Webhook{Off: true}}, ""))
	s.saved = time.Now()
}

func pick[T any](w *trusting, of []T) T { return of[w.rng.IntN(len(of))] }

// step makes one random change.
func (w *trusting) step() {
	switch n := w.rng.IntN(20); {
	case n < 2:
		s := pick(w, w.shops)
		s.minimum = []int{16, 16, 18, 21}[w.rng.IntN(4)]
		w.save(s)
	case n < 3:
		if w.rng.IntN(2) == 0 {
			w.archive(w.rng.IntN(len(w.shops)))
		} else {
			w.end(pick(w, w.shops))
		}
	case n < 8:
		w.begin(w.rng.IntN(3), pick(w, w.shops))
	case n < 13:
		w.collect(w.rng.IntN(len(w.services)))
	default:
		w.use(w.rng.IntN(len(w.services)), pick(w, w.shops))
	}
}

func (w *trusting) end(s *shop) {
	w.t.Helper()
	store := sessiontest.Store{Host: pick(w, w.services).Host()}
	must(w.t, store.EndPasskeys(context.Background(), s.publisher))
	s.ended = time.Now()
	w.met["passkeys ended"]++
}

// archive archives the publisher of a shop, and opens the shop with another one.
func (w *trusting) archive(n int) {
	w.t.Helper()
	s, now := w.shops[n], time.Now().UTC()
	must(w.t, pick(w, w.services).Directory().PutPublisher(context.Background(),
		integration.Publisher{ID: s.publisher, Name: "Shop", Archived: &now}))
	s.archived = true
	w.met["publishers archived"]++
	w.open(n)
}

// RoundTrip sends the request to the current service, at any address.
func (k *walk) RoundTrip(req *http.Request) (*http.Response, error) {
	to, err := url.Parse(k.through.url)
	if err != nil {
		return nil, err
	}
	sent := req.Clone(req.Context())
	sent.Host, sent.URL.Host = req.URL.Host, to.Host
	resp, err := browser.Transport.RoundTrip(sent)
	if err == nil {
		resp.Request = req // the browser reads its address from it
	}
	return resp, err
}

// start starts a session and opens its page.
func (w *trusting) start(through *service, s *shop) *walk {
	w.t.Helper()
	k := &walk{w: w, through: through, shop: s}
	jar, err := cookiejar.New(nil)
	must(w.t, err)
	k.http = &http.Client{Transport: k, Jar: jar, Timeout: 30 * time.Second}
	sealer := through.Host().Sealer
	id, err := sessiontest.New(crand.Reader, s.integration, "L2", time.Now(), 0)
	must(w.t, err)
	text, err := id.Format(sealer)
	must(w.t, err)
	flow, err := sessiontest.Forger{Sealer: sealer}.Flow(text, "https://shop.example/return", id.Expires())
	must(w.t, err)
	k.get(sharedURL + web.HostedPath + "?flow=" + url.QueryEscape(flow))
	return k
}

func (k *walk) get(target string) {
	k.w.t.Helper()
	req, err := http.NewRequest("GET", target, nil)
	must(k.w.t, err)
	k.send(req)
}

func (k *walk) send(req *http.Request) {
	k.w.t.Helper()
	resp, err := k.http.Do(req)
	must(k.w.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(k.w.t, err)
	k.at, k.page = resp.Request.URL, string(body)
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// submit posts the form of the page with this attribute. It reports whether the page has one.
func (k *walk) submit(attribute string, more ...string) bool {
	k.w.t.Helper()
	_, rest, found := strings.Cut(k.page, attribute)
	if !found {
		return false
	}
	rest, _, _ = strings.Cut(rest, "</form>")
	fields := url.Values{}
	for _, input := range hiddenField.FindAllStringSubmatch(rest, -1) {
		fields.Set(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	for n := 0; n < len(more); n += 2 {
		fields.Set(more[n], more[n+1])
	}
	req, err := http.NewRequest("POST", sharedURL+web.HostedPath, strings.NewReader(fields.Encode()))
	must(k.w.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	k.send(req)
	return true
}

// attribute returns the value of the first attribute with that name on the page.
func (k *walk) attribute(name string) string {
	_, rest, _ := strings.Cut(k.page, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// completed reports whether the page links to the callback, which it does only after a success.
func (k *walk) completed() bool { return strings.Contains(k.page, "data-hop") }

// begin starts a session and makes a wallet respond to it. Its browser does not return yet. If the service
// has an older copy of the integration, the request can ask for a lower age than the response needs (contract
// 34). Then the page asks for another request if the copy ends before it, and the wallet gets 410 if it ends
// after it.
func (w *trusting) begin(at int, s *shop) *walk {
	w.t.Helper()
	changed := time.Since(s.saved) < stale
	k := w.start(w.services[at], s)
	k.issuer = pick(w, w.trusts[at])
	if !k.submit(`data-outcome="begin"`) {
		w.t.Fatalf("a page without a wallet: %s", k.page)
	}
	if changed && strings.Contains(k.page, "Please do this step again") {
		w.met["requests of a lower age"]++
		return k
	}
	k.wait = k.at.String()
	wallet := wallettest.New(k.issuer)
	wallet.Client = k.http
	reply, err := wallet.Answer(context.Background(), k.attribute("data-qr"),
		func(p *wallettest.Presentation) {
			for _, e := range p.Elements {
				age, _ := strconv.Atoi(strings.TrimPrefix(e.Name, "age_over_"))
				k.proven = max(k.proven, age)
			}
		})
	if err == nil && reply.Status == 410 && changed {
		w.met["requests of a lower age"]++
		return k
	}
	if err != nil || reply.Status != 200 {
		w.t.Fatalf("the wallet got %d %s, %v", reply.Status, reply.Body, err)
	}
	w.waiting = append(w.waiting, k)
	w.met["wallets answered"]++
	return k
}

// collect makes a browser collect its response at some service, and create a passkey at another one.
func (w *trusting) collect(at int) {
	w.t.Helper()
	if len(w.waiting) == 0 {
		return
	}
	n := w.rng.IntN(len(w.waiting))
	k := w.waiting[n]
	w.waiting = slices.Delete(w.waiting, n, n+1)
	before := time.Now()
	k.through = w.services[at]
	k.get(k.wait)
	may := slices.Contains(w.trusts[at], k.issuer) && k.proven >= k.shop.minimum
	if k.completed() && !may {
		w.t.Fatalf("I16: a response that proves %d completes a session that asks for %d, at a service that "+
			"trusts the issuer: %v", k.proven, k.shop.minimum, slices.Contains(w.trusts[at], k.issuer))
	}
	if !k.completed() {
		w.met["answers that did not count"]++
		return
	}
	w.met["sessions completed"]++
	switch w.rng.IntN(6) { // events before the passkey is created
	case 0:
		w.end(k.shop)
	case 1:
		k.shop.minimum = 21
		w.save(k.shop)
	}
	k.through = pick(w, w.services)
	device := passkeytest.New(sharedURL)
	options := k.attribute("data-options")
	if options == "" {
		return // the page offers none, as after the end of all passkeys in the same minute
	}
	answer, err := device.Create([]byte(options))
	must(w.t, err)
	k.submit(`data-step="enrol"`, "credential", string(answer.JSON()))
	w.keys = append(w.keys, heldKey{device, k.shop, k.issuer, k.proven, before})
}

// use tries to complete a session with a passkey, and compares the result with the model.
func (w *trusting) use(at int, s *shop) {
	w.t.Helper()
	if len(w.keys) == 0 {
		return
	}
	key := pick(w, w.keys)
	k := w.start(w.services[at], s)
	answer, err := key.device.Get([]byte(k.attribute("data-options")))
	must(w.t, err)
	k.submit(`data-method="passkey"`, "credential", string(answer.JSON()))
	ended := key.shop.ended.After(key.at)
	trusted := slices.Contains(w.trusts[at], key.issuer)
	if k.completed() && (!trusted || key.proven < s.minimum || ended || key.shop.archived) {
		w.t.Fatalf("I16: a passkey of %d completes a session that asks for %d; its issuer is trusted: %v, "+
			"its publisher has ended it: %v, is archived: %v", key.proven, s.minimum, trusted, ended,
			key.shop.archived)
	}
	if k.completed() {
		w.met["passkeys that counted"]++
		return
	}
	w.met["passkeys that did not count"]++
}

// undisturbed fails unless a walk succeeds without changes, so that the services do not just deny every
// request.
func (w *trusting) undisturbed() {
	w.t.Helper()
	w.open(0)
	w.waiting, w.keys = nil, nil
	k := w.begin(0, w.shops[0])
	k.get(k.wait)
	if !k.completed() {
		w.t.Fatalf("I16: a session that nothing disturbs does not complete: %s", k.page)
	}
	device := passkeytest.New(sharedURL)
	answer, err := device.Create([]byte(k.attribute("data-options")))
	must(w.t, err)
	k.submit(`data-step="enrol"`, "credential", string(answer.JSON()))
	w.keys = []heldKey{{device, k.shop, k.issuer, k.proven, time.Now()}}
	before := w.met["passkeys that counted"]
	w.use(0, w.shops[0])
	if w.met["passkeys that counted"] != before+1 {
		w.t.Fatal("I16: a passkey does not count, although nothing has changed")
	}
}
