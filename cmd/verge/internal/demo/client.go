package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// client makes the API's three calls with the secret key.
type client struct {
	base string
	key  string
	http *http.Client
}

type startRequest struct {
	IntegrationID  string  `json:"integration_id"`
	CallbackURL    string  `json:"callback_url"`
	State          string  `json:"state"`
	ExternalUserID *string `json:"external_user_id,omitempty"`
	Language       string  `json:"language,omitempty"`
}

type started struct {
	SessionID   string `json:"session_id"`
	RedirectURL string `json:"redirect_url"`
	ExpiresAt   string `json:"expires_at"`
}

type facts struct {
	Valid         bool   `json:"valid"`
	Verified      bool   `json:"verified"`
	Level         string `json:"level"`
	ChallengeAge  int    `json:"challenge_age"`
	SessionID     string `json:"session_id"`
	IntegrationID string `json:"integration_id"`
	ValidatedAt   string `json:"validated_at"`
}

type sessionView struct {
	SessionID       string  `json:"session_id"`
	Status          string  `json:"status"`
	Verified        *bool   `json:"verified"`
	FailureCode     *string `json:"failure_code"`
	FailureReason   *string `json:"failure_reason"`
	Level           string  `json:"level"`
	ChallengeAge    int     `json:"challenge_age"`
	CompletedAt     *string `json:"completed_at"`
	ExpiresAt       string  `json:"expires_at"`
	ResultAvailable bool    `json:"result_available"`
}

// apiError is a response of the API with a status other than 200. Without a response, Status is 0 and Code is
// empty.
type apiError struct {
	Status     int           `json:"-"`
	RetryAfter time.Duration `json:"-"`

	Code      string `json:"code"`
	Message   string `json:"error"`
	RequestID string `json:"request_id"`
	SessionID string `json:"session_id"` // with PROVIDER_UNAVAILABLE
	Details   []struct {
		Field   string `json:"field"`
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"details"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("api: status %d, code %s, request %s: %s", e.Status, e.Code, e.RequestID, e.Message)
}

// temporary reports whether the same call may succeed later.
func (e *apiError) temporary() bool {
	return e.Status == 0 || e.Status == http.StatusTooManyRequests || e.Status >= 500
}

func (c client) start(ctx context.Context, req startRequest) (out started, err *apiError) {
	err = c.call(ctx, "POST", "/api/v1/verify/start", "", req, &out)
	return out, err
}

// validate exchanges a result token for the facts. A second call with the same idempotency key repeats the
// first response, so that the shop can fetch a lost response again.
func (c client) validate(ctx context.Context, resultToken, idempotencyKey string) (out facts, err *apiError) {
	body := map[string]string{"result_token": resultToken}
	err = c.call(ctx, "POST", "/api/v1/verify/validate", idempotencyKey, body, &out)
	return out, err
}

func (c client) reconcile(ctx context.Context, sessionID string) (out sessionView, err *apiError) {
	err = c.call(ctx, "GET", "/api/v1/verify/sessions/"+url.PathEscape(sessionID), "", nil, &out)
	return out, err
}

const maxResponse = 64 * 1024

func (c client) call(ctx context.Context, method, path, idempotencyKey string, in, out any) *apiError {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return &apiError{Message: err.Error()}
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return &apiError{Message: err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", idempotencyKey)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return &apiError{Message: "The service could not be reached: " + err.Error()}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return &apiError{Message: "The service's response was cut off: " + err.Error()}
	}
	if resp.StatusCode != http.StatusOK {
		e := &apiError{}
		if json.Unmarshal(raw, e) != nil || e.Code == "" {
			e.Message = "The response is not from the API. Is this its address?"
		}
		e.Status = resp.StatusCode
		if e.RequestID == "" {
			e.RequestID = resp.Header.Get("X-Request-Id")
		}
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			e.RetryAfter = time.Duration(n) * time.Second
		}
		return e
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return &apiError{Message: "The service's response is not the expected JSON: " + err.Error()}
	}
	return nil
}
