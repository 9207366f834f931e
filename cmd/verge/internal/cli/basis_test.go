package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/passkeytest"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/wallettest"
)

// trust is `verge serve`, the real binary, with one method "wallet", and two publishers at which each other's
// passkeys count. It is started again with other trust and keeps its store.
type trust struct {
	*site
	dir    string
	engine string // lines of the configuration
	in     *served
	admin  *adminclient.Client
	issuer *wallettest.Issuer
	other  *wallettest.Issuer
	signer *wallettest.ListSigner
	device *passkeytest.Authenticator
	prove  func(wallettest.ProofTask) ([]byte, error) // of wallets; nil: they send documents

	first, second store
}

// store is an integration of a publisher, with the publisher's key.
type store struct{ publisher, integration, key string }

func newTrust(t *testing.T, engine string) *trust {
	t.Helper()
	dir := t.TempDir()
	s := &trust{site: newSite(t, "bolt:"+filepath.Join(dir, "verge.db"), "", ""), dir: dir, engine: engine,
		issuer: wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner}),
		device: passkeytest.New(productionURL)}
	s.other = wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now(), EKU: wallettest.AgeSigner})
	s.signer = wallettest.NewListSigner(time.Now())
	for file, i := range map[string]*wallettest.Issuer{"issuer.pem": s.issuer, "other.pem": s.other} {
		if err := os.WriteFile(filepath.Join(dir, file), i.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// walletOf returns the configuration of a wallet method with these trust anchors.
func (s *trust) walletOf(anchors ...string) string {
	for n, name := range anchors {
		anchors[n] = filepath.Join(s.dir, name)
	}
	list, err := json.Marshal(anchors)
	if err != nil {
		s.t.Fatal(err)
	}
	return "mode = \"production\"\n" + "METHODS" +
		"[[methods]]\nname = \"wallet\"\nkind = \"openid4vp\"\n[methods.openid4vp]\n" +
		"profile = \"eu-av\"\ntrust_anchors = " + string(list) + "\n"
}

// listedWallet returns the configuration of a wallet method with a trusted list, and without anchors.
func (s *trust) listedWallet() string {
	return "mode = \"production\"\n" + "METHODS" +
		"[[methods]]\nname = \"wallet\"\nkind = \"openid4vp\"\n[methods.openid4vp]\n" +
		"profile = \"eu-av\"\n[[methods.openid4vp.trust_lists]]\nname = \"eu\"\n" +
		fmt.Sprintf("file = %q\nformat = \"etsi-ts-119602\"\nsigners = [%q]\n",
			filepath.Join(s.dir, "list.jwt"), filepath.Join(s.dir, "signer.pem"))
}

// publishes writes a list with these issuers.
func (s *trust) publishes(sequence uint64, issuers ...*wallettest.Issuer) {
	s.t.Helper()
	s.listUntil(sequence, time.Now().AddDate(0, 0, 10), issuers...)
}

// listUntil writes a list whose next update is due then.
func (s *trust) listUntil(sequence uint64, next time.Time, issuers ...*wallettest.Issuer) {
	s.t.Helper()
	l := wallettest.List{Sequence: sequence, Issued: time.Now().Add(-time.Hour), NextUpdate: next}
	for _, i := range issuers {
		l.Certificates = append(l.Certificates, i.Root)
	}
	list, err := s.signer.Sign(l)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "list.jwt"), list, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "signer.pem"), s.signer.PEM(), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// waitForList waits until the service has read its list, and stored the one with this number.
func (s *trust) waitForList(sequence uint64) {
	s.t.Helper()
	wait.Until(s.t, fmt.Sprintf("list %d is stored", sequence), func() bool { return s.hasList(sequence) })
}

// hasList reports whether the service has stored the list with this number.
func (s *trust) hasList(sequence uint64) bool {
	all, err := adminclient.All(context.Background(), s.admin, operate.ListTrustLists, struct{}{})
	return err == nil && len(all) == 1 && all[0].Sequence == sequence && all[0].Entries > 0
}

// sandboxOf is a method of the same name that verifies no user.
const sandboxOf = "mode = \"test\"\nMETHODS[[methods]]\nname = \"wallet\"\nkind = \"sandbox\"\n"

// serve starts it, or starts it again.
func (s *trust) serve(methods string) {
	s.t.Helper()
	if s.in != nil {
		s.in.kill()
		wait.For(s.in.ended)
	}
	top := fmt.Sprintf("base_url = %q\nkv = %q\nkeyring = %q\n", productionURL,
		"bolt:"+filepath.Join(s.dir, "verge.db"), s.ring)
	config := strings.Replace(methods, "METHODS", top, 1) +
		"[[publishers]]\nid = \"pub_example\"\n" + s.engine
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.in = s.start()
	var err error
	s.admin, err = adminclient.New(adminclient.Config{URL: "http://" + s.in.at.Admin, Token: testToken})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.first.integration == "" {
		s.first, s.second = s.makes("First", 18), s.makes("Second", 21)
	}
}

// makes creates a publisher with an integration that asks for a minimum age.
func (s *trust) makes(name string, minimum int) store {
	s.t.Helper()
	ctx := context.Background()
	p, err := adminclient.Do(ctx, s.admin, operate.CreatePublisher, operate.PublisherInput{Name: &name})
	if err != nil {
		s.t.Fatal(err)
	}
	level, age, off, on, methods := "L2", 25, true, integration.PasskeysService, []string{"wallet"}
	i, err := adminclient.Do(
		ctx,
		s.admin,
		operate.CreateIntegration,
		operate.IntegrationInput{
			Publisher:    p.ID,
			Name:         &name,
			Level:        &level,
			ChallengeAge: &age,
			MinimumAge:   &minimum,
			Methods:      &methods,
			Passkeys:     &on,
			WebhookInput: &operate.WebhookInput{Off: &off},
		},
	)
	if err != nil {
		s.t.Fatal(err)
	}
	key, err := adminclient.Do(ctx, s.admin, operate.CreateKey, operate.KeyInput{Publisher: p.ID})
	if err != nil {
		s.t.Fatal(err)
	}
	return store{p.ID, i.ID, key.Key}
}

// asks has a publisher's developer save another minimum age.
func (s *trust) asks(of store, minimum int) {
	s.t.Helper()
	if _, err := adminclient.Do(context.Background(), s.admin, operate.ChangeIntegration,
		operate.IntegrationUpdate{Versioned: operate.Versioned{ID: of.integration},
			IntegrationInput: operate.IntegrationInput{MinimumAge: &minimum}}); err != nil {
		s.t.Fatal(err)
	}
}

// RoundTrip has every address of the service lead to the process, as a proxy that does TLS would.
func (s *trust) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Host, req.URL.Scheme, req.URL.Host = req.URL.Host, "http", s.in.at.Public
	return http.DefaultTransport.RoundTrip(req)
}

