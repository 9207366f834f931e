package console_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/console"
	"github.com/verge-id/verge/core/internal/console/pages"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/passkey"
	"github.com/verge-id/verge/core/usage"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// Publishers and integrations of the fake.
const (
	mineID     = "pub_nordlicht"
	othersID   = "pub_ahrenfeld"
	newID      = "pub_new"
	shopID     = "694069ac-4d4e-475f-906b-2f11c5eca7bd" // ready, with a change staged
	kioskID    = "77777777-7777-4777-8777-777777777702" // its webhook fails the test
	oldID      = "77777777-7777-4777-8777-777777777703" // archived
	managedID  = "77777777-7777-4777-8777-777777777704" // by file
	foreignID  = "11111111-4d4e-475f-906b-2f11c5eca7bd" // another publisher's
	sessionID  = "svc_sess_AgAAAGlKaQAB3cRk0mE7nRzG8Qp1yX5vT2uWb9LfKd4HsJ6oMa"
	theirsID   = "svc_sess_another_publisher"
	deliveryID = "0000-evt-1"
	deadID     = "0000-evt-2"
	secretText = "whsec_made_for_this_test"
	base       = "https://verify.example"
)

// fake is operate.Operations with a store in memory, for the pages. It knows every rule of rights by
// Actor.May.
type fake struct {
	now          func() time.Time
	publishers   []operate.Publisher
	integrations []operate.Integration
	keys         []operate.Key
	deliveries   []operate.Delivery
	sessions     []operate.Session
	members      []operate.Member
	invited      []operate.Invitation
	tokens       []operate.OperatorToken
	audit        []operate.AuditEntry
	did          []string // the operations that changed something
	inputs       []any    // what they were given
	fail         error    // of every operation that changes something
	misread      []web.FieldError
	down         error // of every operation
	ready        bool  // the next webhook test passes
	silent       bool  // the receiver does not answer it
	stepsDone    bool  // every step to go live is done
	noSandbox    bool  // no integration can start a test session
}

func ptr[T any](v T) *T { return &v }

func newFake(now func() time.Time) *fake {
	t := now()
	before := func(d time.Duration) time.Time { return t.Add(-d) }
	days := func(n int) *time.Time { return ptr(before(time.Duration(n) * 24 * time.Hour)) }
	d := &fake{now: now}
	publisher := func(id, name string, created *time.Time) operate.Publisher {
		return operate.Publisher{Publisher: integration.Publisher{ID: id, Name: name, Created: created},
			Version: "v1"}
	}
	d.publishers = []operate.Publisher{publisher(mineID, "Nordlicht Spirits", days(120)),
		publisher(othersID, "Ahrenfeld Games", days(80)), publisher(newID, "Brandneu", days(0)),
		publisher("pub_file", "Hafen Kiosk", nil), publisher("pub_old", "Alte Welt", days(300))}
	d.publishers[1].Removed = true
	d.publishers[3].Managed = true
	d.publishers[4].Archived = days(12)
	add := func(id, publisher, name string, change func(*operate.Integration)) {
		i := operate.Integration{Integration: integration.Integration{ID: id, PublisherID: publisher,
			Name:  name,
			Level: "L1", ChallengeAge: 25, Methods: []string{"camera", "bank"}, Created: days(90),
			CallbackOrigins: []string{"https://" + strings.ToLower(name) + ".example"},
			BrowserOrigins:  []string{"https://" + strings.ToLower(name) + ".example"}},
			Ready: true, Sandbox: true, Version: "v7", Readiness: &operate.Readiness{Ready: true,
				At: before(26 * time.Hour)}}
		i.Webhook.URL = "https://" + strings.ToLower(name) + ".example/webhooks/verge"
		change(&i)
		d.integrations = append(d.integrations, i)
	}
	add(shopID, mineID, "Shop", func(i *operate.Integration) {
		i.Staged = &integration.Webhook{URL: "https://events.shop.example/verge"}
		i.MinimumAge = 18
	})
	add(kioskID, mineID, "Kiosk", func(i *operate.Integration) {
		i.Ready, i.Readiness = false, &operate.Readiness{At: before(10 * time.Minute)}
		i.Level, i.Methods = "L2", []string{"bank"}
	})
	add(managedID, mineID, "Lager", func(i *operate.Integration) { i.Managed = true })
	add(oldID, mineID, "Messe", func(i *operate.Integration) { i.Archived = days(40); i.Ready = false })
	add(foreignID, othersID, "Games", func(i *operate.Integration) { i.Removed = true })

	d.addTraffic()
	d.addPeople()
	return d
}

