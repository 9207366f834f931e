package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	stdlog "log"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/spf13/afero"
	"go.uber.org/zap"

	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/edge/server"
)

// authority has a certificate for the host of base_url made and renewed by an authority that speaks ACME.
type authority struct {
	host, email, directory, storage string
	roots                           *x509.CertPool // that sign the directory's certificate; nil: the system's
	http                            string         // where HTTP-01 is answered; "": nowhere

	now   func() time.Time
	magic *certmagic.Config
	log   *slog.Logger
	once  sync.Once // closes the cache
	cache *certmagic.Cache
}

// Standards of [tls] acme.
const (
	acmeDirectory = "https://acme-v02.api.letsencrypt.org/directory"
	acmeHTTP      = ":80"
)

// checkACME judges the settings of automatic certificates.
func (c *config) checkACME(p *program, pl *plan, ps *problems) {
	a := &authority{email: c.TLS.ACMEEmail, directory: c.TLS.ACMEDirectory, storage: c.TLS.ACMEStorage,
		http: c.TLS.ACMEHTTP, now: p.now}
	if c.TLS.Cert != "" || c.TLS.Key != "" {
		ps.add("tls: cert and key are files of yours, and with acme = true an authority makes " +
			"the certificate; choose one")
	}
	base, err := url.Parse(c.BaseURL)
	if err == nil {
		a.host = base.Hostname()
	}
	if _, notName := netip.ParseAddr(a.host); err != nil || base.Scheme != "https" || notName == nil ||
		!strings.Contains(a.host, ".") {
		ps.add("tls.acme: base_url is %q, and an authority makes certificates for https and a "+
			"public name only",
			c.BaseURL)
	}
	if a.storage == "" {
		ps.add("tls.acme_storage: not set; name a directory that this server can write to and " +
			"nobody else can read, such as \"/var/lib/verge/acme\"; it keeps the certificate, its key " +
			"and the account")
	} else if err := writable(p.fs, a.storage); err != nil {
		ps.add("tls.acme_storage: %s cannot be written: %v", a.storage, err)
	}
	if a.directory == "" {
		a.directory = acmeDirectory
	}
	if u, err := url.Parse(a.directory); err != nil || u.Scheme != "https" || u.Host == "" {
		ps.add("tls.acme_directory: %q is no https URL of a directory", a.directory)
	}
	switch a.http {
	case off:
		a.http = ""
	case "":
		a.http = acmeHTTP
	}
	if a.http != "" {
		if err := checkAddr(a.http); err != nil {
			ps.add("tls.acme_http: %v", err)
		}
	}
	if c.TLS.ACMECA != "" {
		b, err := afero.ReadFile(p.fs, c.TLS.ACMECA)
		if err == nil {
			a.roots, err = egress.ParseRoots(b)
		}
		if err != nil {
			ps.add("tls.acme_ca: %v", err)
		}
	}
	pl.authority = a
	// The functions are called when the server runs, which is after open.
	pl.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{acmeProtocol},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return a.magic.GetCertificate(hello)
		}}
}

// acmeProtocol is what an authority offers when it checks a host by TLS-ALPN-01 (RFC 8737).
const acmeProtocol = "acme-tls/1"

// open prepares for handshakes on a listener. The listener's port answers TLS-ALPN-01.
func (a *authority) open(public net.Listener, log *slog.Logger) {
	a.log = log
	// certmagic says a few things to the standard logger only. In their own form, they would break the log's.
	standard := slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	stdlog.SetFlags(standard.Flags())
	stdlog.SetOutput(standard.Writer())
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return a.magic, nil },
		Logger:           zap.NewNop(),
	})
	a.magic = certmagic.New(a.cache, certmagic.Config{
		Storage:           &certmagic.FileStorage{Path: a.storage},
		DefaultServerName: a.host, // for clients that name no host
		Logger:            zap.NewNop(),
		OnEvent:           a.tell,
	})
	issuer := certmagic.ACMEIssuer{CA: a.directory, Email: a.email, Agreed: true,
		TrustedRoots: a.roots, DisableHTTPChallenge: a.http == "", Logger: zap.NewNop()}
	if at, ok := public.Addr().(*net.TCPAddr); ok {
		issuer.AltTLSALPNPort = at.Port
	}
	if host, port, err := net.SplitHostPort(a.http); err == nil {
		issuer.ListenHost = host
		issuer.AltHTTPPort, _ = strconv.Atoi(port)
	}
	a.magic.Issuers = []certmagic.Issuer{certmagic.NewACMEIssuer(a.magic, issuer)}
}

// close ends the renewals.
func (a *authority) close() { a.once.Do(a.cache.Stop) }

// tell logs what happens to the certificate.
func (a *authority) tell(_ context.Context, event string, data map[string]any) error {
	switch event {
	case "cert_obtained":
		a.log.Info("the authority has made a certificate", "name", a.host, "renewal", data["renewal"])
	case "cert_failed":
		why := "unknown"
		if err, ok := data["error"].(error); ok {
			why = err.Error()
		}
		a.log.Error("the authority has made no certificate; it is asked again later", "name", a.host,
			"renewal", data["renewal"], "error", why)
	}
	return nil
}

// follow has the certificate made and renewed until ctx is done, and tells of its expiry.
func (a *authority) follow(ctx context.Context, m *server.Metrics) {
	if err := a.magic.ManageAsync(ctx, []string{a.host}); err != nil {
		a.log.Error("the certificate cannot be managed", "name", a.host, "error", err.Error())
	}
	var warned time.Time
	for {
		if leaf, err := a.leaf(); err == nil {
			m.Certificate(namesOf(leaf), leaf.NotAfter)
			warned = warnOfExpiry(leaf.NotAfter, a.now(), warned, a.log)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(certificateEach):
		}
	}
}

// leaf returns the certificate in use.
func (a *authority) leaf() (*x509.Certificate, error) {
	conn, other := net.Pipe() // certmagic asks a connection for its addresses
	defer conn.Close()
	defer other.Close()
	used, err := a.magic.GetCertificate(&tls.ClientHelloInfo{ServerName: a.host, Conn: conn})
	if err != nil {
		return nil, err
	}
	if used.Leaf == nil {
		return nil, errors.New("the certificate has not been parsed")
	}
	return used.Leaf, nil
}
