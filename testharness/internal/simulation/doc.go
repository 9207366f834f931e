// Package simulation runs whole histories of Verge in one process, each determined by a seed. Several
// instances of the real core share a store. Users, publishers, operators, receivers and attackers use them
// while the store loses calls, clocks jump, and instances freeze and die. [Run] runs one history and returns
// the promises that it broke. The same seed always gives the same history, byte for byte.
//
// # Scheduler
//
// Each request, job and person is a coroutine, and exactly one of them runs at a time. At each call of a port
// (store, fetch, time, randomness, wake-up) the seed decides whether the coroutine continues, lets another one
// continue, or is delayed; scheduler.go has all of it. There is no goroutine besides the coroutines, and no
// clock but the scheduler's.
//
// # Decisions
//
// Each decision belongs to a coroutine and has a number there (choices.go). Zero is the quiet choice: no fault,
// no delay, the simplest action. Reduce makes as many decisions quiet as it can while the history still breaks
// the same promise. What remains is printed as a story.
//
// # Judge
//
// The judge knows only facts that people outside have: requests and responses, pages, webhooks, and their
// times (judge.go). It does not look into the store or into an instance.
package simulation
