package operate

import (
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/method"
)

// Page is a part of a list. Next is the cursor of the next part, "" on the last one.
type Page[T any] struct {
	Items []T
	Next  string
}

// Cursor asks for a part of a list.
type Cursor struct {
	After string `query:"after"` // the Next of the part before; "": the first part
	Limit int    `query:"limit"` // from 1 to MaxLimit; 0: defaultLimit
}

// Limits of a Cursor.
const (
	defaultLimit = 50
	MaxLimit     = 200
)

// Publisher is a publisher with its version.
type Publisher struct {
	integration.Publisher
	Version string `json:"version"`
}

// Integration is an integration as people see it, without any secret, not even a sealed one.
type Integration struct {
	integration.Integration
	Ready   bool   `json:"ready"`
	Sandbox bool   `json:"sandbox"` // all its methods verify no user, so test sessions can be started
	Version string `json:"version"`

	// Readiness is the last signed webhook test of the current webhook, or nil.
	Readiness *Readiness `json:"readiness,omitempty"`

	// Failing is the present failure of its deliveries, or nil. Only an integration with an alert URL has it.
	Failing *Failing `json:"failing,omitempty"`
}

// Failing reports that no event of an integration was delivered since a time.
type Failing struct {
	Since   time.Time  `json:"since"`                // the first failed attempt
	Alerted *time.Time `json:"alerted_at,omitempty"` // when the latest alert was created
}

// SecretAlone reports whether only another secret for the present URL is staged. The receiver there has to
// accept both secrets until the staged one is in use.
func (i Integration) SecretAlone() bool { return i.Staged != nil && i.Staged.URL == i.Webhook.URL }

// Readiness is when the webhook was tested.
type Readiness struct {
	Ready bool      `json:"ready"`
	At    time.Time `json:"at"`
}

// Changed is an integration after a change. Secret is the webhook secret that was made, if one was: this is
// the only response that has it.
type Changed struct {
	Integration
	Secret string `json:"secret,omitempty"`
}

// CreatedKey is the only response that has the key itself.
type CreatedKey struct {
	Key  string `json:"key"`
	Info Key    `json:"info"`
}

// Key is the record of a key.
type Key struct {
	integration.Key
	LastUsed string `json:"last_used,omitempty"` // a day, as 2026-11-20
}

// States of a delivery.
const (
	DeliveryDelivered = outbox.StateDelivered
	DeliveryWaiting   = outbox.StateWaiting // the last attempt failed, and there will be another
	DeliveryDead      = outbox.StateDead    // no more attempts
)

// Delivery is one event and the attempts to deliver it (contract 27).
type Delivery struct {
	Event       string     `json:"event"` // evt_…
	Place       string     `json:"place"` // finds it again, together with the integration
	Test        bool       `json:"test,omitempty"`
	Type        string     `json:"type"`
	Session     string     `json:"session_id"`
	Integration string     `json:"integration_id"`
	State       string     `json:"state"`
	Reason      string     `json:"reason,omitempty"` // why it is dead
	Created     time.Time  `json:"created_at"`
	Due         *time.Time `json:"due,omitempty"` // of the next attempt, if it waits
	Attempts    []Attempt  `json:"attempts"`

	// Unrecorded is how many attempts were made before those that Attempts has.
	Unrecorded int `json:"unrecorded_attempts,omitempty"`

	// Body is the event without publisher_state and external_user_id.
	Body string `json:"body,omitempty"`
}

// Undelivered counts the undelivered events by publisher: waiting and dead ones. The publisher with the
// oldest waiting event comes first.
type Undelivered struct {
	Publishers []PublisherUndelivered `json:"publishers"`
	More       bool                   `json:"more"` // there may be publishers that are not here
}

// PublisherUndelivered is the part of one publisher.
type PublisherUndelivered struct {
	Publisher    string                   `json:"publisher_id"`
	Name         string                   `json:"name"`
	Waiting      int                      `json:"waiting"`
	Dead         int                      `json:"dead"`
	More         bool                     `json:"more"` // Waiting or Dead is the least: there are more
	Oldest       *time.Time               `json:"oldest_waiting,omitempty"`
	Newest       *time.Time               `json:"newest_dead,omitempty"`
	Integrations []IntegrationUndelivered `json:"integrations"`
}

