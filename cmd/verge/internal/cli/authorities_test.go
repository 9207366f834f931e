package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/host"
)

// TestAuthorities_NoneInstalled: --check reports it, and `method check` blames the machine and not the
// provider.
func TestAuthorities_NoneInstalled(t *testing.T) {
	t.Parallel()
	some := x509.NewCertPool()
	some.AddCert(new(x509.Certificate))
	for name, c := range map[string]struct {
		mode   string
		roots  *x509.CertPool
		err    error
		warned bool
	}{
		"none":                   {"test", x509.NewCertPool(), nil, true},
		"they cannot be read":    {"test", nil, errors.New("no such directory"), true},
		"some":                   {"test", some, nil, false},
		"none, and dev needs no": {"dev", x509.NewCertPool(), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := serveFiles(t, map[string]string{
				"/verge.toml": configFor(c.mode, "memory", "https://shop.example.com/hooks", "HOOK")})
			p.Roots = func() (*x509.CertPool, error) { return c.roots, c.err }
			code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
			if code != exitOK || strings.Contains(said, "apt-get install ca-certificates") != c.warned {
				t.Errorf("--check ends with %d: %s", code, said)
			}
		})
	}
}

// TestMethodCheck_CertificateAdvice: the advice of `method check` fits the fault of the certificate.
func TestMethodCheck_CertificateAdvice(t *testing.T) {
	for _, c := range []struct {
		name         string
		err          error
		trustsNobody bool
		says         string
	}{
		{"an unknown authority", x509.UnknownAuthorityError{}, false, "methods.bankid.ca"},
		{"another error", errors.New("x"), false, "methods.bankid.ca"},
		{"no authorities", x509.UnknownAuthorityError{}, true, "ca-certificates"},
		{"expired", x509.CertificateInvalidError{Reason: x509.Expired}, false, "clock"},
		{"expired, no authorities", x509.CertificateInvalidError{Reason: x509.Expired}, true, "clock"},
		{"another name", x509.HostnameError{Certificate: &x509.Certificate{}}, false, "spelling of the host"},
	} {
		pl := plan{Plan: config.Plan{TrustsNobody: c.trustsNobody}}
		failed := &host.FetchError{Reason: host.FetchTLS, Err: &tls.CertificateVerificationError{Err: c.err}}
		if got := pl.advice("bankid", failed); !strings.Contains(got, c.says) {
			t.Errorf("%s: the advice is %q, want %q", c.name, got, c.says)
		}
	}
}
