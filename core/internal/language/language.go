// Package language has the languages that the service speaks, and chooses one
// for a reader. It has no words: the texts are with the pages.
package language

import (
	"slices"
	"strings"

	"github.com/verge-id/verge/core/web"
)

// All are the languages, in the order in which they are offered (contract 10).
var All = []string{"en", "de", "es", "fr", "pt", "it"}

// Default is the language for users who accept none of All (contract 10).
const Default = "en"

// Known reports whether the service speaks the language.
func Known(lang string) bool { return slices.Contains(All, lang) }

// maxAcceptLanguage is how many bytes of the header are read. Browsers send about 50.
const maxAcceptLanguage = 1024

// Match returns the language that an Accept-Language value (RFC 9110, 12.5.4) prefers. The highest weight
// wins, then the earlier element. A regional tag counts as its language (de-AT: de), and so does a locale
// (pt_BR: pt). "*" is the first language that the header does not name. Invalid elements are ignored.
// If no language matches, the result is Default: a page in some language is better than none.
func Match(acceptLanguage string) string {
	if len(acceptLanguage) > maxAcceptLanguage {
		acceptLanguage = acceptLanguage[:maxAcceptLanguage]
		// The last element may be cut in two and mean something else.
		acceptLanguage = acceptLanguage[:max(strings.LastIndexByte(acceptLanguage, ','), 0)]
	}
	best, bestWeight := Default, 0
	wildcard := 0
	var named []string
	for element := range strings.SplitSeq(acceptLanguage, ",") {
		lang, weight, ok := parseElement(element)
		switch {
		case !ok:
		case lang == "*":
			wildcard = max(wildcard, weight)
		case Known(lang):
			named = append(named, lang)
			if weight > bestWeight {
				best, bestWeight = lang, weight
			}
		}
	}
	if wildcard > bestWeight {
		for _, lang := range All {
			if !slices.Contains(named, lang) {
				return lang
			}
		}
	}
	return best
}

// parseElement reads "de-AT;q=0.8" as de, 800.
func parseElement(element string) (lang string, weight int, ok bool) {
	tag, param, weighted := strings.Cut(element, ";")
	tag = strings.Trim(tag, " \t")
	if end := strings.IndexAny(tag, "-_"); end >= 0 { // some clients send the name of a locale: pt_BR
		tag = tag[:end]
	}
	lang = strings.ToLower(tag)
	if !weighted {
		return lang, 1000, lang != ""
	}
	name, value, _ := strings.Cut(strings.Trim(param, " \t"), "=")
	if !strings.EqualFold(name, "q") {
		return "", 0, false
	}
	weight, ok = web.ParseWeight(value)
	return lang, weight, ok && lang != ""
}
