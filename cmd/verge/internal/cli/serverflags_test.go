package cli

import (
	"path/filepath"
	"testing"

	"github.com/spf13/afero"
)

// TestServerFlags_Token has the order of the sources: the flag, the token in the environment, and the file
// that the environment names.
func TestServerFlags_Token(t *testing.T) {
	for _, c := range []struct {
		name, flag, token, file, want string
	}{
		{"a flag", "/flag", "", "", "of the flag"},
		{"a flag and both variables", "/flag", "of the variable", "/file", "of the flag"},
		{"both variables", "/file", "of the variable", "/file", "of the variable"},
		{"a variable with a file", "/file", "", "/file", "of the file"},
		{"a variable with the token", "", "of the variable", "", "of the variable"},
		{"none", "", "", "", ""},
	} {
		p, _, _ := testProgram()
		p.Getenv = func(name string) (string, bool) {
			value := map[string]string{
				"VERGE_OPERATOR_TOKEN": c.token, "VERGE_OPERATOR_TOKEN_FILE": c.file}[name]
			return value, value != ""
		}
		for _, name := range []string{"/flag", "/file"} {
			text := "of the " + filepath.Base(name)
			if err := afero.WriteFile(p.FS, name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// The parser sets the field to the value of the variable without a flag.
		if got, err := (serverFlags{TokenFile: c.flag}).token(p); got != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
