package operate

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/uuid"
	"github.com/verge-id/verge/core/web"
)

// The inputs of the operations, with their JSON for requests to the operators' API. A field that is nil keeps
// its value, or has its default.

// Versioned is the input of a change. An empty Version changes any version.
type Versioned struct {
	ID      string `json:"-"`
	Version string `json:"-"`
}

func (v Versioned) encode(r *Request) {
	r.ID, r.Match = v.ID, "*"
	if v.Version != "" {
		r.Match = `"` + v.Version + `"`
	}
}

func (r *reader) versioned() Versioned { return Versioned{r.ID, r.version()} }

// Search selects publishers and integrations. Name is a text in their names or ids; "": all.
type Search struct {
	Publisher string
	Cursor
}

func (s Search) encode(r *Request) {
	s.Cursor.encode(r)
	r.Query.Set("publisher_id", s.Publisher)
}

func (c Cursor) encode(r *Request) {
	r.Query.Set("name", c.Name)
	r.Query.Set("after", c.After)
	if c.Limit > 0 {
		r.Query.Set("limit", strconv.Itoa(c.Limit))
	}
}

func (r *reader) search() Search {
	s := Search{Publisher: r.query("publisher_id"), Cursor: r.cursor()}
	s.Name = r.query("name")
	return s
}

// ofPublisher is search without a name.
func (r *reader) ofPublisher() Search {
	return Search{Publisher: r.query("publisher_id"), Cursor: r.cursor()}
}

// PublisherInput creates or changes a publisher.
type PublisherInput struct {
	ID   string  `json:"id,omitempty"`   // to create only; "": a new one
	Name *string `json:"name,omitempty"` // 1 to 100 characters
}

// PublisherUpdate changes a publisher.
type PublisherUpdate struct {
	Versioned
	PublisherInput
}

// OfPublisher names a publisher in a body.
type OfPublisher struct {
	Publisher string `json:"publisher_id"`
}

// IntegrationInput creates or changes an integration. It has a field for each of integration.Settings.
type IntegrationInput struct {
	Publisher       string                      `json:"publisher_id,omitempty"` // to create only
	Name            *string                     `json:"name,omitempty"`
	Level           *string                     `json:"level,omitempty"`
	ChallengeAge    *int                        `json:"challenge_age,omitempty"`
	MinimumAge      *int                        `json:"minimum_age,omitempty"`
	Attempts        *int                        `json:"attempts,omitempty"`
	Methods         *[]string                   `json:"methods,omitempty"`
	MethodSettings  *map[string]json.RawMessage `json:"method_settings,omitempty"`
	Passkeys        *string                     `json:"passkeys,omitempty"`
	CallbackOrigins *[]string                   `json:"callback_origins,omitempty"`
	BrowserOrigins  *[]string                   `json:"browser_origins,omitempty"`
	*WebhookInput                               // effective immediately, not staged
}

// WebhookInput is the destination of events. With NewSecret, the response contains a new secret, once.
type WebhookInput struct {
	Off       *bool   `json:"webhook_off,omitempty"`
	URL       *string `json:"webhook_url,omitempty"`
	Secret    *string `json:"webhook_secret,omitempty"`
	NewSecret bool    `json:"new_webhook_secret,omitempty"`
}

func (r *reader) integration() IntegrationInput {
	in := IntegrationInput{Name: r.text("name")}
	for _, s := range integration.Settings {
		switch v := s.Of(&in).(type) {
		case **string:
			*v = r.text(s.Name)
		case **int:
			*v = r.integer(s.Name)
		case **[]string:
			*v = r.texts(s.Name)
		case **map[string]json.RawMessage:
			*v = r.objects(s.Name)
		}
	}
	if hook := r.webhook(); hook != (WebhookInput{}) {
		in.WebhookInput = &hook
	}
	return in
}

func (r *reader) webhook() WebhookInput {
	return WebhookInput{Off: r.flag("webhook_off"), URL: r.text("webhook_url"),
		Secret: r.text("webhook_secret"), NewSecret: r.isTrue("new_webhook_secret")}
}

// IntegrationUpdate changes an integration.
type IntegrationUpdate struct {
	Versioned
	IntegrationInput
}

// StagedWebhook stages a webhook of an integration.
type StagedWebhook struct {
	Versioned
	WebhookInput
}

// Rotation creates a new webhook secret.
type Rotation struct {
	Versioned
	Staged bool `json:"staged,omitempty"` // next to the present one, until it has been tested
}

// WebhookTestInput selects the webhook for the signed test.
type WebhookTestInput struct {
	Integration string `json:"-"`
	Staged      bool   `json:"-"`
}

