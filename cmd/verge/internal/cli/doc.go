// Package cli is the command line of verge. A program calls [Main] and exits with its code.
//
// Each file of this package holds one command, or one thing that several commands share. Commands touch the
// world only through a program value and through sockets, so that a test can run them within its own process.
package cli
