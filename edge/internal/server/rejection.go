package server

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"

	"github.com/verge-id/verge/core/web"
)

// rejection is a response that the server sends without asking the engine.
type rejection struct {
	status    int
	code      web.Code // of contract 5
	text      string
	retry     bool // the same request may succeed a moment later
	closeConn bool // the connection cannot be used again
	sampled   bool // many clients can cause it at the same time, so its log lines are sampled
}

var (
	bodyTooLarge = rejection{status: http.StatusRequestEntityTooLarge, code: web.PayloadTooLarge,
		text: "The body is larger than this path accepts."}
	bodyTimeout = rejection{status: http.StatusRequestTimeout, code: web.RequestTimeout,
		text: "The request body did not arrive in time.", closeConn: true, sampled: true}
	bodyBroken = rejection{status: http.StatusBadRequest, code: web.InvalidRequest,
		text: "The request body could not be read.", closeConn: true, sampled: true}
	serviceBusy = rejection{status: http.StatusServiceUnavailable, code: web.Unavailable,
		text: "The service is busy; try again shortly.", retry: true, sampled: true}
	engineUnavailable = rejection{status: http.StatusServiceUnavailable, code: web.Unavailable,
		text: "The service is temporarily unavailable; try again shortly.", retry: true}
	internalError = rejection{status: http.StatusInternalServerError, code: web.Internal,
		text: "Something went wrong on our side."}
)

func uriTooLong(limit int) rejection {
	return rejection{status: http.StatusRequestURITooLong, code: web.URITooLong,
		text: fmt.Sprintf("The URL is longer than %d bytes.", limit)}
}

// json returns the rejection in the format of contract 5.
func (r rejection) json(correlationID string) *web.Response {
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

// header completes the headers of a rejection in any format (contract 4).
func (r rejection) header(h web.Header, requestID, correlationID string) web.Header {
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

// reject responds to a request without the engine. A browser that asks for a page gets one (contract 22),
// other clients get JSON.
func (l *listener) reject(req *web.Request, why rejection) *web.Response {
	correlation := web.CorrelationID(req.Header)
	if page := l.errorPage(req, why.status); page != nil {
		page.Header = why.header(page.Header, newRequestID(), correlation)
		return page
	}
	return why.json(correlation)
}

// errorPage returns the page for a user, or nil if the client asks for no page or no page is configured.
func (l *listener) errorPage(req *web.Request, status int) (page *web.Response) {
	if l.page == nil || !web.AsksForPage(req) {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			l.s.log.Error("panic in an error page", "cause", causeOf(v))
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

// newRequestID returns the id of a response that the engine did not create (contract 4).
func newRequestID() string { return "req_" + rand.Text() }
