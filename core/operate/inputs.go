package operate

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/uuid"
	"github.com/verge-id/verge/core/web"
)

// The inputs of the operations, with their JSON for requests to the operators' API. A field that is nil keeps
// its value, or has its default.

// Versioned is the input of a change. An empty Version changes any version.
type Versioned struct {
	ID      string `in:"path" json:"-"`
	Version string `in:"match" json:"-"`
}

// Search selects publishers or integrations.
type Search struct {
	Name string `query:"name"` // a text in their names or ids, in any case; "": all
	Cursor
}

// IntegrationQuery selects integrations of a publisher; of all publishers if Publisher is "".
type IntegrationQuery struct {
	Publisher string `query:"publisher_id"`
	Search
}

// PublisherQuery selects things of a publisher; of all publishers if Publisher is "".
type PublisherQuery struct {
	Publisher string `query:"publisher_id"`
	Cursor
}

// PublisherInput creates or changes a publisher.
type PublisherInput struct {
	ID   string  `json:"id,omitempty" only:"create"` // "": a new one
	Name *string `json:"name,omitempty"`             // 1 to 100 characters

	Accent *string `json:"accent,omitempty"`      // #rrggbb; "": the colours of the service
	Logo   *string `json:"logo_base64,omitempty"` // a PNG, JPEG or WebP file in base64; "": no logo
}

// PublisherUpdate changes a publisher.
type PublisherUpdate struct {
	Versioned
	PublisherInput
}

// OfPublisher names a publisher.
type OfPublisher struct {
	Publisher string `json:"publisher_id" query:"publisher_id" need:"Required: the publisher whose users' passkeys are ended."`
}

// IntegrationInput creates or changes an integration. It has a field for each of integration.Settings. The
// tags help and placeholder describe the flags of the command line.
type IntegrationInput struct {
	Name            *string                     `json:"name,omitempty" kong:"-"`
	Level           *string                     `json:"level,omitempty" placeholder:"L1|L2" help:"What is proved: L1 an age, L2 an identity document."`
	ChallengeAge    *int                        `json:"challenge_age,omitempty" placeholder:"YEARS" help:"The age that an estimate from a picture must reach."`
	MinimumAge      *int                        `json:"minimum_age,omitempty" placeholder:"YEARS" help:"The age that a proof must prove."`
	Attempts        *int                        `json:"attempts,omitempty" placeholder:"N" help:"Failed attempts that a user has. 0: as many as the service says."`
	Methods         *[]string                   `json:"methods,omitempty" placeholder:"NAME,…" help:"The methods that the page offers, in this order."`
	MethodSettings  *map[string]json.RawMessage `json:"method_settings,omitempty" placeholder:"JSON" help:"Stricter settings for single methods: an object of objects, by name."`
	Passkeys        *string                     `json:"passkeys,omitempty" placeholder:"WHERE" help:"Where a user's passkey counts: off, publisher or service."`
	CallbackOrigins *[]string                   `json:"callback_origins,omitempty" placeholder:"URL,…" help:"Where browsers may be sent back to: scheme://host[:port]. Empty: anywhere, and no public keys."`
	BrowserOrigins  *[]string                   `json:"browser_origins,omitempty" placeholder:"URL,…" help:"Whose pages may use a public key."`
	RedirectURIs    *[]string                   `json:"redirect_uris,omitempty" name:"redirect-uris" sep:"none" placeholder:"URL" help:"Where the OpenID provider sends users back to: an exact address. May be repeated. Empty: it is no client."`
	AlertURL        *string                     `json:"alert_url,omitempty" name:"alert-url" placeholder:"URL" help:"Where an alert goes if deliveries fail for an hour. Empty: nowhere."`
	*WebhookInput   `kong:"-"`                  // effective immediately, not staged

	Publisher string `json:"publisher_id,omitempty" only:"create" need:"Required: the publisher of the integration." kong:"-"`
}

