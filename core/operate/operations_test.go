package operate

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/liststore"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/report"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

var ctx = context.Background()

// Two publishers, each with an integration.
const (
	pubA = "pub_a"
	pubB = "pub_b"
	intA = testhost.UUID
	intB = testhost.Other
)

var (
	operator  = Actor{Kind: KindOperator, ID: member.Configured, Name: "configuration", Role: RoleOperator}
	overseer  = Actor{Kind: KindOperator, ID: "op_1", Name: "Olga", Role: RoleViewer}
	admin     = Actor{Kind: KindMember, ID: "mem_1", Name: "Ada", Role: RoleAdmin, Publisher: pubA}
	developer = Actor{Kind: KindMember, ID: "mem_2", Name: "Dev", Role: RoleDeveloper, Publisher: pubA}
	viewer    = Actor{Kind: KindMember, ID: "mem_3", Name: "Vera", Role: RoleViewer, Publisher: pubA}
	stranger  = Actor{Kind: KindMember, ID: "mem_4", Name: "Sam", Role: RoleAdmin, Publisher: pubB}
)

// fixture is a Operations with two publishers and a receiver that does as the test says.
type fixture struct {
	*Operations
	*testhost.Host
	answer func(host.FetchRequest) (int, error)
	says   string // the body of every answer
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h, answer: func(host.FetchRequest) (int, error) { return 200, nil }}
	h.Fetch = w
	register := sandbox.Kind // a method that verifies people, as far as package operate can tell
	register.Name, register.Sandbox = "register", false
	// what a list of the method "register" names is a certificate if it begins with "good"
	register.Lists = func(method.Config) []method.TrustList { return []method.TrustList{registerList} }
	register.IsAnchor = func(der []byte) bool { return strings.HasPrefix(string(der), "good") }
	catalog := testhost.Catalog(sandbox.Kind, register)
	partitions := []kv.Partition{"p0", "p1", "p2"}
	d := integration.NewDirectory(h.Host)
	l := &lifecycle.Lifecycle{Host: h.Host, Attempts: 3,
		OutcomeLife: 30 * 24 * time.Hour}
	starts := &api.API{Host: h.Host,
		BaseURL: "https://verify.verge.example", Partitions: 1, Directory: d, Lifecycle: l,
		Methods: h.Opened(catalog)}
	w.Operations = &Operations{
		Host:       h.Host,
		BaseURL:    "https://verify.verge.example",
		Catalog:    catalog,
		Partitions: partitions,
		Directory:  d,
		People:     member.New(h.Host, member.Config{OperatorToken: "op_only_for_tests_long_enough"}),
		Outbox: &outbox.Outbox{Host: h.Host, Directory: d, AttemptTime: outbox.AttemptTime,
			Partitions: partitions},
		Lifecycle:    l,
		StartTest:    starts.StartTestSession,
		UserPasskeys: &passkey.Store{Host: h.Host},
		Lists:        &liststore.Store{Host: h.Host},
		Counted:      &usage.Usage{Host: h.Host},
		Reports:      report.Config{Key: testhost.ReportKey, Mode: "production", Attempts: 3},
	}
	for _, p := range []struct{ publisher, integration string }{{pubA, intA}, {pubB, intB}} {
		coretest.Must(t, d.PutPublisher(ctx, integration.Publisher{ID: p.publisher, Name: p.publisher}))
		coretest.Must(t, d.PutIntegration(ctx, integration.Integration{ID: p.integration,
			PublisherID: p.publisher, Name: "Shop", Level: "L1", ChallengeAge: 25, Method: "sandbox",
			CallbackOrigins: []string{"https://www.publisher.example"},
			Webhook:         integration.Webhook{URL: "https://hooks.publisher.example/?token=canary"}},
			secret))
	}
	return w
}

const secret = "whsec_only_for_tests"

// Fetch implements host.Fetcher.
func (w *fixture) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	status, err := w.answer(req)
	return host.FetchResponse{Status: status, Body: []byte(w.says)}, err
}