func (s *trust) client() *http.Client {
	return &http.Client{Transport: s, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// begun is a session in a browser.
type begun struct {
	*visitor
	s    *trust
	id   string
	of   *publisher
	page string
	wait string // the address of the page that waits for a wallet
}

func (s *trust) begins(at store) *begun {
	s.t.Helper()
	of := newPublisher(readyFile{BaseURL: productionURL, seeds: seeds{SecretKey: at.key}})
	of.http = s.client()
	id, redirect, err := of.start(at.integration)
	if err != nil {
		s.t.Fatal(err)
	}
	b := &begun{visitor: &visitor{t: s.t, http: s.client()}, s: s, id: id, of: of}
	if b.http.Jar, err = cookiejar.New(nil); err != nil {
		s.t.Fatal(err)
	}
	_, b.page = b.open("GET", redirect, nil)
	return b
}

// sends posts the form of the page that has this attribute.
func (b *begun) sends(attribute string, more ...string) {
	b.t.Helper()
	_, form, found := strings.Cut(b.page, attribute)
	if !found {
		b.t.Fatalf("the page at %s has no form with %s: %s", b.at, attribute, b.page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, input := range hiddenInput.FindAllStringSubmatch(form, -1) {
		fields.Set(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	for n := 0; n < len(more); n += 2 {
		fields.Set(more[n], more[n+1])
	}
	_, b.page = b.open("POST", "/verify", fields)
}

var (
	qrCode      = regexp.MustCompile(`data-qr="([^"]*)"`)
	dataOptions = regexp.MustCompile(`data-options="([^"]*)"`)
)

// answered sends a response of a wallet on another device. The browser does not collect it.
func (b *begun) answered() {
	b.t.Helper()
	if reply := b.answers(b.shows()); reply.Status != http.StatusOK {
		b.t.Fatalf("the wallet: %d %s", reply.Status, reply.Body)
	}
}

// shows begins the step, and returns the code for a wallet on another device.
func (b *begun) shows() string {
	b.t.Helper()
	b.sends(`data-outcome="begin"`)
	b.wait = b.at.String()
	code := qrCode.FindStringSubmatch(b.page)
	if code == nil {
		b.t.Fatalf("no page that waits for a wallet: %s", b.page)
	}
	return html.UnescapeString(code[1])
}

// answers returns the service's reply to a wallet that answers the request of a code.
func (b *begun) answers(code string) wallettest.Reply {
	b.t.Helper()
	wallet := wallettest.New(b.s.issuer)
	wallet.Client, wallet.Prove = b.s.client(), b.s.prove
	reply, err := wallet.Answer(context.Background(), code)
	if err != nil {
		b.t.Fatalf("the wallet: %v", err)
	}
	return reply
}

// collects lets the browser collect the response.
func (b *begun) collects() { _, b.page = b.open("GET", b.wait, nil) }

func (b *begun) options() []byte {
	b.t.Helper()
	options := dataOptions.FindStringSubmatch(b.page)
	if options == nil {
		b.t.Fatalf("the page at %s has no passkey: %s", b.at, b.page)
	}
	return []byte(html.UnescapeString(options[1]))
}

// makesPasskey makes one after a success.
func (b *begun) makesPasskey() {
	b.t.Helper()
	answer, err := b.s.device.Create(b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	b.sends(`data-step="enrol"`, "credential", string(answer.JSON()))
}

// usesPasskey continues with the passkey instead of the wallet.
func (b *begun) usesPasskey() {
	b.t.Helper()
	answer, err := b.s.device.Get(b.options())
	if err != nil {
		b.t.Fatal(err)
	}
	b.sends(`data-method="passkey"`, "credential", string(answer.JSON()))
}

// want checks the session's state, and that the page shows it.
func (b *begun) want(rule, status string) {
	b.t.Helper()
	code, _, body, err := b.of.api("GET", "/api/v1/verify/sessions/"+b.id, nil)
	if err != nil || code != http.StatusOK || !strings.Contains(string(body), `"status":"`+status+`"`) ||
		hopLink.MatchString(b.page) != (status == "COMPLETED") {
		b.t.Fatalf("%s: %d %v %s, want %s; the page at %s: %s", rule, code, err, body, status, b.at, b.page)
	}
}

// TestTrust_Changes changes the basis of verdicts between the verdict and its use, over the binary.
func TestTrust_Changes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"native", "wasm"} {
		t.Run(name, func(t *testing.T) {
			engine := ""
			if name == "wasm" {
				long.Skip(t, "TestTrust_Changes")
				g := newGuests(t)
				module := g.put("verge.wasm", testenv.Module(t))
				g.compile(module)
				engine = g.section(module, "module_sha256 = \""+digestOf(testenv.Module(t))+"\"")
			}
			t.Parallel()
			t.Run("contract 34: a higher age before the browser comes", func(t *testing.T) {
				s := newTrust(t, engine)
				s.serve(s.walletOf("issuer.pem", "other.pem"))
				b := s.begins(s.first)
				b.answered()
				s.asks(s.first, 21)
				b.collects()
				b.want("contract 34", "PENDING")
				s.asks(s.first, 18)
				b.answered()
				b.collects()
				b.want("contract 34: the step again", "COMPLETED")

				s.asks(s.first, 21)
				b.makesPasskey()
				at := s.begins(s.second)
				at.usesPasskey()
				at.want("contract 38: a passkey of 18 where 21 is asked for", "PENDING")
				s.asks(s.second, 18)
				at = s.begins(s.second)
				at.usesPasskey()
				at.want("contract 38: a passkey of 18 where 18 is asked for", "COMPLETED")
				_, err := adminclient.Do(context.Background(), s.admin, operate.ArchivePublisher,
					operate.Versioned{ID: s.first.publisher})
				if err != nil {
					t.Fatal(err)
				}
				at = s.begins(s.second)
				at.usesPasskey()
				at.want("contract 38: a passkey of a publisher that is archived", "PENDING")
			})
			if engine == "" { // several guests have their own caches (contract 12)
				t.Run("contract 34: another age between a wallet's request and its response",
					func(t *testing.T) { ageChanges(t, engine) })
			}
			t.Run("contract 34: a removed anchor and a restart", func(t *testing.T) {
				s := newTrust(t, engine)
				s.serve(s.walletOf("issuer.pem", "other.pem"))
				s.asks(s.second, 18)
				kept, early := s.begins(s.first), s.begins(s.first)
				kept.answered()
				early.answered()
				early.collects()
				early.want("contract 39", "COMPLETED")
				early.makesPasskey()

				s.serve(s.walletOf("issuer.pem"))
				at := s.begins(s.second)
				at.usesPasskey()
				at.want("contract 38: another anchor was removed", "COMPLETED")

				s.serve(s.walletOf("other.pem"))
				kept.collects()
				kept.want("contract 34: the answer's anchor was removed", "PENDING")
				at = s.begins(s.second)
				at.usesPasskey()
				at.want("contract 38: the passkey's anchor was removed", "PENDING")
			})
			t.Run("contract 53: an issuer leaves a list", func(t *testing.T) { issuerLeavesList(t, engine) })
			t.Run("contract 38: a sandbox before", func(t *testing.T) {
				s := newTrust(t, engine)
				s.serve(sandboxOf)
				b := s.begins(s.first)
				b.sends(`data-outcome="approve"`)
				b.want("contract 31", "COMPLETED")
				if strings.Contains(b.page, `data-step="enrol"`) {
					t.Error("contract 38: a passkey is offered after a sandbox")
				}
			})
		})
	}
}

// ageChanges changes the age of an integration between a wallet's request and its response.
func ageChanges(t *testing.T, engine string) {
	s := newTrust(t, engine)
	s.serve(s.walletOf("issuer.pem", "other.pem"))
	b := s.begins(s.first)
	for range 4 { // more than the attempts of a session
		s.asks(s.first, 18)
		code := b.shows()
		s.asks(s.first, 21)
		if reply := b.answers(code); reply.Status != http.StatusGone {
			t.Errorf("a response to the request for 18: %d %s", reply.Status, reply.Body)
		}
		b.collects()
		b.want("contract 34: raised", "PENDING")
	}
	s.asks(s.first, 16)
	code := b.shows()
	s.asks(s.first, 13)
	if reply := b.answers(code); reply.Status != http.StatusOK {
		t.Errorf("a response to the request for 16: %d %s", reply.Status, reply.Body)
	}
	b.collects()
	b.want("contract 34: lowered", "COMPLETED")
}

// issuerLeavesList removes the issuer of a kept answer and of a passkey from a trusted list.
func issuerLeavesList(t *testing.T, engine string) {
	s := newTrust(t, engine)
	s.publishes(1, s.issuer, s.other)
	s.serve(s.listedWallet())
	s.waitForList(1)
	s.asks(s.second, 18)
	kept, early := s.begins(s.first), s.begins(s.first)
	kept.answered()
	early.answered()
	early.collects()
	early.want("contract 53", "COMPLETED")
	early.makesPasskey()

	s.publishes(2, s.issuer)
	s.serve(s.listedWallet())
	s.waitForList(2)
	at := s.begins(s.second)
	at.usesPasskey()
	at.want("contract 53: another issuer has left the list", "COMPLETED")

	s.publishes(3, s.other)
	s.serve(s.listedWallet())
	s.waitForList(3)
	kept.collects()
	kept.want("contract 53: the answer's issuer has left the list", "PENDING")
	at = s.begins(s.second)
	at.usesPasskey()
	at.want("contract 53: the passkey's issuer has left the list", "PENDING")

	s.publishes(2, s.issuer)
	s.serve(s.listedWallet())
	s.waitForList(3) // the older list is a replay
}
