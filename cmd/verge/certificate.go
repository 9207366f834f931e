package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/afero"
)

// checkTLS reads the certificate for Verge's own listeners, and refuses one that no browser would
// accept.
func (c *config) checkTLS(p *program, pl *plan, ps *problems) {
	pair, err := loadPair(p, c.TLS.Cert, c.TLS.Key, tlsKeyVariable)
	ps.addLines("tls", err)
	if wrong := c.wrongHost(pair); wrong != "" && len(c.TrustedProxies) > 0 {
		// A proxy in front may connect to this server by another name.
		pl.warnings.add("tls: %s; that is good only if a proxy in front (trusted_proxies) accepts it", wrong)
	} else if wrong != "" {
		ps.add("tls: %s: browsers refuse it; get one for that name, or correct base_url", wrong)
	}
	pl.certificate = newCertificate(p, pair, func() (tls.Certificate, error) {
		next, err := loadPair(p, c.TLS.Cert, c.TLS.Key, tlsKeyVariable)
		if wrong := c.wrongHost(next); err == nil && wrong != "" && len(c.TrustedProxies) == 0 {
			err = errors.New(wrong)
		}
		return next, err
	})
	pl.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pl.certificate.get}
}

// wrongHost says that a certificate is not for the host of base_url. It returns "" if it is, or if either is
// not known.
func (c *config) wrongHost(pair tls.Certificate) string {
	base, err := url.Parse(c.BaseURL)
	if pair.Leaf == nil || err != nil || base.Scheme != "https" || base.Hostname() == "" {
		return ""
	}
	if pair.Leaf.VerifyHostname(base.Hostname()) == nil {
		return ""
	}
	return fmt.Sprintf("%s is for %s and not for %s, the host of base_url",
		c.TLS.Cert, strings.Join(namesOf(pair.Leaf), ", "), base.Hostname())
}

// tlsKeyVariable names the file of [tls]'s key, or holds the key itself.
const tlsKeyVariable = "VERGE_TLS_KEY"

// loadPair reads a certificate chain and its key. It returns an error for what is certainly wrong:
// files that do not belong together, a key that others may read, a certificate that is not valid
// now. It does not compare the other certificates of the chain with the clock: some are sent after
// they expired, for old clients.
//
// variable is the environment variable that may hold the key itself.
func loadPair(p *program, cert, key, variable string) (tls.Certificate, error) {
	certPEM, err := afero.ReadFile(p.fs, p.locate(cert))
	keyPEM, key, keyErr := p.readFileOr(variable, key)
	if err != nil || keyErr != nil {
		return tls.Certificate{}, errors.Join(err, keyErr)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return pair, fmt.Errorf("%s and %s are no certificate with its key: %s",
			cert, key, strings.TrimPrefix(err.Error(), "tls: "))
	}
	now := p.now()
	switch from, until := pair.Leaf.NotBefore, pair.Leaf.NotAfter; {
	case now.After(until):
		return pair, fmt.Errorf("%s expired at %s, %s ago: put a new certificate there",
			cert, when(until), roughly(now.Sub(until)))
	case now.Before(from):
		return pair, fmt.Errorf("%s is not valid before %s, in %s: wait, use the previous certificate, "+
			"or set this machine's clock", cert, when(from), roughly(from.Sub(now)))
	}
	return pair, nil
}

// namesOf lists the names and addresses that a certificate is for.
func namesOf(c *x509.Certificate) []string {
	names := append([]string{}, c.DNSNames...)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return []string{"no name at all"}
	}
	return names
}

// roughly writes a duration in whole days or hours, as people say it.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", d/time.Hour)
	}
	return d.Round(time.Second).String()
}
