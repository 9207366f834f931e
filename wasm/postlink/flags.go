package postlink

import (
	_ "embed"
	"strings"
)

//go:embed gcflags.txt
var gcflags string

// Gcflags returns the compiler's flags for a module. Packages for operators and generated pages are compiled
// without inlining, which makes the module 2 % smaller. They are not used by start and validate. The
// Makefile reads the same file.
func Gcflags() []string { return strings.Fields(gcflags) }
