package mdoc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/testharness/wallettest"
)

// A rejection names the fault of a document only if the wallet has signed this session with the document's
// key.
func TestFaultsOfDocuments(t *testing.T) {
	const none = mdoc.Fault("")
	for _, c := range []struct {
		rule, reason string
		fault        mdoc.Fault
		change       func(*wallettest.Presentation)
	}{
		{"expired", "mso_expired", mdoc.NotValid,
			func(p *wallettest.Presentation) { p.ValidUntil = testNow.Add(-time.Hour) }},
		{"not valid yet", "mso_not_yet_valid", mdoc.NotValid,
			func(p *wallettest.Presentation) { p.ValidFrom = testNow.Add(time.Hour) }},
		{"a signer that has expired", "certificate_validity", mdoc.NotValid,
			func(p *wallettest.Presentation) {
				p.Issuer = newIssuer(func(c *wallettest.IssuerConfig) { c.Now = testNow.AddDate(-3, 0, 0) })
			}},
		{"another issuer", "untrusted", mdoc.Untrusted,
			func(p *wallettest.Presentation) { p.Issuer = newIssuer(nil) }},
		{"another purpose", "certificate_eku", mdoc.Untrusted, func(p *wallettest.Presentation) {
			p.Issuer = newIssuer(func(c *wallettest.IssuerConfig) { c.EKU = wallettest.MDLSigner })
		}},
		{"another type", "document_type", mdoc.OtherType,
			func(p *wallettest.Presentation) { p.DocType = "org.iso.18013.5.1.mDL" }},
		{"an element that the issuer has not signed", "digest_mismatch", none,
			member(wallettest.PartSent, "elementValue", cbor.Bool(true))},
		{"a forged issuer's signature", "issuer_signature", none,
			place(wallettest.PartIssuerAuth, 3, zeros(64))},
		{"a MAC", "device_mac", none, member(wallettest.PartDeviceAuth, "deviceMac", cbor.Null())},
	} {
		t.Run("contract 55: "+c.rule, func(t *testing.T) {
			for name, spoil := range map[string]func(*wallettest.Presentation){
				"": func(*wallettest.Presentation) {},
				"another session": func(p *wallettest.Presentation) {
					p.Session.Nonce += "x"
				},
				"another key": func(p *wallettest.Presentation) {
					var err error
					if p.SignWith, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
						t.Fatal(err)
					}
				},
			} {
				p, ask := present(t, newIssuer(nil))
				if c.change(p); name != "" {
					spoil(p)
				}
				response, err := p.Response()
				if err != nil {
					t.Fatal(err)
				}
				_, err = mdoc.Verify(t.Context(), response, ask)
				want := c.fault
				if name != "" {
					want = none
				}
				var rejection *mdoc.Rejection
				if !errors.As(err, &rejection) || rejection.Document != want || name == "" &&
					c.fault != none && rejection.Reason != c.reason {
					t.Errorf("%q: %+v, want the fault %q for %s", name, err, want, c.reason)
				}
			}
		})
	}
}

// The signature of a reader is over the transcript and the items, as the request has them.
func TestReaderAuth(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: testNow,
		NotAfter: testNow.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	const origin = "https://verify.example"
	info := base64.RawURLEncoding.EncodeToString(mdoc.EncryptionInfo(make([]byte, 16),
		privateKey(t, strings.Repeat("01", 32)).PublicKey()))
	items := mdoc.Items{DocType: docType, Namespace: docType, Elements: []string{element}}
	hash := sha256.Sum256(mdoc.ReaderAuthentication(items, mdoc.DCAPITranscript(info, origin)))
	r, s, err := ecdsa.Sign(rand.Reader, key, hash[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	for name, c := range map[string]struct {
		origin string
		items  mdoc.Items
		chain  [][]byte
		good   bool
	}{
		"one certificate":  {origin, items, [][]byte{der}, true},
		"two certificates": {origin, items, [][]byte{der, der}, true},
		"another origin":   {origin + ":8443", items, [][]byte{der}, false},
		"another element": {origin, mdoc.Items{DocType: docType, Namespace: docType,
			Elements: []string{"a"}}, [][]byte{der}, false},
		"another document": {origin, mdoc.Items{DocType: "a", Namespace: docType,
			Elements: []string{element}}, [][]byte{der}, false},
		"another namespace": {origin, mdoc.Items{DocType: docType, Namespace: "a",
			Elements: []string{element}}, [][]byte{der}, false},
	} {
		request, err := json.Marshal(map[string]string{"encryptionInfo": info,
			"deviceRequest": base64.RawURLEncoding.EncodeToString(mdoc.DeviceRequest(c.items,
				&mdoc.ReaderSignature{Chain: c.chain, Signature: signature}))})
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := new(wallettest.Wallet).Reader(c.origin, request)
		if good := err == nil && leaf != nil && slices.Equal(leaf.Raw, der); good != c.good {
			t.Errorf("contract 55: %s: %v, %v", name, leaf, err)
		}
	}
}
