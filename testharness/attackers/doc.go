// Package attackers shows what one foothold is worth: for each place from which
// somebody can attack a Verge, what they try and what they get. It has only
// tests. Each row of its tables attacks a running service, or names the test
// elsewhere that does.
//
// `go generate` writes the tables to ATTACKERS.md. The doc comment of package
// core has the tables' sentences word for word. TestTheDocuments checks both. So
// if you want to promise something, add a row that shows it.
package attackers

//go:generate go test -run ^TestTheDocuments$ . -update
