// Package operate is what operators and the members of publishers can do, as typed functions. Operations has
// one function for each operation. Package admin is its JSON face and package console its pages. Neither of
// them decides anything.
//
// Every function takes the Actor who asks. It begins by asking the table of operations whether that actor's
// role may do it. Another publisher's things do not exist for a member: the error is ErrNotFound, and never
// Forbidden. What changes something writes an audit entry in the same commit.
//
// No answer holds a secret, except the one answer of the function that made it.
package operate
