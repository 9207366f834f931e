package bench

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
	"github.com/verge-id/verge/testharness/passkeytest"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wallettest"
)

const (
	pictureSize       = 300 << 10
	walletSize        = 1700 // about the bytes of a wallet's response
	passkeySize       = 2500 // about the bytes of a passkey's form, with the flow token and the step
	passkeyUse        = "passkey"
	methodConnections = 4
	methodCallback    = "https://shop.example/return?from=verge"
	estimatorToken    = "only-for-the-bench"
	estimatorSDK      = "b88ad843-13cc-44ba-a3e0-053f71d89b1f"
)

// BenchmarkMethod measures the processor time of one verification by real methods: of this process, which has
// the service and the load. other-cpu-ns/op is the processor time of the OpenID provider and the estimator.
//
//	OpenID   from start to validate. The floor is the same with the sandbox, on the same engine.
//	picture  a form with a picture of 300 KiB; for yoti with base64 twice and an RSA signature. The floor is
//	         a bare handler that reads the form and posts as many bytes.
//	wallet   a wallet's response, with three signatures; the one of the signer's certificate is cached. The
//	         response can be encrypted. The floor is a bare handler that reads the form.
//	passkey  the form with a passkey that completes a session, with one signature. The floor is the same.
func BenchmarkMethod(b *testing.B) {
	other := startProviders(b)
	native := sync.OnceValue(func() *methodService { return newMethodService(b, other) })
	wasm := sync.OnceValue(func() *methodService { return newMethodService(b, other, guests(b)) })
	bareWallet, barePasskey := bareForm(walletSize), bareForm(passkeySize)
	for _, line := range []struct {
		name         string
		floor, verge func(*methodService, *testing.B) work
	}{
		{"OpenID", walks(sandbox.Name, "approve"), walks("login", "begin")},
		{"picture", barePicture, pictures("plain")},
		{"picture, yoti", barePicture, pictures("yoti")},
		{"wallet", bareWallet, wallets("wallet")},
		{"wallet, encrypted", bareWallet, wallets("wallet-encrypted")},
		{"passkey", barePasskey, (*methodService).passkeys},
	} {
		for _, engine := range []struct {
			name string
			open func() *methodService
		}{{"", native}, {", wasm", wasm}} {
			b.Run(line.name+engine.name, func(b *testing.B) {
				s := engine.open()
				floor, verge := line.floor(s, b), line.verge(s, b)
				var took time.Duration // of the providers
				compareCPU(b, busy, floor, func(from, to int) error {
					before := busyOf(other.pid)
					err := verge(from, to)
					took += busyOf(other.pid) - before
					return err
				})
				b.ReportMetric(float64(took)/float64(b.N), "other-cpu-ns/op")
			})
		}
	}
}

// providers describes the process of an OpenID provider and an estimator.
type providers struct {
	Provider  string // its issuer
	Estimator string // its address
	Key       string // a private key in PEM, whose public key the estimator knows
	pid       int
}

// serveProviders runs a provider and an estimator until its standard input ends.
func serveProviders() {
	check := func(err error) {
		if err != nil {
			log.Fatal("providers: ", err)
		}
	}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	check(err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check(err)
	logins, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	estimates, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	o := providers{
		Provider:  "http://" + logins.Addr().String(),
		Estimator: "http://" + estimates.Addr().String(),
		Key:       string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	}
	provider := oidctest.New(oidctest.Config{Issuer: o.Provider,
		Clients: []oidctest.Client{{ID: "verge", Secret: "secret"}}})
	go http.Serve(logins, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		provider.Requests() // forgets them
		provider.ServeHTTP(w, r)
	}))
	go http.Serve(estimates, estimatortest.New(estimatortest.Config{
		Token: estimatorToken, SDKID: estimatorSDK, Key: &private.PublicKey,
	}))
	check(json.NewEncoder(os.Stdout).Encode(o))
	_, err = io.Copy(io.Discard, os.Stdin)
	check(err)
}

// startProviders starts the process, which ends with the benchmark.
func startProviders(b *testing.B) (o providers) {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(self, "providers")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	if err := json.NewDecoder(out).Decode(&o); err != nil {
		b.Fatalf("the provider and the estimator do not start: %v", err)
	}
	o.pid = cmd.Process.Pid
	return o
}

// configs are the methods that are measured, in addition to the sandbox.
func (o providers) configs() []method.Config {
	return []method.Config{
		{Name: "login", Kind: "oidc", Secrets: map[string]string{"client_secret": "secret"},
			Settings: json.RawMessage(`{"issuer":"` + o.Provider + `","client_id":"verge",` +
				`"proof":{"claim":["is_over_18"],"equals":true,"age":18}}`)},
		{Name: "plain", Kind: "estimator", Secrets: map[string]string{"token": estimatorToken},
			Settings: json.RawMessage(
				`{"profile":"plain","url":"` + o.Estimator + estimatortest.PlainPath + `"}`,
			)},
		{Name: "yoti", Kind: "estimator", Keys: []string{"private_key"},
			Settings: json.RawMessage(`{"profile":"yoti","url":"` + o.Estimator + estimatortest.YotiPath +
				`","sdk_id":"` + estimatorSDK + `"}`)},
		walletConfig("wallet", false),
		walletConfig("wallet-encrypted", true),
	}
}

