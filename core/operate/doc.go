// Package operate is what operators and the members of publishers can do, as typed functions. Operations has
// one function for each operation. Package admin is its JSON face and package console its pages. Neither of
// them decides anything.
//
// Every function takes an [Actor] and first checks the actor's right in the table of operations. Another
// publisher's things do not exist for a member: the error is web.ErrNotFound, never forbidden. A change and
// its audit entry are one commit.
//
// No answer holds a secret, except the one answer of the function that made it.
package operate
