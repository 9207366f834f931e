// Package faultproxy stands between a client and a TCP server and does what
// networks do. It is for Verge's own tests, not for publishers, and serves any
// protocol of request and reply:
//
//	p := faultproxy.New(t, server, faultproxy.Config{
//		Seed: faultproxy.Seed(t, 1),
//		Odds: faultproxy.Odds{faultproxy.DropReply: .05, faultproxy.Delay: .1},
//	})
//	client.Dial(p.Addr())
//	p.On()
//
// Until On it only forwards, and again from Off on; both may be called under
// load. It ends with the test.
//
// # What is decided, and when
//
// The proxy knows no protocol. An exchange begins with the first bytes that a
// client sends after the server last sent some, so requests sent together are
// one exchange. A decision is made for each connection as it is made, and for
// each exchange in it. It depends on the seed, the number of the connection
// and the number of the exchange in it and on nothing else: the same seed
// decides the same however the goroutines of client and server take turns.
//
// Where a test fails, the proxy logs its seed and what it last decided.
// VERGE_SEED=n in the environment makes Seed return n, which replays it.
package faultproxy
