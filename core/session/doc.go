// Package session has what a verification session is: its self-authenticating
// id, its states and the record of its outcome. All of it is pure: no store,
// no clock.
//
// That a session exists, its level, challenge age, integration and creation
// are in the id itself (contract 14); only what happened to it is kept.
package session
