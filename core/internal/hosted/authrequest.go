package hosted

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// A pending authorization request is the step of a browser that is at another site, or that waits for a
// pending response (contract 34). Its cookie holds the step and the flow token, so the KV has no record of
// it. The cookie's name has the handle, which the other site gets as "state" and sends back. So each request
// has its own cookie, and two tabs do not disturb each other.
//
// A cookie has at most about 4,096 bytes. A long flow token needs several.
const (
	handleLength = 22   // of method.NewHandle
	maxCookie    = 3800 // bytes of a value
	maxRequests  = 3    // of one browser

	// maxRequestBytes limits the sum of all requests of a browser. A header has 48 KiB, and the address of a
	// return may need MaxReturnURL. Elsewhere the address and the Referer may need 8 KiB each.
	maxRequestBytes = 14 << 10
	maxParts        = (maxRequestBytes + maxCookie - 1) / maxCookie // cookies of one request
)

// leftMark follows the handle in the name of a cookie that means that the browser has left before.
const leftMark = ".left"

// MaxReturnURL is the maximum number of bytes of a return's path and query: a code of 8 KiB (contract 36),
// each of whose bytes may be escaped as three, and 2 KiB for everything else.
const MaxReturnURL = 26 << 10

// Return handles GET on the path to which the site of a method sends the browser back (contract 35). It acts,
// although it is a GET, and only in the browser that left: a link scanner or another browser has no cookie.
// It returns a redirect to the flow, so a reload of the next page sends no request to the provider. If the
// address of the return itself is loaded again, the provider rejects the second use, and the page shows the
// current state.
func (h *Hosted) Return(ctx context.Context, c *router.Call) *web.Response {
	return h.respond(h.comeBack(ctx, c.Request, c.Text))
}

func (h *Hosted) comeBack(ctx context.Context, req *web.Request, name string) page {
	names := append([]string{"state"}, h.Methods[name].Of.Returns...)
	query, err := formdata.ReadOAuth(req.Query, names...)
	// The return of a wallet has a code and no state. Its method may be gone, or of another kind now.
	if err == nil && len(query.Get("state")) != handleLength {
		query, err = formdata.ReadOAuth(req.Query, append(names, codeParam)...)
	}
	if err == nil && query.Has(codeParam) {
		return h.returnWithCode(ctx, req, name, query)
	}
	if err != nil || len(query.Get("state")) != handleLength {
		return plain(400, pages.Damaged, req)
	}
	s, flow, err := h.requestIn(req, query.Get("state"))
	if errors.Is(err, host.ErrKeyAwaited) {
		return h.awaited(req, flow)
	}
	if err != nil || s.Method != name || s.Leave == "" {
		return otherBrowser(req)
	}
	v, rejected := h.open(ctx, req, flow)
	if rejected != nil {
		return *rejected
	}
	if s.Session != v.session.Text {
		return otherBrowser(req)
	}
	if err := v.load(); err != nil {
		return v.unavailable(err)
	}
	m, ok := v.offered(name)
	if v.record.Terminal() {
		v.countLate()
	}
	// A return that is too late, or whose method the integration no longer offers, sends no request.
	switch {
	case v.record.Terminal() || s.Attempt != v.record.Attempts:
		return v.seeOther(v.url())
	case !ok:
		return v.gone(name)
	}
	return v.returned(m, s, method.Step{Form: query, Back: true, State: s.State}, req.Path+"?"+query.Encode())
}

// otherBrowser returns the page for a return without its cookie. It links to its own address: a browser that
// omitted the cookie because another site or app opened the address sends it with the link.
func otherBrowser(req *web.Request) page {
	p := plain(403, pages.Elsewhere, req)
	p.view.Reload = true
	return p
}

// cookiePrefix is the prefix of our cookies' names. Browsers reject __Host- on http, which only dev has.
func (h *Hosted) cookiePrefix() string {
	if strings.HasPrefix(h.BaseURL, "https:") {
		return "__Host-verge-"
	}
	return "verge-"
}

// cookiesOf returns our cookies of a request, by the part of their names after the prefix.
func (h *Hosted) cookiesOf(req *web.Request) map[string]string {
	return req.Header.Cookies(h.cookiePrefix())
}