// verifying is a receiver that checks signatures, as publishers do.
func (w *fixture) verifying(secret string) func(host.FetchRequest) (int, error) {
	return func(req host.FetchRequest) (int, error) {
		header := map[string][]string{}
		for name, value := range req.Header {
			header[name] = []string{value}
		}
		if webhook.Verify(secret, header, req.Body, w.Clock.Now(), 0) != nil {
			return 401, nil
		}
		return 200, nil
	}
}

func text(s string) *string { return &s }

// sample has the objects for a test of all operations. All belong to publisher A.
type sample struct {
	key, member, second, invitation, session, token string
}

func (w *fixture) sample(t *testing.T) (s sample) {
	t.Helper()
	k, err := w.CreateKey(ctx, operator, KeyInput{Publisher: pubA})
	coretest.Must(t, err)
	i, err := w.Invite(ctx, operator, pubA, "Ina", RoleViewer)
	coretest.Must(t, err)
	o, err := w.CreateOperatorToken(ctx, operator, "Otto", RoleOperator, nil)
	coretest.Must(t, err)
	id, err := session.NewID(w.Host.Random, intA, 1, 25, w.Clock.Now(), 0)
	coretest.Must(t, err)
	s.session, err = id.Format(w.Host.Sealer)
	coretest.Must(t, err)
	s.key, s.invitation, s.token = k.Info.ID, i.ID, o.Info.ID
	s.member, s.second = "mem_"+strings.Repeat("0", 32), "mem_"+strings.Repeat("1", 32)
	return s
}

// row is one function of Operations: who may call it, and how it is called for publisher A's things.
type row struct {
	operation Operation
	may       string // of operator, overseer, admin, developer, viewer: the first letters
	call      func(w *fixture, who Actor, s sample) error
	missing   bool // the target is missing, so authorized actors get web.ErrNotFound
}

