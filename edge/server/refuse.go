package server

import (
	"crypto/rand"
	"encoding/json"
	"net/http"

	"github.com/verge-id/verge/core/web"
)

// Codes of contract 5 for what never reaches the engine. A client that knows
// the contract's table knows these; statuses outside of it (408, 414) borrow
// the nearest.
const (
	codeInvalidRequest = "INVALID_REQUEST"
	codeInternal       = "INTERNAL"
	codeUnavailable    = "UNAVAILABLE"
)

// refuse is an answer the engine had no part in, in the shape of contract 5.
func refuse(r *http.Request, status int, code, text string) *web.Response {
	body := struct {
		Code          string `json:"code"`
		ErrorCode     string `json:"error_code"`
		Error         string `json:"error"`
		Message       string `json:"message"`
		RequestID     string `json:"request_id"`
		CorrelationID string `json:"correlation_id,omitempty"`
	}{code, code, text, text, newRequestID(), correlationID(r)}
	h := web.Header{
		"Content-Type":  {"application/json; charset=utf-8"},
		"Cache-Control": {"no-store"},
		"X-Request-Id":  {body.RequestID},
	}
	if body.CorrelationID != "" {
		h.Set("X-Correlation-Id", body.CorrelationID)
	}
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // strings always marshal
	}
	return &web.Response{Status: status, Header: h, Body: b}
}

// newRequestID names an answer that the engine did not give (contract 4).
func newRequestID() string { return "req_" + rand.Text() }

// correlationID returns the caller's X-Correlation-Id if it is one by
// contract 4, 1 to 128 printable ASCII characters, and "" if not.
func correlationID(r *http.Request) string {
	id := r.Header.Get("X-Correlation-Id")
	if len(id) > 128 {
		return ""
	}
	for i := range len(id) {
		if id[i] < ' ' || id[i] > '~' {
			return ""
		}
	}
	return id
}
