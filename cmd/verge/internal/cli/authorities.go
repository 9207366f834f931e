package cli

import "crypto/x509"

// checkAuthorities warns where the system has no certificates of authorities, as a minimal installation has
// none. Then every https address fails that has no authority's file of its own, and the error would sound as
// if the other side were wrong.
func (c *config) checkAuthorities(p *program, pl *plan) {
	if c.Mode == "dev" {
		return
	}
	roots, err := p.roots()
	if pl.trustsNobody = err != nil || roots.Equal(x509.NewCertPool()); pl.trustsNobody {
		pl.warnings = append(pl.warnings, "certificates: "+noAuthorities+
			"; until then no webhook arrives, and no "+
			"method asks its other side unless its setting ca names a file")
	}
}

const noAuthorities = "this machine has none of the public authorities; install them, on Debian by " +
	"`apt-get install ca-certificates`, or name a file of them in SSL_CERT_FILE"