// addTraffic adds keys, deliveries and sessions.
func (o *fake) addTraffic() {
	t := o.now()
	before := func(d time.Duration) time.Time { return t.Add(-d) }
	o.keys = []operate.Key{
		{Key: integration.Key{ID: "key_1", PublisherID: mineID, Last4: "9fQ2",
			Created: before(90 * 24 * time.Hour)},
			LastUsed: t.Format(time.DateOnly)},
		{Key: integration.Key{ID: "key_2", PublisherID: mineID, IntegrationID: shopID, Last4: "Xk07",
			Created: before(60 * 24 * time.Hour), Expires: ptr(t.Add(72 * time.Hour))},
			LastUsed: "2026-11-02"},
		{Key: integration.Key{ID: "key_3", PublisherID: mineID, Last4: "aaZ1",
			Created: before(200 * 24 * time.Hour),
			Revoked: ptr(before(90 * 24 * time.Hour))}},
	}
	event := func(place, typ, state string, age time.Duration, attempts ...operate.Attempt) operate.Delivery {
		return operate.Delivery{Event: "evt_0f8fad5b-d9cb-469f-a165-7086" + place[len(place)-1:] + "728950e",
			Place: place, Type: typ, Session: sessionID, Integration: shopID, State: state,
			Created:  before(age),
			Attempts: attempts, Body: `{"id":"evt_1","type":"` + typ +
				`","data":{"status":"completed","level":"L1"}}`}
	}
	ok := func(age time.Duration) operate.Attempt {
		return operate.Attempt{At: before(age), Status: 200, TookMS: 84}
	}
	o.deliveries = []operate.Delivery{
		event("0000-evt-3", webhook.TypeStarted, operate.DeliveryWaiting, 40*time.Second,
			operate.Attempt{At: before(30 * time.Second), Cause: host.FetchTimeout, TookMS: 10000}),
		event(deliveryID, webhook.TypeCompleted, operate.DeliveryDelivered, 5*time.Minute,
			operate.Attempt{At: before(5 * time.Minute), Status: 503, TookMS: 1203}, ok(4*time.Minute)),
		event(deadID, webhook.TypeFailed, operate.DeliveryDead, 3*time.Hour,
			operate.Attempt{At: before(3 * time.Hour), Status: 401, TookMS: 31}),
		event("0000-evt-4", webhook.TypeStarted, operate.DeliveryDelivered, 6*time.Minute, ok(6*time.Minute)),
	}
	o.deliveries[0].Due = ptr(t.Add(90 * time.Second))
	o.deliveries[2].Reason = "refused"
	o.deliveries[3].Test = true
	o.sessions = []operate.Session{
		{ID: sessionID, Publisher: mineID, Integration: shopID, Level: "L1", ChallengeAge: 25,
			Status:   "COMPLETED",
			Attempts: 1, Started: before(6 * time.Minute), Expires: t.Add(4 * time.Minute),
			Ended: ptr(before(5 * time.Minute)), ResultUsed: ptr(true),
			Steps: []operate.SessionStep{{At: before(330 * time.Second), Method: "bank",
				Result: "attempt_failed", Reason: "unconfirmed", Setting: "proof.claim", Detail: "age.over"}},
			Events: []operate.Delivery{o.deliveries[3], o.deliveries[1]}},
		{ID: theirsID, Publisher: othersID, Integration: foreignID, Status: "PENDING",
			Started: before(time.Minute)},
		{ID: "svc_sess_pending", Publisher: mineID, Integration: shopID, Level: "L1", ChallengeAge: 25,
			Status: "PENDING", Started: before(time.Minute), Expires: t.Add(9 * time.Minute)},
	}
}

// addPeople adds members, tokens and the audit.
func (o *fake) addPeople() {
	t := o.now()
	before := func(d time.Duration) time.Time { return t.Add(-d) }
	days := func(n int) *time.Time { return ptr(before(time.Duration(n) * 24 * time.Hour)) }
	member := func(id, publisher, name string, role operate.Role, seen *time.Time) operate.Member {
		return operate.Member{ID: id, Publisher: publisher, Name: name, Role: role,
			Created:  before(50 * 24 * time.Hour),
			LastSeen: seen, Passkeys: []operate.Passkey{{ID: "psk_1", Name: "Passkey 1",
				Created:  before(50 * 24 * time.Hour),
				LastUsed: seen}}, Version: "v1"}
	}
	o.members = []operate.Member{
		member("mem_admin", mineID, "Ada Byron", operate.RoleAdmin, ptr(before(2*time.Minute))),
		member("mem_developer", mineID, "Grace Hopper", operate.RoleDeveloper, ptr(before(26*time.Hour))),
		member("mem_viewer", mineID, "Annie Easley", operate.RoleViewer, nil),
		member("mem_other", othersID, "Radia Perlman", operate.RoleAdmin, nil),
	}
	o.invited = []operate.Invitation{{ID: "inv_1", Publisher: mineID, Name: "Karen Jones",
		Role: operate.RoleDeveloper, Expires: t.Add(20 * time.Hour)}}
	o.tokens = []operate.OperatorToken{
		{ID: "configuration", Name: "configuration", Role: operate.RoleOperator},
		{ID: "op_1", Name: "CI pipeline", Role: operate.RoleOperator, Last4: "77Qa", Created: days(30),
			Expires: ptr(t.Add(60 * 24 * time.Hour))},
		{ID: "op_2", Name: "Support desk", Role: operate.RoleViewer, Last4: "0bZz", Created: days(10)},
		{ID: "op_3", Name: "Old laptop", Role: operate.RoleOperator, Last4: "l33t", Created: days(200),
			Revoked: days(60)},
	}
	o.audit = []operate.AuditEntry{
		{ID: "1", At: before(3 * time.Minute), ActorKind: operate.KindMember, ActorID: "mem_developer",
			ActorName: "Grace Hopper", Publisher: mineID, Operation: operate.IntegrationChange,
			Target: shopID,
			Changes: []operate.AuditChange{{Field: "challenge_age", From: "23", To: "25"},
				{Field: "callback_origins", From: "https://old.example", To: ""}}},
		{ID: "2", At: before(2 * time.Hour), ActorKind: operate.KindOperator, ActorID: "op_1",
			ActorName: "CI pipeline",
			Publisher: mineID, Operation: operate.KeyCreate, Target: "key_1"},
		{ID: "3", At: before(9 * time.Hour), ActorKind: operate.KindFile, Publisher: mineID,
			Operation: operate.IntegrationCreate, Target: managedID,
			Changes: []operate.AuditChange{{Field: "name", To: "Lager"}}},
	}
}

