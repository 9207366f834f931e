// Package secret reads secrets as people put them into files, environment variables, credentials and forms.
// It is the one reader of such text, for the server and for `verge serve --check` (contract 13).
package secret

import (
	"fmt"
	"strings"
	"unicode"
)

// Read returns the secret in a text. It removes a byte order mark and white space at both ends, which editors
// and shells leave behind. problem is the fault of the rest, or "". It does not quote the secret.
func Read(text string) (value, problem string) {
	if strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") {
		return "", "it is in UTF-16; save it as UTF-8"
	}
	value = strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
	if problem = Problem(value); problem != "" {
		return "", problem
	}
	return value, ""
}

// Problem returns the fault of a secret that is used byte for byte, or "".
func Problem(value string) string {
	if value == "" {
		return "it is empty"
	}
	for i := range len(value) {
		switch c := value[i]; {
		case c == '\n' || c == '\r':
			return "it has more than one line; a secret is one line of printable ASCII"
		case c < ' ' || c > '~':
			return fmt.Sprintf("byte %d of it is not printable ASCII; a secret is one line of that", i+1)
		}
	}
	return ""
}
