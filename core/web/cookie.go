package web

import "strings"

// Cookies returns the values of the cookies whose names begin with prefix, by the rest of the name.
//
// Only a name that is exactly ours may count: browsers keep the prefix __Host- for the host itself, and every
// other name can be set by any host of the same domain. So a pair loses the space and tab around it (RFC
// 6265, 4.2.1) and nothing else: not Unicode's other white space, which browsers treat as a part of a name.
// A name that occurs more than once has no value, even if the values are equal: the order does not show
// which cookie is ours.
func (h Header) Cookies(prefix string) map[string]string {
	values, seen := map[string]string{}, map[string]bool{}
	for _, line := range h["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			name, value, isPair := strings.Cut(strings.Trim(pair, " \t"), "=")
			rest, ours := strings.CutPrefix(name, prefix)
			switch {
			case !isPair || !ours:
			case seen[rest]:
				delete(values, rest)
			default:
				values[rest], seen[rest] = value, true
			}
		}
	}
	return values
}

// Cookie returns the value of the cookie of that name, as Cookies does.
func (h Header) Cookie(name string) string { return h.Cookies(name)[""] }
