package hosted

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/hosted/pages"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/token"
	"github.com/verge-id/verge/core/web"
)

// An errand is a step of a browser that is at another site (contract 34). Its cookie holds the step and the
// flow token, so nothing is kept in the KV meanwhile. The cookie's name has the handle, which the other site
// gets as "state" and sends back. So each errand has a cookie of its own, and two tabs do not disturb each
// other.
//
// A cookie has at most about 4,096 bytes. A long flow token needs several.
const (
	handleLength = 22   // of method.NewHandle
	maxCookie    = 3800 // bytes of a value
	maxErrands   = 3    // of one browser

	// maxErrandBytes limits the sum of all errands of a browser. A header has 48 KiB, and the address of a
	// return may need MaxReturnURL. Elsewhere the address and the Referer may need 8 KiB each.
	maxErrandBytes = 14 << 10
	maxParts       = (maxErrandBytes + maxCookie - 1) / maxCookie // cookies of one errand
)

// cookiePrefix begins the names of our cookies. Browsers refuse __Host- on http, which only dev has.
func (h *Hosted) cookiePrefix() string {
	if strings.HasPrefix(h.BaseURL, "https:") {
		return "__Host-verge-"
	}
	return "verge-"
}

// leftMark is behind the handle in the name of a cookie which says that the browser has left on that errand.
const leftMark = ".left"

// cookiesOf returns our cookies of a request, by the part of their names behind the prefix.
func (h *Hosted) cookiesOf(req *web.Request) map[string]string {
	return req.Header.Cookies(h.cookiePrefix())
}

// errandsOf returns the values of the errand cookies of a request, by handle.
func (h *Hosted) errandsOf(req *web.Request) map[string]string {
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

func (v *visit) errands() map[string]string { return v.errandsOf(v.req) }

// errNoErrand says that this browser has no such errand.
var errNoErrand = errors.New("hosted: no such errand in this browser")

// errandIn opens the errand of that handle, if the request has its cookie. flow is its flow token, which is
// not checked yet. The error is errNoErrand or host.ErrKeyAwaited.
func (h *Hosted) errandIn(req *web.Request, handle string) (s token.StepClaims, flow string, err error) {
	text, flow, ok := strings.Cut(h.errandsOf(req)[handle], ".")
	if !ok {
		return s, "", errNoErrand
	}
	s, err = token.OpenStep(h.Sealer, text)
	if errors.Is(err, host.ErrKeyAwaited) {
		return s, flow, err
	}
	if err != nil || s.Handle != handle || !s.Waits() {
		return s, "", errNoErrand
	}
	return s, flow, nil
}

// openErrand is errandIn for the visit's own request.
func (v *visit) openErrand(handle string) (token.StepClaims, string, error) {
	return v.errandIn(v.req, handle)
}

// leave sends the browser to another site, by the hop page.
func (v *visit) leave(s token.StepClaims, to method.Leave) *web.Response {
	if len(to.Handle) != handleLength || !weburl.IsLeave(to.URL, v.Dev) {
		return v.unavailable(errors.New("hosted: " + s.Method + " sends the browser to a bad address"))
	}
	s.Handle, s.Leave = to.Handle, to.URL
	return v.sendErrand(s)
}

// sendErrand gives the browser the cookie of an errand, and sends it to the errand's page (leaving).
func (v *visit) sendErrand(s token.StepClaims) *web.Response {
	text, err := v.sealStep(s)
	if err != nil {
		return v.unavailable(err)
	}
	value := text + "." + v.flow
	if len(value) > maxErrandBytes {
		return v.unavailable(errors.New("hosted: the errand of " + s.Method + " is too long for cookies"))
	}
	resp := v.seeOther(v.url(errandParam, s.Handle))
	cookies := v.oldErrands(maxErrandBytes - len(value))
	for n := 0; value != ""; n++ {
		name := s.Handle
		if n > 0 {
			name += "." + strconv.Itoa(n)
		}
		part := value[:min(len(value), maxCookie)]
		value = value[len(part):]
		cookies = append(cookies, v.cookie(name, part, v.secondsLeft()))
	}
	resp.Header["Set-Cookie"] = cookies
	return resp
}

// secondsLeft is how long the session still lives.
func (v *visit) secondsLeft() int { return int(v.session.ID.Expires().Sub(v.now).Seconds()) }

// cookie returns a Set-Cookie line that lives for seconds; 0 deletes the cookie.
func (v *visit) cookie(name, value string, seconds int) string {
	line := v.cookiePrefix() + name + "=" + value + "; Path=/; Max-Age=" + strconv.Itoa(seconds) +
		"; HttpOnly; SameSite=Lax"
	if strings.HasPrefix(v.BaseURL, "https:") {
		line += "; Secure"
	}
	return line
}

// oldErrands returns the lines that delete all but the newest errands of the browser. What stays has at most
// room bytes.
func (v *visit) oldErrands(room int) (lines []string) {
	all := v.errands()
	issued := map[string]token.Time{} // without those that do not open
	for handle := range all {
		s, _, err := v.openErrand(handle)
		if err == nil {
			issued[handle] = s.Issued
		}
	}
	handles := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(issued[b], issued[a]), cmp.Compare(a, b))
	})
	for n, handle := range handles {
		room -= len(all[handle])
		if n < maxErrands-1 && issued[handle] != 0 && room >= 0 {
			continue
		}
		for part := range (len(all[handle]) + maxCookie - 1) / maxCookie {
			name := handle
			if part > 0 {
				name += "." + strconv.Itoa(part)
			}
			lines = append(lines, v.cookie(name, "", 0))
		}
		if v.hasLeft(handle) {
			lines = append(lines, v.cookie(handle+leftMark, "", 0))
		}
	}
	return lines
}

