// Package member authenticates people for the console: members of publishers with passkeys, invitations,
// sign-in links, operator tokens and console sessions (contract 43). It stores and checks them. It contains
// no HTTP, and package operate decides on the rights of a role.
//
// A person signs in by one of these methods of [Registry]. Each opens a [Session]:
//
//   - Enrol uses an invitation, and creates the member with their first passkey.
//   - SignIn verifies the response of a member's passkey to a challenge.
//   - UseLink uses a sign-in link, which an operator's own dashboard requested.
//   - SignInOperator verifies an operator token.
//
// # Guarantees
//
//   - The store contains only hashes of invitations, links, tokens and cookies. A reader of the store cannot
//     use them.
//   - An invitation and a link work once. The commit that uses it also creates its result. If two people use
//     it concurrently, one succeeds.
//   - A challenge can be used once.
//   - A session ends immediately, on every instance, when its member is removed or signed out everywhere,
//     when the passkey that opened it is removed, or when its operator token is revoked or expires. A
//     member's new role takes effect immediately, too. For this, Session reads the store each time,
//     without a cache.
//   - An invitation or a link ends when its creator loses the right to create it.
//   - The members of a publisher cannot remove its last admin. An operator can, and can invite a new one.
//   - Records carry a MAC and their date. An attacker who can write to the store cannot forge a member,
//     session or token, and with a replaced key ring cannot forge one dated after the replacement.
//
// Limit: as elsewhere, an attacker who can write to the store can delete records and restore older ones.
package member
