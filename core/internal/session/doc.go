// Package session defines a verification session: its id, its states, and the record of its outcome. The
// package is pure, without store and clock.
//
// The id authenticates itself, and contains the session's level, challenge age, integration and creation
// (contract 14). The store therefore contains only the events of the session.
package session