// hasLeft reports whether the browser has left on that errand before.
func (v *visit) hasLeft(handle string) bool { return v.cookiesOf(v.req)[handle+leftMark] != "" }

// leaving returns the page of an errand: the one by which the browser leaves for a method's site, or the one
// on which it waits for the answer to a box or for a phone.
//
// The page that leaves is shown once. A user who comes back to it with the Back button, or loads it again,
// gets the method's page, whose button begins anew. Otherwise the page would send them away again at once,
// and to an address that may be good for one use, as that of a pushed request is (RFC 9126, 2.2).
//
// code says that a page that waits shows its code on a phone, too.
func (v *visit) leaving(r session.Record, handle string, code bool) *web.Response {
	s, _, err := v.openErrand(handle)
	switch {
	case errors.Is(err, host.ErrKeyAwaited):
		return v.unavailable(err)
	case err != nil || s.Session != v.session.Text:
		return v.page(403, pages.View{Kind: pages.Elsewhere, RetryURL: v.url()})
	case s.Attempt != r.Attempts && (s.HandOff == "" || v.brought == ""):
		return v.seeOther(v.url())
	}
	m, ok := v.offered(s.Method)
	switch {
	case !ok && s.Response != "" && s.Attempt == r.Attempts:
		return v.notOffered(s, r, func(m method.Opened) *web.Response { return v.waiting(m, s, r, code) })
	case !ok:
		return v.seeOther(v.url())
	case s.Attempt != r.Attempts: // as the phone has just brought
		return v.seeOther(v.failedURL(m, v.brought))
	case s.Leave == "":
		return v.waiting(m, s, r, code)
	}
	if v.hasLeft(handle) {
		return v.seeOther(v.methodURL(m))
	}
	page := v.hop(pages.View{Kind: pages.Leaving, Words: m.Kind, Title: m.TitleIn(v.lang),
		RetryURL: v.url()}, s.Leave)
	if v.acts() {
		page.Header["Set-Cookie"] = []string{v.cookie(handle+leftMark, "1", v.secondsLeft())}
	}
	return page
}
