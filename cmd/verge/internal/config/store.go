package config

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/edge/egress"
)

// clientTLS reads the certificates for the connection to a store's servers. ca has the trusted authorities;
// cert and key are the client's certificate. Without these files it returns nil, which means the authorities
// of the system.
func clientTLS(sys *System, ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := afero.ReadFile(sys.FS, ca)
		if err != nil {
			return nil, err
		}
		if c.RootCAs, err = egress.ParseRoots(pem); err != nil {
			return nil, fmt.Errorf("%s: %w", ca, err)
		}
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("a client certificate and its key go together; set both or neither")
	}
	if cert != "" {
		pair, err := loadPair(sys, cert, key, kvKeyVariable)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
