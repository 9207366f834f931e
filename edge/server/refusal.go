package server

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"

	"github.com/verge-id/verge/core/web"
)

// refusal is an answer that the server gives without the engine.
type refusal struct {
	status    int
	code      web.Code // of contract 5
	text      string
	retry     bool // the same request may succeed a moment later
	closeConn bool // the connection cannot be used any more
	sampled   bool // many clients at once may cause it, so not each has a line in the log
}

var (
	bodyTooLarge = refusal{status: http.StatusRequestEntityTooLarge, code: web.PayloadTooLarge,
		text: "The body is larger than this path accepts."}
	bodyTimeout = refusal{status: http.StatusRequestTimeout, code: web.RequestTimeout,
		text: "The request body did not arrive in time.", closeConn: true, sampled: true}
	bodyBroken = refusal{status: http.StatusBadRequest, code: web.InvalidRequest,
		text: "The request body could not be read.", closeConn: true, sampled: true}
	serviceBusy = refusal{status: http.StatusServiceUnavailable, code: web.Unavailable,
		text: "The service is busy; try again shortly.", retry: true, sampled: true}
	engineUnavailable = refusal{status: http.StatusServiceUnavailable, code: web.Unavailable,
		text: "The service cannot answer just now; try again shortly.", retry: true}
	internalError = refusal{status: http.StatusInternalServerError, code: web.Internal,
		text: "Something went wrong on our side."}
)

func uriTooLong(limit int) refusal {
	return refusal{status: http.StatusRequestURITooLong, code: web.URITooLong,
		text: fmt.Sprintf("The URL is longer than %d bytes.", limit)}
}

// json is the refusal in the shape of contract 5.
func (r refusal) json(correlationID string) *web.Response {
	e, requestID := web.Error{Code: r.code, Message: r.text}, newRequestID()
	header := web.Header{
		"Content-Type":  {"application/json; charset=utf-8"},
		"Cache-Control": {"no-store"},
	}
	return &web.Response{
		Status: r.status,
		Header: r.header(header, requestID, correlationID),
		Body:   e.Body(requestID, correlationID),
	}
}

// header completes the header of a refusal in any shape (contract 4).
func (r refusal) header(h web.Header, requestID, correlationID string) web.Header {
	h.Set("X-Request-Id", requestID)
	if correlationID != "" {
		h.Set("X-Correlation-Id", correlationID)
	}
	if r.retry {
		h.Set("Retry-After", "1")
	}
	if r.closeConn {
		h.Set("Connection", "close")
	}
	return h
}

// refuse answers a request without the engine. A person who asks for a page gets
// one (contract 22), anybody else JSON.
func (l *listener) refuse(req *web.Request, why refusal) *web.Response {
	correlation := web.CorrelationID(req.Header)
	if page := l.errorPage(req, why.status); page != nil {
		page.Header = why.header(page.Header, newRequestID(), correlation)
		return page
	}
	return why.json(correlation)
}

// errorPage is what a person is shown. It is nil if a program asks or there is no page.
func (l *listener) errorPage(req *web.Request, status int) (page *web.Response) {
	if l.page == nil || !web.AsksForPage(req) {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			l.s.log.Error("panic in the page of a refusal", "cause", causeOf(v))
			page = nil
		}
	}()
	shown := l.page(status, req)
	if shown == nil {
		return nil
	}
	page = &web.Response{Status: status, Header: maps.Clone(shown.Header), Body: shown.Body}
	if page.Header == nil {
		page.Header = web.Header{}
	}
	if !page.Header.Has("Cache-Control") {
		page.Header.Set("Cache-Control", "no-store")
	}
	return page
}

// newRequestID returns the id of an answer that the engine did not give (contract 4).
func newRequestID() string { return "req_" + rand.Text() }
