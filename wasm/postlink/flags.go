package postlink

import (
	_ "embed"
	"strings"
)

//go:embed gcflags.txt
var gcflags string

// Gcflags returns the compiler's flags for a module. Packages for operators, pages, passkeys, deliveries,
// the OpenID provider, the method of wallets and the readers of documents, certificates and addresses are
// compiled without inlining, which makes the module smaller. Validate does not use them, start uses only
// the method's Begin, and the cost of a wallet's response is cryptography. The Makefile reads the same
// file.
func Gcflags() []string { return strings.Fields(gcflags) }
