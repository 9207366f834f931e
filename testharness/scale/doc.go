// Package scale measures the capacity of Verge: `make scale`. It prints the tables of the page "Capacity" in
// cmd/verge/OPERATING.md.
//
// It runs `verge serve` in separate processes, on each store, with one or more instances. A load generator in
// the process of the test walks whole sessions: start, the hosted page of the sandbox, its form, the page
// after it, and validate. The requests of one session go to different instances, as behind a balancer.
//
// Costs are processor times of the service and of the store's server, from /proc, divided by the number of
// sessions. They exclude the load generator and other programs, but a busy machine makes each of them
// somewhat slower. The cost of an event is the difference between sessions with and without webhooks. Sizes
// are differences over all sessions of a part.
//
// Without flags, the test is a smoke test with 20 sessions.
package scale
