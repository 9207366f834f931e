package operate

import (
	"slices"

	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/web"
)

// Role is the set of operations that an actor may perform. Operators' roles see every publisher, members'
// roles see one.
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

// Operation is the name of a right and of the operations that need it. The audit has it.
type Operation string

// Words describes the operation in the audit, such as "Created a key". "" is an operation without words.
func (op Operation) Words() string { return rightsOf[op].words }

// Right is an Operation, or an [Endpoint] that needs one.
type Right interface{ operation() Operation }

func (op Operation) operation() Operation { return op }

// rights are the roles that may do an operation (contract 42, 43), and its words in the audit.
type rights struct {
	words     string // "": its name
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

// rightsOf has the rights of every operation. A test compares it with every function of Operations.
var rightsOf = map[Operation]rights{}

// allow declares an operation.
func allow(name, words string, operators, members []Role) Operation {
	rightsOf[Operation(name)] = rights{words, operators, members}
	return Operation(name)
}

// The operations, all of them.
var (
	publisherList      = allow("publisher.list", "", allOperators, nil)
	publisherRead      = allow("publisher.read", "", allOperators, allMembers)
	publisherCreate    = allow("publisher.create", "Created the publisher", operatorsOnly, nil)
	publisherChange    = allow("publisher.change", "Changed the publisher", operatorsOnly, adminsOnly)
	publisherArchive   = allow("publisher.archive", "Archived the publisher", operatorsOnly, nil)
	integrationList    = allow("integration.list", "", allOperators, allMembers)
	integrationRead    = allow("integration.read", "", allOperators, allMembers)
	integrationCreate  = allow("integration.create", "Created an integration", operatorsOnly, developers)
	integrationChange  = allow("integration.change", "Changed an integration", operatorsOnly, developers)
	integrationArchive = allow("integration.archive", "Archived an integration", operatorsOnly, adminsOnly)
	// webhookChange includes staging and a new secret; webhookTest, the signed test and test events.
	webhookChange  = allow("webhook.change", "Changed a webhook", operatorsOnly, developers)
	webhookTest    = allow("webhook.test", "Tested a webhook", operatorsOnly, developers)
	sessionTest    = allow("session.test", "Started a test session", operatorsOnly, developers)
	keyList        = allow("key.list", "", allOperators, allMembers)
	keyCreate      = allow("key.create", "Created a key", operatorsOnly, developers)
	keyRevoke      = allow("key.revoke", "Revoked a key", operatorsOnly, developers)
	deliveryList   = allow("delivery.list", "", allOperators, allMembers)
	deliveryResend = allow("delivery.resend", "Resent an event", operatorsOnly, developers)
	sessionRead    = allow("session.read", "", allOperators, allMembers)
	usageRead      = allow("usage.read", "", allOperators, allMembers)
	passkeysCount  = allow("passkeys.count", "", allOperators, allMembers) // of users
	passkeysEnd    = allow("passkeys.end", "Ended the passkeys of users", operatorsOnly, nil)
	memberList     = allow("member.list", "", allOperators, allMembers)
	memberInvite   = allow("member.invite", "Invited a member", operatorsOnly, adminsOnly)
	// memberChange is a new role, or the end of all console sessions.
	memberChange   = allow("member.change", "Changed a member", operatorsOnly, adminsOnly)
	memberRemove   = allow("member.remove", "Removed a member", operatorsOnly, adminsOnly)
	linkCreate     = allow("link.create", "Created a sign-in link", operatorsOnly, nil)
	auditRead      = allow("audit.read", "", allOperators, allMembers)
	reportRead     = allow("report.read", "", operatorsOnly, adminsOnly)
	methodList     = allow("method.list", "", allOperators, allMembers)
	trustListRead  = allow("trust_list.read", "", allOperators, nil)
	trustListLoad  = allow("trust_list.load", "Loaded a trusted list", operatorsOnly, nil)
	operatorList   = allow("operator.list", "", allOperators, nil)
	operatorCreate = allow("operator.create", "Created an operator token", operatorsOnly, nil)
	operatorRevoke = allow("operator.revoke", "Revoked an operator token", operatorsOnly, nil)
	siteApply      = allow("site.apply", "Applied a configuration", operatorsOnly, nil)
	// operatorUse: see Operations.TellUse. operatorRejected is a wrong token: see TokenGuard.
	operatorUse      = allow("operator.use", "Used an operator token", allOperators, nil)
	operatorRejected = allow("operator.refused", "Sent a wrong operator token", allOperators, nil)

	// The core's host carries these out. It calls Operations.Authorize first, and Operations.TellDone
	// after a change.
	ModuleRead     = allow("module.read", "", allOperators, nil)
	ModuleActivate = allow("module.activate", "Replaced the module", operatorsOnly, nil)
	BackupMake     = allow("backup.make", "Created a backup", operatorsOnly, nil)
)

// May reports whether a has the right at all, to its own publisher if it has one. Pages hide forms without
// the right.
func (a Actor) May(r Right) bool {
	of := rightsOf[r.operation()]
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
		return a.Forbids(op)
	}
	return nil
}
