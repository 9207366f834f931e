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

// A request on a route that waits may have "Prefer: wait=N" (RFC 7240). If its response is 304, which means
// that there is no news, the server delays it. It asks the engine again until the response differs, or
// until N seconds have passed since the request arrived.
const (
	// maxWait is the longest wait. Proxies commonly end a request that is silent for 30 s.
	maxWait = 20 * time.Second

	// pollInterval is the time between two calls of the engine. News may be half a second late, and each
	// call costs the store some reads.
	pollInterval = 500 * time.Millisecond

	// Maximum numbers of waiting requests. In total they ask the store 512 times a second.
	maxWaiting          = 256
	maxWaitingPerClient = 16
)

// waitLimiter counts the waiting requests.
type waitLimiter struct {
	max, maxPerClient int

	mu      sync.Mutex
	waiting int
	clients map[netip.Prefix]int
}

// acquire reports whether a request may wait, and counts it. A client without an address is limited only by
// the total.
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

// longPoll returns the final response to a request whose first response is resp. waited is the time during
// which the request used no place. Its connection stays active, so it is not evicted.
func (l *listener) longPoll(ctx context.Context, w http.ResponseWriter, req *web.Request,
	route *web.Route, resp *web.Response, begin time.Time) (_ *web.Response, waited time.Duration) {
	seconds := preferredWait(req.Header)
	left := time.Duration(seconds)*time.Second - time.Since(begin)
	if !route.Waits || resp.Status != http.StatusNotModified || left <= 0 || l.s.draining.Load() ||
		!l.waits.acquire(req.Client) {
		return resp, 0
	}
	defer l.waits.release(req.Client)
	// An error means that the connection has no deadlines, so there is no deadline to extend.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(left + l.http.WriteTimeout))

	again := *req
	again.Again = true
	rates := resp.Header
	for end := l.s.cfg.after(left); resp.Status == http.StatusNotModified; {
		pause, over := l.pause(ctx, end)
		if waited += pause; over {
			break
		}
		// If no place is free, it continues to wait.
		if next := l.callHandler(ctx, &again, l.handle); next != nil {
			resp = next
		}
	}
	if resp.Header == nil {
		resp.Header = web.Header{}
	}
	resp.Header.Set("Preference-Applied", "wait="+strconv.Itoa(seconds))
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy"} { // counted when it arrived
		if rates.Has(name) && !resp.Header.Has(name) {
			resp.Header.Set(name, rates.Get(name))
		}
	}
	return resp, waited
}

// pause waits until it is time to ask again. over is true if waiting has ended: the time is over, the
// client has disconnected, or the server drains.
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

// preferredWait returns the seconds of the first "wait" preference of a request, at most maxWait. It
// returns 0 if there is no such preference or its value is not a whole number.
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
			return most // too many digits for an int
		}
	}
	return 0
}

// cutOutsideQuotes is strings.Cut at the first such byte outside of quoted strings.
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
