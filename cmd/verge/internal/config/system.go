package config

import (
	"context"
	"crypto/x509"
	"io"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/modules"
)

// System is the machine on which a configuration is read, and the program that reads it. Each field but
// Environ and Version is required.
type System struct {
	FS      afero.Fs
	Getenv  func(name string) (value string, set bool) // of one variable
	Environ []string                                   // every variable, as NAME=value
	Now     func() time.Time
	Random  io.Reader
	Roots   func() (*x509.CertPool, error) // the authorities that the system trusts

	// Output runs a program, and returns its standard output of at most limit bytes. The program gets no
	// variable VERGE_…
	Output func(ctx context.Context, argv []string, limit int) ([]byte, error)

	Variables func() ([]string, error)       // the names of all variables that this program reads
	Module    func() (modules.Module, error) // the built-in module
	Version   string                         // of this program, for traces
}
