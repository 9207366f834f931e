package openid4vp_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
	edge "github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

// The service that asks, as wallets know it.
const (
	serviceHost = "verge.example"
	service     = "https://" + serviceHost
	box         = service + "/verify/box/AAAAAAAAAAAAAAAAAAAAAA"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// issuers are made once: their keys and certificates cost time, and no test changes them.
var issuers = map[string]*wallettest.Issuer{
	"eu-av": wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon}),
	"pid":   wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon}),
	"swiyu": swissIssuer("#assert-1"),
	"mdl":   wallettest.NewIssuer(wallettest.IssuerConfig{Now: noon, EKU: wallettest.MDLSigner}),
}

type settings map[string]any

// signing is the key of signed requests, with a certificate for the service's host.
var signing = sync.OnceValues(func() (*ecdsa.PrivateKey, string) { return newCertificate(serviceHost) })

// reading is the key of readerAuth, with a certificate that names no host.
var reading = sync.OnceValues(func() (*ecdsa.PrivateKey, string) { return newCertificate() })

// newCertificate returns a key and a certificate for it, in PEM.
func newCertificate(hosts ...string) (*ecdsa.PrivateKey, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key, certificateFor(&key.PublicKey, key, hosts...)
}

func certificateFor(public, signer any, hosts ...string) string {
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "service"},
		NotBefore: noon.AddDate(0, 0, -1), NotAfter: noon.AddDate(0, 1, 0), DNSNames: hosts}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, signer)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// config is a method with good settings of a profile, and with changes. A member that is nil is left out.
func config(t testing.TB, profile string, changes settings) method.Config {
	t.Helper()
	all := settings{"profile": profile, "trust_anchors": []string{string(issuers[profile].PEM())}}
	c := method.Config{Name: "wallet", Kind: openid4vp.Kind.Name}
	request, _ := changes["request"].(string)
	browser, _ := changes["browser"].([]string)
	if request == "signed" || request == "" && profile != "eu-av" ||
		slices.Contains(browser, signedProtocol) {
		_, all["certificate"] = signing()
		c.Keys = []string{"private_key"}
	}
	if profile == "swiyu" {
		delete(all, "certificate")
		delete(all, "trust_anchors")
		all["issuer_keys"] = []string{keySet(issuers[profile])}
		all["vct_values"], all["key_id"] = []string{eID, "betaid-sdjwt"}, serviceKey
	}
	if changes["reader_certificate"] != nil {
		c.Keys = append(c.Keys, "reader_key")
	}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	c.Settings = b
	return c
}

// fixture is a method, and does for it what the core does.
type fixture struct {
	testing.TB
	method  method.Requester
	session method.Session
	wallet  *wallettest.Wallet
	now     time.Time
	state   []byte // of the open box
}

func newFixture(t testing.TB, c method.Config) *fixture {
	t.Helper()
	return newFixtureWith(t, c, nil)
}

// newFixtureWith is newFixture for a host with trusted lists.
func newFixtureWith(t testing.TB, c method.Config, lists method.TrustLists) *fixture {
	t.Helper()
	if wrong := openid4vp.Kind.Check(c); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	w := &fixture{TB: t, now: noon}
	m, err := openid4vp.Kind.Open(c, method.Host{Now: func() time.Time { return w.now }, Random: rand.Reader,
		Sign: sign, Verify: edge.Verify, VerifyProof: verifyDouble, TrustLists: lists}.For(c.Name))
	if err != nil {
		t.Fatal(err)
	}
	w.method = m.(method.Requester)
	w.session = method.Session{
		ID:           "svc_sess_a",
		Level:        "L2",
		ChallengeAge: 25,
		MinimumAge:   18,
		ResponseURI:  box,
		ReturnURL:    service + "/verify/return/wallet",
		ExpiresAt:    noon.Add(10 * time.Minute),
	}
	var o struct{ Profile string }
	if err := json.Unmarshal(c.Settings, &o); err != nil {
		t.Fatal(err)
	}
	w.wallet = wallettest.New(issuers[o.Profile])
	w.wallet.Now = func() time.Time { return w.now }
	w.wallet.Client = &http.Client{Transport: w}
	w.begin()
	return w
}

// sign is a host that signs as JWS has it: r and s side by side.
func sign(_ context.Context, key, algorithm string, message []byte) ([]byte, error) {
	private, _ := signing()
	if key == "wallet_reader_key" {
		private, _ = reading()
	}
	if key != "wallet_private_key" && key != "wallet_reader_key" || algorithm != "ES256" {
		return nil, errors.New("no such key")
	}
	hash := sha256.Sum256(message)
	r, s, err := ecdsa.Sign(rand.Reader, private, hash[:])
	if err != nil {
		return nil, err
	}
	return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), nil
}

