package server

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/web"
)

// A request on a route that waits may say "Prefer: wait=N" (RFC 7240). If its answer is 304, which means that
// there is no news, the server holds the request. It asks the engine again until there is another answer, or
// until N seconds have passed since the request came.
const (
	// maxWait is the longest wait. Proxies commonly end a request that is silent for 30 s.
	maxWait = 20 * time.Second

	// pollInterval is how long the server waits before it asks again. Nobody minds news that are half a
	// second late, and each asking costs the store some reads.
	pollInterval = 500 * time.Millisecond

	// How many requests may wait at once. So many of them ask the store 512 times a second.
	maxWaiting          = 256
	maxWaitingPerClient = 16
)

// waitLimiter counts the requests that wait.
type waitLimiter struct {
	max, maxPerClient int

	mu      sync.Mutex
	waiting int
	clients map[netip.Prefix]int
}

// acquire lets a request wait, or returns false if too many do. A client without an address is limited with
// all others only.
func (w *waitLimiter) acquire(client netip.Addr) bool {
	network := networkOf(client)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting >= w.max || network.IsValid() && w.clients[network] >= w.maxPerClient {
		return false
	}
	w.waiting++
	w.clients[network]++
	return true
}

func (w *waitLimiter) release(client netip.Addr) {
	network := networkOf(client)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	if w.clients[network]--; w.clients[network] == 0 {
		delete(w.clients, network)
	}
}

// longPoll returns the answer to a request, of which resp is the first one. waited is for how long the
// request has had no place meanwhile. The connection has the request in hand all the time, so it does not
// give way.
func (l *listener) longPoll(ctx context.Context, w http.ResponseWriter, req *web.Request,
	route *web.Route, resp *web.Response, begin time.Time) (_ *web.Response, waited time.Duration) {
	seconds := preferredWait(req.Header)
	left := time.Duration(seconds)*time.Second - time.Since(begin)
	if !route.Waits || resp.Status != http.StatusNotModified || left <= 0 || l.s.draining.Load() ||
		!l.waits.acquire(req.Client) {
		return resp, 0
	}
	defer l.waits.release(req.Client)
	// An error means that the connection has no deadlines, so there is none to extend.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(left + l.http.WriteTimeout))

	again := *req
	again.Again = true
	rates := resp.Header
	for end := l.s.cfg.after(left); resp.Status == http.StatusNotModified; {
		pause, over := l.pause(ctx, end)
		if waited += pause; over {
			break
		}
		// If no place is free, it waits on.
		if next := l.callHandler(ctx, &again, l.handle); next != nil {
			resp = next
		}
	}
	if resp.Header == nil {
		resp.Header = web.Header{}
	}
	resp.Header.Set("Preference-Applied", "wait="+strconv.Itoa(seconds))
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} { // it was counted when it came
		if rates.Has(name) && !resp.Header.Has(name) {
			resp.Header.Set(name, rates.Get(name))
		}
	}
	return resp, waited
}

// pause waits until it is time to ask again. over is true if there is nothing more to wait for: the time is
// over, the client has gone, or the server drains.
func (l *listener) pause(ctx context.Context, end <-chan time.Time) (paused time.Duration, over bool) {
	m, begin := l.s.metrics, time.Now()
	m.inFlight.Dec()
	m.waiting.Inc()
	defer m.inFlight.Inc()
	defer m.waiting.Dec()
	select {
	case <-l.s.cfg.after(pollInterval):
	case <-end:
		over = true
	case <-l.s.stopping:
		over = true
	case <-ctx.Done():
		over = true
	}
	return time.Since(begin), over
}

// preferredWait returns how many seconds a request prefers to wait: those of the first "wait" in its Prefer,
// at most maxWait. It is 0 if there is none or if that is no whole number.
func preferredWait(h web.Header) int {
	for _, rest := range h["Prefer"] {
		for more := true; more; {
			var preference string
			preference, rest, more = cutOutsideQuotes(rest, ',')
			preference, _, _ = cutOutsideQuotes(preference, ';')
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.Trim(name, " \t"), "wait") {
				continue
			}
			value = strings.Trim(value, " \t")
			if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
				value = value[1 : n-1]
			}
			const most = int(maxWait / time.Second)
			if value == "" || strings.Trim(value, "0123456789") != "" {
				return 0
			}
			if n, err := strconv.Atoi(value); err == nil {
				return min(n, most)
			}
			return most // it has too many digits for an int
		}
	}
	return 0
}

// cutOutsideQuotes is strings.Cut at a byte that stands in no quoted string.
func cutOutsideQuotes(s string, at byte) (before, after string, found bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		case s[i] == at && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
