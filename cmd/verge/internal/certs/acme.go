package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	stdlog "log"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/verge-id/verge/edge"
)

// Authority obtains and renews the certificate of a host from an ACME authority. Call Open, then
// Follow, and Close at the end.
type Authority struct {
	Host, Email, Directory, Storage string
	Roots                           *x509.CertPool // that sign the directory's certificate; nil: the system's
	HTTP                            string         // the address for HTTP-01 checks; "": none

	Now   func() time.Time
	magic *certmagic.Config
	log   *slog.Logger
	once  sync.Once // closes the cache
	cache *certmagic.Cache
}

// TLS returns the settings of a listener. It can serve once Open was called.
func (a *Authority) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{acmeProtocol},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return a.magic.GetCertificate(hello)
		}}
}

// acmeProtocol is the protocol that an authority offers in a TLS-ALPN-01 check (RFC 8737).
const acmeProtocol = "acme-tls/1"

// Open prepares for handshakes on a listener. The listener's port serves TLS-ALPN-01.
func (a *Authority) Open(public net.Listener, log *slog.Logger) {
	a.log = log
	// certmagic writes a few lines only to the standard logger. Their format would break the log's format.
	standard := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	stdlog.SetFlags(standard.Flags())
	stdlog.SetOutput(standard.Writer())
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return a.magic, nil },
		Logger:           zap.NewNop(),
	})
	a.magic = certmagic.New(a.cache, certmagic.Config{
		Storage:           &certmagic.FileStorage{Path: a.Storage},
		DefaultServerName: a.Host, // for clients that name no host
		Logger:            zap.NewNop(),
		OnEvent:           a.tell,
	})
	issuer := certmagic.ACMEIssuer{CA: a.Directory, Email: a.Email, Agreed: true,
		TrustedRoots: a.Roots, DisableHTTPChallenge: a.HTTP == "", Logger: zap.NewNop()}
	if at, ok := public.Addr().(*net.TCPAddr); ok {
		issuer.AltTLSALPNPort = at.Port
	}
	if host, port, err := net.SplitHostPort(a.HTTP); err == nil {
		issuer.ListenHost = host
		issuer.AltHTTPPort, _ = strconv.Atoi(port)
	}
	a.magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(a.magic, issuer)}
}

// Close ends the renewals.
func (a *Authority) Close() { a.once.Do(a.cache.Stop) }

// tell logs the events of the certificate.
func (a *Authority) tell(_ context.Context, event string, data map[string]any) error {
	switch event {
	case "cert_obtained":
		a.log.Info("certificate obtained", "name", a.Host, "renewal", data["renewal"])
	case "cert_failed":
		why := "unknown"
		if err, ok := data["error"].(error); ok {
			why = err.Error()
		}
		a.log.Error("certificate not obtained; will be tried again", "name", a.Host,
			"renewal", data["renewal"], "error", why)
	}
	return nil
}

// Follow obtains and renews the certificate until ctx is done, and reports its expiry.
func (a *Authority) Follow(ctx context.Context, m *edge.Metrics) {
	if err := a.magic.ManageAsync(ctx, []string{a.Host}); err != nil {
		a.log.Error("certificate not managed", "name", a.Host, "error", err.Error())
	}
	var warned time.Time
	for {
		if leaf, err := a.leaf(); err == nil {
			m.Certificate(NamesOf(leaf), leaf.NotAfter)
			warned = warnOfExpiry(leaf.NotAfter, a.Now(), warned, a.log)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEach):
		}
	}
}

// leaf returns the certificate in use.
func (a *Authority) leaf() (*x509.Certificate, error) {
	conn, other := net.Pipe() // certmagic asks a connection for its addresses
	defer conn.Close()
	defer other.Close()
	used, err := a.magic.GetCertificate(&tls.ClientHelloInfo{ServerName: a.Host, Conn: conn})
	if err != nil {
		return nil, err
	}
	if used.Leaf == nil {
		return nil, errors.New("the certificate has not been parsed")
	}
	return used.Leaf, nil
}
