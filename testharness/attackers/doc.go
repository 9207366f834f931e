// Package attackers has the threat model: each attacker, each attempt and its result. It has only tests. Each
// row of its tables attacks a running service, or names the test elsewhere that does.
//
// To state a new threat or promise, add a row, and run go generate. It writes the sentences to SECURITY.md
// and the tables to ATTACKERS.md. TestDocuments compares both files with the tables.
package attackers

//go:generate go test -run ^TestDocuments$ . -update
