package trustlist

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"
)

// at is the time of the tests.
var at = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// identity is a certificate with its key.
type identity struct {
	*x509.Certificate
	key crypto.Signer
}

// template changes a certificate before it is issued.
type template func(*x509.Certificate)

func authority(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
}

func signsLists(usage asn1.ObjectIdentifier) template {
	return func(c *x509.Certificate) { c.UnknownExtKeyUsage = []asn1.ObjectIdentifier{usage} }
}

func dates(from, until time.Time) template {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, until }
}

// expired ends the certificate a second before the time of the tests.
func expired(c *x509.Certificate) { c.NotAfter = at.Add(-time.Second) }

func ecKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// rsaKeys are created once, since that takes long.
var rsaKeys = map[int]func() (*rsa.PrivateKey, error){
	2048: sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) }),
	1024: sync.OnceValues(func() (*rsa.PrivateKey, error) {
		return rsa.GenerateKey(rand.Reader, 1024)
	}),
}

func rsaKey(t testing.TB, bits int) crypto.Signer {
	t.Helper()
	key, err := rsaKeys[bits]()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue creates a certificate. Without a parent it is self-signed. Without a key it has one on P-256.
func issue(t testing.TB, name string, parent *identity, key crypto.Signer, changes ...template) identity {
	t.Helper()
	if key == nil {
		key = ecKey(t, elliptic.P256())
	}
	serial := sha256.Sum256([]byte(name))
	c := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:8]), Subject: pkix.Name{CommonName: name},
		NotBefore: at.AddDate(-1, 0, 0), NotAfter: at.AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		SubjectKeyId: serial[:20],
	}
	for _, change := range changes {
		change(c)
	}
	issuer, signing := c, key
	if parent != nil {
		issuer, signing = parent.Certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, key.Public(), signing)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return identity{parsed, key}
}

// sign signs as XML signatures, JWS and COSE do: an ECDSA signature is r and s in their full length.
func (i identity) sign(t testing.TB, hash crypto.Hash, pss bool, text []byte) []byte {
	t.Helper()
	h := hash.New()
	h.Write(text)
	digest := h.Sum(nil)
	var options crypto.SignerOpts = hash
	if pss {
		options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	signature, err := i.key.Sign(rand.Reader, digest, options)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := i.key.(*ecdsa.PrivateKey)
	if !ok {
		return signature
	}
	var pair struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &pair); err != nil {
		t.Fatal(err)
	}
	size := (key.Params().BitSize + 7) / 8
	return append(pair.R.FillBytes(make([]byte, size)), pair.S.FillBytes(make([]byte, size))...)
}

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// reasonOf returns the reason of an error of Read, "" for none.
func reasonOf(t testing.TB, err error) Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("the error is not an *Error: %v", err)
	}
	if e.Problem == "" || e.Do == "" {
		t.Errorf("the error has no sentence: %+v", e)
	}
	return e.Reason
}