// requestsOf returns the cookies of the pending authorization requests of a browser, by handle.
func (h *Hosted) requestsOf(req *web.Request) map[string]string {
	parts := h.cookiesOf(req)
	values := map[string]string{}
	for name, value := range parts {
		if len(name) != handleLength {
			continue
		}
		for n := 1; n < maxParts; n++ {
			value += parts[name+"."+strconv.Itoa(n)]
		}
		values[name] = value
	}
	return values
}

// errNoRequest means that this browser has no such pending authorization request.
var errNoRequest = errors.New("hosted: no such authorization request in this browser")

// requestIn opens the pending authorization request of that handle, if the browser has its cookie. flow is
// its flow token, which is not checked yet. The error is errNoRequest or host.ErrKeyAwaited.
func (h *Hosted) requestIn(req *web.Request, handle string) (s token.StepClaims, flow string, err error) {
	text, flow, ok := strings.Cut(h.requestsOf(req)[handle], ".")
	if !ok {
		return s, "", errNoRequest
	}
	s, err = token.OpenStep(h.Sealer, text)
	if errors.Is(err, host.ErrKeyAwaited) {
		return s, flow, err
	}
	if err != nil || s.Handle != handle || !s.Waits() {
		return s, "", errNoRequest
	}
	return s, flow, nil
}

// keepRequest gives the browser the cookie of a pending authorization request, and sends it to the page of
// the request (away).
func (v *visit) keepRequest(s token.StepClaims) page {
	text, err := v.sealStep(s)
	if err != nil {
		return v.unavailable(err)
	}
	value := text + "." + v.flow
	if len(value) > maxRequestBytes {
		return v.unavailable(errors.New("hosted: the pending request of " + s.Method +
			" is too long for cookies"))
	}
	p := v.seeOther(v.url(requestParam, s.Handle))
	p.cookies = v.oldRequests(maxRequestBytes - len(value))
	for n := 0; value != ""; n++ {
		part := value[:min(len(value), maxCookie)]
		value = value[len(part):]
		p.cookies = append(p.cookies, v.cookie(partName(s.Handle, n), part, v.secondsLeft()+resultSeconds))
	}
	return p
}

// resultSeconds is how much longer than its session the cookie of a request lives: it also proves the browser
// that gets the result token.
const resultSeconds = int(token.ResultLife / time.Second)

// partName returns the name of the n-th cookie of a request.
func partName(handle string, n int) string {
	if n == 0 {
		return handle
	}
	return handle + "." + strconv.Itoa(n)
}

// secondsLeft returns the remaining life of the session.
func (v *visit) secondsLeft() int { return int(v.session.ID.Expires().Sub(v.now).Seconds()) }

// cookie returns a Set-Cookie line that lives for seconds; 0 deletes the cookie.
func (h *Hosted) cookie(name, value string, seconds int) string {
	line := h.cookiePrefix() + name + "=" + value + "; Path=/; Max-Age=" + strconv.Itoa(seconds) +
		"; HttpOnly; SameSite=Lax"
	if strings.HasPrefix(h.BaseURL, "https:") {
		line += "; Secure"
	}
	return line
}

// oldRequests returns the lines that delete all but the newest requests of the browser. The remaining ones
// have at most room bytes.
func (v *visit) oldRequests(room int) (lines []string) {
	all := v.requestsOf(v.req)
	issued := map[string]token.Time{} // without those that do not open
	for handle := range all {
		s, _, err := v.requestIn(v.req, handle)
		if err == nil {
			issued[handle] = s.Issued
		}
	}
	handles := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(issued[b], issued[a]), cmp.Compare(a, b))
	})
	for n, handle := range handles {
		room -= len(all[handle])
		if n < maxRequests-1 && issued[handle] != 0 && room >= 0 {
			continue
		}
		for part := range (len(all[handle]) + maxCookie - 1) / maxCookie {
			lines = append(lines, v.cookie(partName(handle, part), "", 0))
		}
		if v.hasLeft(handle) {
			lines = append(lines, v.cookie(handle+leftMark, "", 0))
		}
	}
	return lines
}

// hasLeft reports whether the browser has left for the site of that request before.
func (v *visit) hasLeft(handle string) bool { return v.cookiesOf(v.req)[handle+leftMark] != "" }
