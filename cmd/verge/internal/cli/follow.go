package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/edge/server"
)

const (
	certificateEach = 2 * time.Second     // between two looks at the files
	expiresSoon     = 14 * 24 * time.Hour // the log warns from then on
)

// certificate is the certificate of the listeners. It follows its files: connections that begin get the new
// one, and those that are open go on.
type certificate struct {
	load func() (tls.Certificate, error) // reads and judges the files
	now  func() time.Time
	used atomic.Pointer[tls.Certificate]
	asks chan struct{}

	// Of the goroutine that follows.
	refused string    // why the files are not taken
	said    string    // of that, what the log has
	warned  time.Time // when the log last said that the certificate expires soon
}

func newCertificate(p *program, first tls.Certificate, load func() (tls.Certificate, error)) *certificate {
	c := &certificate{load: load, now: p.now, asks: make(chan struct{}, 1)}
	c.used.Store(&first)
	return c
}

// get fits tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.used.Load(), nil }

// again asks for a look at the files now.
func (c *certificate) again() {
	select {
	case c.asks <- struct{}{}:
	default:
	}
}

// follow looks at the files until ctx is done.
func (c *certificate) follow(ctx context.Context, log *slog.Logger, m *server.Metrics) {
	for asked := false; ; {
		c.look(asked, log, m)
		select {
		case <-ctx.Done():
			return
		case <-time.After(certificateEach):
			asked = false
		case <-c.asks:
			asked = true
		}
	}
}

// look takes what the files hold, if that is good. Whoever renews writes one file after the other, so the log
// has a refusal only if a second look finds the same, or if somebody has asked for the look.
func (c *certificate) look(asked bool, log *slog.Logger, m *server.Metrics) {
	next, err := c.load()
	switch used := c.used.Load(); {
	case err != nil:
		if (asked || c.refused == err.Error()) && c.said != err.Error() {
			c.said = err.Error()
			m.CertificateRefused(true)
			log.Error("the new certificate is not taken; the one before stays in use", "error", c.said,
				"expires", when(used.Leaf.NotAfter))
		}
		c.refused = err.Error()
	default:
		c.refused, c.said = "", ""
		m.CertificateRefused(false)
		if !slices.EqualFunc(used.Certificate, next.Certificate, bytes.Equal) {
			c.used.Store(&next)
			c.warned = time.Time{}
			log.Info("another certificate is in use", "names", namesOf(next.Leaf),
				"expires", when(next.Leaf.NotAfter))
		}
	}
	leaf := c.used.Load().Leaf
	m.Certificate(namesOf(leaf), leaf.NotAfter)
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
		log.Error("the certificate has expired: clients refuse it; renew it", "expired", when(expires))
	} else {
		log.Warn("the certificate expires soon: renew it", "in", roughly(left), "expires", when(expires))
	}
	return now
}
