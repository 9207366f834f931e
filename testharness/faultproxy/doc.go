// Package faultproxy is a proxy between a client and a TCP server that injects network faults. It is for
// Verge's own tests, not for publishers, and works with any request-reply protocol:
//
//	p := faultproxy.New(t, server, faultproxy.Config{
//		Seed: faultproxy.Seed(t, 1),
//		Odds: faultproxy.Odds{faultproxy.DropReply: .05, faultproxy.Delay: .1},
//	})
//	client.Dial(p.Addr())
//	p.On()
//
// Before On and after Off it only forwards; both may be called under load. It ends with the test.
//
// # Decisions
//
// The proxy parses no protocol. An exchange starts with the first bytes that a client sends after the
// server's last bytes, so requests sent together are one exchange. A decision is made for each new
// connection, and for each exchange in it. It depends only on the seed, the number of the connection and the
// number of the exchange in it: the same seed leads to the same decisions, regardless of the order of
// goroutines.
//
// If a test fails, the proxy logs its seed and its last decisions. VERGE_SEED=n in the environment makes Seed
// return n, which repeats them.
package faultproxy
