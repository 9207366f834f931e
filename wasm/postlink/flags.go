package postlink

import (
	_ "embed"
	"strings"
)

//go:embed gcflags.txt
var gcflags string

// Gcflags returns the compiler's flags for a module. Packages for operators, generated pages and the method
// of wallets are compiled without inlining, which makes the module 2 % smaller. Validate does not use them,
// start uses the method's Begin alone, and the cost of a wallet's response is cryptography. The Makefile
// reads the same file.
func Gcflags() []string { return strings.Fields(gcflags) }