// calls has every function of Operations, by its name.
var calls = map[string]row{
	"Publishers": {publisherList, "o v", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Publishers(ctx, who, Search{})
		return err
	}, false},
	"Publisher": {publisherRead, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Publisher(ctx, who, pubA)
		return err
	}, false},
	"CreatePublisher": {publisherCreate, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.CreatePublisher(ctx, who, PublisherInput{Name: text("New")})
		return err
	}, false},
	"ChangePublisher": {publisherChange, "o a", func(w *fixture, who Actor, _ sample) error {
		_, err := w.ChangePublisher(ctx, who, pubA, "", PublisherInput{Name: text("Other")})
		return err
	}, false},
	"ArchivePublisher": {publisherArchive, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.ArchivePublisher(ctx, who, pubA, "")
		return err
	}, false},
	"Passkeys": {passkeysCount, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Passkeys(ctx, who, pubA, passkey.MaxCount)
		return err
	}, false},
	"EndPasskeys": {passkeysEnd, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.EndPasskeys(ctx, who, pubA)
		return err
	}, false},
	"Integrations": {integrationList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Integrations(ctx, who, pubA, Search{})
		return err
	}, false},
	"ActiveIntegrations": {integrationList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.ActiveIntegrations(ctx, who, pubA, Cursor{})
		return err
	}, false},
	"Integration": {integrationRead, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Integration(ctx, who, intA)
		return err
	}, false},
	"CreateIntegration": {integrationCreate, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.CreateIntegration(ctx, who, IntegrationInput{Publisher: pubA, Name: text("New")})
		return err
	}, false},
	"ChangeIntegration": {integrationChange, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.ChangeIntegration(ctx, who, intA, "", IntegrationInput{Name: text("Other")})
		return err
	}, false},
	"ArchiveIntegration": {integrationArchive, "o a", func(w *fixture, who Actor, _ sample) error {
		_, err := w.ArchiveIntegration(ctx, who, intA, "")
		return err
	}, false},
	"StageWebhook": {webhookChange, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.StageWebhook(ctx, who, intA, "", WebhookInput{NewSecret: true})
		return err
	}, false},
	"DropStaged": {webhookChange, "o a d", func(w *fixture, who Actor, _ sample) error {
		if _, err := w.StageWebhook(ctx, operator, intA, "", WebhookInput{NewSecret: true}); err != nil {
			return err
		}
		_, err := w.DropStaged(ctx, who, intA, "")
		return err
	}, false},
	"RotateSecret": {webhookChange, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.RotateSecret(ctx, who, intA, "", false)
		return err
	}, false},
	"TestWebhook": {webhookTest, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.TestWebhook(ctx, who, intA, false)
		return err
	}, false},
	"SendTestEvent": {webhookTest, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.SendTestEvent(ctx, who, intA, webhook.TypeCompleted)
		return err
	}, false},
	"StartTestSession": {sessionTest, "o a d", func(w *fixture, who Actor, _ sample) error {
		w.answer = w.verifying(secret)
		if _, err := w.TestWebhook(ctx, operator, intA, false); err != nil {
			return err
		}
		_, err := w.StartTestSession(ctx, who, intA, "https://www.publisher.example/back")
		return err
	}, false},
	"Keys": {keyList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Keys(ctx, who, pubA, Cursor{})
		return err
	}, false},
	"SecretKeys": {keyList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.SecretKeys(ctx, who, pubA, Cursor{})
		return err
	}, false},
	"CreateKey": {keyCreate, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.CreateKey(ctx, who, KeyInput{Publisher: pubA})
		return err
	}, false},
	"RevokeKey": {keyRevoke, "o a d", func(w *fixture, who Actor, s sample) error {
		_, err := w.RevokeKey(ctx, who, s.key)
		return err
	}, false},
	"Deliveries": {deliveryList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Deliveries(ctx, who, DeliveryQuery{Integration: intA})
		return err
	}, false},
	"Delivery": {deliveryList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Delivery(ctx, who, intA, "no-place")
		return err
	}, true},
	"Resend": {deliveryResend, "o a d", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Resend(ctx, who, intA, "no-place")
		return err
	}, true},
	"ResendEvent": {deliveryResend, "o", func(w *fixture, who Actor, _ sample) error {
		return w.ResendEvent(ctx, who, "evt_"+intA)
	}, true},
	"Dead": {deliveryList, "o v", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Dead(ctx, who, Cursor{})
		return err
	}, false},
	"Waiting": {deliveryList, "o v", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Waiting(ctx, who, Cursor{})
		return err
	}, false},
	"Undelivered": {deliveryList, "o v", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Undelivered(ctx, who)
		return err
	}, false},
	"TellUse": {operatorUse, "o v a d r s", func(w *fixture, who Actor, _ sample) error {
		w.TellUse(ctx, who, netip.MustParseAddr("192.0.2.1")) // the caller has let them in
		return nil
	}, false},
	"TellWrongToken": {operatorRejected, "o v a d r s", func(w *fixture, _ Actor, _ sample) error {
		w.TellWrongToken(ctx, netip.MustParseAddr("192.0.2.1"))
		return nil
	}, false},
	"TellDone": {BackupMake, "o v a d r s", func(w *fixture, who Actor, _ sample) error {
		w.TellDone(ctx, who, BackupMake, "/var/lib/x") // Authorize has let them in
		return nil
	}, false},
	"Session": {sessionRead, "o v a d r", func(w *fixture, who Actor, s sample) error {
		_, err := w.Session(ctx, who, s.session)
		return err
	}, false},
	"FinishedSessions": {sessionRead, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.FinishedSessions(ctx, who, FinishedQuery{Publisher: pubA})
		return err
	}, false},
	"PublisherUsage": {usageRead, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, _, err := w.PublisherUsage(ctx, who, pubA, "", "")
		return err
	}, false},
	"Usage": {usageRead, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Usage(ctx, who, intA, "", "")
		return err
	}, false},
	"Report": {reportRead, "o a", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Report(ctx, who, ReportQuery{Publisher: pubA})
		return err
	}, false},
	"Overview": {publisherRead, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Overview(ctx, who, pubA)
		return err
	}, false},
	"Members": {memberList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Members(ctx, who, pubA, Cursor{})
		return err
	}, false},
	"Invite": {memberInvite, "o a", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Invite(ctx, who, pubA, "Ida", RoleAdmin)
		return err
	}, false},
	"Invitations": {memberList, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Invitations(ctx, who, pubA, Cursor{})
		return err
	}, false},
	"WithdrawInvitation": {memberInvite, "o a", func(w *fixture, who Actor, s sample) error {
		return w.WithdrawInvitation(ctx, who, pubA, s.invitation)
	}, false},
	"ChangeRole": {memberChange, "o a", func(w *fixture, who Actor, s sample) error {
		_, err := w.ChangeRole(ctx, who, s.member, RoleViewer)
		return err
	}, true},
	"SignOutMember": {memberChange, "o a", func(w *fixture, who Actor, s sample) error {
		_, err := w.SignOutMember(ctx, who, s.member)
		return err
	}, true},
	"RemoveMember": {memberRemove, "o a", func(w *fixture, who Actor, s sample) error {
		return w.RemoveMember(ctx, who, s.member)
	}, true},
	"CreateLink": {linkCreate, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.CreateLink(ctx, who, pubA, "Lea", RoleDeveloper)
		return err
	}, false},
	"OperatorTokens": {operatorList, "o v", func(w *fixture, who Actor, _ sample) error {
		_, err := w.OperatorTokens(ctx, who, Cursor{})
		return err
	}, false},
	"CreateOperatorToken": {operatorCreate, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.CreateOperatorToken(ctx, who, "Oda", RoleViewer, nil)
		return err
	}, false},
	"RevokeOperatorToken": {operatorRevoke, "o", func(w *fixture, who Actor, s sample) error {
		_, err := w.RevokeOperatorToken(ctx, who, s.token)
		return err
	}, false},
	"Audit": {auditRead, "o v a d r", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Audit(ctx, who, pubA, Cursor{})
		return err
	}, false},
	"Methods": {methodList, "o v a d r s", func(w *fixture, who Actor, _ sample) error {
		_, err := w.Methods(ctx, who)
		return err
	}, false},
	"TrustLists": {trustListRead, "o v", func(w *fixture, who Actor, _ sample) error {
		_, err := w.TrustLists(ctx, who)
		return err
	}, false},
	"LoadTrustList": {trustListLoad, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.LoadTrustList(ctx, who, w.listInput(1))
		return err
	}, false},
	"Authorize": {BackupMake, "o", func(w *fixture, who Actor, _ sample) error {
		return w.Authorize(who, BackupMake)
	}, false},
	"WithMisread": {publisherCreate, "o", func(w *fixture, who Actor, _ sample) error { // that misses nothing
		name := "Penny"
		_, err := w.WithMisread(nil).CreatePublisher(ctx, who, PublisherInput{Name: &name})
		return err
	}, false},
	"PlanSite": {siteApply, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.PlanSite(ctx, who, []byte(`{"publishers":[],"integrations":[]}`))
		return err
	}, false},
	"ApplySite": {siteApply, "o", func(w *fixture, who Actor, _ sample) error {
		_, err := w.ApplySite(ctx, who, []byte(`{"publishers":[],"integrations":[]}`))
		return err
	}, false},
}

