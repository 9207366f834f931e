// Command verge is the verification service in one binary: `verge dev` for a developer's machine,
// `verge serve` for a server, and the operators' commands. `verge help` explains all of them.
//
// Each file of this package holds one command, or one thing that several commands share. Commands
// touch the world only through a program value and through sockets, so that a test can run them
// within its own process.
package main
