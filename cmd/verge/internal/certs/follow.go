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
	"github.com/verge-id/verge/edge"
)

// lookEach is the time between two checks of the files.
const lookEach = 2 * time.Second

// ExpiresSoon is the time before the expiry of a certificate when warnings begin.
const ExpiresSoon = 14 * 24 * time.Hour

// Files is a certificate that follows its files.
type Files struct {
	load func() (tls.Certificate, error) // reads and checks the files; an error may have the certificate, too
	now  func() time.Time
	used atomic.Pointer[tls.Certificate]
	asks chan struct{}

	// Of the goroutine that follows.
	rejected string    // the reason why the files are rejected
	said     string    // the part of the reason that was logged
	warned   time.Time // when the expiry was last logged
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

// Again checks the files now.
func (c *Files) Again() {
	select {
	case c.asks <- struct{}{}:
	default:
	}
}

// Follow checks the files until ctx is done.
func (c *Files) Follow(ctx context.Context, log *slog.Logger, m *edge.Metrics) {
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

// look loads the files, if they are valid. A renewal writes one file before the other, so a rejection is
// logged only if a second check has the same result, or if the check was requested. The certificate in use is
// no new one, even if it has expired.
func (c *Files) look(asked bool, log *slog.Logger, m *edge.Metrics) {
	next, err := c.load()
	used := c.used.Load()
	isUsed := slices.EqualFunc(used.Certificate, next.Certificate, bytes.Equal)
	switch {
	case err != nil && !isUsed:
		if (asked || c.rejected == err.Error()) && c.said != err.Error() {
			c.said = err.Error()
			m.CertificateRejected(true)
			log.Error("new certificate rejected; the previous one stays in use", "error", c.said,
				"expires", words.When(used.Leaf.NotAfter))
		}
		c.rejected = err.Error()
	default:
		c.rejected, c.said = "", ""
		m.CertificateRejected(false)
		if !isUsed {
			c.used.Store(&next)
			c.warned = time.Time{}
			log.Info("certificate replaced", "names", NamesOf(next.Leaf),
				"expires", words.When(next.Leaf.NotAfter))
		}
	}
	leaf := c.used.Load().Leaf
	m.Certificate(NamesOf(leaf), leaf.NotAfter)
	c.warned = warnOfExpiry(leaf.NotAfter, c.now(), c.warned, log)
}

// warnOfExpiry logs that a certificate expires soon, once a day. warned is the time of the last warning. It
// returns that time or the new one.
func warnOfExpiry(expires, now, warned time.Time, log *slog.Logger) time.Time {
	left := expires.Sub(now)
	if left >= ExpiresSoon || now.Sub(warned) < 24*time.Hour {
		return warned
	}
	if left <= 0 {
		log.Error("certificate expired: clients reject it; renew it", "expired", words.When(expires))
	} else {
		log.Warn("certificate expires soon: renew it", "in", words.Roughly(left), "expires",
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
		return []string{"no name"}
	}
	return names
}
