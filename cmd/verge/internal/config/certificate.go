package config

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/certs"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/pemfile"
)

// checkTLS reads the certificate for Verge's own listeners, and rejects one that browsers would not accept.
func (c *File) checkTLS(sys *System, pl *Plan, ps *problems) {
	pair, err := loadPair(sys, c.TLS.Cert, c.TLS.Key, tlsKeyVariable)
	ps.addLines("tls", err)
	if wrong := c.wrongHost(pair); wrong != "" && len(c.TrustedProxies) > 0 {
		// A proxy in front may connect to this server by another name.
		pl.warn("tls: %s; this works only if a proxy (trusted_proxies) accepts it", wrong)
	} else if wrong != "" {
		ps.add("tls: %s: browsers reject it; get a certificate for that name, or correct base_url", wrong)
	}
	if pair.Leaf != nil {
		if why := sys.chainWarning(pair); why != "" {
			pl.warn("tls: %s: %s", c.TLS.Cert, why)
		}
	}
	pl.Certificate = certs.NewFiles(pair, func() (tls.Certificate, error) {
		next, err := loadPair(sys, c.TLS.Cert, c.TLS.Key, tlsKeyVariable)
		if wrong := c.wrongHost(next); err == nil && wrong != "" && len(c.TrustedProxies) == 0 {
			err = errors.New(wrong)
		}
		return next, err
	}, sys.Now)
	pl.Server.TLS = pl.Certificate.TLS()
}

// wrongHost returns an error text if a certificate is not for the host of base_url. It returns "" if it is,
// or if either is unknown.
func (c *File) wrongHost(pair tls.Certificate) string {
	base, err := url.Parse(c.BaseURL)
	if pair.Leaf == nil || err != nil || base.Scheme != "https" || base.Hostname() == "" {
		return ""
	}
	if pair.Leaf.VerifyHostname(base.Hostname()) == nil {
		return ""
	}
	return fmt.Sprintf("%s is for %s, not for %s, the host of base_url",
		c.TLS.Cert, strings.Join(certs.NamesOf(pair.Leaf), ", "), base.Hostname())
}

// tlsKeyVariable has the file of [tls]'s key, or the key itself.
const tlsKeyVariable = "VERGE_TLS_KEY"

// loadPair reads a certificate chain and its key. It returns an error for certain faults: files that do not
// belong together, a key that other users can read, a certificate that is not valid now. It does not check
// the validity of the other certificates of the chain: some are sent after they expired, for old clients.
//
// The same fault has the same text at any time: [certs.Files] compares the texts. variable is the environment
// variable that may have the key itself.
func loadPair(sys *System, cert, key, variable string) (tls.Certificate, error) {
	certPEM, err := afero.ReadFile(sys.FS, sys.Locate(cert))
	keyPEM, key, keyErr := sys.readFileOr(variable, key)
	if err != nil || keyErr != nil {
		return tls.Certificate{}, errors.Join(err, keyErr)
	}
	if certPEM, err = pemfile.Text(certPEM); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", cert, err)
	}
	if keyPEM, err = pemfile.Text(keyPEM); err != nil {
		return tls.Certificate{}, fmt.Errorf("%s: %w", key, err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return pair, whyNoPair(cert, key, certPEM, keyPEM, err)
	}
	now := sys.Now()
	switch from, until := pair.Leaf.NotBefore, pair.Leaf.NotAfter; {
	case now.After(until):
		return pair, fmt.Errorf("%s expired at %s: install a new certificate", cert, words.When(until))
	case now.Before(from):
		return pair, fmt.Errorf("%s is not valid before %s: wait, use the previous certificate, "+
			"or set this machine's clock", cert, words.When(from))
	}
	return pair, nil
}

// whyNoPair returns the reason why two files are not a certificate and its key. err is the error of
// crypto/tls.
func whyNoPair(cert, key string, certPEM, keyPEM []byte, err error) error {
	certificates, certErr := pemfile.Blocks(certPEM, "CERTIFICATE")
	if certErr != nil {
		return fmt.Errorf("%s: %w", cert, certErr)
	}
	keys, keyErr := pemfile.Blocks(keyPEM, "PRIVATE KEY")
	if keyErr == nil {
		keyErr = pemfile.CheckClear(keys)
	}
	if keyErr != nil {
		return fmt.Errorf("%s: %w", key, keyErr)
	}
	for n, block := range certificates {
		if _, wrong := tls.X509KeyPair(pem.EncodeToMemory(block), keyPEM); n > 0 && wrong == nil {
			return fmt.Errorf("%s: the certificates are in the wrong order: the key in %s belongs to "+
				"certificate %d, which must come first, followed by the certificates of the issuers",
				cert, key, n+1)
		}
	}
	return fmt.Errorf("%s and %s are not a certificate and its key: %s", cert, key,
		strings.TrimPrefix(err.Error(), "tls: "))
}

// chainWarning returns a warning if clients may not find a path from a certificate to an authority that they
// trust, because a certificate between them is missing or in the wrong place. It returns "" if there is a
// path, or if only the operator can know, for example for a private authority.
func (sys *System) chainWarning(pair tls.Certificate) string {
	var chain []*x509.Certificate
	between := x509.NewCertPool()
	for _, der := range pair.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return fmt.Sprintf("certificate %d cannot be read: %v", len(chain)+1, err)
		}
		chain = append(chain, c)
		between.AddCert(c)
	}
	for n := range len(chain) - 1 {
		if !bytes.Equal(chain[n].RawIssuer, chain[n+1].RawSubject) {
			return fmt.Sprintf("certificate %d was not issued by certificate %d (%s); the certificate of "+
				"its issuer, %s, must follow it", n+1, n+2, chain[n+1].Subject, chain[n].Issuer)
		}
	}
	last := chain[len(chain)-1]
	roots, err := sys.Roots()
	if err != nil || roots.Equal(x509.NewCertPool()) || bytes.Equal(last.RawIssuer, last.RawSubject) {
		return ""
	}
	var unknown x509.UnknownAuthorityError
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: sys.Now()})
	if !errors.As(err, &unknown) {
		return ""
	}
	return fmt.Sprintf("the certificate of %s, the issuer of the last one, is missing; browsers accept "+
		"the service only with it, unless they trust a private authority that issued it", last.Issuer)
}
