// Package passkey stores the passkeys of users. A verified user creates one, and uses it next time instead of
// a new check (contract 38).
//
// Use [Store.Keep] for a new passkey, [Store.Use] for a passkey's response, and [Accept] to check whether its
// proof is enough for a session. Accept is pure.
//
// # Stored data
//
// Each passkey has one record: its public key and counter, the proof at its creation, the publisher, the
// time, and the end of its life. It contains no name, no address and no data of a session, and does not
// reveal the sessions in which the passkey was used. The record's name is a hash of the credential's id,
// which only the device has.
//
// # Guarantees
//
//   - A record never proves more than was proven when the passkey was created, and its use never prolongs it.
//   - If an authenticator counts its signatures, each count is accepted once. A count that does not increase
//     reveals a copy, and blocks the passkey.
//   - Records carry a MAC and their date, bound to their name. An attacker who can write to the store can
//     neither create a passkey nor improve one.
//
// Limits: as elsewhere, an attacker who can write to the store can delete records and restore older ones. A
// passkey can be shared: anyone who can unlock the user's device, or has the account that copies passkeys to
// other devices, can use it.
package passkey
