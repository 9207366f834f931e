// Package bench measures Verge and a floor in the same run: `make bench`.
//
// Each benchmark does its work b.N times for the floor and b.N times for Verge, in 16 turns, and reports both
// with their ratio. A machine that is slow for a moment therefore slows both. The floor of an endpoint is
// a bare net/http handler that reads the body and writes as many bytes. On Redis the floor also marks a name
// with SET NX, over as many connections as the service may have. The floor of webhook delivery is a forwarder
// that posts prepared events to the same receiver. The floor of a core in WebAssembly guests is the native
// core. A name may end in the goal of the ratio.
//
// Requests are a closed loop over loopback with 32 connections. Load, floor and service share one process and
// its processors, and the load generator writes prepared bytes, so that little but the servers is measured.
//
// Each ratio is the floor's cost divided by Verge's: 0.50 means that Verge takes twice as long. cpu-ratio
// compares processor time, including that of Redis, and does not depend on spare processors. Benchmarks of
// methods and of workerd count processor time: the OpenID provider and the estimator run in a separate
// process, which does not count. `make bench-peers` compares Verge with other programs instead of a floor.
package bench
