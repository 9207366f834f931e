package admin

import (
	"encoding/json"
	"time"

	"github.com/verge-id/verge/core/operate"
)

// The bodies of requests. A member that is absent stays as it is, or has its default. The answers are the
// types of package operate.

// PublisherRequest makes or changes a publisher.
type PublisherRequest struct {
	ID   string  `json:"id,omitempty"` // to create only; absent: one is made
	Name *string `json:"name,omitempty"`
}

// PasskeysRequest ends the passkeys of a publisher's users.
type PasskeysRequest struct {
	PublisherID string `json:"publisher_id"`
}

// IntegrationRequest makes or changes an integration.
type IntegrationRequest struct {
	PublisherID     string                      `json:"publisher_id,omitempty"` // to create only
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
	WebhookRequest
}

// WebhookRequest is the webhook of an integration, or one that is staged.
type WebhookRequest struct {
	Off       *bool   `json:"webhook_off,omitempty"`
	URL       *string `json:"webhook_url,omitempty"`
	Secret    *string `json:"webhook_secret,omitempty"`
	NewSecret bool    `json:"new_webhook_secret,omitempty"` // one is made, and the answer has it
}

// RotateRequest makes a new webhook secret.
type RotateRequest struct {
	Staged bool `json:"staged,omitempty"` // beside the present one, until it has been tested
}

// TestEventRequest sends a test event.
type TestEventRequest struct {
	Type string `json:"type"`
}

// TestSessionRequest starts a test session.
type TestSessionRequest struct {
	CallbackURL string `json:"callback_url"`
}

// KeyRequest asks for a key. With an IntegrationID it is a public key.
type KeyRequest struct {
	PublisherID   string     `json:"publisher_id"`
	IntegrationID string     `json:"integration_id,omitempty"`
	Expires       *time.Time `json:"expires,omitempty"` // nil: it never ends by itself
}

// RoleRequest gives a member another role.
type RoleRequest struct {
	Role operate.Role `json:"role"`
}

// InvitationRequest invites a person.
type InvitationRequest struct {
	PublisherID string       `json:"publisher_id"`
	Name        string       `json:"name,omitempty"`
	Role        operate.Role `json:"role"`
}

// LinkRequest asks for a single-use sign-in link. Without a PublisherID it is one for an operator.
type LinkRequest struct {
	PublisherID string       `json:"publisher_id,omitempty"`
	Name        string       `json:"name,omitempty"` // of the person, for the audit
	Role        operate.Role `json:"role"`
}

// OperatorRequest asks for an operator token.
type OperatorRequest struct {
	Name    string       `json:"name"`
	Role    operate.Role `json:"role"`
	Expires *time.Time   `json:"expires,omitempty"`
}

// MayParameter of SelfPath names an operation (operate.Operation) that the token must be good for.
const MayParameter = "may"

// SiteAnswer says what a configuration changes, or has changed.
type SiteAnswer struct {
	Applied     bool                 `json:"applied"`
	Differences []operate.Difference `json:"differences"`
}
