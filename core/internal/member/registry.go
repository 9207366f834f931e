package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// Errors for users and operators. web.ErrNotFound is returned for a member, passkey, invitation or token that
// does not exist or belongs to another publisher.
var (
	// ErrSpent does not name the reason: the store deletes used invitations and links.
	ErrSpent = &web.Error{Code: web.TokenExpired,
		Message: "It was used or withdrawn, has expired, or its author no longer has the right to " +
			"create it. Ask for another one."}

	ErrLastAdmin = &web.Error{Code: web.InvalidRequest,
		Message: "This is the publisher's last admin. Make another member an admin first."}
	ErrLastPasskey = &web.Error{Code: web.InvalidRequest,
		Message: "This is your last passkey. Add another one first."}
	ErrTooMany = &web.Error{Code: web.InvalidRequest,
		Message: "You have the maximum number of passkeys. Remove one first."}
	ErrConfigured = &web.Error{Code: web.InvalidRequest,
		Message: "This token is set in the service's configuration. Change it there."}

	// ErrProof rejects a change because the session's passkey was used too long ago.
	ErrProof = &web.Error{Code: web.Unauthorized,
		Message: "You signed in more than 10 minutes ago. Sign in again, then add the passkey."}
	ErrKnownPasskey = &web.Error{Code: web.Unauthorized,
		Message: "This passkey already belongs to a member. Sign in with it, or create another one."}

	// ErrUnknownPasskey covers blocked passkeys as well.
	ErrUnknownPasskey = &web.Error{Code: web.Unauthorized,
		Message: "No member has this passkey. Choose another one, or ask an admin for an invitation."}

	// ErrLate is for a form that is too old or whose challenge was used. ErrForm is for a form that this
	// service did not create, or created for another session or invitation.
	ErrLate = &web.Error{Code: web.Unauthorized, Message: lateForm}
	ErrForm = &web.Error{Code: web.Unauthorized, Message: lateForm}
)

const lateForm = "The page was open for too long, or was sent twice. Try again."

var (
	// ErrNoSession is returned for a cookie without a session. The person signs in again.
	ErrNoSession = errors.New("member: no such session")

	// ErrNoPasskeys is returned if the service has no host name, since browsers then offer no passkeys.
	ErrNoPasskeys = errors.New("member: there are no passkeys at an address without a name")
)

// AuditOf returns the audit entry of a change, for the commit of the change. A nil AuditOf adds none. It may
// be called more than once for one successful commit.
type AuditOf[T any] func(made T) ([]kv.Put, error)

func (a AuditOf[T]) puts(made T) ([]kv.Put, error) {
	if a == nil {
		return nil, nil
	}
	return a(made)
}

// Config is the configuration of a Registry.
type Config struct {
	// OperatorToken is the operator token in the configuration, or "" if it is not configured.
	OperatorToken string

	// Passkeys is the relying party of members' passkeys. It is nil if the service has no host name: passkeys
	// are then impossible.
	Passkeys *webauthn.RelyingParty
}

// Registry stores members, invitations, links, operator tokens and sessions. Its methods may be called
// concurrently.
type Registry struct {
	Config
	kv     kv.KV
	sealer host.Sealer
	verify host.VerifyFunc
	now    func() time.Time
	random io.Reader
	log    *slog.Logger
	count  func(string)
}

// New returns the registry in h's KV.
func New(h host.Host, cfg Config) *Registry {
	h = host.WithDefaults(h)
	r := &Registry{Config: cfg, kv: h.KV, sealer: h.Sealer, verify: h.Verify, now: h.Now,
		random: h.Random, log: h.Log, count: h.Count}
	return r
}

// Items, all in integration.Partition:
//
//	c/mem/<id>                   a member
//	c/of/mem/<publisher>/<id>    that the member is this publisher's
//	c/inv/<hash>                 an invitation
//	c/of/inv/<publisher>/<hash>  that the invitation is this publisher's
//	c/of/admins/<publisher>      changes with each commit that takes an admin away
//	c/link/<hash>                a sign-in link
//	c/op/<hash>                  an operator token
//	c/con/<hash>                 a console session
//	c/of/con/<id>/<hash>         that the console session is this member's
//	c/cred/<hash>                whose passkey has the credential's id: a member's id
//	c/used/<hash>                that a challenge was used
//	c/done/<transaction>         that a change was made (commitOnce)
//
// The names of records are hashes of secrets, except a member's. Items under c/of/, c/cred/, c/used/ and
// c/done/ have no MAC. They only help to find records: their content counts only if the signed record
// confirms it.
const (
	memberItems     = "c/mem/"
	invitationItems = "c/inv/"
	linkItems       = "c/link/"
	operatorItems   = "c/op/"
	sessionItems    = "c/con/"
	passkeyItems    = "c/cred/"
	usedItems       = "c/used/"
	receiptItems    = "c/done/"
)

func ofMember(publisher, id string) string       { return "c/of/mem/" + publisher + "/" + id }
func ofInvitation(publisher, hash string) string { return "c/of/inv/" + publisher + "/" + hash }
func ofSession(member, hash string) string       { return "c/of/con/" + member + "/" + hash }
func adminsOf(publisher string) string           { return "c/of/admins/" + publisher }

// mark is the value of items whose presence is their meaning.
var mark = []byte("1")

// record is the form of all signed records of this package.
type record[T any] struct {
	At time.Time `json:"at"` // when it was written
	Of T         `json:"of"`
}