// TestRights_Table calls every function as every kind of actor (contract 43). Another publisher's member gets
// web.ErrNotFound everywhere, with any role.
func TestRights_Table(t *testing.T) {
	actors := []struct {
		letter string
		Actor
	}{{"o", operator}, {"v", overseer}, {"a", admin}, {"d", developer}, {"r", viewer}, {"s", stranger}}
	for name, c := range calls {
		for _, actor := range actors {
			t.Run(name+" by "+actor.Name, func(t *testing.T) {
				w := newFixture(t)
				err := c.call(w, actor.Actor, w.sample(t))
				forbidden := (*missingRight)(nil)
				may := slices.Contains(strings.Fields(c.may), actor.letter)
				switch {
				case may && c.missing && !errors.Is(err, web.ErrNotFound), may && !c.missing && err != nil:
					t.Errorf("%v", err)
				case !may && actor.letter == "s" && !errors.Is(err, web.ErrNotFound):
					t.Errorf("contract 43: another publisher's things exist for a stranger: %v", err)
				case !may && err == nil:
					t.Error("contract 43: the role does what it may not")
				case !may && !errors.As(err, &forbidden) && !errors.Is(err, web.ErrNotFound):
					t.Errorf("%v, want a refusal", err)
				case !may && forbidden != nil && forbidden.Operation != c.operation:
					t.Errorf("the refusal is of %s, want %s", forbidden.Operation, c.operation)
				}
			})
		}
	}
}

