package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/edge/server"
)

const (
	lookEach    = 2 * time.Second     // between two looks at the files
	expiresSoon = 14 * 24 * time.Hour // the log warns from then on
)

// Files is a certificate that follows its files.
type Files struct {
	load func() (tls.Certificate, error) // reads and judges the files
	now  func() time.Time
	used atomic.Pointer[tls.Certificate]
	asks chan struct{}

	// Of the goroutine that follows.
	refused string    // why the files are not taken
	said    string    // of that, what the log has
	warned  time.Time // when the log last said that the certificate expires soon
}

// NewFiles returns the certificate first. load reads and checks its files again.
func NewFiles(first tls.Certificate, load func() (tls.Certificate, error), now func() time.Time,
) *Files {
	c := &Files{load: load, now: now, asks: make(chan struct{}, 1)}
	c.used.Store(&first)
	return c
}

// get fits tls.Config.GetCertificate.
func (c *Files) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.used.Load(), nil }

// TLS returns the settings of a listener.
func (c *Files) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}
}

// Again asks for a look at the files now.
func (c *Files) Again() {
	select {
	case c.asks <- struct{}{}:
	default:
	}
}

// Follow looks at the files until ctx is done.
func (c *Files) Follow(ctx context.Context, log *slog.Logger, m *server.Metrics) {
	for asked := false; ; {
		c.look(asked, log, m)
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEach):
			asked = false
		case <-c.asks:
			asked = true
		}
	}
}

// look takes what the files hold, if that is good. Whoever renews writes one file after the other, so the log
// has a refusal only if a second look finds the same, or if somebody has asked for the look.
func (c *Files) look(asked bool, log *slog.Logger, m *server.Metrics) {
	next, err := c.load()
	switch used := c.used.Load(); {
	case err != nil:
		if (asked || c.refused == err.Error()) && c.said != err.Error() {
			c.said = err.Error()
			m.CertificateRefused(true)
			log.Error("the new certificate is not taken; the one before stays in use", "error", c.said,
				"expires", words.When(used.Leaf.NotAfter))
		}
		c.refused = err.Error()
	default:
		c.refused, c.said = "", ""
		m.CertificateRefused(false)
		if !slices.EqualFunc(used.Certificate, next.Certificate, bytes.Equal) {
			c.used.Store(&next)
			c.warned = time.Time{}
			log.Info("another certificate is in use", "names", NamesOf(next.Leaf),
				"expires", words.When(next.Leaf.NotAfter))
		}
	}
	leaf := c.used.Load().Leaf
	m.Certificate(NamesOf(leaf), leaf.NotAfter)
	c.warned = warnOfExpiry(leaf.NotAfter, c.now(), c.warned, log)
}

// warnOfExpiry logs that a certificate expires soon, once a day. warned is when it last did so, and it
// returns that time again or the new one.
func warnOfExpiry(expires, now, warned time.Time, log *slog.Logger) time.Time {
	left := expires.Sub(now)
	if left >= expiresSoon || now.Sub(warned) < 24*time.Hour {
		return warned
	}
	if left <= 0 {
		log.Error("the certificate has expired: clients refuse it; renew it", "expired", words.When(expires))
	} else {
		log.Warn("the certificate expires soon: renew it", "in", words.Roughly(left), "expires",
			words.When(expires))
	}
	return now
}

// NamesOf lists the names and addresses that a certificate is for.
func NamesOf(c *x509.Certificate) []string {
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return []string{"no name at all"}
	}
	return names
}