// WebhookInput is the destination of events. With NewSecret, the response contains a new secret, once.
type WebhookInput struct {
	Off       *bool   `json:"webhook_off,omitempty"`
	URL       *string `json:"webhook_url,omitempty"`
	Secret    *string `json:"webhook_secret,omitempty"`
	NewSecret bool    `json:"new_webhook_secret,omitempty"`
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
	Integration string `in:"path" json:"-"`
	Staged      bool   `json:"-" query:"staged"`
}

// TestEventInput sends a test event.
type TestEventInput struct {
	Integration string `in:"path" json:"-"`
	Type        string `json:"type" need:"Required: the type of the event, such as verification.completed."`
}

// TestSessionInput starts a test session.
type TestSessionInput struct {
	Integration string `in:"path" json:"-"`
	CallbackURL string `json:"callback_url" need:"Required: the address for the browser after the session."`
}

// KeyInput creates a key. With an Integration it is a public key.
type KeyInput struct {
	Publisher   string     `json:"publisher_id" need:"Required: the publisher of the key."`
	Integration string     `json:"integration_id,omitempty"`
	Expires     *time.Time `json:"expires,omitempty"` // nil: never
}

// DeliveryQuery selects deliveries. An empty field selects all.
type DeliveryQuery struct {
	Integration string `query:"integration_id"` // required for members, and for delivered events
	State       string `query:"state"`          // one of the Delivery constants
	Type        string `query:"type"`           // of the event
	Cursor
}

// most returns the cursor with the highest limit, if it has none.
func (c Cursor) most() Cursor {
	c.Limit = cmp.Or(c.Limit, MaxLimit)
	return c
}

// EventAt is an event in the log of an integration. Without an Integration, Place is the id of the event.
type EventAt struct {
	Integration string `json:"-" query:"integration_id"`
	Place       string `in:"path" json:"-"`
}

// eventID checks the form of an event's id.
func eventID(event string) error {
	rest, ok := strings.CutPrefix(event, "evt_")
	if _, err := uuid.Parse(rest); !ok || err != nil {
		return &web.Error{Code: web.InvalidRequest, Message: "An event id is evt_ and a UUID."}
	}
	return nil
}

// UsageQuery selects days of an integration, or of all integrations of a publisher. "" is 29 days ago, and
// today.
type UsageQuery struct {
	Integration string `query:"integration_id"`
	Publisher   string `query:"publisher_id"`
	From        string `query:"from"`
	To          string `query:"to"`
	Format      string `query:"format"` // csv, or "" for JSON
}

// ReportQuery selects the publisher and the days of a report. "" is all publishers, 29 days before To, and
// today.
type ReportQuery struct {
	Publisher string `query:"publisher_id"`
	From      string `query:"from"`
	To        string `query:"to"`
}

// RoleInput gives a member another role.
type RoleInput struct {
	Member string `in:"path" json:"-"`
	Role   Role   `json:"role" need:"Required: admin, developer or viewer."`
}

// InvitationInput invites a person.
type InvitationInput struct {
	Publisher string `json:"publisher_id" need:"Required: the publisher that the person becomes a member of."`
	Name      string `json:"name,omitempty"`
	Role      Role   `json:"role" need:"Required: admin, developer or viewer."`
}

// InvitationOf is an invitation of a publisher.
type InvitationOf struct {
	Publisher string `json:"-" query:"publisher_id"`
	ID        string `in:"path" json:"-"`
}

// LinkInput creates a single-use sign-in link. Without a Publisher it is one for an operator.
type LinkInput struct {
	Publisher string `json:"publisher_id,omitempty"`
	Name      string `json:"name,omitempty"` // of the person, for the audit
	Role      Role   `json:"role" need:"Required: the role of the link's holder."`
}

// OperatorInput creates an operator token.
type OperatorInput struct {
	Name    string     `json:"name" need:"Required: the name of the operator, for the audit."`
	Role    Role       `json:"role" need:"Required: operator or viewer."`
	Expires *time.Time `json:"expires,omitempty"`
}

// selfInput may name an operation that the token must allow.
type selfInput struct {
	May Operation `query:"may"`
}

// SiteInput is a configuration as JSON.
type SiteInput struct {
	Text   []byte `in:"body"`
	DryRun bool   `json:"-" query:"dry_run"` // only return the differences
}
