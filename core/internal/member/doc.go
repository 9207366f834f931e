// Package member decides who gets into the console: the members of publishers with their passkeys,
// invitations, sign-in links, the tokens of operators, and console sessions (contract 43). It stores them
// and judges them. It speaks no HTTP, and it does not decide what a role may do: package operate does.
//
// A person comes in by one of these ways, and each of them opens a Session:
//
//   - Enrol: an invitation is used up, and the person's first passkey makes the member.
//   - SignIn: a member's passkey answers a challenge.
//   - UseLink: a sign-in link, which an operator's own dashboard asked for, is used up.
//   - SignInOperator: an operator shows an operator token.
//
// # Promised
//
//   - The store has only hashes of invitations, links, tokens and cookies. Who reads it can use none of them.
//   - An invitation and a link work once. What uses one up is the same commit that makes what it gives. Of
//     two who use it at once, one succeeds.
//   - A challenge that a passkey has answered is not taken a second time.
//   - A session ends at once, on every instance, when its member is removed or signed out everywhere, when
//     the passkey that opened it is removed, or when the operator token behind it is revoked or runs out. A
//     member's new role holds at once, too. For that, Session reads the store each time, without a cache.
//   - An invitation or a link ends with the right of the one who made it.
//   - The members of a publisher cannot remove its last admin. An operator can, and can invite a new one.
//   - Records carry a MAC and their date. So who can write to the store makes no member, session or token,
//     and who has a key ring that was replaced makes none that is dated after that.
//
// Not promised: who can write to the store can delete records and put older ones back, like everywhere.
package member
