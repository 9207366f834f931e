// Package reply has the form of an answer in JSON: its headers, the error with its codes and statuses, and
// the ids that it repeats (contract 1, 4 and 5). Use JSON for what went well, and an Error for what did not.
package reply

import (
	"github.com/verge-id/verge/core/instant"
	"github.com/verge-id/verge/core/web"
)

// JSON returns v as the answer, with the headers of every answer in JSON (contract 1).
func JSON(status int, v any) *web.Response { return Written(status, marshal(v)) }

// Written is JSON for a body that is written already. It is not inlined, since each copy of it would make a
// guest 1 KB larger.
//
//go:noinline
func Written(status int, body []byte) *web.Response {
	header := make(web.Header, 8) // room for those that follow
	header["Content-Type"], header["Cache-Control"] = contentTypeJSON, noStore
	header["X-Content-Type-Options"] = noSniff
	return &web.Response{Status: status, Body: body, Header: header}
}

// NotModified is the answer to who has what the entity tag stands for. It has no body, and so no
// Content-Type.
func NotModified(tag string) *web.Response {
	header := make(web.Header, 8)
	header["Etag"], header["Cache-Control"] = []string{tag}, noStore
	return &web.Response{Status: 304, Header: header}
}

func marshal(v any) []byte {
	b, err := instant.JSON(v)
	if err != nil {
		panic(err) // our own structs of strings, numbers and times always marshal
	}
	return b
}

// Values that every answer has. They are shared, so nobody may change them in place.
var (
	contentTypeJSON = []string{"application/json; charset=utf-8"}
	noStore         = []string{"no-store"}
	noSniff         = []string{"nosniff"}
)

// maxCorrelation is the most bytes of a correlation id.
const maxCorrelation = 128

// CorrelationID returns the caller's X-Correlation-Id if an answer may repeat it, and "" if not. It may
// repeat 1 to 128 printable ASCII characters (contract 4).
func CorrelationID(h web.Header) string {
	id := h.Get("X-Correlation-Id")
	if len(id) > maxCorrelation {
		return ""
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return ""
		}
	}
	return id
}
