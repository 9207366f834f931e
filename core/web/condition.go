package web

import "strings"

// Matches reports whether a request's If-None-Match names the entity tag, which is `"…"` or `W/"…"`. Two
// tags are the same if they differ in W/ at most (RFC 9110, 13.1.2). A list that is malformed names what
// stands before the mistake.
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
