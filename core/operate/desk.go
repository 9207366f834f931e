package operate

import "context"

// Signatures of Desk, for the faces. (Work in progress on this branch: the bodies follow.)

// Desk carries out operations.
type Desk struct{}

type ctxT = context.Context

func (d *Desk) Publishers(ctx ctxT, who Actor, c Cursor) (Page[Publisher], error)
func (d *Desk) Publisher(ctx ctxT, who Actor, id string) (Publisher, error)
func (d *Desk) CreatePublisher(ctx ctxT, who Actor, in PublisherInput) (Publisher, error)
func (d *Desk) ChangePublisher(ctx ctxT, who Actor, id, version string, in PublisherInput) (Publisher, error)
func (d *Desk) ArchivePublisher(ctx ctxT, who Actor, id, version string) (Publisher, error)

// publisher "": all (operators).
func (d *Desk) Integrations(ctx ctxT, who Actor, publisher string, c Cursor) (Page[Integration], error)
func (d *Desk) Integration(ctx ctxT, who Actor, id string) (Integration, error)
func (d *Desk) CreateIntegration(ctx ctxT, who Actor, in IntegrationInput) (Changed, error)
func (d *Desk) ChangeIntegration(ctx ctxT, who Actor, id, version string, in IntegrationInput) (Changed, error)
func (d *Desk) ArchiveIntegration(ctx ctxT, who Actor, id, version string) (Integration, error)

// version "" in what changes a webhook or archives: whatever it is now (the console's forms send one).
func (d *Desk) StageWebhook(ctx ctxT, who Actor, id, version string, in WebhookInput) (Changed, error)
func (d *Desk) DropStaged(ctx ctxT, who Actor, id, version string) (Integration, error)
func (d *Desk) RotateSecret(ctx ctxT, who Actor, id, version string, staged bool) (Changed, error)
func (d *Desk) TestWebhook(ctx ctxT, who Actor, id string, staged bool) (TestReport, error)
func (d *Desk) SendTestEvent(ctx ctxT, who Actor, id, eventType string) (Exchange, error)
func (d *Desk) StartTestSession(ctx ctxT, who Actor, id, callback string) (TestSession, error)

func (d *Desk) Keys(ctx ctxT, who Actor, publisher string, c Cursor) (Page[Key], error)
func (d *Desk) CreateKey(ctx ctxT, who Actor, in KeyInput) (CreatedKey, error)
func (d *Desk) RevokeKey(ctx ctxT, who Actor, id string) (Key, error)

func (d *Desk) Deliveries(ctx ctxT, who Actor, f DeliveryFilter, c Cursor) (Page[Delivery], error)
func (d *Desk) Delivery(ctx ctxT, who Actor, integration, event string) (Delivery, error)
func (d *Desk) Resend(ctx ctxT, who Actor, event string) error

func (d *Desk) Session(ctx ctxT, who Actor, id string) (Session, error)

// from and to are days, both included; "" is 30 days ago and today.
func (d *Desk) Usage(ctx ctxT, who Actor, integration, from, to string) ([]UsageDay, error)
func (d *Desk) Overview(ctx ctxT, who Actor, publisher string) (Overview, error)

func (d *Desk) Members(ctx ctxT, who Actor, publisher string, c Cursor) (Page[Member], error)
func (d *Desk) Invite(ctx ctxT, who Actor, publisher, name string, role Role) (Invitation, error)
func (d *Desk) Invitations(ctx ctxT, who Actor, publisher string) ([]Invitation, error)
func (d *Desk) RevokeInvitation(ctx ctxT, who Actor, publisher, id string) error
func (d *Desk) ChangeRole(ctx ctxT, who Actor, member string, role Role) (Member, error)
func (d *Desk) SignOutMember(ctx ctxT, who Actor, member string) error // everywhere
func (d *Desk) RemoveMember(ctx ctxT, who Actor, member string) error
func (d *Desk) CreateLink(ctx ctxT, who Actor, publisher string, role Role) (SignInLink, error)

func (d *Desk) OperatorTokens(ctx ctxT, who Actor) ([]OperatorToken, error)
func (d *Desk) CreateOperatorToken(ctx ctxT, who Actor, name string, role Role, expires *string) (CreatedOperatorToken, error)
func (d *Desk) RevokeOperatorToken(ctx ctxT, who Actor, id string) (OperatorToken, error)

func (d *Desk) Audit(ctx ctxT, who Actor, publisher string, c Cursor) (Page[AuditEntry], error)
func (d *Desk) Methods(ctx ctxT, who Actor) ([]Method, error)
func (d *Desk) PlanSite(ctx ctxT, who Actor, site []byte) ([]Difference, error)
func (d *Desk) ApplySite(ctx ctxT, who Actor, site []byte) ([]Difference, error)
