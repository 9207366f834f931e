// Package passkey keeps the passkeys of users. Somebody who was verified makes one, and goes on with it the
// next time in place of a new check (contract 38).
//
// Use Store.Keep for a new passkey, Store.Use for an answer of one, and Accept to decide whether what it
// stands for is enough for a session. Accept is pure.
//
// # What is kept
//
// One record for each passkey: its public key and counter, what was proven when it was made, at which
// publisher, when, and until when it counts. There is no name, no address and nothing of a session in it.
// Nobody can tell from it in which sessions the passkey was used. The record's name is a hash of the
// credential's id, which the device alone has.
//
// # Promised
//
//   - A record never says more than was proven when the passkey was made, and using it never prolongs it.
//   - Where an authenticator counts its signatures, each count is taken once. A count that does not go up
//     shows that somebody has a copy, and blocks the passkey.
//   - Records carry a MAC and their date, bound to their name. So who can write to the store makes no passkey
//     and makes none worth more.
//
// Not promised: who can write to the store can delete records and put older ones back, like everywhere. And a
// passkey can be shared: whoever may unlock the user's device, or has the account that copies passkeys to
// other devices, can use it.
package passkey
