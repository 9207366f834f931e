package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/kit"
	"github.com/verge-id/verge/testharness/oidctest"
)

// methodsText explains the table of methods.
const methodsText = `CPU is that of this process, for one verification: service and load. The other side
runs in a process of its own, and its CPU is not in it. OpenID goes from start to validate; its floor is the
same walk with the sandbox on the same engine. picture is a form with a picture of 300 KiB; its floor is a
bare handler that reads the form and posts as many bytes on. ours is what Verge adds to the floor. With the
profile yoti that includes base64 twice and an RSA signature. wallet is a wallet's answer, with a document of
three signatures, of which that of the signer's certificate is remembered; its floor is a bare handler that reads
the form. Encrypted, a key is agreed upon and the answer decrypted before. passkey is the form by which a passkey
completes a session, with one signature to verify; its floor is a bare handler that reads the form.`

const (
	pictureSize       = 300 << 10
	methodConnections = 4
	methodCallback    = "https://shop.example/return?from=verge"
	estimatorToken    = "only-for-the-bench"
	estimatorSDK      = "b88ad843-13cc-44ba-a3e0-053f71d89b1f"
)

// otherSide is what the process of the other side says of itself: an OpenID provider and an estimator.
type otherSide struct {
	Provider  string // its issuer
	Estimator string // its address
	Key       string // a private key in PEM, whose public key the estimator knows
}

// serveOtherSide runs a provider and an estimator until its standard input ends.
func serveOtherSide() error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	listen := func() (net.Listener, string, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		return l, "http://" + l.Addr().String(), nil
	}
	o := otherSide{Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}
	logins, issuer, err := listen()
	if err != nil {
		return err
	}
	estimates, address, err := listen()
	if err != nil {
		return err
	}
	o.Provider, o.Estimator = issuer, address
	provider := oidctest.New(oidctest.Config{Issuer: issuer,
		Clients: []oidctest.Client{{ID: "verge", Secret: "secret"}}})
	go http.Serve(logins, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		provider.Requests() // forgets them
		provider.ServeHTTP(w, r)
	}))
	go http.Serve(estimates, estimatortest.New(estimatortest.Config{
		Token: estimatorToken, SDKID: estimatorSDK, Key: &private.PublicKey,
	}))
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startOtherSide starts the process. stop ends it.
func startOtherSide() (o otherSide, pid int, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return o, 0, nil, err
	}
	cmd := exec.Command(self, "other-side")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return o, 0, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return o, 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return o, 0, nil, err
	}
	stop = func() {
		in.Close()
		cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		stop()
		return o, 0, nil, fmt.Errorf("the other side does not begin: %w", err)
	}
	return o, cmd.Process.Pid, stop, nil
}

// configs are the methods that are measured, beside the sandbox.
func (o otherSide) configs() []method.Config {
	return []method.Config{
		{Name: "login", Kind: "oidc", Secrets: map[string]string{"client_secret": "secret"},
			Settings: json.RawMessage(`{"issuer":"` + o.Provider + `","client_id":"verge",` +
				`"proof":{"claim":["is_over_18"],"equals":true,"age":18}}`)},
		{Name: "plain", Kind: "estimator", Secrets: map[string]string{"token": estimatorToken},
			Settings: json.RawMessage(`{"profile":"plain","url":"` + o.Estimator + estimatortest.PlainPath + `"}`)},
		{Name: "yoti", Kind: "estimator", Keys: []string{"private_key"},
			Settings: json.RawMessage(`{"profile":"yoti","url":"` + o.Estimator + estimatortest.YotiPath +
				`","sdk_id":"` + estimatorSDK + `"}`)},
		walletConfig("wallet", false),
		walletConfig("wallet-encrypted", true),
	}
}

// methodLine is a line of the table.
type methodLine struct {
	name   string
	method string
	wasm   bool
}

var methodLines = []methodLine{
	{"method, OpenID", "login", false},
	{"method, OpenID, wasm", "login", true},
	{"method, picture", "plain", false},
	{"method, picture, wasm", "plain", true},
	{"method, picture, yoti", "yoti", false},
	{"method, picture, yoti, wasm", "yoti", true},
	{"method, wallet", "wallet", false},
	{"method, wallet, wasm", "wallet", true},
	{"method, wallet, encrypted", "wallet-encrypted", false},
	{"method, wallet, encrypted, wasm", "wallet-encrypted", true},
	{"method, passkey", passkeyUse, false},
	{"method, passkey, wasm", passkeyUse, true},
}