// asks begins again with another minimum age.
func (w *fixture) asks(age int) {
	w.Helper()
	w.session.MinimumAge = age
	w.begin()
}

// begin opens a box.
func (w *fixture) begin() {
	w.Helper()
	if err := w.method.Begin(w.Context(), w.session); err != nil {
		w.Fatal(err)
	}
	d := w.act(url.Values{"outcome": {"begin"}}, nil)
	if d.Verdict != method.Pending || !d.Await || len(d.State) == 0 || len(d.State) > method.MaxState {
		w.Fatalf("begin gives %+v with a state of %d bytes", d, len(d.State))
	}
	w.state = d.State
}

// act posts a form, or collects the stored response.
func (w *fixture) act(form url.Values, kept []byte) method.Decision {
	w.Helper()
	d, err := w.method.Act(w.Context(), w.session, method.Step{Form: form, Response: kept, State: w.state})
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// shows is the page that waits.
func (w *fixture) shows() method.View { return w.method.Show(w.session, w.state) }

// RoundTrip carries the wallet's requests to the box.
func (w *fixture) RoundTrip(r *http.Request) (*http.Response, error) {
	address := r.URL.String()
	if strings.TrimSuffix(address, method.SameDevice) != box {
		return nil, errors.New("the wallet asks " + r.Method + " " + address)
	}
	posted, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	call := method.Call{Address: address, Same: strings.HasSuffix(address, method.SameDevice), Body: posted,
		ContentType: r.Header.Get("Content-Type"), Accept: r.Header.Get("Accept")}
	if r.Method != http.MethodGet && !w.method.Fetches(call) {
		return nil, errors.New("the wallet's POST is taken for a response")
	}
	q, err := w.method.Request(r.Context(), w.session, w.state, call)
	if err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {q.ContentType}}, Request: r}
	resp.Body = http.NoBody
	if len(q.Body) > 0 {
		resp.Body = body(string(q.Body))
	}
	return resp, nil
}

// get returns the request object as a wallet gets it that does not know POST.
func (w *fixture) get(same bool) (method.RequestObject, error) {
	return w.method.Request(w.Context(), w.session, w.state, method.Call{Same: same})
}

func body(s string) readCloser { return readCloser{strings.NewReader(s)} }

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// message returns the wallet's response to a link.
func (w *fixture) message(link string, changes ...func(*wallettest.Presentation)) wallettest.Message {
	w.Helper()
	r, err := w.wallet.Open(w.Context(), link)
	if err != nil {
		w.Fatal(err)
	}
	m, err := w.wallet.Present(r, changes...)
	if err != nil {
		w.Fatal(err)
	}
	return m
}

const formType = "application/x-www-form-urlencoded"

// post posts to an address of the pending response, and returns the stored value.
func (w *fixture) post(address, contentType, body string) (kept []byte, err error) {
	return w.method.Receive(w.Context(), w.session, w.state, method.Call{Address: address,
		Same: strings.HasSuffix(address, method.SameDevice), ContentType: contentType, Body: []byte(body)})
}

func (w *fixture) send(m wallettest.Message) ([]byte, error) {
	return w.post(m.URL, formType, m.Form.Encode())
}

// wantRejected fails unless a response is rejected for that reason.
func (w *fixture) wantRejected(reason string, kept []byte, err error) {
	w.Helper()
	var rejection *method.Rejection
	switch {
	case err == nil:
		w.Errorf("it is taken, and %q is kept", kept)
	case !errors.As(err, &rejection):
		w.Errorf("the error is %v, want a refusal for %s", err, reason)
	case rejection.Reason != reason:
		w.Errorf("it is rejected for %s, want %s", rejection.Reason, reason)
	}
}

// wantFault fails unless a response fails the attempt for a fault of the document. reason is the exact one,
// for logs.
func (w *fixture) wantFault(fault method.Reason, reason string, kept []byte, err error) {
	w.Helper()
	if err != nil {
		w.Errorf("the response is not kept: %v", err)
		return
	}
	d := w.act(nil, kept)
	if result, exact := d.Result(); d.Verdict != method.AttemptFailed || d.Reason != fault ||
		exact != reason {
		w.Errorf("the decision is %+v with the result %s, %s; want a failed attempt, %s, %s", d, result,
			exact,
			fault, reason)
	}
}
