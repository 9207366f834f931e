package web

import "strings"

// maxAccept is how many bytes of an Accept header are read. Browsers send about 150.
const maxAccept = 1024

// AsksForPage reports whether the response is shown to a person rather than read by a program: the request is
// not for the API or for a pending response, which programs use, and its Accept header prefers text/html to
// JSON. Browsers send such a header when a user opens an address. Their fetch and other clients do so only on
// request.
func AsksForPage(req *Request) bool {
	if req == nil || strings.HasPrefix(req.Path, "/api/") || strings.HasPrefix(req.Path, PendingPath) {
		return false
	}
	accept := strings.Join(req.Header["Accept"], ",")
	if len(accept) > maxAccept {
		// The last element may be cut in two and mean something else.
		accept = accept[:maxAccept]
		accept = accept[:max(strings.LastIndexByte(accept, ','), 0)]
	}
	page, json, jsonBy := 0, 0, 0
	for element := range strings.SplitSeq(accept, ",") {
		media, weight, ok := parseMedia(element)
		if !ok {
			continue
		}
		if media == "text/html" {
			page = max(page, weight)
		}
		// The most specific range that JSON is in decides (RFC 9110, 12.5.1).
		if by := jsonRange(media); by > jsonBy {
			json, jsonBy = weight, by
		}
	}
	return page > json
}

// jsonRange returns how specific a media range is that JSON is in. It returns 0 for other ranges.
func jsonRange(media string) int {
	switch media {
	case "*/*":
		return 1
	case "application/*":
		return 2
	case "application/json":
		return 3
	}
	return 0
}

// parseMedia reads "text/html;level=1;q=0.8" as text/html, 800.
func parseMedia(element string) (media string, weight int, ok bool) {
	media, params, _ := strings.Cut(element, ";")
	weight = 1000
	for param := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.Trim(param, " \t"), "=")
		if !strings.EqualFold(name, "q") {
			continue
		}
		if weight, ok = ParseWeight(value); !ok {
			return "", 0, false
		}
	}
	return MediaType(media), weight, true
}

// ParseWeight reads a qvalue (RFC 9110, 12.4.2), which has at most three decimals.
// It returns thousandths.
func ParseWeight(s string) (int, bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	if whole != "0" && whole != "1" || len(decimals) > 3 {
		return 0, false
	}
	n := int(whole[0] - '0')
	for i := range 3 {
		d := byte('0')
		if i < len(decimals) {
			d = decimals[i]
		}
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}
	return n, n <= 1000
}
