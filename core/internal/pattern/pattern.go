// Package pattern matches paths with the patterns of routes.
package pattern

import "strings"

// Match reports whether a path fits a pattern of a web.Route, and returns the text that stands for the
// placeholder.
func Match(pattern, path string) (text string, ok bool) {
	before, rest, has := strings.Cut(pattern, "{")
	if !has {
		return "", pattern == path
	}
	name, after, _ := strings.Cut(rest, "}")
	if strings.HasSuffix(name, "...") {
		if text, ok := strings.CutPrefix(path, before); ok {
			return text, true
		}
		return "", len(path) == len(before)-1 && strings.HasPrefix(before, path)
	}
	text, begins := strings.CutPrefix(path, before)
	text, ends := strings.CutSuffix(text, after)
	return text, begins && ends && !strings.Contains(text, "/") && (text != "" || after != "")
}