// documents is the issuer of the documents of the measured wallets.
var documents = sync.OnceValue(func() *wallettest.Issuer {
	return wallettest.NewIssuer(wallettest.IssuerConfig{})
})

// walletConfig is a method that asks a wallet.
func walletConfig(name string, encrypted bool) method.Config {
	settings, err := json.Marshal(map[string]any{"profile": "eu-av", "encrypted": encrypted,
		"trust_anchors": []string{string(documents().PEM())}})
	if err != nil {
		panic(err) // texts and a flag alone
	}
	return method.Config{Name: name, Kind: "openid4vp", Settings: settings}
}

// methodService is a service with the methods of the providers.
type methodService struct {
	*service
	other        providers
	client       *http.Client
	integrations map[string]string // ids, by method
	picture      []byte
}

func newMethodService(b *testing.B, other providers, changes ...func(*edge.Config)) *methodService {
	b.Helper()
	signer, err := signing.Open(map[string]string{"yoti_private_key": "yoti.pem"},
		func(string) ([]byte, error) { return []byte(other.Key), nil }, "")
	if err != nil {
		b.Fatal(err)
	}
	s := &methodService{other: other, picture: testenv.Picture(pictureSize),
		integrations: map[string]string{}}
	s.service = newService(b, onMemory(b), "", append(changes, func(c *edge.Config) {
		c.Core.Methods, c.Sign = other.configs(), signer.Sign
	})...)
	names := []string{sandbox.Name, "login", "plain", "yoti", "wallet", "wallet-encrypted", passkeyUse}
	for n, name := range names {
		i := benchIntegration(integration1[:len(integration1)-1]+fmt.Sprint(n), name, "")
		if name == passkeyUse {
			i.Method, i.Passkeys = sandbox.Name, integration.PasskeysService
		}
		if err := s.Directory().PutIntegration(b.Context(), i, ""); err != nil {
			b.Fatal(err)
		}
		s.integrations[name] = i.ID
	}
	s.client = s.browserTo(s.addr)
	return s
}

// browserTo reaches the service's own address at addr.
func (s *methodService) browserTo(addr string) *http.Client {
	direct := &http.Transport{MaxIdleConnsPerHost: methodConnections}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host == benchHost {
				r = r.Clone(r.Context())
				r.Host, r.URL.Scheme, r.URL.Host = benchHost, "http", addr
			}
			return direct.RoundTrip(r)
		}),
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// walks measures verifications from start to validate.
func walks(name, outcome string) func(*methodService, *testing.B) work {
	return func(s *methodService, _ *testing.B) work {
		return func(from, to int) error {
			return parallelFrom(methodConnections, from, to, func(int, int) error {
				redirect, err := s.start(name)
				if err != nil {
					return err
				}
				b := testenv.Browser{Client: s.client}
				back, err := b.Verify(redirect, methodCallback, outcome, nil)
				if err != nil {
					return err
				}
				return s.validate(back)
			})
		}
	}
}

func (s *methodService) start(name string) (redirectURL string, err error) {
	var started struct {
		Redirect string `json:"redirect_url"`
	}
	err = s.ask(web.StartPath, map[string]string{"integration_id": s.integrations[name],
		"callback_url": methodCallback, "state": "q7Zk1v0mXo2hT5c8"}, &started)
	return started.Redirect, err
}

func (s *methodService) validate(callback string) error {
	at, err := url.Parse(callback)
	if err != nil {
		return err
	}
	var facts struct{ Verified bool }
	err = s.ask(web.ValidatePath, map[string]string{"result_token": at.Query().Get("result_token")}, &facts)
	if err == nil && !facts.Verified {
		err = errors.New("the callback contains no proof")
	}
	return err
}

