// Package server puts an engine on the network: connections, limits, client
// addresses, draining, health, metrics and the access log. It decides nothing
// about verification; an [Engine] is handed each request as a value and gives
// back the whole answer.
//
// Give [New] a Config with an Engine and a Public listener, and call
// [Server.Run] with a context that ends on SIGTERM. Everything else has a
// default.
//
// # What is promised
//
//   - A request that the server began to read is answered, also while it
//     drains, unless DrainTimeout runs out.
//   - Answers that the engine had no part in (too busy, URL too long, body
//     that never came, a panic) have the shape of contract 5 and carry an
//     X-Request-Id.
//   - Neither log nor metrics hold a query, a body, a header other than the
//     request and correlation ids, or a path segment that could be a
//     credential. Labels of metrics come from small fixed sets.
//   - Behind trusted proxies the client's address is what the nearest of them
//     vouch for; what a client writes into the header changes nothing.
//
// # Health
//
// GET /healthz says that the process serves; GET /readyz that the KV can be
// read and that the server is not draining. A KV that is read and not written,
// a full one for example, fails all instances alike: taking them out of a
// balancer would mend nothing, so it shows in answers (503) and in the log.
// Both are on the public listener, for load balancers, and on the Ops listener,
// where /metrics is as well. Only Ops says why it is not ready.
package server
