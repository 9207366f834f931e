// Package server puts an engine on the network: connections, limits, client
// addresses, draining, health, metrics and the access log. It decides nothing
// about verification. It hands an [engine.Engine] each request as a value and gets the
// whole answer back.
//
// Give [New] a Config with an Engine and a Public listener, and call
// [Server.Run] with a context that ends on SIGTERM. Everything else has a
// default.
//
// # What is promised
//
//   - A request that the server began to read is answered, also while it
//     drains, unless DrainTimeout runs out.
//   - Some answers come from the server and not from the engine: the service is
//     busy, the URL is too long, the body never came, the engine panicked. They
//     have the shape of contract 5 and an X-Request-Id. A person gets the page
//     from Config instead.
//   - Neither log nor metrics hold a query, a body, a header other than the
//     request and correlation ids, or a path that is no route. Of a route's path
//     they hold the words of its pattern, and ids that have the form of ours. A
//     correlation id is logged as it is if it has the form of a UUID or of a W3C
//     trace id. Any other is logged as "sha256:" and 16 hex digits of its SHA-256,
//     by which an operator finds it. Labels of metrics come from small fixed sets;
//     those of routes are the labels of the tables in Config.
//   - Behind trusted proxies, the client's address is the one that the nearest of
//     them report. What a client itself writes into the header changes nothing.
//
// # Load
//
// A client that is slow or silent uses a connection, but none of the
// MaxConcurrent places for requests, because the server reads head and body
// first. A body that is still coming takes at most 16 KiB of memory on most
// routes. Larger ones, such as pictures, share 64 MiB. If those are full, the body
// that has stood still for longest, and for a second at least, is answered 503 to
// make room. Over one HTTP/2 connection, each such body beyond the first counts as
// one more connection. If there is no place for a request, it is answered 503
// before anything of it is parsed.
//
// A request on a route that waits, whose answer is 304 and which says "Prefer: wait=N",
// is held for up to 20 s. Meanwhile it has no place. The server takes one whenever it
// asks the engine again, twice a second, and waits on if none is free. Its connection
// counts as one with a request in hand and so does not give way, because a request that
// the server began to read is answered. For that reason no more than 256 requests wait,
// and no more than a quarter of MaxConns; of one client 16, or a quarter of
// MaxConnsPerIP. One more is answered 304 at once. A server that drains answers all that
// wait at once.
//
// One address may have MaxConnsPerIP connections, and all addresses together
// MaxConns. When one more comes, the server closes a connection that has no
// request in hand: the one that has been idle for longest. At an address's own
// limit it is one of that address. Otherwise it is one of the address that has
// the most idle connections. Trusted proxies have no limit of their own, because
// they speak for many clients, and their connections are closed last. A proxy has
// to limit by itself how many connections a client has to it and how slow a
// client may be. A new connection is turned away only if all others, of its
// address or altogether, have a request in hand. It is answered 503 unread.
//
// Many clients at once can cause many refusals. Each kind of refusal has one line
// in the log in ten seconds, with the number of lines that were left out. Metrics
// count all of them.
//
// # What net/http answers by itself
//
// net/http refuses some requests before any handler sees them. Over HTTP/1, with
// TLS and without, the server replaces such an answer by one with an id, in the
// shape of contract 5. A person gets the page from Config instead, if the first 2 KiB
// of the head say that a person asks. The statuses are:
//
//   - 400: the request is no HTTP, an escape in its URL is invalid, Host is
//     missing, malformed or there twice, a header's name or value or
//     Content-Length is malformed, or it is http where TLS is spoken.
//   - 408: a head began and did not arrive. A connection on which nothing came is
//     closed without an answer.
//   - 414 and 431: the request line or the header is longer than MaxHeaderBytes.
//   - 417: an expectation other than 100-continue.
//   - 501: a transfer coding other than chunked.
//   - 505: a version of HTTP that is not spoken here.
//
// Some requests that net/http accepts get other treatment than its own. A request with a transfer coding, or
// of HTTP/1.0, is the last one on its connection. A body that is too large for its path gets 413 and no "100
// Continue". One empty line before a request is left out, unless it comes in one piece with the request
// before.
//
// None of these answers has the caller's X-Correlation-Id. In the log and in
// metrics they have the route "none".
//
// Over HTTP/2, net/http does not let the server replace its answers. It ends a connection
// that repeats a setting, and returns 400 for a header of HTTP/1 connections. It resets the
// stream of a malformed request (an invalid escape in the path, no :method,
// :scheme or :path). It answers a header over MaxHeaderBytes with a 431 in HTML
// without an id. The Ops listener, which is for operators, answers as net/http
// does.
//
// # Health
//
// GET /healthz is for the supervisor that restarts the process, GET /readyz for the balancer that sends
// it requests:
//
//	                                 /healthz         /readyz             /readyz?store=ignore
//	all is well                      200 "ok"         200 "ok"            200 "ok"
//	the KV is read and not written   200 "degraded"   200 "degraded"      200 "degraded"
//	the KV is not read               200 "degraded"   503 "unavailable"   200 "degraded"
//	a key of the fleet is missing    200              503 "unavailable"   503 "unavailable"
//	draining                         200              503 "draining"      503 "draining"
//	the KV cannot be recovered       the process ends with an exit code other than 0
//
// If several instances share a KV, all of them lose it at the same time. A balancer that asks /readyz then
// has no instance left, and people get its bare error instead of a page of Verge. So balancers ask
// /readyz?store=ignore. /readyz is for the start of an instance, and for those who want to know whether the
// service works.
//
// Liveness does not fail when the KV does. The server recovers from that without a
// restart, and a restart would take away the pages and answers that need no write.
// Readiness does not fail when the KV can be read and not written, because it is
// full for example. All instances are then in the same state, so taking them out of
// a balancer would mend nothing and would take away the same answers. An alarm
// should therefore look at the word, at the metric verge_store_failing or at the
// log, and not at the status. Both paths are on the public listener, for load
// balancers, and on the Ops listener, which also has /metrics. Only Ops says the
// cause.
package server