func (s *methodService) ask(path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest("POST", "https://"+benchHost+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	status, b, err := s.send(req)
	if err == nil && status != 200 {
		err = fmt.Errorf("%s: %d %s", path, status, b)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(b, answer)
}

func (s *methodService) send(req *http.Request) (status int, body []byte, err error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// prepared makes b.N requests with a page each, before the clock starts, and returns a function that sends
// them.
func (s *methodService) prepared(
	b *testing.B, status int, prepare func() (request func() (*http.Request, error), err error),
) work {
	b.Helper()
	requests := make([]func() (*http.Request, error), b.N)
	for i := range requests {
		var err error
		if requests[i], err = prepare(); err != nil {
			b.Fatal(err)
		}
	}
	return func(from, to int) error {
		return parallelFrom(methodConnections, from, to, func(_, i int) error {
			return s.expect(status, requests[i])
		})
	}
}

// expect sends a request and returns an error if the response has another status.
func (s *methodService) expect(want int, request func() (*http.Request, error)) error {
	req, err := request()
	if err != nil {
		return err
	}
	status, body, err := s.send(req)
	if err == nil && status != want {
		err = fmt.Errorf("%s: status %d: %s", req.URL.Path, status, body)
	}
	return err
}

// open starts a session and returns its first page.
func (s *methodService) open(b *testenv.Browser, name string) (*testenv.Shown, error) {
	redirect, err := s.start(name)
	if err != nil {
		return nil, err
	}
	return b.Open(redirect)
}

// formRequest returns a function that makes a request with a form.
func formRequest(address string, form url.Values) func() (*http.Request, error) {
	return func() (*http.Request, error) {
		req, err := http.NewRequest("POST", address, strings.NewReader(form.Encode()))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return req, err
	}
}

// pictures measures forms with a picture, from the POST to its response.
func pictures(name string) func(*methodService, *testing.B) work {
	return func(s *methodService, b *testing.B) work {
		return s.prepared(b, http.StatusSeeOther, func() (func() (*http.Request, error), error) {
			page, err := s.open(&testenv.Browser{Client: s.client}, name)
			return func() (*http.Request, error) { return page.Picture(s.picture) }, err
		})
	}
}

// barePicture measures a handler that reads a form with a picture and posts as many bytes to the estimator.
func barePicture(s *methodService, b *testing.B) work {
	out := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: methodConnections}}
	b.Cleanup(out.CloseIdleConnections)
	addr := serve(b, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		req, err := http.NewRequest("POST", s.other.Estimator+estimatortest.PlainPath,
			bytes.NewReader(s.picture))
		if err == nil {
			req.Header.Set("Authorization", "Bearer "+estimatorToken)
			req.Header.Set("Content-Type", "image/jpeg")
			var resp *http.Response
			if resp, err = out.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	form := &testenv.Shown{URL: "http://" + addr + "/",
		Body: `<form data-step="camera" action="/"><input type="hidden" name="flow" value="` +
			strings.Repeat("x", 1000) + `"/></form>`}
	return func(from, to int) error {
		return parallelFrom(methodConnections, from, to, func(int, int) error {
			return s.expect(http.StatusOK, func() (*http.Request, error) { return form.Picture(s.picture) })
		})
	}
}

// wallets measures responses of wallets, from the POST to its response.
func wallets(name string) func(*methodService, *testing.B) work {
	return func(s *methodService, b *testing.B) work {
		return s.prepared(b, http.StatusOK, func() (func() (*http.Request, error), error) {
			browser := testenv.Browser{Client: s.client}
			page, err := s.open(&browser, name)
			if err == nil {
				page, err = browser.Submit(page, "begin")
			}
			if err != nil {
				return nil, err
			}
			wallet := wallettest.New(documents())
			r, err := wallet.Open(b.Context(), page.Wallet())
			if err != nil {
				return nil, err
			}
			m, err := wallet.Present(r)
			return formRequest(m.URL, m.Form), err
		})
	}
}

// bareForm measures a handler that reads a form of that many bytes.
func bareForm(size int) func(*methodService, *testing.B) work {
	return func(s *methodService, b *testing.B) work {
		addr := serve(b, func(w http.ResponseWriter, r *http.Request) {
			if r.ParseForm() != nil || r.PostForm.Get("answer") == "" {
				w.WriteHeader(http.StatusBadRequest)
			}
			io.WriteString(w, "{}")
		})
		request := formRequest("http://"+addr+"/", url.Values{"answer": {strings.Repeat("x", size)}})
		return func(from, to int) error {
			return parallelFrom(methodConnections, from, to,
				func(int, int) error { return s.expect(http.StatusOK, request) })
		}
	}
}

// passkeys measures forms with a passkey that completes a session, from the POST to its response. All are of
// one passkey without a counter, like the passkeys of phones.
func (s *methodService) passkeys(b *testing.B) work {
	device := passkeytest.New("https://" + benchHost)
	browser := testenv.Browser{Client: s.client}
	page, err := s.open(&browser, passkeyUse)
	if err == nil {
		page, err = browser.Submit(page, "approve")
	}
	if err != nil {
		b.Fatal(err)
	}
	created, err := passkeyForm(page, func(o []byte) (passkeytest.Answer, error) { return device.Create(o) })
	if err == nil {
		err = s.expect(http.StatusSeeOther, created)
	}
	if err != nil {
		b.Fatalf("creating a passkey: %v", err)
	}
	return s.prepared(b, http.StatusSeeOther, func() (func() (*http.Request, error), error) {
		page, err := s.open(&testenv.Browser{Client: s.client}, passkeyUse)
		if err != nil {
			return nil, err
		}
		return passkeyForm(page, func(o []byte) (passkeytest.Answer, error) { return device.Get(o) })
	})
}

// passkeyForm returns the request that the page's script posts, with a device's response to its options.
func passkeyForm(
	page *testenv.Shown, respond func(options []byte) (passkeytest.Answer, error),
) (func() (*http.Request, error), error) {
	action, fields, options, err := page.Passkey()
	if err != nil {
		return nil, err
	}
	credential, err := respond([]byte(options))
	fields.Set("credential", string(credential.JSON()))
	return formRequest(action, fields), err
}
