package config

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/modules"
)

// testSystem returns a system without files, variables and a built-in module.
func testSystem() *System {
	authorities := x509.NewCertPool()
	authorities.AddCert(new(x509.Certificate))
	return &System{FS: afero.NewMemMapFs(), Now: time.Now, Random: rand.Reader,
		Getenv:    func(string) (string, bool) { return "", false },
		Roots:     func() (*x509.CertPool, error) { return authorities, nil },
		Variables: func() ([]string, error) { return nil, nil },
		Module:    func() (modules.Module, error) { return modules.Module{}, errors.New("none built in") }}
}
