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

// Right is an Operation, or an [Endpoint] that needs one.
type Right interface{ operation() Operation }

func (op Operation) operation() Operation { return op }

// rights are the roles that may do an operation (contract 42, 43).
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

// rightsOf has the rights of every operation. A test compares it with every function of Operations.
var rightsOf = map[Operation]rights{}

// allow declares an operation.
func allow(name string, operators, members []Role) Operation {
	rightsOf[Operation(name)] = rights{operators, members}
	return Operation(name)
}

// The operations, all of them.
var (
	publisherList      = allow("publisher.list", allOperators, nil)
	publisherRead      = allow("publisher.read", allOperators, allMembers)
	publisherCreate    = allow("publisher.create", operatorsOnly, nil)
	publisherChange    = allow("publisher.change", operatorsOnly, adminsOnly)
	publisherArchive   = allow("publisher.archive", operatorsOnly, nil)
	integrationList    = allow("integration.list", allOperators, allMembers)
	integrationRead    = allow("integration.read", allOperators, allMembers)
	integrationCreate  = allow("integration.create", operatorsOnly, developers)
	integrationChange  = allow("integration.change", operatorsOnly, developers)
	integrationArchive = allow("integration.archive", operatorsOnly, adminsOnly)
	webhookChange      = allow("webhook.change", operatorsOnly, developers) // staging, new secret
	webhookTest        = allow("webhook.test", operatorsOnly, developers)   // the signed test, test events
	sessionTest        = allow("session.test", operatorsOnly, developers)   // start a test session
	keyList            = allow("key.list", allOperators, allMembers)
	keyCreate          = allow("key.create", operatorsOnly, developers)
	keyRevoke          = allow("key.revoke", operatorsOnly, developers)
	deliveryList       = allow("delivery.list", allOperators, allMembers)
	deliveryResend     = allow("delivery.resend", operatorsOnly, developers)
	sessionRead        = allow("session.read", allOperators, allMembers)
	usageRead          = allow("usage.read", allOperators, allMembers)
	passkeysCount      = allow("passkeys.count", allOperators, allMembers) // of users
	passkeysEnd        = allow("passkeys.end", operatorsOnly, nil)
	memberList         = allow("member.list", allOperators, allMembers)
	memberInvite       = allow("member.invite", operatorsOnly, adminsOnly)
	memberChange       = allow("member.change", operatorsOnly, adminsOnly) // role, sign out everywhere
	memberRemove       = allow("member.remove", operatorsOnly, adminsOnly)
	linkCreate         = allow("link.create", operatorsOnly, nil)
	auditRead          = allow("audit.read", allOperators, allMembers)
	reportRead         = allow("report.read", operatorsOnly, adminsOnly)
	methodList         = allow("method.list", allOperators, allMembers)
	trustListRead      = allow("trust_list.read", allOperators, nil)
	trustListLoad      = allow("trust_list.load", operatorsOnly, nil)
	operatorList       = allow("operator.list", allOperators, nil)
	operatorCreate     = allow("operator.create", operatorsOnly, nil)
	operatorRevoke     = allow("operator.revoke", operatorsOnly, nil)
	siteApply          = allow("site.apply", operatorsOnly, nil)
	operatorUse        = allow("operator.use", allOperators, nil)     // see Operations.TellUse
	operatorRefused    = allow("operator.refused", allOperators, nil) // a wrong token, see TokenGuard

	// The core's host carries these out. It asks Operations.Authorize first, and tells with
	// Operations.TellDone what it has changed.
	ModuleRead     = allow("module.read", allOperators, nil)
	ModuleActivate = allow("module.activate", operatorsOnly, nil)
	BackupMake     = allow("backup.make", operatorsOnly, nil)
)

// May reports whether a has the right at all, to its own publisher if it has one. Pages hide what it may not.
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
		return RoleForbids(op, a.Role)
	}
	return nil
}
