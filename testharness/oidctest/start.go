package oidctest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"time"
)

// testingTB is the part of *testing.T that Start needs, so that programs do not import package testing.
type testingTB interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
}

// Server is a provider that listens on a loopback port.
type Server struct {
	*Provider
	URL  string // its issuer
	Root *x509.Certificate
}

// Start serves a provider by http for the time of a test. Its issuer is its address, and not that
// of the configuration.
func Start(t testingTB, c Config) *Server {
	t.Helper()
	return start(t, c, "http", nil)
}

// StartTLS does so by https, with a certificate that Server.Root vouches for.
func StartTLS(t testingTB, c Config) *Server {
	t.Helper()
	certificate, root, err := newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, c, "https", &tls.Config{Certificates: []tls.Certificate{certificate}})
	s.Root = root
	return s
}

func start(t testingTB, c Config, scheme string, secure *tls.Config) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Issuer = scheme + "://" + listener.Addr().String()
	if secure != nil {
		listener = tls.NewListener(listener, secure)
	}
	s := &Server{Provider: New(c), URL: c.Issuer}
	server := &http.Server{
		Handler:           s.Provider,
		ReadHeaderTimeout: 10 * time.Second,
		// Callers that do not trust the certificate are part of tests.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close() // a fault hangs
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Fatal(err)
		}
	})
	return s
}

// newCertificate returns a new self-signed certificate for loopback.
func newCertificate() (tls.Certificate, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	root, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: root}, root, nil
}
