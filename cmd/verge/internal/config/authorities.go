package config

import "crypto/x509"

// checkAuthorities warns where the system has no certificates of authorities, as a minimal installation has
// none. Then every https address fails that has no authority's file of its own, and the error would sound as
// if the other side were wrong.
func (c *File) checkAuthorities(sys *System, pl *Plan) {
	if c.Mode == "dev" {
		return
	}
	roots, err := sys.Roots()
	if pl.TrustsNobody = err != nil || roots.Equal(x509.NewCertPool()); pl.TrustsNobody {
		pl.warn("certificates: %s; until then no webhook arrives, and no method asks its other side unless "+
			"its setting ca names a file", NoAuthorities)
	}
}

// NoAuthorities says that the system trusts no authority, and what to do.
const NoAuthorities = "this machine has none of the public authorities; install them, on Debian by " +
	"`apt-get install ca-certificates`, or name a file of them in SSL_CERT_FILE"
