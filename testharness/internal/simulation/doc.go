// Package simulation runs whole histories of Verge in one process, each determined by a seed. Several
// instances of the real core share a store. Users, publishers, operators, receivers and attackers use them
// while the store loses calls, clocks jump, and instances freeze and die. [Runner.Run] runs one history and
// returns the promises that it broke. The same seed always gives the same history, byte for byte.
//
//	make simulate SEEDS=100000    # progress, seeds per second, transitions by faults
//	make simulate SEED=4711       # one history, line by line
//
// # Scheduler
//
// Each request, job and person is a coroutine, and exactly one of them runs at a time. At each call of a
// port (store, fetch, time, randomness, wake-up) the seed decides whether the coroutine continues, another
// one continues, or it is delayed. The file scheduler.go has all of it. There is no goroutine besides the
// coroutines, and no clock but the scheduler's.
//
// # Decisions
//
// Each decision belongs to a coroutine and has a number there (choices.go). Zero is the quiet choice: no
// fault, no delay, the simplest action. [Runner.Reduce] makes as many decisions quiet as possible while the
// history still breaks the same promise. The rest is printed as a story.
//
// # Judge
//
// The judge has only facts that people outside have: requests and responses, pages, webhooks, and their times
// (judge.go). It does not look into the store or into an instance.
//
// A proof that is kept, such as a wallet's response or a passkey, must count by the settings and the trust
// during the request that uses it, not during an earlier one. So the judge compares each proof with all
// requests that can have completed the session. [world.between] has the operators' changes in the meantime.
//
// # Limits of the world
//
// The runner is not that of package edge and has no limit for each destination, so I9 is not judged. Without
// connections, I15 is not judged either. I12 is judged in histories with a rotation and without faults.
//
// In one of six histories wallets fetch signed requests, and encrypt their responses. Elsewhere requests are
// in the link. The Digital Credentials API and proofs of zero knowledge do not occur. Each wallet holds one
// document of each issuer. Status lists are not judged while clocks differ, and the revocation lists of
// signers are empty. Rate limits never reject.
//
// # Cost
//
// A history takes about 80 requests and 5 starts of instances, and the real core needs most of the time:
// requests 64 percent (with the codes for wallets, 8), starts of instances 7 percent, the store and the
// people the rest.
//
// The store keeps the promises of package kv, except in a failover, which loses writes of the last second.
// After one, the judge only checks the promises that an earlier state of the store leaves (SECURITY.md, a
// writer to the store). Clocks differ by at most host.ClockMargin. No call to the store begins after the 15 s
// that a request may take, as with the adapters, and a refresh of the key ring takes 14 s at most.
package simulation
