// Package surface keeps the public API of the module small. exported.txt lists every exported top-level name
// outside of internal packages and commands. A test fails if a name is added or removed without a change of
// the list, so that reviewers see each new name. Another test fails if only its own top-level folder uses a
// name, unless the name's package is for programs outside of this module.
package surface

//go:generate go test -run ^TestExportedNames$ . -update