// may is what operate does: another publisher's things are not there, and a role may do only what is its own.
func (o *fake) may(who operate.Actor, op operate.Operation, publisher string) error {
	switch {
	case o.down != nil:
		return o.down
	case !who.Operator() && who.Publisher != publisher:
		return web.ErrNotFound
	case !who.May(op):
		return operate.RoleForbids(op, who.Role)
	}
	return nil
}

func (o *fake) WithMisread(misread []web.FieldError) console.Operations {
	if len(misread) == 0 {
		return o
	}
	with := *o
	with.misread = misread
	return &with
}

// does is may for what changes something.
func (o *fake) does(who operate.Actor, op operate.Operation, publisher string, input ...any) error {
	if err := o.may(who, op, publisher); err != nil {
		return err
	}
	if invalid, ok := o.fail.(*web.Error); len(o.misread) > 0 {
		if ok {
			return &web.Error{Code: web.InvalidRequest, Details: append(o.misread, invalid.Details...)}
		}
		return &web.Error{Code: web.InvalidRequest, Details: o.misread}
	}
	if o.fail != nil {
		return o.fail
	}
	o.did, o.inputs = append(o.did, string(op)), append(o.inputs, input...)
	return nil
}

// part cuts a list at a cursor, which is a number.
func part[T any](all []T, c operate.Cursor) operate.Page[T] {
	from := 0
	fmt.Sscan(c.After, &from)
	limit := c.Limit
	if limit == 0 {
		limit = operate.DefaultLimit
	}
	to := min(from+limit, len(all))
	page := operate.Page[T]{Items: all[min(from, to):to]}
	if to < len(all) {
		page.Next = fmt.Sprint(to)
	}
	return page
}

func of[T any](all []T, ok func(T) bool) (some []T) {
	for _, v := range all {
		if ok(v) {
			some = append(some, v)
		}
	}
	return some
}

func (o *fake) Publishers(_ context.Context, who operate.Actor, c operate.Cursor) (
	operate.Page[operate.Publisher], error) {
	return part(of(o.publishers, func(p operate.Publisher) bool { return strings.Contains(p.Name, c.Name) }),
		c), o.may(who, operate.PublisherList, "")
}

func (o *fake) Publisher(_ context.Context, who operate.Actor, id string) (operate.Publisher, error) {
	if err := o.may(who, operate.PublisherRead, id); err != nil {
		return operate.Publisher{}, err
	}
	for _, p := range o.publishers {
		if p.ID == id {
			return p, nil
		}
	}
	return operate.Publisher{}, web.ErrNotFound
}

func (o *fake) CreatePublisher(_ context.Context, who operate.Actor, in operate.PublisherInput) (
	operate.Publisher, error) {
	if in.Name == nil || *in.Name == "" {
		return operate.Publisher{}, &web.Error{
			Code: web.InvalidRequest,
			Details: []web.FieldError{{Field: "name", Code: "required",
				Message: "Give the publisher a name."}},
		}
	}
	p := operate.Publisher{Publisher: integration.Publisher{ID: "pub_made", Name: *in.Name}, Version: "v1"}
	err := o.does(who, operate.PublisherCreate, "", in)
	if err == nil {
		o.publishers = append(o.publishers, p)
	}
	return p, err
}

func (o *fake) ChangePublisher(ctx context.Context, who operate.Actor, id, version string,
	in operate.PublisherInput) (
	operate.Publisher, error) {
	p, err := o.Publisher(ctx, who, id)
	if err == nil && version != p.Version {
		err = &web.Error{Code: web.PreconditionFailed}
	}
	if err != nil {
		return p, err
	}
	return p, o.does(who, operate.PublisherChange, id, in)
}

func (o *fake) ArchivePublisher(ctx context.Context, who operate.Actor, id, _ string) (operate.Publisher,
	error) {
	p, err := o.Publisher(ctx, who, id)
	if err != nil {
		return p, err
	}
	return p, o.does(who, operate.PublisherArchive, id)
}

