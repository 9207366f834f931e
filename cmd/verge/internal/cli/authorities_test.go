package cli

import (
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
	for trustsNobody, says := range map[bool]string{true: "ca-certificates", false: "methods.bankid.ca"} {
		pl := plan{Plan: config.Plan{TrustsNobody: trustsNobody}}
		if got := pl.advice("bankid", &host.FetchError{Reason: host.FetchTLS}); !strings.Contains(got, says) {
			t.Errorf("without authorities %t, the advice is %q, want %q", trustsNobody, got, says)
		}
	}
}