// IntegrationUndelivered is the part of one integration.
type IntegrationUndelivered struct {
	Integration string     `json:"integration_id"`
	Name        string     `json:"name"`
	Waiting     int        `json:"waiting"`
	Dead        int        `json:"dead"`
	More        bool       `json:"more"`
	Oldest      *time.Time `json:"oldest_waiting,omitempty"` // nil in an Overview, as is Newest
	Newest      *time.Time `json:"newest_dead,omitempty"`
}

// Attempt is one try to deliver an event.
type Attempt struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitempty"` // 0: no response
	Cause  string    `json:"cause,omitempty"`  // the reason for no response, one of host's Fetch constants
	TookMS int64     `json:"took_ms"`
}

// Exchange is a test event and its response.
type Exchange struct {
	Type          string            `json:"type"`
	URL           string            `json:"url"`
	RequestHeader map[string]string `json:"request_header"`
	RequestBody   string            `json:"request_body"`
	Status        int               `json:"status,omitempty"` // 0: no response
	Cause         string            `json:"cause,omitempty"`  // the reason for no response
	Body          string            `json:"body,omitempty"`   // of the response, at most 4 KiB
	Cut           bool              `json:"body_cut,omitempty"`
	Delivered     bool              `json:"delivered"` // an event would be, with that response
	Words         string            `json:"words"`     // the meaning of the response, and the fix
	TookMS        int64             `json:"took_ms"`
}

// TestReport is the result of a signed webhook test (contract 29).
type TestReport struct {
	Status  string        `json:"status"` // READY or NOT_READY
	Ready   bool          `json:"ready"`
	URL     string        `json:"url"`               // the receiver
	Probes  []ProbeReport `json:"probes"`            // the probes that were sent
	Reasons []string      `json:"reasons,omitempty"` // why probes failed
	// Promoted means that the staged webhook was tested and has taken its place.
	Promoted bool `json:"promoted,omitempty"`
}

// ProbeReport is one probe with its response and result.
type ProbeReport struct {
	Name          string            `json:"name"`
	Want          string            `json:"want"`
	RequestHeader map[string]string `json:"request_header"`
	RequestBody   string            `json:"request_body"`
	Status        int               `json:"status,omitempty"` // 0: no response
	Reason        string            `json:"reason,omitempty"` // the reason for no response
	Body          string            `json:"body,omitempty"`   // of the response, at most 1 KiB
	Cut           bool              `json:"body_cut,omitempty"`
	Passed        bool              `json:"passed"`
	TookMS        int64             `json:"took_ms"`
}

// Session is one session. It never has state, user id or anything personal.
type Session struct {
	ID           string     `json:"session_id"`
	Publisher    string     `json:"publisher_id"`
	Integration  string     `json:"integration_id"`
	Level        string     `json:"level"`
	ChallengeAge int        `json:"challenge_age"`
	Status       string     `json:"status"` // as in contract 20: PENDING, COMPLETED, FAILED, EXPIRED
	FailureCode  string     `json:"failure_code,omitempty"`
	Attempts     int        `json:"attempts"` // failed ones
	Started      time.Time  `json:"started_at"`
	Expires      time.Time  `json:"expires_at"`
	Ended        *time.Time `json:"completed_at,omitempty"`
	ResultUsed   *bool      `json:"result_used,omitempty"` // of a completed one, while its result token lives
	Events       []Delivery `json:"events"`

	// Steps are the last steps of methods that did not succeed, the oldest first, at most session.MaxSteps.
	Steps []SessionStep `json:"steps"`
}

// SessionStep has the reason why a step of a session did not succeed.
type SessionStep struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Result  string    `json:"result"`            // such as unavailable, failed, rejected, attempt_failed, rejected
	Reason  string    `json:"reason"`            // such as timeout; the result if there is no other
	Setting string    `json:"setting,omitempty"` // that caused it
	Detail  string    `json:"detail,omitempty"`  // a name or path in the setting
}

// TestSession is a session that was started to try things out, in the sandbox.
type TestSession struct {
	ID          string    `json:"session_id"`
	RedirectURL string    `json:"redirect_url"`
	Expires     time.Time `json:"expires_at"`
}

// Member is a person who works for a publisher.
type Member struct {
	ID        string     `json:"id"` // mem_…
	Publisher string     `json:"publisher_id"`
	Name      string     `json:"name"`
	Role      Role       `json:"role"`
	Created   time.Time  `json:"created"`
	LastSeen  *time.Time `json:"last_seen,omitempty"` // when they signed in last
	Passkeys  []Passkey  `json:"passkeys"`
	Version   string     `json:"version"`

	// Sessions is in lists, for those who may sign the member out.
	Sessions *MemberSessions `json:"sessions,omitempty"`
}