func (o *fake) Passkeys(_ context.Context, _ operate.Actor, publisher string, most int) (operate.UserPasskeys,
	error) {
	if most > passkey.PageTally {
		return operate.UserPasskeys{}, errors.New("a page counts too many passkeys")
	}
	return operate.UserPasskeys{Publisher: publisher, Count: 3}, nil
}

func (o *fake) EndPasskeys(_ context.Context, who operate.Actor, publisher string) (operate.UserPasskeys,
	error) {
	return operate.UserPasskeys{Publisher: publisher}, o.does(who, operate.PasskeysEnd, publisher)
}

func (o *fake) Integrations(_ context.Context, who operate.Actor, publisher string, c operate.Cursor) (
	operate.Page[operate.Integration], error) {
	return part(of(o.integrations, func(i operate.Integration) bool {
			return i.PublisherID == publisher && strings.Contains(i.Name, c.Name)
		}), c),
		o.may(who, operate.IntegrationList, publisher)
}

func (o *fake) Integration(_ context.Context, who operate.Actor, id string) (operate.Integration, error) {
	for _, i := range o.integrations {
		if i.ID == id {
			return i, o.may(who, operate.IntegrationRead, i.PublisherID)
		}
	}
	return operate.Integration{}, web.ErrNotFound
}

func (o *fake) CreateIntegration(_ context.Context, who operate.Actor, in operate.IntegrationInput) (
	operate.Changed, error) {
	wrong := web.Error{Code: web.InvalidRequest, Details: o.misread}
	if in.Name == nil || *in.Name == "" {
		wrong.Details = append(wrong.Details, web.FieldError{Field: "name", Code: "required",
			Message: "Give the integration a name."})
	}
	if len(wrong.Details) > 0 {
		return operate.Changed{}, &wrong
	}
	made := operate.Changed{Integration: operate.Integration{Integration: integration.Integration{ID: kioskID,
		PublisherID: in.Publisher, Name: *in.Name}, Version: "v1"}}
	if in.Webhook != nil {
		made.Webhook.URL, made.Secret = *in.Webhook.URL, secretText
	}
	return made, o.does(who, operate.IntegrationCreate, in.Publisher, in)
}

// changes is an operation that changes an integration of that version.
func (o *fake) changes(ctx context.Context, who operate.Actor, op operate.Operation, id, version string,
	in ...any) (
	operate.Integration, error) {
	i, err := o.Integration(ctx, who, id)
	if err == nil && version != i.Version {
		err = &web.Error{Code: web.PreconditionFailed}
	}
	if err == nil {
		err = o.does(who, op, i.PublisherID, in...)
	}
	return i, err
}

func (o *fake) ChangeIntegration(ctx context.Context, who operate.Actor, id, version string,
	in operate.IntegrationInput) (operate.Changed, error) {
	was, err := o.Integration(ctx, who, id)
	if err != nil {
		return operate.Changed{}, err
	}
	changed := operate.Changed{}
	if was.Webhook.URL == "" && in.Webhook != nil && in.Webhook.URL != nil {
		changed.Secret = secretText
	}
	changed.Integration, err = o.changes(ctx, who, operate.IntegrationChange, id, version, in)
	return changed, err
}

func (o *fake) ArchiveIntegration(ctx context.Context, who operate.Actor, id, version string) (
	operate.Integration, error) {
	return o.changes(ctx, who, operate.IntegrationArchive, id, version)
}

func (o *fake) StageWebhook(ctx context.Context, who operate.Actor, id, version string,
	in operate.WebhookInput) (
	operate.Changed, error) {
	i, err := o.changes(ctx, who, operate.WebhookChange, id, version, in)
	return operate.Changed{Integration: i, Secret: secretText}, err
}

func (o *fake) DropStaged(ctx context.Context, who operate.Actor, id, version string) (operate.Integration,
	error) {
	return o.changes(ctx, who, operate.WebhookChange, id, version)
}

func (o *fake) RotateSecret(ctx context.Context, who operate.Actor, id, version string, _ bool) (
	operate.Changed, error) {
	i, err := o.changes(ctx, who, operate.WebhookChange, id, version)
	return operate.Changed{Integration: i, Secret: secretText}, err
}

func (o *fake) TestWebhook(ctx context.Context, who operate.Actor, id string, staged bool) (
	operate.TestReport, error) {
	i, err := o.Integration(ctx, who, id)
	if err == nil {
		err = o.does(who, operate.WebhookTest, i.PublisherID)
	}
	if o.silent {
		return operate.TestReport{Probes: []operate.ProbeReport{{Name: webhook.ProbeGood, Want: "2xx",
			Reason: host.FetchRefused}}}, err
	}
	r := operate.TestReport{Ready: o.ready, URL: i.Webhook.URL, Promoted: o.ready && staged}
	for _, p := range []struct {
		name, want string
		status     int
		passed     bool
	}{{webhook.ProbeGood, "2xx", 204, true}, {webhook.ProbeBadSignature, "401", 401, true},
		{webhook.ProbeStaleTimestamp, "401", 204, o.ready}, {webhook.ProbeDifferingTimestamp, "401", 204,
			o.ready},
		{webhook.ProbeAlteredBody, "401", 500, o.ready}} {
		r.Probes = append(r.Probes, operate.ProbeReport{Name: p.name, Want: p.want, Status: p.status,
			RequestHeader: map[string]string{"X-Service-Timestamp": "1795390000"},
			RequestBody:   ` {"type":"verification.started"}`, Body: "it says <no>", Cut: true,
			Passed: p.passed, TookMS: 47})
	}
	return r, err
}

