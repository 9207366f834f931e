// Package surface keeps the public face of the module small. exported.txt lists every exported top-level
// name outside of internal packages and commands. Its test fails if a name is added or removed without the
// list, so that each new name is a decision that a reviewer sees.
package surface

//go:generate go test -run ^TestExportedNames$ . -update