// MemberSessions is the number of browsers in which a member is signed in to the console.
type MemberSessions struct {
	Count    int        `json:"count"`               // at most 100 are counted
	LastUsed *time.Time `json:"last_used,omitempty"` // or up to 5 minutes later
}

// UserPasskeys counts the passkeys that users have created at a publisher's sites.
type UserPasskeys struct {
	Publisher string     `json:"publisher_id"`
	Count     int        `json:"count"`           // that have not ended
	More      bool       `json:"more"`            // there are more than were counted
	Ended     *time.Time `json:"ended,omitempty"` // when all were ended last
}

// Passkey is one of a member's.
type Passkey struct {
	ID       string     `json:"id"`             // of its record, not the credential's
	Name     string     `json:"name,omitempty"` // "": an earlier release made it
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used,omitempty"`
}

// Invitation invites a person to be a member. Only the response of its creation has the Link.
type Invitation struct {
	ID        string    `json:"id"`
	Publisher string    `json:"publisher_id"`
	Name      string    `json:"name"`
	Role      Role      `json:"role"`
	Expires   time.Time `json:"expires"`
	Link      string    `json:"link,omitempty"`
}

// SignInLink opens the console once.
type SignInLink struct {
	Publisher string    `json:"publisher_id"`
	Role      Role      `json:"role"`
	Expires   time.Time `json:"expires"`
	Link      string    `json:"link"`
}

// OperatorToken is the record of an operator's token.
type OperatorToken struct {
	ID      string     `json:"id"` // op_…, or Configured
	Name    string     `json:"name"`
	Role    Role       `json:"role"`
	Last4   string     `json:"last4,omitempty"`
	Created *time.Time `json:"created,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
}

// CreatedOperatorToken is the only response that has the token itself.
type CreatedOperatorToken struct {
	Token string        `json:"token"`
	Info  OperatorToken `json:"info"`
}

// AuditEntry is a change and its actor.
type AuditEntry struct {
	ID        string        `json:"id"`
	At        time.Time     `json:"at"`
	ActorKind string        `json:"actor_kind"` // one of the Kind constants
	ActorID   string        `json:"actor_id"`
	ActorName string        `json:"actor_name"`
	Publisher string        `json:"publisher_id,omitempty"`
	Operation Operation     `json:"operation"`
	Target    string        `json:"target,omitempty"` // the id of the changed object
	Changes   []AuditChange `json:"changes,omitempty"`
}

// AuditChange is one field that changed. No field of an audit entry holds a secret.
type AuditChange = audit.Change

// Method is a configured way to verify.
type Method struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Level   string `json:"level"`   // the highest that it proves
	Sandbox bool   `json:"sandbox"` // verifies no user

	// Overrides are the settings that an integration may make stricter.
	Overrides []method.Override `json:"-"`
}

// Overview has the data of a publisher's first page.
type Overview struct {
	Steps   []Step            `json:"steps"` // to go live, in order
	Waiting int               `json:"waiting"`
	Dead    int               `json:"dead"`
	More    bool              `json:"more"`  // Waiting or Dead is the least: there are more than were counted
	Today   map[string]uint64 `json:"today"` // sessions by outcome

	// Active has the first integrations that are not archived. Today and Days, the last 30, count theirs.
	// Recent has the last finished sessions.
	Active []Integration     `json:"-"`
	Days   []usage.Day       `json:"-"`
	Recent []FinishedSession `json:"-"`

	// Undelivered has the integrations whose events Waiting and Dead count.
	Undelivered []IntegrationUndelivered `json:"undelivered"`
}

// Step is one step to go live.
type Step struct {
	Name        string `json:"name"` // one of the Step constants
	Done        bool   `json:"done"`
	Integration string `json:"integration_id,omitempty"` // of this step; StepSession: one with the sandbox
}

// The steps to go live.
const (
	StepIntegration = "integration" // there is one
	StepWebhook     = "webhook"     // it is Ready, or switched off
	StepKey         = "key"         // there is a secret key
	StepSession     = "session"     // a session was completed
	StepMethod      = "method"      // a ready integration has a method that verifies people
)

// Difference is one thing that a configuration changes.
type Difference = integration.Difference