func (o *fake) SendTestEvent(ctx context.Context, who operate.Actor, id, eventType string) (
	operate.Exchange, error) {
	i, err := o.Integration(ctx, who, id)
	if err == nil {
		err = o.does(who, operate.WebhookTest, i.PublisherID, eventType)
	}
	return operate.Exchange{Type: eventType, URL: i.Webhook.URL, RequestHeader: map[string]string{
		"Content-Type": "application/json; charset=utf-8", webhook.HeaderTimestamp: "1795390000",
		webhook.HeaderSignature: "t=1795390000," +
			"v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd"},
		RequestBody: `{"id":"evt_1","type":"` + eventType +
			`","test":true,"data":{"status":"started"}}`, Status: 401,
		Body: "signature mismatch\n", TookMS: 63,
		Words: "A 4xx answer says that the event is unwanted. It would be " + "given up at once."}, err
}

func (o *fake) StartTestSession(ctx context.Context, who operate.Actor, id, callback string) (
	operate.TestSession, error) {
	i, err := o.Integration(ctx, who, id)
	if err == nil {
		err = o.does(who, operate.SessionTest, i.PublisherID, callback)
	}
	return operate.TestSession{ID: "svc_sess_pending", RedirectURL: base + "/verify?flow=abc",
		Expires: o.now().Add(10 * time.Minute)}, err
}

func (o *fake) Keys(_ context.Context, who operate.Actor, publisher string, c operate.Cursor) (
	operate.Page[operate.Key], error) {
	return part(of(o.keys, func(k operate.Key) bool { return k.PublisherID == publisher }), c),
		o.may(who, operate.KeyList, publisher)
}

func (o *fake) CreateKey(_ context.Context, who operate.Actor, in operate.KeyInput) (operate.CreatedKey,
	error) {
	return operate.CreatedKey{Key: "svc_sk_" + secretText}, o.does(who, operate.KeyCreate, in.Publisher, in)
}

func (o *fake) RevokeKey(_ context.Context, who operate.Actor, id string) (operate.Key, error) {
	for _, k := range o.keys {
		if k.ID == id {
			return k, o.does(who, operate.KeyRevoke, k.PublisherID)
		}
	}
	return operate.Key{}, web.ErrNotFound
}

func (o *fake) Deliveries(ctx context.Context, who operate.Actor, f operate.DeliveryFilter,
	c operate.Cursor) (
	operate.Page[operate.Delivery], error) {
	i, err := o.Integration(ctx, who, f.Integration)
	if err == nil {
		err = o.may(who, operate.DeliveryList, i.PublisherID)
	}
	return part(of(o.deliveries, func(e operate.Delivery) bool {
		return e.Integration == f.Integration && (f.State == "" || e.State == f.State) &&
			(f.Type == "" || e.Type == f.Type)
	}), c), err
}

func (o *fake) Undelivered(_ context.Context, who operate.Actor) (operate.Undelivered, error) {
	u := operate.Undelivered{Publishers: []operate.PublisherUndelivered{}}
	if len(o.deliveries) > 0 {
		u.Publishers = []operate.PublisherUndelivered{
			{Publisher: mineID, Name: "Nordlicht Spirits", Waiting: 1, Dead: 1,
				Oldest: &o.deliveries[0].Created,
				Newest: &o.deliveries[2].Created, Integrations: []operate.IntegrationUndelivered{
					{Integration: shopID, Name: "Shop", Waiting: 1, Dead: 1}}},
			{Publisher: othersID, Name: "Ahrenfeld Games", Dead: 1250, More: true,
				Newest: &o.deliveries[1].Created, Integrations: []operate.IntegrationUndelivered{
					{Integration: foreignID, Name: "Games", Dead: 1250, More: true}}},
		}
	}
	return u, o.may(who, operate.DeliveryList, "")
}

func (o *fake) Delivery(ctx context.Context, who operate.Actor, integration, place string) (
	operate.Delivery, error) {
	if _, err := o.Integration(ctx, who, integration); err != nil {
		return operate.Delivery{}, err
	}
	for _, e := range o.deliveries {
		if e.Integration == integration && e.Place == place {
			return e, nil
		}
	}
	return operate.Delivery{}, web.ErrNotFound
}

func (o *fake) Resend(ctx context.Context, who operate.Actor, integration, place string) (operate.Delivery,
	error) {
	e, err := o.Delivery(ctx, who, integration, place)
	if err == nil {
		err = o.does(who, operate.DeliveryResend, mineID)
	}
	return e, err
}

