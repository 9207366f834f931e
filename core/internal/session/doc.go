// Package session has what a verification session is: its id, its states, and the record of its outcome. All
// of it is pure: there is no store and no clock.
//
// The id authenticates itself, and it holds the session's level, challenge age, integration and creation
// (contract 14). So the store keeps only what happened to the session.
package session