// put returns the signed record of v. If expires is zero, it does not expire.
func put[T any](r *Registry, name string, v T, expires time.Time) (kv.Put, error) {
	b, err := json.Marshal(record[T]{r.now().UTC(), v})
	if err != nil {
		return kv.Put{}, fmt.Errorf("member: %w", err)
	}
	b, err = token.SignRecord(r.sealer, key(name).String(), b)
	return kv.Put{Name: name, Value: b, Expires: expires}, err
}

func key(name string) kv.Key { return kv.Key{Partition: integration.Partition, Name: name} }

// read returns a record and its version. It returns web.ErrNotFound, token.ErrRecord, host.ErrKeyAwaited, or
// the store's error.
func read[T any](ctx context.Context, r *Registry, name string) (v T, version string, err error) {
	item, err := r.kv.Get(ctx, key(name))
	if errors.Is(err, kv.ErrNotFound) {
		return v, "", web.ErrNotFound
	}
	if err != nil {
		return v, "", err
	}
	v, err = decode[T](r, item)
	return v, item.Tx, err
}

// decode checks a record's MAC and date, and parses it. No release wrote such records without a MAC.
func decode[T any](r *Registry, item kv.Item) (v T, err error) {
	var stored record[T]
	until, err := token.CheckLongLived(r.sealer, item.Key.String(), item.Value)
	if err == nil {
		err = json.Unmarshal(item.Value, &stored)
		if err != nil || token.RecordedWith(item.Value) == "" || !host.ValidAt(stored.At, until) {
			err = fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
		}
	}
	if errors.Is(err, token.ErrRecord) {
		r.count(metric.NotAuthentic)
		r.log.Error(token.Rejection(err), "item", item.Key.String())
	}
	if err != nil {
		return v, err
	}
	return stored.Of, nil
}

// commit commits tx with kv.CommitSurely. tx is harmless if it is applied twice.
func (r *Registry) commit(ctx context.Context, tx kv.Tx) error {
	var err error
	if tx.ID, err = kv.NewTxID(r.random); err != nil {
		return err
	}
	tx.Partition = integration.Partition
	return kv.CommitSurely(ctx, r.kv, tx)
}

// commitOnce commits a tx at most once. It leaves a receipt: after a lost reply, the receipt distinguishes an
// applied commit from one that another commit overtook. A first try that arrives after the second one finds
// the receipt, even if the records are gone by then.
func (r *Registry) commitOnce(ctx context.Context, tx kv.Tx) error {
	id, err := kv.NewTxID(r.random)
	if err != nil {
		return err
	}
	receipt := receiptItems + id
	tx.Checks = append(tx.Checks, kv.Check{Name: receipt})
	tx.Puts = append(tx.Puts, kv.Put{Name: receipt, Value: mark, Expires: r.now().Add(2 * host.ClockMargin)})
	return r.commit(ctx, tx)
}

// create commits a new record under a random name, together with tx.
func create[T any](
	ctx context.Context, r *Registry, name string, v T, expires time.Time, tx kv.Tx, audit AuditOf[T],
) error {
	p, err := put(r, name, v, expires)
	if err != nil {
		return err
	}
	more, err := audit.puts(v)
	if err != nil {
		return err
	}
	tx.Checks = append(tx.Checks, kv.Check{Name: name})
	tx.Puts = append(append(tx.Puts, p), more...)
	return r.commitOnce(ctx, tx)
}

// beaten reports whether a commit of this package was not applied, and never will be, because another commit
// came first. That is certain even if a reply was lost, because each commit puts an item under a random name.
// It returns the stored items under the names that were checked.
func beaten(err error) (found *kv.Conflict, yes bool) {
	yes = errors.As(err, &found)
	return found, yes
}

// maxRaces is the maximum number of tries of a change that other commits overtake.
const maxRaces = 8

// retry calls try until no other commit comes first, at most maxRaces times.
func retry(what string, try func() error) error {
	for range maxRaces {
		err := try()
		if _, overtaken := beaten(err); !overtaken {
			return err
		}
	}
	return fmt.Errorf("%w: %s changed %d times under one request", kv.ErrUnavailable, what, maxRaces)
}

// only returns the single item whose name starts with a text, such as an id's digits. It returns
// web.ErrNotFound if there is no such item, or more than one.
func (r *Registry) only(ctx context.Context, begins string) (kv.Item, error) {
	items, err := r.kv.List(ctx, key(begins), "", 2)
	if err == nil && len(items) != 1 {
		err = web.ErrNotFound
	}
	if err != nil {
		return kv.Item{}, err
	}
	return items[0], nil
}

// behind returns the name after which a list under a prefix continues, given a cursor that is an id of a
// hash. It sorts after every name that starts with the id's digits.
func behind(prefix, ids, cursor string) (name string, err error) {
	if cursor == "" {
		return "", nil
	}
	digits, ok := hashPrefix(ids, cursor)
	if !ok {
		return "", badCursor()
	}
	return prefix + digits + "~", nil
}

// badCursor returns the error for a cursor that the list did not return.
func badCursor() error {
	return problem.List{{Member: "after", Text: "after is no cursor of this list; begin without one"}}
}

// page calls add for up to n items under a prefix, from the first name after the given one. It returns the
// name of the last item if there may be more. Items that this service did not write or that were deleted are
// left out.
func page(ctx context.Context, r *Registry, prefix, after string, n int,
	add func(item kv.Item) error) (last string, err error) {
	items, err := r.kv.List(ctx, key(prefix), after, n)
	if err != nil {
		return "", err
	}
	for _, it := range items {
		if err := add(it); err != nil && !errors.Is(err, token.ErrRecord) &&
			!errors.Is(err, web.ErrNotFound) {
			return "", err
		}
		last = it.Key.Name
	}
	if len(items) < n {
		return "", nil
	}
	return last, nil
}
