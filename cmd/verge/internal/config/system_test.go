package config

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
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

// TestStoreFlags_Environment: flags override the environment.
func TestStoreFlags_Environment(t *testing.T) {
	for flag, want := range map[string]string{"": "of-serve", "/mine": "mine"} {
		sys := testSystem()
		sys.Getenv = func(name string) (string, bool) {
			if name != kvPasswordVariable {
				return "", false
			}
			return "of-serve", true
		}
		if err := afero.WriteFile(sys.FS, "/mine", []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		flags := StoreFlags{URL: "rediss://verge@10.0.0.5", PasswordFile: flag}
		at, err := flags.Read(sys, "verge kv check")
		if err != nil || !strings.Contains(at.URL, ":"+want+"@") {
			t.Errorf("--password-file %q: %s, %v, want %s", flag, at.URL, err, want)
		}
	}
}