func (o *fake) Session(_ context.Context, who operate.Actor, id string) (operate.Session, error) {
	for _, s := range o.sessions {
		if s.ID == id {
			return s, o.may(who, operate.SessionRead, s.Publisher)
		}
	}
	return operate.Session{}, web.ErrNotFound
}

func (o *fake) Usage(ctx context.Context, who operate.Actor, id, from, to string) ([]usage.Day, error) {
	i, err := o.Integration(ctx, who, id)
	if err == nil {
		err = o.may(who, operate.UsageRead, i.PublisherID)
	}
	if from != "" && from > to {
		return nil, &web.Error{
			Code: web.InvalidRequest,
			Details: []web.FieldError{{Field: "from", Code: "value",
				Message: "From must be on or before to."}},
		}
	}
	last := host.DayOf(o.now())
	if to != "" {
		last, _ = host.ParseDay(to)
	}
	var days []usage.Day
	for n := range 30 {
		day := usage.Day{Day: last - host.Day(29-n)}
		if i.ID == shopID {
			busy := uint64(40 + (n*n*7)%90)
			day.Counts.Add(host.OutcomeStarted, busy)
			day.Counts.Add(host.OutcomeCompleted, busy*7/10)
			day.Counts.Add(host.OutcomeRejected, busy/10)
			day.Counts.Add(host.OutcomeCancelled, busy/20)
			day.Counts.Add(host.OutcomeExpired, busy/12)
		}
		days = append(days, day)
	}
	return days, err
}

func (o *fake) Overview(_ context.Context, who operate.Actor, publisher string) (operate.Overview, error) {
	view := operate.Overview{Today: map[string]uint64{}}
	steps := []operate.Step{{Name: operate.StepIntegration}, {Name: operate.StepWebhook},
		{Name: operate.StepKey},
		{Name: operate.StepSession},
		{Name: operate.StepMethod}}
	if publisher == mineID {
		view.Waiting, view.Dead = 1, 3
		view.Undelivered = []operate.IntegrationUndelivered{
			{Integration: kioskID, Name: "Kiosk", Waiting: 1, Dead: 3}}
		view.Today = map[string]uint64{host.OutcomeStarted: 1284, host.OutcomeCompleted: 1102,
			host.OutcomeRejected: 61, host.OutcomeMaxAttempts: 12, host.OutcomeCancelled: 40,
			host.OutcomeExpired: 55}
		for n := range steps {
			steps[n].Integration, steps[n].Done = shopID, n == 0 || n == 2 || o.stepsDone
		}
		if o.noSandbox {
			steps[3].Integration = ""
		}
	}
	view.Steps = steps
	return view, o.may(who, operate.PublisherRead, publisher)
}

func (o *fake) Members(_ context.Context, who operate.Actor, publisher string, c operate.Cursor) (
	operate.Page[operate.Member], error) {
	page := part(of(o.members, func(m operate.Member) bool { return m.Publisher == publisher }), c)
	if who.May(operate.MemberChange) {
		for n := range page.Items {
			page.Items[n].Sessions = &operate.MemberSessions{Count: n}
			if n > 0 {
				page.Items[n].Sessions.LastUsed = ptr(o.now().Add(-4 * time.Minute))
			}
		}
	}
	return page, o.may(who, operate.MemberList, publisher)
}

func (o *fake) Invite(_ context.Context, who operate.Actor, publisher, name string, role operate.Role) (
	operate.Invitation, error) {
	return operate.Invitation{ID: "inv_2", Link: base + "/console/invitation?invitation=" + secretText},
		o.does(who, operate.MemberInvite, publisher, name, role)
}

func (o *fake) Invitations(_ context.Context, who operate.Actor, publisher string, c operate.Cursor) (
	operate.Page[operate.Invitation], error) {
	return part(of(o.invited, func(i operate.Invitation) bool { return i.Publisher == publisher }), c),
		o.may(who, operate.MemberList, publisher)
}

func (o *fake) WithdrawInvitation(_ context.Context, who operate.Actor, publisher, _ string) error {
	return o.does(who, operate.MemberInvite, publisher)
}

func (o *fake) member(id string) operate.Member {
	for _, m := range o.members {
		if m.ID == id {
			return m
		}
	}
	return operate.Member{}
}

func (o *fake) ChangeRole(_ context.Context, who operate.Actor, id string, role operate.Role) (
	operate.Member, error) {
	m := o.member(id)
	m.Role = role
	return m, o.does(who, operate.MemberChange, m.Publisher, role)
}

func (o *fake) SignOutMember(_ context.Context, who operate.Actor, id string) (operate.Member, error) {
	m := o.member(id)
	if who.Kind == operate.KindMember && who.ID == id {
		o.did = append(o.did, "member.change")
		return m, nil
	}
	return m, o.does(who, operate.MemberChange, m.Publisher)
}

func (o *fake) RemoveMember(_ context.Context, who operate.Actor, id string) error {
	return o.does(who, operate.MemberRemove, o.member(id).Publisher)
}

func (o *fake) CreateLink(_ context.Context, who operate.Actor, publisher, name string, role operate.Role) (
	operate.SignInLink, error) {
	return operate.SignInLink{Link: base + "/console/link?link=" + secretText},
		o.does(who, operate.LinkCreate, publisher, name, role)
}

