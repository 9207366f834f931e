package config

import "crypto/x509"

// checkAuthorities warns if the system has no certificates of authorities, like a minimal installation. Every
// https address without its own authority file then fails, and the error would suggest a fault of the remote
// server.
func (c *File) checkAuthorities(sys *System, pl *Plan) {
	if c.Mode == "dev" {
		return
	}
	roots, err := sys.Roots()
	if pl.TrustsNobody = err != nil || roots.Equal(x509.NewCertPool()); pl.TrustsNobody {
		pl.warn("certificates: %s; until then webhooks fail, and so do methods unless "+
			"their setting ca has a file", NoAuthorities)
	}
}

// NoAuthorities explains that the system trusts no authority, and the fix.
const NoAuthorities = "this machine has no certificates of public authorities; install them (on Debian: " +
	"`apt-get install ca-certificates`), or set SSL_CERT_FILE to a file of them"
