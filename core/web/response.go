package web

import "github.com/verge-id/verge/core/internal/timestamp"

// JSON returns v as a JSON response with the headers of contract 1.
func JSON(status int, v any) *Response { return JSONBytes(status, marshal(v)) }

// JSONBytes returns a JSON response with this body and the headers of contract 1. It is not inlined: a copy
// takes 1 KB of a guest.
//
//go:noinline
func JSONBytes(status int, body []byte) *Response {
	header := make(Header, 8) // room for more headers
	header["Content-Type"], header["Cache-Control"] = contentTypeJSON, noStore
	header["X-Content-Type-Options"] = noSniff
	return &Response{Status: status, Body: body, Header: header}
}

func marshal(v any) []byte {
	b, err := timestamp.JSON(v)
	if err != nil {
		panic(err) // our own structs of strings, numbers and times always marshal
	}
	return b
}

// Header values of every JSON response. They are shared: do not change them in place.
var (
	contentTypeJSON = []string{"application/json; charset=utf-8"}
	noStore         = []string{"no-store"}
	noSniff         = []string{"nosniff"}
)

// maxCorrelation is the maximum length of a correlation id, in bytes.
const maxCorrelation = 128

// CorrelationID returns the request's X-Correlation-Id if it is 1 to 128 printable ASCII characters, and else
// "" (contract 4).
func CorrelationID(h Header) string {
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