// methodNames is the names of all lines, one to a line.
func methodNames() string {
	var b strings.Builder
	for _, l := range methodLines {
		fmt.Fprintln(&b, l.name)
	}
	return b.String()
}

// methods prints what verifications by real methods cost. Lines about wasm are left out without a module.
func methods(length time.Duration, module []byte, only string) error {
	other, pid, stop, err := startOtherSide()
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println(methodsText)
	fmt.Printf("%-31s %9s %9s %9s %7s %9s %13s\n",
		"4 connections", "a second", "CPU ms", "floor", "ratio", "ours", "other side's")
	for _, line := range methodLines {
		if !strings.Contains(line.name, only) || line.wasm && module == nil {
			continue
		}
		var runs engineOf
		if line.wasm {
			runs = guests(module)
		}
		s, err := newMethodService(runs, other)
		if err == nil {
			err = s.measure(line, length, pid)
			s.stop()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line.name, err)
		}
	}
	fmt.Println()
	return nil
}

// methodService is a service with the methods of the other side.
type methodService struct {
	*service
	other        otherSide
	client       *http.Client
	integrations map[string]string // ids, by method
	picture      []byte
}

func newMethodService(runs engineOf, other otherSide) (*methodService, error) {
	signer, err := signing.Open(map[string]string{"yoti_private_key": "yoti.pem"},
		func(string) ([]byte, error) { return []byte(other.Key), nil })
	if err != nil {
		return nil, err
	}
	s := &methodService{other: other, picture: kit.Picture(pictureSize), integrations: map[string]string{}}
	s.service, err = newServiceWith(runs, memory.New(memory.Config{}), "", other.configs(), signer.Sign)
	if err != nil {
		return nil, err
	}
	for n, name := range []string{sandbox.Name, "login", "plain", "yoti", "wallet", "wallet-encrypted"} {
		id := integration1[:len(integration1)-1] + fmt.Sprint(n)
		i := benchIntegration(id, name, "")
		if err := s.Directory().PutIntegration(context.Background(), i, ""); err != nil {
			s.stop()
			return nil, err
		}
		s.integrations[name] = id
	}
	s.client = s.browserTo(s.addr)
	i := benchIntegration(integration1[:len(integration1)-1]+"9", sandbox.Name, "")
	i.Passkeys = integration.PasskeysService
	if err := s.Directory().PutIntegration(context.Background(), i, ""); err != nil {
		s.stop()
		return nil, err
	}
	s.integrations[passkeyUse] = i.ID
	return s, nil
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

// cost is what one piece of work takes.
type cost struct{ rate, cpu, other float64 } // a second; ms of this process and of the other side

// measured calls do over all connections, until the time is up or there is no more to do. It returns what one
// call took.
func measured(length time.Duration, pid int, do func() (more bool, err error)) (cost, error) {
	var done atomic.Int64
	errs := make([]error, methodConnections)
	cpu, other, begin := endpoint{}.busy(), busyOf(pid), time.Now()
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for time.Since(begin) < length {
				more, err := do()
				if errs[i] = err; err != nil || !more {
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	n := float64(done.Load())
	if err := errors.Join(errs...); err != nil || n == 0 {
		return cost{}, errors.Join(err, errorIf(n == 0, "nothing was measured; use a longer round"))
	}
	each := func(d time.Duration) float64 { return d.Seconds() * 1000 / n }
	took := time.Since(begin).Seconds()
	return cost{n / took, each(endpoint{}.busy() - cpu), each(busyOf(pid) - other)}, nil
}

func errorIf(wrong bool, text string) error {
	if wrong {
		return errors.New(text)
	}
	return nil
}

func (s *methodService) measure(line methodLine, length time.Duration, pid int) error {
	verge, floor := s.walks(line.method), s.walks(sandbox.Name)
	switch line.method {
	case "plain", "yoti":
		verge, floor = s.pictures(line.method), s.bare
	case "wallet", "wallet-encrypted":
		verge, floor = s.wallets(line.method), s.bareForm(walletSize)
	case passkeyUse:
		verge, floor = s.passkeys, s.bareForm(passkeySize)
	}
	var rate, cpu, bare, ratio, ours, other []float64
	for round := range rounds + 1 {
		f, err := floor(length, pid)
		if err != nil {
			return err
		}
		v, err := verge(length, pid)
		if err != nil {
			return err
		}
		if round == 0 {
			continue // the first calls compile, connect and fetch what is kept
		}
		rate, cpu, other = append(rate, v.rate), append(cpu, v.cpu), append(other, v.other)
		bare = append(bare, f.cpu)
		ratio, ours = append(ratio, v.cpu/f.cpu), append(ours, v.cpu-f.cpu)
	}
	fmt.Printf("%-31s %9.0f %9.2f %9.2f %7.1f %9.2f %13.2f  %.1f to %.1f\n", line.name,
		median(rate), median(cpu), median(bare), median(ratio), median(ours), median(other),
		slices.Min(ratio), slices.Max(ratio))
	return nil
}

// walks measures verifications from start to validate.
func (s *methodService) walks(name string) func(time.Duration, int) (cost, error) {
	outcome := "begin"
	if name == sandbox.Name {
		outcome = "approve"
	}
	return func(length time.Duration, pid int) (cost, error) {
		return measured(length, pid, func() (bool, error) {
			redirect, err := s.start(name)
			if err != nil {
				return false, err
			}
			b := kit.Browser{Client: s.client}
			back, err := b.Verify(redirect, methodCallback, outcome, nil)
			if err != nil {
				return false, err
			}
			return true, s.validate(back)
		})
	}
}

func (s *methodService) start(name string) (redirectURL string, err error) {
	var started struct {
		Redirect string `json:"redirect_url"`
	}
	err = s.ask(api.StartPath, map[string]string{"integration_id": s.integrations[name],
		"callback_url": methodCallback, "state": "q7Zk1v0mXo2hT5c8"}, &started)
	return started.Redirect, err
}

func (s *methodService) validate(callback string) error {
	at, err := url.Parse(callback)
	if err != nil {
		return err
	}
	var facts struct{ Verified bool }
	err = s.ask(api.ValidatePath, map[string]string{"result_token": at.Query().Get("result_token")}, &facts)
	return errors.Join(err, errorIf(err == nil && !facts.Verified, "the callback brings no proof"))
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

// mostPictures limits how many pages with a camera are opened for a round, before its clock starts.
const mostPictures = 400

// pictures measures forms with a picture, from the POST to its answer.
func (s *methodService) pictures(name string) func(time.Duration, int) (cost, error) {
	return func(length time.Duration, pid int) (cost, error) {
		pages := make(chan *kit.Shown, mostPictures)
		for range cap(pages) {
			redirect, err := s.start(name)
			if err != nil {
				return cost{}, err
			}
			b := kit.Browser{Client: s.client}
			page, err := b.Open(redirect)
			if err != nil {
				return cost{}, err
			}
			pages <- page
		}
		close(pages)
		return measured(length, pid, func() (bool, error) {
			page, more := <-pages
			if !more {
				return false, nil
			}
			req, err := page.Picture(s.picture)
			if err != nil {
				return false, err
			}
			status, body, err := s.send(req)
			if err == nil && status != http.StatusSeeOther {
				err = fmt.Errorf("a picture: status %d: %s", status, body)
			}
			return true, err
		})
	}
}

// bare measures a handler that reads a form with a picture and posts as many bytes to the estimator.
func (s *methodService) bare(length time.Duration, pid int) (cost, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return cost{}, err
	}
	out := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: methodConnections}}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
	})}
	go server.Serve(l)
	defer server.Close()
	form := &kit.Shown{URL: "http://" + l.Addr().String() + "/",
		Body: `<form data-step="camera" action="/"><input type="hidden" name="flow" value="` +
			strings.Repeat("x", 1000) + `"/></form>`}
	return measured(length, pid, func() (bool, error) {
		req, err := form.Picture(s.picture)
		if err != nil {
			return false, err
		}
		status, _, err := s.send(req)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("the bare handler: status %d", status)
		}
		return true, err
	})
}
