// Package attackers says what one foothold is worth: for each place from which
// somebody can attack a Verge, what they try and what they get. It has no code
// but tests. Each row of its tables attacks a running service, or names the
// test elsewhere that does.
//
// The tables are rendered into ATTACKERS.md by `go generate`, and what the doc
// comment of package core says of attackers is the tables' text, word for word:
// TestTheDocuments holds both to that. So to promise something, add a row that
// shows it.
package attackers

//go:generate go test -run ^TestTheDocuments$ . -update
