// Command verge is the verification service in one binary: `verge dev` for a
// developer's machine, `verge serve` for a server, and the operators'
// commands. `verge help` says all of it.
//
// The files of this package each hold one command or one thing that commands
// share. Commands touch the world only through a program value and through
// sockets, so that a test runs them inside itself.
package main
