package web

import "strings"

// Matches reports whether a request's If-None-Match names the entity tag, such as `"…"` or `W/"…"`. Two tags
// are equal if they differ at most in W/ (RFC 9110, 13.1.2). A malformed list is read up to the error.
func (h Header) Matches(tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, rest := range h["If-None-Match"] {
		if strings.Trim(rest, " \t") == "*" {
			return true
		}
		for {
			rest = strings.TrimPrefix(strings.TrimLeft(rest, " \t,"), "W/")
			opaque, quoted := strings.CutPrefix(rest, `"`)
			opaque, after, ended := strings.Cut(opaque, `"`)
			if !quoted || !ended {
				break
			}
			if tag == `"`+opaque+`"` {
				return true
			}
			if rest = strings.TrimLeft(after, " \t"); !strings.HasPrefix(rest, ",") {
				break
			}
		}
	}
	return false
}
