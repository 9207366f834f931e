// Package operate has the operations of operators and of the members of publishers, as typed functions.
// [Operations] has a function for each operation, and [Endpoints] the table of those in the operators' API:
// name, right, input, output, path and method. Package admin serves the table, package console calls the
// functions, and a client encodes inputs by [Endpoint.Request].
//
// Every function takes an [Actor] and first checks the actor's right. A member gets web.ErrNotFound for
// everything of another publisher. A change and its audit entry are one commit.
//
// A response contains a secret only if its operation has created it.
package operate