func (o *fake) OperatorTokens(_ context.Context, who operate.Actor, c operate.Cursor) (
	operate.Page[operate.OperatorToken], error) {
	return part(o.tokens, c), o.may(who, operate.OperatorList, "")
}

func (o *fake) CreateOperatorToken(_ context.Context, who operate.Actor, name string, role operate.Role,
	expires *time.Time) (operate.CreatedOperatorToken, error) {
	return operate.CreatedOperatorToken{Token: "vrg_op_" + secretText},
		o.does(who, operate.OperatorCreate, "", name, role, expires)
}

func (o *fake) RevokeOperatorToken(_ context.Context, who operate.Actor, id string) (operate.OperatorToken,
	error) {
	return operate.OperatorToken{ID: id, Name: "CI pipeline"}, o.does(who, operate.OperatorRevoke, "")
}

func (o *fake) Audit(_ context.Context, who operate.Actor, publisher string, c operate.Cursor) (
	operate.Page[operate.AuditEntry], error) {
	return part(of(o.audit, func(e operate.AuditEntry) bool {
			return publisher == "" ||
				e.Publisher == publisher
		}), c),
		o.may(who, operate.AuditRead, publisher)
}

func (o *fake) Methods(_ context.Context, who operate.Actor) ([]operate.Method, error) {
	return []operate.Method{{Name: "camera", Kind: "estimator", Level: "L1"},
		{Name: "bank", Kind: "oidc", Level: "L2"},
		{Name: "sandbox", Kind: "sandbox", Level: "L2",
			Sandbox: true}}, o.may(who, operate.MethodList, who.Publisher)
}

// access lets in whoever has one of its cookies.
type access struct {
	actors map[string]operate.Actor // by cookie
	now    func() time.Time
	noKeys bool // no passkeys here
	down   error
	did    []string
}

var actors = map[string]operate.Actor{
	"operator": {Kind: operate.KindOperator, ID: "configuration", Name: "configuration",
		Role: operate.RoleOperator},
	"watcher": {Kind: operate.KindOperator, ID: "op_2", Name: "Support desk", Role: operate.RoleViewer},
	"admin": {Kind: operate.KindMember, ID: "mem_admin", Name: "Ada Byron", Role: operate.RoleAdmin,
		Publisher: mineID},
	"developer": {Kind: operate.KindMember, ID: "mem_developer", Name: "Grace Hopper",
		Role:      operate.RoleDeveloper,
		Publisher: mineID},
	"viewer": {Kind: operate.KindMember, ID: "mem_viewer", Name: "Annie Easley", Role: operate.RoleViewer,
		Publisher: mineID},
	// This member signed in a while ago.
	"late": {Kind: operate.KindMember, ID: "mem_late", Name: "Mary Jackson", Role: operate.RoleDeveloper,
		Publisher: mineID},
	"newcomer": {Kind: operate.KindLink, ID: "link_1", Name: "sign-in link", Role: operate.RoleAdmin,
		Publisher: newID},
}

// forms makes tokens that depend on the session and the action.
type forms string

func (f forms) FormToken(action string) string {
	sum := sha256.Sum256([]byte(string(f) + "/" + action))
	return hex.EncodeToString(sum[:8])
}

func (f forms) CheckForm(action, token string) bool { return token == f.FormToken(action) }

func (a *access) Session(_ context.Context, cookie string) (console.Session, error) {
	if a.down != nil {
		return console.Session{}, a.down
	}
	who, ok := a.actors[cookie]
	if !ok {
		return console.Session{}, console.ErrNoSession
	}
	return console.Session{Actor: who, Expires: a.now().Add(12 * time.Hour), Forms: forms(cookie)}, nil
}

func (a *access) open(ctx context.Context, cookie string) (string, console.Session, error) {
	s, err := a.Session(ctx, cookie)
	return cookie, s, err
}

func (a *access) SignInOperator(ctx context.Context, _ netip.Addr, token string) (string, console.Session,
	error) {
	switch token {
	case "right":
		return a.open(ctx, "operator")
	case "often":
		return "", console.Session{}, &web.Error{Code: web.RateLimited, RetryAfter: 30,
			Message: "Too many wrong tokens came from your address, so none is checked now. " +
				"Try again in a minute."}
	}
	return "", console.Session{}, &web.Error{
		Code:    web.Unauthorized,
		Message: "This is no operator token, or not any more.",
	}
}

const options = `{"challenge":"AAAA","rpId":"verify.example","user":{"id":"AAAA","name":"a","displayName":"a"}}`

func (a *access) BeginSignIn(context.Context) (console.Ceremony, error) {
	if a.noKeys {
		return console.Ceremony{}, console.ErrNoPasskeys
	}
	return console.Ceremony{Options: options, Form: "vrg_form_1"}, a.down
}

func (a *access) SignIn(ctx context.Context, _, answer string) (string, console.Session, error) {
	if answer != "good" {
		return "", console.Session{}, &web.Error{
			Code:    web.Unauthorized,
			Message: "No member has this passkey.",
		}
	}
	return a.open(ctx, "admin")
}

