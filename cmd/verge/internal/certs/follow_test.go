package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"

	"crypto/tls"
	"errors"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/edge"
)

// TestCertificateLook: which files are taken, what the log says and how often.
func TestCertificateLook(t *testing.T) {
	t.Parallel()
	now := time.Now()
	made := func(serial int64, left time.Duration) (tls.Certificate, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: now.Add(left),
			DNSNames: []string{"verify.example.com"}}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := x509.ParseCertificate(der)
		return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
	}
	first, err := made(1, 90*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	var next tls.Certificate
	c := NewFiles(first, func() (tls.Certificate, error) { return next, err },
		func() time.Time { return now })
	m, out := edge.NewMetrics(), new(bytes.Buffer)
	log := slog.New(slog.NewTextHandler(out, nil))
	look := func(asked bool, serial int64, says string, times int) {
		t.Helper()
		c.look(asked, log, m)
		used, _ := c.get(nil)
		if got := used.Leaf.SerialNumber.Int64(); got != serial {
			t.Errorf("certificate %d is in use, want %d", got, serial)
		}
		if got := strings.Count(out.String(), says); got != times {
			t.Errorf("the log says %q %d times, want %d: %s", says, got, times, out)
		}
	}
	next = first
	look(false, 1, "certificate", 0) // nothing has changed
	next, err = tls.Certificate{}, errors.New("they do not match")
	look(false, 1, "certificate rejected", 0) // it may be half of a renewal
	look(false, 1, "certificate rejected", 1)
	look(false, 1, "certificate rejected", 1)
	err = errors.New("it has expired")
	look(true, 1, "it has expired", 1) // SIGHUP expects a result
	next, err = made(2, 10*24*time.Hour)
	look(false, 2, "certificate replaced", 1)
	look(false, 2, "expires soon", 1)
	now = now.Add(23 * time.Hour)
	look(false, 2, "expires soon", 1)
	now = now.Add(time.Hour)
	look(false, 2, "expires soon", 2)
	now = now.Add(9 * 24 * time.Hour)
	err = errors.New("verify.pem expired")
	for range 3 {
		look(true, 2, "certificate rejected", 2) // the files have the certificate in use
	}
	look(false, 2, "expired: clients reject it", 1)
	next, err = made(3, 90*24*time.Hour)
	look(false, 3, "expires soon", 2)
}
