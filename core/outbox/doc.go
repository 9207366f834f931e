// Package outbox turns events into deliveries. An event is scheduled as a
// task in the same commit as the transition that caused it, so that neither
// exists without the other; Deliver makes one attempt of a leased task and
// records what came of it.
//
// Promised: an event whose transition was acknowledged ends delivered, or
// visible among the dead ones for 30 days. Without faults there is one POST
// for each event. After a crash there can be a second one for every lease
// that was in flight, with the same id and bytes. The store's own errors
// never use up an attempt.
package outbox
