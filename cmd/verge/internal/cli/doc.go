// Package cli is the command line of verge. A program calls [Main] and exits with its code.
//
// Each file of this package has one command, or code that several commands share. Commands use the operating
// system only through a program value and sockets, so that a test can run them in its own process.
package cli