// Permission is checked before the values of the request.
func TestRights_BeforeValues(t *testing.T) {
	w := newFixture(t)
	d := w.WithMisread([]web.FieldError{{Field: "type", Code: "type", Message: "Must be a string."}})
	for name, ask := range map[string]func() error{
		"a test event": func() error { _, err := d.SendTestEvent(ctx, viewer, intA, ""); return err },
		"a test session": func() error {
			_, err := d.StartTestSession(ctx, viewer, intA, "")
			return err
		},
		"a new secret": func() error {
			_, err := d.RotateSecret(ctx, viewer, intA, "", false)
			return err
		},
		"ending passkeys": func() error { _, err := d.EndPasskeys(ctx, viewer, pubA); return err },
	} {
		var forbidden *missingRight
		if err := ask(); !errors.As(err, &forbidden) {
			t.Errorf("contract 5, 403: %s: %v", name, err)
		}
	}
	if _, err := d.RotateSecret(ctx, operator, intA, "", false); !isInvalid(err) {
		t.Errorf("contract 5, 400: a new secret: %v", err)
	}
}

func isInvalid(err error) bool {
	var wrong *web.Error
	return errors.As(err, &wrong)
}

// judged are the operations that the core's host carries out, and who may do them.
var judged = map[Operation]string{ModuleRead: "o v", ModuleActivate: "o", BackupMake: "o"}

// TestRights_HostOperations: no role at a publisher has a right on the service.
func TestRights_HostOperations(t *testing.T) {
	w := newFixture(t)
	for op, may := range judged {
		for letter, who := range map[string]Actor{"o": operator, "v": overseer, "a": admin, "d": developer,
			"r": viewer} {
			err, forbidden := w.Authorize(who, op), (*missingRight)(nil)
			switch let := slices.Contains(strings.Fields(may), letter); {
			case let && err != nil:
				t.Errorf("contract 42: %s by %s: %v", op, who.Name, err)
			case !let && who.Operator() && (!errors.As(err, &forbidden) || forbidden.Operation != op):
				t.Errorf("contract 42: %s by %s: %v, want a refusal", op, who.Name, err)
			case !let && !who.Operator() && !errors.Is(err, web.ErrNotFound):
				t.Errorf("contract 43: %s by %s: %v, want that there is no such thing", op, who.Name, err)
			}
		}
	}
	var invalid *web.Error
	if err := w.Authorize(operator, "module.melt"); !errors.As(err, &invalid) {
		t.Errorf("contract 42: an unknown operation: %v", err)
	}
}

// TestTable_EveryFunction keeps the table above whole.
func TestTable_EveryFunction(t *testing.T) {
	functions := reflect.TypeFor[*Operations]()
	for n := range functions.NumMethod() {
		name := functions.Method(n).Name
		if _, port := reflect.TypeFor[host.Host]().MethodByName(name); !port && calls[name].call == nil {
			t.Errorf("TestRights_Table does not call %s", name)
		}
	}
	used := map[Operation]bool{}
	for op := range judged {
		used[op] = true
	}
	for name, c := range calls {
		if _, ok := functions.MethodByName(name); !ok {
			t.Errorf("there is no function %s", name)
		}
		if _, ok := rightsOf[c.operation]; !ok {
			t.Errorf("%s: rightsOf does not have %s", name, c.operation)
		}
		used[c.operation] = true
	}
	for op := range rightsOf {
		if !used[op] {
			t.Errorf("no function does %s", op)
		}
	}
}