func (t WebhookTestInput) encode(r *Request) {
	r.ID = t.Integration
	if t.Staged {
		r.Query.Set("staged", "1")
	}
}

// TestEventInput sends a test event.
type TestEventInput struct {
	Integration string `json:"-"`
	Type        string `json:"type"`
}

func (t TestEventInput) encode(r *Request) { r.ID = t.Integration }

// TestSessionInput starts a test session.
type TestSessionInput struct {
	Integration string `json:"-"`
	CallbackURL string `json:"callback_url"`
}

func (t TestSessionInput) encode(r *Request) { r.ID = t.Integration }

// KeyInput creates a key. With an Integration it is a public key.
type KeyInput struct {
	Publisher   string     `json:"publisher_id"`
	Integration string     `json:"integration_id,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"` // nil: never
}

// DeliveryQuery selects deliveries.
type DeliveryQuery struct {
	DeliveryFilter
	Cursor
}

func (q DeliveryQuery) encode(r *Request) {
	q.Cursor.encode(r)
	r.Query.Set("integration_id", q.Integration)
	r.Query.Set("state", q.State)
	r.Query.Set("type", q.Type)
}

// most returns the cursor with the highest limit, if it has none.
func (c Cursor) most() Cursor {
	c.Limit = cmp.Or(c.Limit, MaxLimit)
	return c
}

func (r *reader) deliveries() DeliveryQuery {
	return DeliveryQuery{Cursor: r.cursor(), DeliveryFilter: DeliveryFilter{
		Integration: r.query("integration_id"), State: r.query("state"), Type: r.query("type")}}
}

// EventAt is an event in the log of an integration. Without an Integration, Place is the id of the event.
type EventAt struct {
	Integration string `json:"-"`
	Place       string `json:"-"`
}

func (e EventAt) encode(r *Request) {
	r.ID = e.Place
	r.Query.Set("integration_id", e.Integration)
}

func (r *reader) eventAt() EventAt { return EventAt{r.query("integration_id"), r.ID} }

// eventID checks the form of an event's id.
func eventID(event string) error {
	rest, ok := strings.CutPrefix(event, "evt_")
	if _, err := uuid.Parse(rest); !ok || err != nil {
		return &web.Error{Code: web.InvalidRequest, Message: "An event id is evt_ and a UUID."}
	}
	return nil
}

// UsageQuery selects days of an integration. "" is 29 days ago, and today.
type UsageQuery struct {
	Integration, From, To string
	CSV                   bool
}

func (q UsageQuery) encode(r *Request) {
	r.Query.Set("integration_id", q.Integration)
	r.Query.Set("from", q.From)
	r.Query.Set("to", q.To)
	if q.CSV {
		r.Query.Set("format", "csv")
	}
}

func (r *reader) usage() UsageQuery {
	q := UsageQuery{r.query("integration_id"), r.query("from"), r.query("to"), r.query("format") == "csv"}
	if q.Integration == "" {
		r.end(&web.Error{Code: web.InvalidRequest, Message: "The request is not valid.",
			Details: []web.FieldError{{Field: "integration_id", Code: "required",
				Message: "Required: the id of an integration."}}})
	}
	return q
}

// RoleInput gives a member another role.
type RoleInput struct {
	Member string `json:"-"`
	Role   Role   `json:"role"`
}

func (i RoleInput) encode(r *Request) { r.ID = i.Member }

// InvitationInput invites a person.
type InvitationInput struct {
	Publisher string `json:"publisher_id"`
	Name      string `json:"name,omitempty"`
	Role      Role   `json:"role"`
}

// InvitationOf is an invitation of a publisher.
type InvitationOf struct {
	Publisher string `json:"-"`
	ID        string `json:"-"`
}

func (i InvitationOf) encode(r *Request) {
	r.ID = i.ID
	r.Query.Set("publisher_id", i.Publisher)
}

// LinkInput creates a single-use sign-in link. Without a Publisher it is one for an operator.
type LinkInput struct {
	Publisher string `json:"publisher_id,omitempty"`
	Name      string `json:"name,omitempty"` // of the person, for the audit
	Role      Role   `json:"role"`
}

// OperatorInput creates an operator token.
type OperatorInput struct {
	Name    string     `json:"name"`
	Role    Role       `json:"role"`
	Expires *time.Time `json:"expires,omitempty"`
}

// MayParameter of ReadSelf names an operation that the token must allow.
const MayParameter = "may"

// SiteInput is a configuration as JSON.
type SiteInput struct {
	Text   []byte
	DryRun bool // only return the differences
}

func (s SiteInput) encode(r *Request) {
	r.Body = s.Text
	if s.DryRun {
		r.Query.Set("dry_run", "1")
	}
}
