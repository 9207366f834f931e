// Package surface keeps the public API of the module small. exported.txt lists every exported top-level name
// outside of internal packages and commands. Its test fails if a name is added or removed without a change of
// the list, so that reviewers see each new name.
package surface

//go:generate go test -run ^TestExportedNames$ . -update