func (a *access) Invitation(_ context.Context, secret string) (console.Invited, console.Ceremony, error) {
	i := console.Invited{Publisher: "Nordlicht Spirits", Name: "Karen Jones", Role: operate.RoleDeveloper,
		Expires: a.now().Add(20 * time.Hour)}
	switch {
	case secret != "vrg_inv_good":
		return console.Invited{}, console.Ceremony{}, &web.Error{Code: web.TokenExpired,
			Message: "The invitation was used, was withdrawn, or is too old. Ask for another one."}
	case a.noKeys:
		return i, console.Ceremony{}, console.ErrNoPasskeys
	}
	return i, console.Ceremony{Options: options, Form: "vrg_form_2"}, nil
}

func (a *access) Enrol(ctx context.Context, secret, _, name, answer string) (string, console.Session, error) {
	if name == "" {
		return "", console.Session{}, &web.Error{
			Code: web.InvalidRequest,
			Details: []web.FieldError{{Field: "name",
				Code:    "required",
				Message: "Write your name."}},
		}
	}
	if answer != "good" {
		return "", console.Session{}, &web.Error{
			Code:    web.Unauthorized,
			Message: "The passkey was not made. Try again.",
		}
	}
	return a.open(ctx, "developer")
}

func (a *access) Link(_ context.Context, secret string) (console.Linked, error) {
	if secret != "vrg_in_good" {
		return console.Linked{}, &web.Error{
			Code:    web.TokenExpired,
			Message: "The link was used, or is too old.",
		}
	}
	return console.Linked{Publisher: "Brandneu", Role: operate.RoleAdmin,
		Expires: a.now().Add(5 * time.Minute)}, nil
}

func (a *access) UseLink(ctx context.Context, secret string) (string, console.Session, error) {
	if _, err := a.Link(ctx, secret); err != nil {
		return "", console.Session{}, err
	}
	return a.open(ctx, "newcomer")
}

func (a *access) SignOut(_ context.Context, cookie string) error {
	delete(a.actors, cookie)
	return nil
}

func (a *access) Passkeys(_ context.Context, cookie string) ([]operate.Passkey, console.Ceremony, error) {
	day := a.now().Add(-50 * 24 * time.Hour)
	all := []operate.Passkey{{ID: "psk_1", Created: day, LastUsed: &day},
		{ID: "psk_2", Name: "phone", Created: day}}
	if cookie == "late" {
		return all, console.Ceremony{SignInFirst: true}, nil
	}
	return all, console.Ceremony{Options: options, Form: "vrg_form_3"}, nil
}

func (a *access) Sessions(context.Context, string) ([]pages.SignedIn, error) {
	now, phone := a.now(), operate.Passkey{ID: "psk_2", Name: "phone"}
	return []pages.SignedIn{
		{ID: "con_2", Since: now.Add(-5 * time.Minute), Seen: now, Passkey: phone, Current: true},
		{ID: "con_1", Since: now.Add(-3 * time.Hour), Seen: now.Add(-time.Hour), Passkey: phone}}, nil
}

func (a *access) EndSession(_ context.Context, _, id string) error {
	if id != "con_1" {
		return web.ErrNotFound
	}
	a.did = append(a.did, "end "+id)
	return nil
}

func (a *access) AddPasskey(_ context.Context, _, _, _, answer string) error {
	if answer != "good" {
		return &web.Error{Code: web.Unauthorized, Message: "The passkey was not made. Try again."}
	}
	a.did = append(a.did, "add")
	return nil
}

func (a *access) RemovePasskey(_ context.Context, _, id string) error {
	a.did = append(a.did, "remove "+id)
	return nil
}

// world is a console with all of that behind it.
type world struct {
	*console.Console
	*testhost.Host
	fake   *fake
	access *access
}

func newWorld(t testing.TB) *world {
	t.Helper()
	h := testhost.New(t)
	w := &world{Host: h, fake: newFake(h.Clock.Now), access: &access{now: h.Clock.Now,
		actors: map[string]operate.Actor{}}}
	for cookie, who := range actors {
		w.access.actors[cookie] = who
	}
	w.Console = &console.Console{Operations: w.fake, Access: w.access, Host: h.Host, BaseURL: base}
	return w
}

const cookieName = "__Host-verge-console"

// ask sends one request as the routes would.
func (w *world) ask(method, path, who, body string, header ...string) *web.Response {
	path, query, _ := strings.Cut(path, "?")
	req := &web.Request{Method: method, Path: path, Query: query, Header: web.Header{}, Body: []byte(body),
		Client: netip.MustParseAddr("203.0.113.7")}
	if who != "" {
		req.Header.Set("Cookie", cookieName+"="+who)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", base)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for n := 0; n < len(header); n += 2 {
		req.Header[header[n]] = slices.Compact([]string{header[n+1]})
	}
	route, _, _ := console.Routes.Find(req)
	if route == nil {
		return &web.Response{Status: 404, Header: web.Header{}}
	}
	return route.Handle(w.Console, context.Background(), req)
}
