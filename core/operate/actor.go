package operate

import (
	"slices"

	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/web"
)

// Role is what an actor may do. The roles of operators see every publisher, those of members see one.
type Role = member.Role

// The roles. RoleViewer of a member sees one publisher; of an operator, all of them.
const (
	RoleOperator  = member.RoleOperator
	RoleAdmin     = member.RoleAdmin
	RoleDeveloper = member.RoleDeveloper
	RoleViewer    = member.RoleViewer
)

// Kinds of actors.
const (
	KindOperator = audit.Operator // holds an operator token
	KindMember   = audit.Member   // of a publisher
	KindLink     = audit.Link     // came by a single-use sign-in link
	KindFile     = audit.File     // the configuration file
)

// Configured is the id and the name of the operator token of the configuration.
const Configured = member.Configured

// Actor is who asks. A session of package member has one, and converts to this type.
type Actor member.Actor

// Operator reports whether a sees every publisher.
func (a Actor) Operator() bool { return a.Publisher == "" }

// Operation is the name of one thing that can be done. The audit has it, and the table rightsOf says who
// may.
type Operation string

// The operations, all of them.
const (
	PublisherList      Operation = "publisher.list"
	PublisherRead      Operation = "publisher.read"
	PublisherCreate    Operation = "publisher.create"
	PublisherChange    Operation = "publisher.change"
	PublisherArchive   Operation = "publisher.archive"
	IntegrationList    Operation = "integration.list"
	IntegrationRead    Operation = "integration.read"
	IntegrationCreate  Operation = "integration.create"
	IntegrationChange  Operation = "integration.change"
	IntegrationArchive Operation = "integration.archive"
	WebhookChange      Operation = "webhook.change" // also staged, and making a new secret
	WebhookTest        Operation = "webhook.test"   // the signed test, test events
	SessionTest        Operation = "session.test"   // start a test session
	KeyList            Operation = "key.list"
	KeyCreate          Operation = "key.create"
	KeyRevoke          Operation = "key.revoke"
	DeliveryList       Operation = "delivery.list"
	DeliveryResend     Operation = "delivery.resend"
	SessionRead        Operation = "session.read"
	UsageRead          Operation = "usage.read"
	PasskeysCount      Operation = "passkeys.count" // of users
	PasskeysEnd        Operation = "passkeys.end"
	MemberList         Operation = "member.list"
	MemberInvite       Operation = "member.invite"
	MemberChange       Operation = "member.change" // role, sign out everywhere
	MemberRemove       Operation = "member.remove"
	LinkCreate         Operation = "link.create"
	AuditRead          Operation = "audit.read"
	MethodList         Operation = "method.list"
	TrustListRead      Operation = "trust_list.read"
	TrustListLoad      Operation = "trust_list.load"
	OperatorList       Operation = "operator.list"
	OperatorCreate     Operation = "operator.create"
	OperatorRevoke     Operation = "operator.revoke"
	SiteApply          Operation = "site.apply"
	OperatorUse        Operation = "operator.use"     // entered now and then, see Operations.TellUse
	OperatorRefused    Operation = "operator.refused" // a wrong token, see TokenGuard

	// The core's host carries these out. It asks Operations.Authorize first, and tells with
	// Operations.TellDone what it has changed.
	ModuleRead     Operation = "module.read"
	ModuleActivate Operation = "module.activate"
	BackupMake     Operation = "backup.make"
)

// rights says which roles may do an operation.
type rights struct {
	operators []Role // of actors who see every publisher
	members   []Role // of actors who see one
}

var (
	operatorsOnly = []Role{RoleOperator}
	allOperators  = []Role{RoleOperator, RoleViewer}
	adminsOnly    = []Role{RoleAdmin}
	developers    = []Role{RoleAdmin, RoleDeveloper}
	allMembers    = []Role{RoleAdmin, RoleDeveloper, RoleViewer}
)

// rightsOf says who may do what (contract 42, 43). A test holds every function of Operations against it.
var rightsOf = map[Operation]rights{
	PublisherList:      {allOperators, nil},
	PublisherRead:      {allOperators, allMembers},
	PublisherCreate:    {operatorsOnly, nil},
	PublisherChange:    {operatorsOnly, adminsOnly},
	PublisherArchive:   {operatorsOnly, nil},
	IntegrationList:    {allOperators, allMembers},
	IntegrationRead:    {allOperators, allMembers},
	IntegrationCreate:  {operatorsOnly, developers},
	IntegrationChange:  {operatorsOnly, developers},
	IntegrationArchive: {operatorsOnly, adminsOnly},
	WebhookChange:      {operatorsOnly, developers},
	WebhookTest:        {operatorsOnly, developers},
	SessionTest:        {operatorsOnly, developers},
	KeyList:            {allOperators, allMembers},
	KeyCreate:          {operatorsOnly, developers},
	KeyRevoke:          {operatorsOnly, developers},
	DeliveryList:       {allOperators, allMembers},
	DeliveryResend:     {operatorsOnly, developers},
	SessionRead:        {allOperators, allMembers},
	UsageRead:          {allOperators, allMembers},
	PasskeysCount:      {allOperators, allMembers},
	PasskeysEnd:        {operatorsOnly, nil},
	MemberList:         {allOperators, allMembers},
	MemberInvite:       {operatorsOnly, adminsOnly},
	MemberChange:       {operatorsOnly, adminsOnly},
	MemberRemove:       {operatorsOnly, adminsOnly},
	LinkCreate:         {operatorsOnly, nil},
	AuditRead:          {allOperators, allMembers},
	MethodList:         {allOperators, allMembers},
	TrustListRead:      {allOperators, nil},
	TrustListLoad:      {operatorsOnly, nil},
	OperatorList:       {allOperators, nil},
	OperatorCreate:     {operatorsOnly, nil},
	OperatorRevoke:     {operatorsOnly, nil},
	SiteApply:          {operatorsOnly, nil},
	OperatorUse:        {allOperators, nil},
	OperatorRefused:    {allOperators, nil},
	ModuleRead:         {allOperators, nil},
	ModuleActivate:     {operatorsOnly, nil},
	BackupMake:         {operatorsOnly, nil},
}

// May reports whether a may do op at all, to its own publisher if it has one. Pages hide what it may not.
func (a Actor) May(op Operation) bool {
	of := rightsOf[op]
	if a.Operator() {
		return slices.Contains(of.operators, a.Role)
	}
	return slices.Contains(of.members, a.Role)
}

// may returns nil if a may do op to the publisher. "" is the service as a whole.
func (a Actor) may(op Operation, publisher string) error {
	switch {
	case !a.Operator() && publisher != a.Publisher:
		return web.ErrNotFound
	case !a.May(op):
		return RoleForbids(op, a.Role)
	}
	return nil
}
