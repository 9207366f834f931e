package server

import (
	"time"

	"github.com/verge-id/verge/core/problem"
)

// maxDrain limits a stop, so that a mistyped unit does not keep a process for days.
const maxDrain = time.Hour

// Validate returns all errors in the settings that an operator chooses. Another missing required setting is
// a programming error: New panics.
func (c Config) Validate() problem.List {
	var wrong problem.List
	for _, p := range c.TrustedProxies {
		if p.Bits() == 0 {
			wrong.Add("TrustedProxies", "%s is everybody, so every client could choose its own address "+
				"and escape the rate limits; name the proxies", p)
		}
	}
	switch c.ProxyHeader {
	case "", headerXForwardedFor, headerForwarded:
	default:
		wrong.Add("ProxyHeader", "%q is neither %s nor %s", c.ProxyHeader, headerXForwardedFor,
			headerForwarded)
	}
	switch c.LogClient {
	case "", ClientWhole, ClientCut, ClientOff:
	default:
		wrong.Add("LogClient", "%q is not %s, %s or %s", c.LogClient, ClientWhole, ClientCut, ClientOff)
	}
	for _, m := range []struct {
		member string
		number int
	}{{"MaxConns", c.MaxConns}, {"MaxConnsPerIP", c.MaxConnsPerIP}, {"MaxConcurrent", c.MaxConcurrent}} {
		if m.number < 0 {
			wrong.Add(m.member, "%d is negative; it must be at least 1", m.number)
		}
	}
	if files := OpenFiles(); files > 0 && uint64(max(c.MaxConns, 0)) > files/4*3 {
		wrong.Add("MaxConns", "%d is more than three quarters of the %d files that this process may open, "+
			"and the store and webhooks need some too; raise that limit (LimitNOFILE= of "+
			"systemd, ulimit -n) or lower this one", c.MaxConns, files)
	}
	for _, m := range []struct {
		member string
		time   time.Duration
	}{{"DrainDelay", c.DrainDelay}, {"DrainTimeout", c.DrainTimeout}} {
		if m.time < 0 {
			wrong.Add(m.member, "%s is negative; it must be at least 0s", m.time)
		}
		if m.time > maxDrain {
			wrong.Add(m.member, "%s is too long; it must be at most %s", m.time, maxDrain)
		}
	}
	return wrong
}
