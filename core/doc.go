// Package core is the verification service as a function of request, time,
// randomness and KV. It opens no socket, starts no goroutine, reads no file
// and no clock of its own; what it needs of the world it asks of a host.Host.
// It compiles for GOOS=wasip1 as it is.
//
// Use New, and Handle for every request. Due tasks (webhooks, expiry timers)
// are run by whoever hosts the service: by Claim, Run and Defer with as much
// concurrency as the host has, or by RunDue one after the other.
//
// # Promised
//
//   - A result token validates at most once, whoever tries and however often.
//   - What is not known for certain denies: an error, a timeout or a lost
//     reply of the store grants nothing.
//   - An event whose transition was acknowledged ends delivered, or visible
//     among the dead ones.
//   - A session has one terminal state, and one terminal event where events
//     are sent. Whatever comes later changes nothing.
//   - No image, document or birth date is kept. State and external user id
//     are in the flow token and in events not yet delivered, and nowhere else.
//
// # Threats
//
// A browser can read, alter, replay and share whatever it is sent: it is sent
// only sealed tokens, and none of them decides what the KV decides. A
// publisher can send anything: every input has a size limit before it is
// parsed, and other publishers' things look as if they did not exist. A
// webhook receiver can hang, lie and redirect: see the Fetcher that the host
// brings. A reader of the store finds no key, no webhook secret and no token
// that opens anything.
//
// # Not guaranteed
//
// Whoever holds the key ring can make every token. Whoever can write to the
// store can undo what it keeps. Two instances whose clocks differ by more than
// five minutes disagree about what has expired. The person in front of the
// browser that returns is the one who was verified only as far as the method
// sees to it.
package core
