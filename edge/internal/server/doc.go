// Package server puts an engine on the network: connections, limits, client addresses, draining, health,
// metrics and the access log. It makes no decisions about verification: it passes each request to an
// [engine.Engine] as a value and receives the whole response.
//
// Give [New] a Config with an Engine and a Public listener, and call [Server.Run] with a context that ends
// on SIGTERM. All other settings have defaults.
//
// # Guarantees
//
//   - A request that the server began to read gets a response, even while the server drains, unless
//     DrainTimeout runs out.
//   - The server itself responds if the service is busy, the URL is too long, the body does not arrive or
//     the engine panics. These responses have the format of contract 5 and an X-Request-Id. Users get the
//     page from Config instead.
//   - Log and metrics contain no query, body, header other than the request and correlation ids, or path
//     without a route. They contain the words of a route's pattern, and ids in our own format.
//     A correlation id is logged unchanged if it has the form of a UUID or of a W3C trace id. Any other is
//     logged as "sha256:" and 16 hex digits of its SHA-256, which operators can search for. Metric labels
//     have small fixed sets of values; route labels come from the tables in Config.
//   - Behind trusted proxies, the client's address is the one reported by the nearest of them. A header
//     that the client wrote itself has no effect.
//
// # Load
//
// A slow or silent client uses a connection, but none of the MaxConcurrent places for requests, because the
// server reads head and body first. On most routes, a body that is still arriving uses at most 16 KiB of
// memory. Larger ones, such as pictures, share 64 MiB. If these are full, the body that has stalled for
// longest, and for at least a second, is rejected with 503 to make room. On an HTTP/2 connection, each such
// body beyond the first counts as another connection. If there is no place for a request, it gets 503
// before it is parsed.
//
// A long poll is a request with "Prefer: wait=N" on a route that waits, whose response would be 304. The
// server delays its response by up to 20 s. While it waits, it uses no place: the server takes one twice a
// second to ask the engine again, and skips that turn if all are taken. Its connection counts as active and
// is not evicted, because a request that the server began to read gets a response. For that reason at most
// 256 long polls wait, and at most a quarter of MaxConns; per client 16, or a quarter of MaxConnsPerIP.
// Further ones get 304 immediately. A draining server responds to all of them immediately.
//
// An address may have MaxConnsPerIP connections, and all addresses together MaxConns. If a new one exceeds
// a limit, the server closes the connection that has been idle for longest, which means without an active
// request. At the address's own limit, that is a connection of the address. Otherwise it is a connection of
// the address with the most idle connections. Trusted proxies have no limit per address, because they
// forward many clients, and their connections are closed last. A proxy must itself limit the connections of
// a client and how slow a client may be. A new connection is rejected only if all others, of its address or
// in total, are active. It gets 503 and is not read.
//
// Many clients can cause many rejections at the same time. Each kind of rejection is logged once in ten
// seconds, with the number of lines that were left out. Metrics count all of them.
//
// # Responses of net/http
//
// net/http rejects some requests before a handler sees them. Over HTTP/1, with TLS and without, the server
// replaces such a response with its own, which has an id and the format of contract 5. Users get the page
// from Config instead, if the first 2 KiB of the head show that a browser asks for a page. The statuses
// are:
//
//   - 400: the request is not HTTP, an escape in its URL is invalid, Host is missing, malformed or
//     repeated, a header's name or value or Content-Length is malformed, or it is http on a TLS listener.
//   - 408: a head began and did not arrive. A connection on which no bytes came is closed without a
//     response.
//   - 414 and 431: the request line or the header is longer than MaxHeaderBytes.
//   - 417: an expectation other than 100-continue.
//   - 501: a transfer coding other than chunked.
//   - 505: an unsupported version of HTTP.
//
// The server treats some requests that net/http accepts differently. A request with a transfer coding, or
// of HTTP/1.0, is the last one on its connection. A body that is too large for its path gets 413 and no
// "100 Continue". One empty line before a request is skipped, unless it comes in one piece with the
// previous request.
//
// None of these responses has the caller's X-Correlation-Id. In the log and in metrics they have the route
// "none".
//
// Over HTTP/2, the server cannot replace net/http's responses. net/http closes a connection that repeats a
// setting, and returns 400 for a header of HTTP/1 connections. It resets the stream of a malformed request
// (an invalid escape in the path, no :method, :scheme or :path). A header longer than MaxHeaderBytes gets a
// 431 in HTML without an id. The Ops listener, which is for operators, returns net/http's own responses.
//
// # Health
//
// GET /healthz is for the supervisor that restarts the process, GET /readyz for the balancer that sends it
// requests:
//
//	                                 /healthz         /readyz             /readyz?store=ignore
//	all is well                      200 "ok"         200 "ok"            200 "ok"
//	the KV is read and not written   200 "degraded"   200 "degraded"      200 "degraded"
//	the KV is not read               200 "degraded"   503 "unavailable"   200 "degraded"
//	a key of the fleet is missing    200              503 "unavailable"   503 "unavailable"
//	draining                         200              503 "draining"      503 "draining"
//	the KV cannot be recovered       the process ends with an exit code other than 0
//
// If several instances share a KV, all of them lose it at the same time. A balancer that checks /readyz
// then has no instance left, and users get its bare error instead of a page of Verge. So balancers should
// check /readyz?store=ignore. /readyz is for the start of an instance, and for checks of whether the
// service works.
//
// Liveness does not fail when the KV does. The server recovers without a restart, and a restart would
// interrupt the pages and responses that need no write. Readiness does not fail when the KV can be read but
// not written, for example because it is full. All instances are then in the same state, so removing them
// from a balancer would fix nothing and would interrupt the same responses. An alarm should therefore check
// the word, the metric verge_store_failing or the log, and not the status. Both paths are on the public
// listener, for load balancers, and on the Ops listener, which also has /metrics. Only Ops returns the
// cause.
package server
