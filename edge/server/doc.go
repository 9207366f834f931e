// Package server puts an engine on the network: connections, limits, client
// addresses, draining, health, metrics and the access log. It decides nothing
// about verification; an [engine.Engine] is handed each request as a value and
// gives back the whole answer.
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
//     X-Request-Id, or are the page that Config has where a person asks.
//   - Neither log nor metrics hold a query, a body, a header other than the
//     request and correlation ids, or a path that nobody knows. Of a known path
//     they hold its own words and ids that have the form of ours; a correlation
//     id stands there as it is if it has the form of a UUID or of a W3C trace
//     id, else "sha256:" and 16 hex digits of its SHA-256, by which an operator
//     finds it. Labels of metrics come from small fixed sets.
//   - Behind trusted proxies the client's address is what the nearest of them
//     vouch for; what a client writes into the header changes nothing.
//
// # Load
//
// Whoever is slow or says nothing costs a connection, never a place among the
// MaxConcurrent requests in hand: head and body are read first. A body that is
// still coming takes at most 16 KiB; each one beyond the first that is coming
// over one HTTP/2 connection counts as a connection more. What there is no
// place for is answered 503 before anything of it is parsed.
//
// An address has MaxConnsPerIP connections, all together have MaxConns. Where
// one more comes, the one that has had no request in hand for longest is closed
// for it: at an address's limit one of its own, else one of the address that
// has the most such connections. Trusted proxies have no limit of their own,
// since many come through them, and give way last; how many connections a
// client has to a proxy, and how slow it may be, is the proxy's to limit. The
// only connection that is not let in is one beside which all others, of the
// address or altogether, have a request in hand; it is answered 503 unread.
//
// Refusals that a crowd can cause are one line of the log in ten seconds for
// each kind, with how many were left out. Metrics count them all.
//
// # What net/http answers by itself
//
// net/http refuses some requests before any handler sees them. Over HTTP/1, in
// the clear and inside of TLS, our words are put in the place of its own, with
// an id and in the shape of contract 5, always as JSON, since what the client
// accepts is not known: 400 (no HTTP, an escape that is none, Host missing,
// twice or malformed, a header's name or value, Content-Length; http where TLS
// is spoken), 414 and 431 (request line or header over MaxHeaderBytes), 417 (an
// expectation other than 100-continue), 501 (a transfer coding), 505 (a
// version) and 408 (a head that began and did not arrive; a connection on which
// nothing came is closed without a word). None has the caller's
// X-Correlation-Id, and in the log and the metrics they have the route "none".
//
// Over HTTP/2 net/http offers no way: a malformed request (a path with an escape
// that is none, no :method, :scheme or :path) is answered by resetting the
// stream, and a header over MaxHeaderBytes by a 431 in HTML without an id. The
// Ops listener, which is for operators, answers as net/http does.
//
// # Health
//
// GET /healthz is for whoever restarts the process, GET /readyz for whoever
// sends it requests:
//
//	                                 /healthz         /readyz
//	all is well                      200 "ok"         200 "ok"
//	the KV is read and not written   200 "degraded"   200 "degraded"
//	the KV is not read               200 "degraded"   503 "unavailable"
//	draining                         200              503 "draining"
//	the KV cannot be recovered       the process ends with an exit code other than 0
//
// A KV that fails is recovered from without a restart, and a restart would take
// away the pages and answers that need no write; so liveness does not fail. One
// that is read and not written, a full one for example, fails all instances
// alike: taking them out of a balancer would mend nothing and would take away
// the same. So alarms go by the word, by the metric verge_store_failing or by
// the log, not by the status. Both are on the public listener, for load
// balancers, and on the Ops listener, where /metrics is as well. Only Ops says
// the cause.
package server
