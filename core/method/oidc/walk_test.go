package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/oidctest"
)

const (
	clientID  = "verge"
	secret    = "canary-secret-of-the-client"
	returnURL = "http://localhost:8080/verify/return/bankid"
)

// fetcher asks as the edge does: no redirects, no more than 64 KiB, and within the timeout.
type fetcher struct {
	client *http.Client
	silent string // the path of an endpoint that never responds, so that no test waits for it for long

	mu   sync.Mutex
	last []host.FetchRequest
}

func newFetcher(root *x509.Certificate) *fetcher {
	roots := x509.NewCertPool()
	if root != nil {
		roots.AddCert(root)
	}
	return &fetcher{client: &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (f *fetcher) Fetch(ctx context.Context, r host.FetchRequest) (host.FetchResponse, error) {
	f.mu.Lock()
	f.last = append(f.last, r)
	f.mu.Unlock()
	if r.Timeout <= 0 || r.Timeout > 5*time.Second {
		return host.FetchResponse{}, fmt.Errorf("a timeout of %s", r.Timeout)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(string(r.Body)))
	if err != nil {
		return host.FetchResponse{}, err
	}
	limit := r.Timeout
	if req.URL.Path == f.silent {
		limit /= 10
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req = req.WithContext(ctx)
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	answer, err := f.client.Do(req)
	if err != nil {
		reason := host.FetchNetwork
		if ctx.Err() != nil {
			reason = host.FetchTimeout
		}
		return host.FetchResponse{}, &host.FetchError{Reason: reason, Err: errors.New("no answer")}
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return host.FetchResponse{}, &host.FetchError{Reason: host.FetchMalformed, Err: errors.New("cut")}
	}
	header := map[string]string{}
	for name, values := range answer.Header {
		header[name] = values[0]
	}
	return host.FetchResponse{Status: answer.StatusCode, Header: header, Body: body}, nil
}

// walk is a configured method, its provider, and a clock that both share.
type walk struct {
	t        *testing.T
	provider *oidctest.Server
	method   method.Method
	config   method.Config
	host     method.Host
	fetch    *fetcher
	session  method.Session
	key      *ecdsa.PrivateKey // of the client, for private_key_jwt

	mu  sync.Mutex
	now time.Time
}

type settings map[string]any

// plainProof is a proof that every test can use.
var plainProof = settings{"claim": []string{"is_over_18"}, "equals": true, "age": 18}

// newWalk starts a provider and opens a method for it. Members of own with a nil value are left out.
func newWalk(t *testing.T, c oidctest.Config, own settings) *walk {
	t.Helper()
	w := &walk{t: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	var err error
	if w.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if c.Clients == nil {
		c.Clients = []oidctest.Client{{ID: clientID, Secret: secret}}
	}
	for i := range c.Clients {
		c.Clients[i].ReturnURLs = []string{returnURL}
		if c.Clients[i].Auth == "private_key_jwt" && c.Clients[i].Key == nil {
			c.Clients[i].Key = &w.key.PublicKey
		}
	}
	c.Now = w.clock
	w.provider = oidctest.Start(t, c)
	w.fetch = newFetcher(nil)

	all := settings{"issuer": w.provider.URL, "client_id": clientID}
	if own["preset"] == nil {
		all["proof"] = plainProof
	}
	maps.Copy(all, own)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	w.config = method.Config{Name: "bankid", Kind: oidc.Kind.Name, Level: "L2", Dev: true,
		Settings: encode(t, all)}
	if c.Clients[0].Auth == "private_key_jwt" {
		w.config.Keys = []string{"private_key"}
	} else {
		w.config.Secrets = map[string]string{"client_secret": secret}
	}
	w.host = method.Host{Now: w.clock, Random: rand.Reader, Fetch: w.fetch, Sign: w.sign,
		Verify: signing.Verify, Decrypt: opensNothing}
	w.session = method.Session{
		ID: "svc_sess_1", Level: "L2", ChallengeAge: 25, MinimumAge: 18, Language: "de", ReturnURL: returnURL,
	}
	w.open()
	return w
}

func opensNothing(context.Context, string, string, []byte) ([]byte, error) { return nil, nil }

// byKey returns a provider with a client of private_key_jwt. A nil key is the walk's own, for ES256.
func byKey(public any) oidctest.Config {
	return oidctest.Config{Clients: []oidctest.Client{{ID: clientID, Auth: "private_key_jwt", Key: public}}}
}

// signWith makes private the key of the client.
func (w *walk) signWith(private any) {
	w.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		w.t.Fatal(err)
	}
	signer, err := (*signing.Signer)(nil).With("bankid_private_key",
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.host.Sign, w.host.Decrypt = signer.Sign, signer.Decrypt
}

func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// open opens the method again, without cached data.
func (w *walk) open() {
	w.t.Helper()
	if err := oidc.Kind.Check(w.config).Err(); err != nil {
		w.t.Fatal(err)
	}
	m, err := oidc.Kind.Open(w.config, w.host)
	if err != nil {
		w.t.Fatal(err)
	}
	w.method = m
}

func (w *walk) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *walk) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// sign is the host's Sign for the one key of the client.
func (w *walk) sign(_ context.Context, name, algorithm string, message []byte) ([]byte, error) {
	if name != "bankid_private_key" || algorithm != "ES256" {
		return nil, fmt.Errorf("no key %s for %s", name, algorithm)
	}
	sum := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, w.key, sum[:])
	if err != nil {
		return nil, err
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), nil
}

// leave begins an authorization request.
func (w *walk) leave() (method.Decision, error) {
	return w.method.Act(context.Background(), w.session, method.Step{Form: url.Values{"outcome": {"begin"}}})
}

// mustLeave begins an authorization request that must begin.
func (w *walk) mustLeave() method.Decision {
	w.t.Helper()
	d, err := w.leave()
	if err != nil || d.Verdict != method.Pending || d.Leave == nil {
		w.t.Fatalf("it does not send the browser away: %+v, %v", d, err)
	}
	if len(d.State) == 0 || len(d.State) >= 100 || len(d.Leave.URL) > 2048 {
		w.t.Fatalf("a state of %d bytes, an address of %d", len(d.State), len(d.Leave.URL))
	}
	return d
}

// visit is the browser at the provider. It returns the query of the return.
func (w *walk) visit(address string) url.Values {
	w.t.Helper()
	answer, err := w.fetch.client.Get(address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	target, err := answer.Location()
	if err != nil {
		w.t.Fatalf("the provider answers %d and sends the browser nowhere", answer.StatusCode)
	}
	if got := target.Scheme + "://" + target.Host + target.Path; got != returnURL {
		w.t.Fatalf("the provider sends the browser to %s", got)
	}
	return target.Query()
}

func (w *walk) back(state []byte, query url.Values) (method.Decision, error) {
	return w.method.Act(context.Background(), w.session, method.Step{Form: query, Back: true, State: state})
}

// login is a whole walk.
func (w *walk) login() (method.Decision, error) {
	w.t.Helper()
	d := w.mustLeave()
	query := w.visit(d.Leave.URL)
	if query.Get("state") != d.Leave.Handle {
		w.t.Fatalf("contract 34: the state is not the handle")
	}
	return w.back(d.State, query)
}

// wantVerdict fails if the decision is another one.
func wantVerdict(t *testing.T, rule string, d method.Decision, err error, want method.Verdict) {
	t.Helper()
	if err != nil || d.Verdict != want || d.State != nil || d.Leave != nil {
		t.Errorf("%s: %+v, %v; want the verdict %d", rule, d, err, want)
	}
}

// wantRejection fails if the error is not a rejection for this reason, or if anything is decided.
func wantRejection(t *testing.T, rule string, d method.Decision, err error, reason string) {
	t.Helper()
	var rejection *method.Rejection
	if !errors.As(err, &rejection) || rejection.Reason != reason || d.Verdict != method.Unclassified ||
		d.Leave != nil {
		t.Errorf("%s: %+v, %v; want a refusal for %s", rule, d, err, reason)
	}
	if err != nil {
		for _, private := range []string{secret, "person-1", "canary"} {
			if strings.Contains(err.Error(), private) {
				t.Errorf("%s: the error has private data: %v", rule, err)
			}
		}
	}
}
