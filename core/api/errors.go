package api

import (
	"encoding/json"
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
	RequestTimeout       Code = "REQUEST_TIMEOUT" // the server's, as URITooLong: no such request reaches the core
	AlreadyUsed          Code = "ALREADY_USED"
	IntegrationNotReady  Code = "INTEGRATION_NOT_READY"
	TokenExpired         Code = "EXPIRED"
	PayloadTooLarge      Code = "PAYLOAD_TOO_LARGE"
	URITooLong           Code = "URI_TOO_LONG"
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	RateLimited          Code = "RATE_LIMITED"
	Internal             Code = "INTERNAL"
	ProviderUnavailable  Code = "PROVIDER_UNAVAILABLE"
	Unavailable          Code = "UNAVAILABLE"
)

// status is the one place where codes become statuses.
var status = map[Code]int{
	InvalidRequest:       400,
	InvalidToken:         400,
	Unauthorized:         401,
	Forbidden:            403,
	NotFound:             404,
	MethodNotAllowed:     405,
	RequestTimeout:       408,
	AlreadyUsed:          409,
	IntegrationNotReady:  409,
	TokenExpired:         410,
	PayloadTooLarge:      413,
	URITooLong:           414,
	UnsupportedMediaType: 415,
	RateLimited:          429,
	Internal:             500,
	ProviderUnavailable:  502,
	Unavailable:          503,
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

// Detail is one bad field of a request.
type Detail struct {
	Field   string `json:"field"`
	Code    string `json:"code"` // required, type, format, length, value, conflict
	Message string `json:"message"`
}

// Codes of a Detail.
const (
	detailRequired = "required"
	detailType     = "type"
	detailFormat   = "format"
	detailLength   = "length"
	detailValue    = "value"
	detailConflict = "conflict"
)

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Status returns the HTTP status of the error.
func (e *Error) Status() int { return status[e.Code] }

// retryUnavailable is how long a caller waits for a store that is away, in seconds.
const retryUnavailable = 1

// AsError returns what a caller is told of err. An *Error is told as it is;
// everything else is a fault of ours or of the store: nothing was granted,
// its text belongs in the log alone.
func AsError(err error, storeFault bool) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case storeFault:
		return &Error{Code: Unavailable, Message: "The service cannot reach its store just now; nothing was granted. Try again.", RetryAfter: retryUnavailable}
	}
	return &Error{Code: Internal, Message: "Something went wrong on our side. The request id helps us to find it."}
}

// errorBody is the flat wire form; contract 5 has its members.
type errorBody struct {
	Code          Code     `json:"code"`
	ErrorCode     Code     `json:"error_code"`
	Error         string   `json:"error"`
	Message       string   `json:"message"`
	RequestID     string   `json:"request_id"`
	CorrelationID string   `json:"correlation_id,omitempty"`
	Details       []Detail `json:"details,omitempty"`
	Session       string   `json:"session_id,omitempty"`
}

// WriteError returns the answer that says e.
func WriteError(e *Error, requestID, correlationID string) *web.Response {
	resp := Answer(e.Status(), errorBody{
		Code: e.Code, ErrorCode: e.Code, Error: e.Message, Message: e.Message,
		RequestID: requestID, CorrelationID: correlationID, Details: e.Details, Session: e.Session,
	})
	if e.RetryAfter > 0 {
		resp.Header.Set("Retry-After", strconv.Itoa(e.RetryAfter))
	}
	if e.Code == Unauthorized {
		resp.Header.Set("Www-Authenticate", "Bearer")
	}
	if e.Code == MethodNotAllowed {
		resp.Header.Set("Allow", strings.Join(e.Allow, ", "))
	}
	return resp
}

// Answer returns v as JSON with the headers of every API answer (contract 1).
func Answer(status int, v any) *web.Response {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own structs of strings, numbers and times always marshal
	}
	return answer(status, body)
}

// answer is Answer for JSON that is there already.
func answer(status int, body []byte) *web.Response {
	header := make(web.Header, 8) // room for those that follow
	header["Content-Type"], header["Cache-Control"], header["X-Content-Type-Options"] = contentTypeJSON, noStore, noSniff
	return &web.Response{Status: status, Body: body, Header: header}
}

// Values that every answer has; shared, so never changed in place.
var (
	contentTypeJSON = []string{"application/json; charset=utf-8"}
	noStore         = []string{"no-store"}
	noSniff         = []string{"nosniff"}
)
