package web

import (
	"strconv"
	"strings"
)

// Code is the stable, machine-readable name of an error. It is the target of errors.Is for an [Error] with
// this code.
type Code string

func (c Code) Error() string { return string(c) }

// Codes (contract 5).
const (
	InvalidRequest       Code = "INVALID_REQUEST"
	InvalidToken         Code = "INVALID_TOKEN"
	Unauthorized         Code = "UNAUTHORIZED"
	Forbidden            Code = "FORBIDDEN"
	NotFound             Code = "NOT_FOUND"
	MethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	RequestTimeout       Code = "REQUEST_TIMEOUT" // returned by the server alone, like URITooLong
	AlreadyUsed          Code = "ALREADY_USED"
	IntegrationNotReady  Code = "INTEGRATION_NOT_READY"
	TokenExpired         Code = "EXPIRED"
	ModuleRejected       Code = "MODULE_REFUSED" // of an operator's server alone, like BackupRejected
	BackupRejected       Code = "BACKUP_REFUSED"
	PreconditionFailed   Code = "PRECONDITION_FAILED"
	PayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	URITooLong           Code = "URI_TOO_LONG"
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	RateLimited          Code = "RATE_LIMITED"
	Internal             Code = "INTERNAL"
	ProviderUnavailable  Code = "PROVIDER_UNAVAILABLE"
	Unavailable          Code = "UNAVAILABLE"
)

// statuses maps codes to HTTP statuses. It is a list because a map would be built at each start of a guest.
var statuses = []struct {
	code   Code
	status int
}{
	{InvalidRequest, 400},
	{InvalidToken, 400},
	{Unauthorized, 401},
	{Forbidden, 403},
	{NotFound, 404},
	{MethodNotAllowed, 405},
	{RequestTimeout, 408},
	{AlreadyUsed, 409},
	{IntegrationNotReady, 409},
	{ModuleRejected, 409},
	{BackupRejected, 409},
	{TokenExpired, 410},
	{PreconditionFailed, 412},
	{PayloadTooLarge, 413},
	{URITooLong, 414},
	{UnsupportedMediaType, 415},
	{RateLimited, 429},
	{Internal, 500},
	{ProviderUnavailable, 502},
	{Unavailable, 503},
}

// Codes returns all codes, in the order of their statuses.
func Codes() []Code {
	codes := make([]Code, len(statuses))
	for i, s := range statuses {
		codes[i] = s.code
	}
	return codes
}

// Error is an error response. Make it where the reason is known: package core maps it to JSON, or to a page
// for a person. Message and Details never contain a secret, a token, a value of the request or an internal
// cause; Cause is for the log.
type Error struct {
	Code       Code
	Message    string
	Details    []FieldError
	RetryAfter int      // seconds; 0: no Retry-After
	Allow      []string // for MethodNotAllowed
	Session    string   // for ProviderUnavailable
	Cause      error    // may be nil
}

// FieldError is an invalid field of a request.
type FieldError struct {
	Field   string `json:"field"`
	Code    string `json:"code"` // required, type, format, length, value, conflict
	Message string `json:"message"`
}

// ErrEncoded rejects a request body with a content coding, such as gzip (RFC 9110, 15.5.16).
var ErrEncoded = &Error{Code: UnsupportedMediaType,
	Message: "Send the body without Content-Encoding. Compressed bodies are not accepted."}

// ErrNotFound is the error for a missing resource. It has no message: the handler of the route names the
// resource.
var ErrNotFound = &Error{Code: NotFound}

// ErrNoPath is the error for a path without a route.
var ErrNoPath = &Error{Code: NotFound, Message: "There is no such path."}

func (e *Error) Error() string {
	if e.Cause != nil {
		return string(e.Code) + ": " + e.Message + ": " + e.Cause.Error()
	}
	return string(e.Code) + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is the code of e.
func (e *Error) Is(target error) bool { return target == e.Code }

// status returns the HTTP status of the error, or 0 for an unknown code.
func (e *Error) status() int {
	for _, s := range statuses {
		if s.code == e.Code {
			return s.status
		}
	}
	return 0
}

// errorBody is the wire form, which is flat (contract 5). error_code and error mirror code and message.
type errorBody struct {
	Code          Code         `json:"code"`
	ErrorCode     Code         `json:"error_code"`
	Error         string       `json:"error"`
	Message       string       `json:"message"`
	RequestID     string       `json:"request_id"`
	CorrelationID string       `json:"correlation_id,omitempty"`
	Details       []FieldError `json:"details,omitempty"`
	Session       string       `json:"session_id,omitempty"`
}

// Body returns the wire form of e (contract 5), for a response whose status or headers differ from Response.
func (e *Error) Body(requestID, correlationID string) []byte {
	return marshal(errorBody{
		Code: e.Code, ErrorCode: e.Code, Error: e.Message, Message: e.Message,
		RequestID: requestID, CorrelationID: correlationID, Details: e.Details, Session: e.Session,
	})
}

// Response returns e as an HTTP response.
func (e *Error) Response(requestID, correlationID string) *Response {
	resp := JSONBytes(e.status(), e.Body(requestID, correlationID))
	if e.RetryAfter > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Code == Unauthorized {
		resp.Header.Set("Www-Authenticate", "Bearer")
	}
	if e == ErrEncoded {
		resp.Header.Set("Accept-Encoding", "identity")
	}
	if e.Code == MethodNotAllowed {
		resp.Header.Set("Allow", strings.Join(e.Allow, ", "))
	}
	return resp
}
