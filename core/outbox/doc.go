// Package outbox turns events into deliveries. An event is scheduled as a task in the same commit as
// the transition that caused it, so that neither exists without the other. Deliver makes one attempt of
// a leased task and records the result.
//
// Promised: if a transition was acknowledged, its event ends either delivered or visible among the dead
// events for 30 days. Without faults there is one POST for each event. After a crash there can be a
// second POST for every lease that was in use, with the same id and bytes. Errors of the store never
// use up an attempt.
package outbox
