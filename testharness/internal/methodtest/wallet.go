package methodtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/wallettest"
)

// Wallet is the kind that sends a wallet an unsigned request in the link. The wallet is on another device.
var Wallet = Subject{Kind: "openid4vp", Level: "L2", Open: func(t testing.TB, now func() time.Time) Side {
	t.Helper()
	return openWallet(t, now, wallettest.AgeSigner, map[string]any{"profile": "eu-av"}, nil)
}}

// SignedWallet is the same kind, with signed requests and encrypted responses.
var SignedWallet = Subject{Kind: "openid4vp", Level: "L2",
	Open: func(t testing.TB, now func() time.Time) Side {
		t.Helper()
		key, certificate := NewCertificate(t, now())
		return openWallet(t, now, wallettest.MDLSigner,
			map[string]any{"profile": "mdl", "certificate": certificate,
				"client_id_prefix": "x509_hash"}, key)
	}}

// NewCertificate returns a key, and a certificate for it and for these hosts, in PEM.
func NewCertificate(t testing.TB, now time.Time, hosts ...string) (private []byte, certificate string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "verge"},
		DNSNames: hosts, NotBefore: now.AddDate(0, 0, -1), NotAfter: now.AddDate(1, 0, 0)}
	public, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}))
}

func openWallet(t testing.TB, now func() time.Time, eku string, members map[string]any, key []byte) Side {
	t.Helper()
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now(), EKU: eku})
	members["trust_anchors"] = []string{string(issuer.PEM())}
	var mode atomic.Int32
	private := newSecrets(map[string]string{"a wallet's other data": privateClaim})
	side := Side{
		Config:  method.Config{Settings: settings(t, members)},
		Set:     func(m Mode) { mode.Store(int32(m)) },
		Private: private.list,
	}
	if key != nil {
		side.Config.Keys = []string{"private_key"}
		side.Keys = map[string][]byte{"openid4vp_private_key": key}
	}
	side.Walk = func(page *testharness.Page, _ Mode) Step {
		waiting := page.Submit("begin")
		wallet := wallettest.New(issuer)
		wallet.Now, wallet.Client = now, &http.Client{Transport: Carrier{waiting}}
		r, err := wallet.Open(context.Background(), waiting.Code)
		must(t, err)
		answers := map[Mode]wallettest.Message{
			Yes:     walletAnswers(t, wallet, r, true),
			No:      walletAnswers(t, wallet, r, false),
			Fails:   {URL: r.ResponseURI, Form: url.Values{"error": {"server_error"}, "state": {r.State}}},
			Rubbish: {URL: r.ResponseURI, Form: url.Values{"vp_token": {`{"a":"` + privateClaim}, "state": {r.State}}},
		}
		answers[Fails].Form.Set("error_description", privateClaim)
		private.add("a nonce", r.Nonce)
		private.add("a state", r.State)
		point, err := wallet.Key.PublicKey.Bytes()
		must(t, err)
		private.add("a device's key", string(point[1:33])) // its x
		private.add("a document", middle(answers[Yes].Form.Get("vp_token")+answers[Yes].Form.Get("response")))
		private.add("an element", r.Elements[0])
		return Step{Address: waiting.URL, First: func() {
			m, ok := answers[Mode(mode.Load())]
			if !ok { // it hangs
				return
			}
			waiting.AsAnother("POST", m.URL, testharness.Headers("Content-Type",
				"application/x-www-form-urlencoded"), []byte(m.Form.Encode()))
		}}
	}
	return side
}

// walletAnswers returns the response of a wallet whose documents contain that value.
func walletAnswers(t testing.TB, w *wallettest.Wallet, r *wallettest.Request, says bool) wallettest.Message {
	t.Helper()
	m, err := w.Present(r, func(p *wallettest.Presentation) {
		for _, name := range r.Elements {
			p.Set(name, says)
		}
	})
	must(t, err)
	return m
}

// middle returns a part of a long text, long enough to be unique.
func middle(text string) string { return text[len(text)/2:][:40] }

// Carrier sends the requests of a wallet as another device than the page's.
type Carrier struct{ Page *testharness.Page }

// RoundTrip implements http.RoundTripper.
func (c Carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	got := c.Page.AsAnother(r.Method, r.URL.String(), r.Header, body)
	return &http.Response{StatusCode: got.Status, Header: got.Header,
		Body: io.NopCloser(bytes.NewReader(got.Body)), Request: r}, nil
}
