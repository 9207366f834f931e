package webhook

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/verge-id/verge/core/internal/timestamp"
	"github.com/verge-id/verge/core/internal/uuid"
)

// schemaVersion is the version of the envelope and data that this package writes.
const schemaVersion = "2026-01-07"

// MaxBody is a limit for receivers: no event is longer. The longest strings in an event are the
// publisher's own, state and external user id (contract 8). JSON makes at most six bytes of one byte.
const MaxBody = 16 * 1024

// Event types.
const (
	TypeStarted   = "verification.started"
	TypeCompleted = "verification.completed"
	TypeFailed    = "verification.failed"
	TypeExpired   = "verification.expired"

	// TypeCancelled is kept so that receivers that list it still compile. A cancelled session stays
	// started, and no event is sent for it. Only a test event can have this type.
	TypeCancelled = "verification.cancelled"

	// TypeFailing is an alert: the deliveries of an integration have failed for an hour. It goes to another
	// URL than the other events, and belongs to no session. Types does not list it.
	TypeFailing = "webhook.failing"
)

// Values of Data.Status, one for each type that is sent.
const (
	StatusStarted   = "started"
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusExpired   = "expired"
	StatusFailing   = "failing"
)

// Codes of a Failure.
const (
	FailureProviderRejected = "PROVIDER_REJECTED"
	FailureUserCancelled    = "USER_CANCELLED"
	FailureTimeout          = "TIMEOUT"
	FailureMaxAttempts      = "MAX_ATTEMPTS"
	FailureUnknown          = "UNKNOWN"
)

// FailureMessage returns the English sentence for a failure code. It is for the publisher's developers,
// not for the user. An unknown code gets the sentence of FailureUnknown.
func FailureMessage(code string) string {
	switch code {
	case FailureProviderRejected:
		return "The provider rejected the verification, for example because the age was not met or the " +
			"document was not valid."
	case FailureUserCancelled:
		return "The user closed or abandoned the verification."
	case FailureTimeout:
		return "The session expired before the verification was completed."
	case FailureMaxAttempts:
		return "The verification failed too many times."
	}
	return "The verification failed for an unknown reason."
}

// Event is one event: the envelope, and data that depends on the type. Make one with Started,
// Completed, Failed or Expired. Read one by unmarshalling a body that Verify has accepted.
//
// Timestamps are RFC 3339 in UTC with milliseconds; time.Parse(time.RFC3339, …)
// reads them.
type Event struct {
	ID             string `json:"id"` // evt_<uuid>, the same on every attempt
	Type           string `json:"type"`
	CreatedAt      string `json:"created_at"`
	SchemaVersion  string `json:"schema_version"`
	PublisherID    string `json:"publisher_id"`         // pub_…
	IntegrationID  string `json:"integration_id"`       // int_<uuid>; the API has the UUID alone
	SessionID      string `json:"session_id,omitempty"` // "" only in TypeFailing
	Test           bool   `json:"test"`
	IdempotencyKey string `json:"idempotency_key"` // <session_id>:<type>, or <integration_id>:<type>:<time>
	Data           Data   `json:"data"`
}

// Data is the content of an event without its envelope. A nil field is absent from the JSON. A pointer to an
// empty string is an empty string that was sent.
type Data struct {
	Status         string   `json:"status"`
	ExpiresAt      *string  `json:"expires_at,omitempty"`       // started, expired
	Result         *Result  `json:"result,omitempty"`           // completed
	Failure        *Failure `json:"failure,omitempty"`          // failed
	ExternalUserID *string  `json:"external_user_id,omitempty"` // completed, failed; if given at start
	PublisherState *string  `json:"publisher_state,omitempty"`  // completed, failed; if given at start
	// only in a test event: a description for people
	Message *string `json:"message,omitempty"`
	Since   *string `json:"since,omitempty"` // failing: the first failed attempt since the last delivery
}

// Result is the outcome of a completed session.
type Result struct {
	Verified     bool   `json:"verified"`
	Level        string `json:"level"` // L1 or L2
	ChallengeAge int    `json:"challenge_age"`
}

// Failure is why a session failed.
type Failure struct {
	Code    string `json:"code"` // one of the Failure constants
	Message string `json:"message"`
}

// Head contains the values of the envelope, for every constructor.
type Head struct {
	ID            string // from NewID
	CreatedAt     time.Time
	PublisherID   string // with its prefix
	IntegrationID string // the bare UUID
	SessionID     string
	Test          bool
}

// IntegrationPrefix begins an integration's id in events (contract 25).
const IntegrationPrefix = "int_"

// NewID returns a new event id: evt_ and a version 4 UUID with 122 bits from random. It panics if
// random fails, because then no id would be unique.
func NewID(random io.Reader) string {
	id, err := uuid.New(random)
	if err != nil {
		panic("webhook: no randomness for an event id: " + err.Error())
	}
	return "evt_" + id
}

// Started means that a session was durably created and accepted for provider initiation. It does not
// promise that a browser ever got there.
func Started(h Head, expiresAt time.Time) Event {
	return h.event(TypeStarted, Data{Status: StatusStarted, ExpiresAt: written(expiresAt)})
}

// Completed returns the event of a verified session. user and state are the values of the start, or nil if it
// had none.
func Completed(h Head, level string, challengeAge int, user, state *string) Event {
	return h.event(TypeCompleted, Data{
		Status:         StatusCompleted,
		Result:         &Result{Verified: true, Level: level, ChallengeAge: challengeAge},
		ExternalUserID: user,
		PublisherState: state,
	})
}

// Failed means that a session finally failed. message is FailureMessage(code) unless there is a better
// one. user and state are as in Completed.
func Failed(h Head, code, message string, user, state *string) Event {
	return h.event(TypeFailed, Data{
		Status:         StatusFailed,
		Failure:        &Failure{Code: code, Message: message},
		ExternalUserID: user,
		PublisherState: state,
	})
}

// Expired means that a session ended without an outcome.
func Expired(h Head, expiresAt time.Time) Event {
	return h.event(TypeExpired, Data{Status: StatusExpired, ExpiresAt: written(expiresAt)})
}

// Failing means that no event of an integration was delivered since that time. h has no session.
func Failing(h Head, since time.Time) Event {
	e := h.event(TypeFailing, Data{Status: StatusFailing, Since: written(since)})
	e.IdempotencyKey = e.IntegrationID + ":" + TypeFailing + ":" + e.CreatedAt
	return e
}

func (h Head) event(typ string, data Data) Event {
	return Event{
		ID:             h.ID,
		Type:           typ,
		CreatedAt:      timestamp.Text(h.CreatedAt),
		SchemaVersion:  schemaVersion,
		PublisherID:    h.PublisherID,
		IntegrationID:  IntegrationPrefix + h.IntegrationID,
		SessionID:      h.SessionID,
		Test:           h.Test,
		IdempotencyKey: h.SessionID + ":" + typ,
		Data:           data,
	}
}

// Body returns the event as JSON, which is signed, stored and posted. Equal events have equal bytes. Fields
// are in the order of the specification. Text is not escaped for HTML, so that developers can read it.
func (e Event) Body() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		panic("webhook: an event holds only strings, numbers and booleans: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func written(t time.Time) *string {
	s := timestamp.Text(t)
	return &s
}
