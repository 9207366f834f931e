package pages

import (
	"slices"
	"strings"

	"github.com/verge-id/verge/core/web"
)

// maxAcceptLanguage is as much of the header as is read. Browsers send some
// 50 bytes; whoever sends more is not choosing a language.
const maxAcceptLanguage = 1024

// Match returns the one of Languages that an Accept-Language value (RFC 9110,
// 12.5.4) prefers: the highest weight, then the earlier in the header. A
// regional tag stands for its language (de-AT: de). "*" stands for English, or
// the first language that the header does not refuse. Elements that do not
// parse are passed over. If nothing fits, English it is: a page in some
// language is of more use than none.
func Match(acceptLanguage string) string {
	if len(acceptLanguage) > maxAcceptLanguage {
		acceptLanguage = acceptLanguage[:maxAcceptLanguage]
		// The last element may be cut in two and mean something else.
		acceptLanguage = acceptLanguage[:max(strings.LastIndexByte(acceptLanguage, ','), 0)]
	}
	best, bestWeight := fallback, 0
	wildcard := 0
	var named []string
	for element := range strings.SplitSeq(acceptLanguage, ",") {
		lang, weight, ok := parseElement(element)
		switch {
		case !ok:
		case lang == "*":
			wildcard = max(wildcard, weight)
		case slices.Contains(Languages, lang):
			named = append(named, lang)
			if weight > bestWeight {
				best, bestWeight = lang, weight
			}
		}
	}
	if wildcard > bestWeight {
		for _, lang := range Languages {
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
	lang, _, _ = strings.Cut(tag, "-")
	lang = strings.ToLower(lang)
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
