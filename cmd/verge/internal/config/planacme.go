package config

import (
	"cmp"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/certs"
	"github.com/verge-id/verge/edge/egress"
)

// Defaults of [tls] acme.
const (
	acmeDirectory = "https://acme-v02.api.letsencrypt.org/directory"
	acmeHTTP      = ":80"
)

// checkACME checks the settings of automatic certificates.
func (c *File) checkACME(sys *System, pl *Plan, ps *problems) {
	a := &certs.Authority{Email: c.TLS.ACMEEmail, Directory: cmp.Or(c.TLS.ACMEDirectory, acmeDirectory),
		Storage: c.TLS.ACMEStorage, HTTP: cmp.Or(c.TLS.ACMEHTTP, acmeHTTP), Now: sys.Now}
	if c.TLS.Cert != "" || c.TLS.Key != "" {
		ps.add("tls: cert and key are your own files, and with acme = true an authority issues " +
			"the certificate; choose one")
	}
	base, err := url.Parse(c.BaseURL)
	if err == nil {
		a.Host = base.Hostname()
	}
	if _, notName := netip.ParseAddr(a.Host); err != nil || base.Scheme != "https" || notName == nil ||
		!strings.Contains(a.Host, ".") {
		ps.add("tls.acme: base_url is %q, and an authority issues certificates only for https and a "+
			"public name", c.BaseURL)
	}
	if a.Storage == "" {
		ps.add("tls.acme_storage: not set; choose a directory that only this server can read and " +
			"write, such as \"/var/lib/verge/acme\"; it stores the certificate, its key " +
			"and the account")
	} else if err := writable(sys.FS, a.Storage); err != nil {
		ps.add("tls.acme_storage: %s cannot be written: %v", a.Storage, err)
	}
	if u, err := url.Parse(a.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		ps.add("tls.acme_directory: %q is not an https URL of a directory", a.Directory)
	}
	if a.HTTP == Off {
		a.HTTP = ""
	} else if err := CheckAddress(a.HTTP); err != nil {
		ps.add("tls.acme_http: %v", err)
	}
	if c.TLS.ACMECA != "" {
		b, err := afero.ReadFile(sys.FS, c.TLS.ACMECA)
		if err == nil {
			a.Roots, err = egress.ParseRoots(b)
		}
		if err != nil {
			ps.add("tls.acme_ca: %v", err)
		}
	}
	pl.Authority = a
	pl.Server.TLS = a.TLS()
}
