package cli

import (
	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/secret"
)

// ownSecret returns the secret in a file that a flag names, for a command that others may run on their
// machine: other users may be able to read the file.
func (p *program) ownSecret(flag, file string) (string, error) {
	b, err := afero.ReadFile(p.FS, p.Locate(file))
	if err != nil {
		return "", usagef("%s: %w", flag, err)
	}
	value, why := secret.Read(string(b))
	if why != "" {
		return "", usagef("%s: %s: %s", flag, file, why)
	}
	return value, nil
}
