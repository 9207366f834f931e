package reply

import (
	"errors"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/web"
)

// Code is the stable, machine-readable name of an error.
type Code string

// Codes (contract 5).
const (
	InvalidRequest       Code = "INVALID_REQUEST"
	InvalidToken         Code = "INVALID_TOKEN"
	Unauthorized         Code = "UNAUTHORIZED"
	Forbidden            Code = "FORBIDDEN"
	NotFound             Code = "NOT_FOUND"
	MethodNotAllowed     Code = "METHOD_NOT_ALLOWED"
	RequestTimeout       Code = "REQUEST_TIMEOUT" // like URITooLong, only the server says so
	AlreadyUsed          Code = "ALREADY_USED"
	IntegrationNotReady  Code = "INTEGRATION_NOT_READY"
	TokenExpired         Code = "EXPIRED"
	ModuleRefused        Code = "MODULE_REFUSED" // like BackupRefused, only an operator's server says so
	BackupRefused        Code = "BACKUP_REFUSED"
	PreconditionFailed   Code = "PRECONDITION_FAILED"
	PayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	URITooLong           Code = "URI_TOO_LONG"
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	RateLimited          Code = "RATE_LIMITED"
	Internal             Code = "INTERNAL"
	ProviderUnavailable  Code = "PROVIDER_UNAVAILABLE"
	Unavailable          Code = "UNAVAILABLE"
)

// statuses is the one place where codes become statuses. It is a list and no map, since a map would be made
// anew whenever a guest starts.
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
	{ModuleRefused, 409},
	{BackupRefused, 409},
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

// Error is what a caller is told. Message and Details never hold a secret, a
// token, a value of the request or an internal cause.
type Error struct {
	Code       Code
	Message    string
	Details    []Detail
	RetryAfter int      // seconds; 0: not sent
	Allow      []string // for MethodNotAllowed
	Session    string   // for ProviderUnavailable
}

// Encoded is for a request whose body has a content coding, such as gzip (RFC 9110, 15.5.16).
var Encoded = &Error{Code: UnsupportedMediaType,
	Message: "Send the body without Content-Encoding. Compressed bodies are not accepted."}

// NoSuchPath is the message of a NotFound that is about the path and not about what the path names.
const NoSuchPath = "There is no such path."

// Detail is one bad field of a request.
type Detail struct {
	Field   string `json:"field"`
	Code    string `json:"code"` // required, type, format, length, value, conflict
	Message string `json:"message"`
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// status returns the HTTP status of the error, 0 for a code that is not among ours.
func (e *Error) status() int {
	for _, s := range statuses {
		if s.code == e.Code {
			return s.status
		}
	}
	return 0
}

// retryUnavailable is how long a caller waits for a store that is away, in seconds.
const retryUnavailable = 1

// AsError returns what a caller is told of err. An *Error is told as it is. Everything else is a fault of
// ours or of the store: nothing was granted, and its text is for the log alone.
func AsError(err error, storeFault bool) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case storeFault:
		return &Error{Code: Unavailable, RetryAfter: retryUnavailable,
			Message: "The service cannot reach its store just now; nothing was granted. Try again."}
	}
	return &Error{Code: Internal,
		Message: "Something went wrong on our side. The request id helps us to find it."}
}

// body is the wire form, which is flat (contract 5). error_code and error mirror code and message.
type body struct {
	Code          Code     `json:"code"`
	ErrorCode     Code     `json:"error_code"`
	Error         string   `json:"error"`
	Message       string   `json:"message"`
	RequestID     string   `json:"request_id"`
	CorrelationID string   `json:"correlation_id,omitempty"`
	Details       []Detail `json:"details,omitempty"`
	Session       string   `json:"session_id,omitempty"`
}

// Body returns the wire form of e (contract 5). It is for an answer whose status or headers are not those of
// Response.
func (e *Error) Body(requestID, correlationID string) []byte {
	return marshal(body{
		Code: e.Code, ErrorCode: e.Code, Error: e.Message, Message: e.Message,
		RequestID: requestID, CorrelationID: correlationID, Details: e.Details, Session: e.Session,
	})
}

// Response returns the answer that says e.
func (e *Error) Response(requestID, correlationID string) *web.Response {
	resp := Written(e.status(), e.Body(requestID, correlationID))
	if e.RetryAfter > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Code == Unauthorized {
		resp.Header.Set("Www-Authenticate", "Bearer")
	}
	if e == Encoded {
		resp.Header.Set("Accept-Encoding", "identity")
	}
	if e.Code == MethodNotAllowed {
		resp.Header.Set("Allow", strings.Join(e.Allow, ", "))
	}
	return resp
}
