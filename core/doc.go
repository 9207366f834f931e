// Package core is the verification service as a function of request, time, randomness and KV. It opens no
// socket, starts no goroutine, reads no file and has no clock: its host.Host supplies time, randomness, the
// KV and outbound requests. It compiles for GOOS=wasip1 without changes.
//
// Make a service with [New], and call [Service.Handle] for every request. The host also runs due tasks, which
// are webhooks and timers of expiry: [Service.Claim], [Service.Run] and [Service.Defer] with as much
// concurrency as the host has, or [Service.RunDue] one at a time.
//
// [New] and [Config.Validate] return every error of a configuration. A request that fails gets a response
// with its code; causes are only logged. The other methods return an error if the store does not respond, and
// the host repeats the call.
//
// CONTRACT.md in this folder has the rules for publishers, operators and hosts. RATIONALE.md has the reasons
// for the design. SECURITY.md has the threats and their proofs.
//
// # Guarantees
//
//   - A result token validates at most once, for any caller and any number of calls. A call that repeats it
//     with the same Idempotency-Key gets the same response.
//   - An unknown outcome denies: after an error, a timeout or a lost reply of the store, no request is
//     granted.
//   - An event whose transition was acknowledged ends delivered, or visible as a dead letter.
//   - A session has one terminal state, and one terminal event if events are sent. Later requests do not
//     change it.
//   - No image, document or birth date is stored. State and external user id are in the flow token and in
//     events that are not yet delivered, and in no other place.
package core
