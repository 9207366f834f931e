package console_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime/multipart"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/console"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/report"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/passkeytest"
)

var ctx = context.Background()

// Publishers and integrations of a fixture.
const (
	mineID    = "pub_nordlicht"
	othersID  = "pub_ahrenfeld"
	newID     = "pub_new"
	shopID    = "694069ac-4d4e-475f-906b-2f11c5eca7bd" // ready, with a change staged
	kioskID   = "77777777-7777-4777-8777-777777777702" // its webhook has failed the test
	oldID     = "77777777-7777-4777-8777-777777777703" // archived
	managedID = "77777777-7777-4777-8777-777777777704" // by file
	foreignID = "11111111-4d4e-475f-906b-2f11c5eca7bd" // another publisher's
	base      = "https://verify.example"
	secret    = "whsec_only_for_these_tests"
)

// The store chooses the other ids. Paths and forms of tests have these aliases instead, which fixture.real
// replaces. The aliases of members, keys, invitations and operator tokens are mem_viewer, key_1, inv_1, op_1
// and others.
const (
	sessionID  = "{completed}"
	theirsID   = "{theirs}"  // another publisher's session
	pendingID  = "{pending}" // a session in progress
	deliveryID = "{delivered}"
	deadID     = "{dead}"
	waitingID  = "{waiting}"
	current    = "{version}" // of the integration or publisher of the path
)

// fixture is a console with the operations of a service on a store in memory.
type fixture struct {
	*console.Console
	*testhost.Host
	t         testing.TB
	suffix    string // of every name
	directory *integration.Directory
	sessions  *lifecycle.Lifecycle
	starts    *api.API // of test sessions
	access    *access
	aliases   map[string]string
	now       time.Time
	entries   int // of the audit before the test

	// The receiver returns these statuses, one for each request, and then begins again. 0 is the cause.
	answers []int
	cause   string
	body    string // of each response
	asked   int    // requests to the receiver
	started int    // test sessions
}

func ptr[T any](v T) *T { return &v }

// newFixture returns a fixture in which much has happened.
func newFixture(t testing.TB) *fixture { return newFixtureWith(t, "") }

// newFixtureWith returns a fixture whose names end in suffix.
func newFixtureWith(t testing.TB, suffix string) *fixture {
	t.Helper()
	w := emptyFixture(t)
	w.suffix = suffix
	w.addPublishers()
	w.addPeople()
	w.addKeys()
	w.addTraffic()
	w.at(0)
	w.entries = len(w.audit())
	w.asked, w.body = 0, "it says <no>"+strings.Repeat(".", 2000)
	w.answers = []int{204, 401, 204, 204, 500} // to the signed test: it does not check the time
	return w
}

var passes = []int{204, 401, 401, 401, 401} // of the signed test

func emptyFixture(t testing.TB) *fixture {
	t.Helper()
	h := testhost.New(t)
	w := &fixture{Host: h, t: t, now: h.Clock.Now(), answers: []int{200}, cause: host.FetchTimeout,
		aliases: map[string]string{},
		access:  &access{now: h.Clock.Now, actors: map[string]operate.Actor{}}}
	maps.Copy(w.access.actors, actors)
	h.Fetch = w
	rp, err := webauthn.NewRelyingParty("verify.example", "Verge", base)
	coretest.Must(t, err)
	w.directory = integration.NewDirectory(h.Host)
	w.sessions = &lifecycle.Lifecycle{Host: h.Host, Attempts: 3,
		OutcomeLife: 30 * 24 * time.Hour}
	partitions := []kv.Partition{"p0", "p1", "p2", "p3"}
	w.starts = &api.API{Host: h.Host, BaseURL: base, Partitions: 1, Directory: w.directory,
		Lifecycle: w.sessions, Methods: h.Opened(catalog)}
	operations := &operate.Operations{Host: h.Host, BaseURL: base, Catalog: catalog,
		Partitions: partitions, Directory: w.directory,
		People: member.New(h.Host, member.Config{OperatorToken: operatorToken, Passkeys: &rp}),
		Outbox: &outbox.Outbox{Host: h.Host, Directory: w.directory, AttemptTime: outbox.AttemptTime,
			Partitions: partitions},
		Lifecycle: w.sessions,
		StartTest: func(ctx context.Context, i *integration.Integration, callback string) (
			api.Started, error) {
			w.started++
			return w.starts.StartTestSession(ctx, i, callback)
		},
		UserPasskeys: &passkey.Store{Host: h.Host},
		Counted:      &usage.Usage{Host: h.Host},
		Reports:      report.Config{Key: testhost.ReportKey, Mode: "production", Attempts: 3}}
	w.Console = &console.Console{Service: "Verge", Operations: operations, Access: w.access,
		Host: h.Host, BaseURL: base, Issuer: base + "/oidc", Reports: true}
	return w
}

// catalog has a method of each kind that an integration can offer.
var catalog = func() method.Catalog {
	open := func(method.Config, method.Host) (method.Method, error) { return nil, nil }
	narrow := func(_ method.Config, settings json.RawMessage) (wrong problem.List) {
		if strings.Contains(string(settings), "7") {
			wrong.Add("deviation", "7 is above the method's 6")
		}
		return wrong
	}
	kinds := []method.Kind{
		{Name: "estimator", Level: "L2", Open: open, Narrow: narrow,
			Overrides: func(method.Config) []method.Override {
				return []method.Override{{Name: "deviation", Label: "Highest deviation", Default: "6",
					Hint: "In years. Lower is stricter."}}
			}},
		{Name: "oidc", Level: "L2", Open: open, Narrow: narrow,
			Overrides: func(method.Config) []method.Override {
				return []method.Override{{Name: "acr_values", Label: "Accepted sign-ins (acr)",
					Values: []string{"substantial", "high"}, Hint: "Without a choice, all of them count."}}
			}},
		sandbox.Kind}
	catalog, wrong := method.NewCatalog(kinds, []method.Config{{Name: "camera", Kind: "estimator"},
		{Name: "bank", Kind: "oidc"}, {Name: "sandbox", Kind: "sandbox"}}, false)
	if err := wrong.Err(); err != nil {
		panic(err)
	}
	return catalog
}()

// Fetch implements host.Fetcher: it is the receiver of every integration.
func (w *fixture) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	status := w.answers[w.asked%len(w.answers)]
	w.asked++
	if status == 0 {
		return host.FetchResponse{}, &host.FetchError{Reason: w.cause, Err: context.DeadlineExceeded}
	}
	return host.FetchResponse{Status: status, Body: []byte(w.body)}, nil
}

// at sets the clock to a time before now.
func (w *fixture) at(before time.Duration) { w.Clock.Advance(w.now.Add(-before).Sub(w.Clock.Now())) }

const days = 24 * time.Hour

func (w *fixture) addPublishers() {
	w.t.Helper()
	before := func(n time.Duration) *time.Time { return ptr(w.now.Add(-n * days)) }
	for _, p := range []integration.Publisher{{ID: mineID, Name: "Nordlicht Spirits", Created: before(120)},
		{ID: othersID, Name: "Ahrenfeld Games", Created: before(80), Removed: true},
		{ID: newID, Name: "Brandneu", Created: before(0)},
		{ID: "pub_file", Name: "Hafen Kiosk", Managed: true},
		{ID: "pub_old", Name: "Alte Welt", Created: before(300), Archived: before(12)}} {
		p.Name += w.suffix
		coretest.Must(w.t, w.directory.PutPublisher(ctx, p))
	}
	for _, i := range []integration.Integration{
		{ID: shopID, Name: "Shop", MinimumAge: 18, ChallengeAge: 23,
			CallbackOrigins: []string{"https://old.example"},
			RedirectURIs:    []string{"https://shop.example/oauth2/callback"}},
		{ID: kioskID, Name: "Kiosk", Level: "L2"},
		{ID: managedID, Name: "Lager", Managed: true},
		{ID: oldID, Name: "Messe", Archived: before(40)},
		{ID: foreignID, PublisherID: othersID, Name: "Games", Removed: true},
	} {
		i.Created = before(90)
		w.put(usual(i))
	}
	for id, ready := range map[string]bool{shopID: true, kioskID: false, managedID: true, foreignID: true} {
		w.at(26 * time.Hour)
		w.tested(id, ready)
	}
}

// usual returns an integration with the values of most.
func usual(i integration.Integration) integration.Integration {
	host := "https://" + strings.ToLower(i.Name) + ".example"
	i.PublisherID, i.Level = cmp.Or(i.PublisherID, mineID), cmp.Or(i.Level, "L1")
	i.ChallengeAge, i.Method = cmp.Or(i.ChallengeAge, 25), "sandbox"
	if i.CallbackOrigins == nil {
		i.CallbackOrigins = []string{host}
	}
	i.BrowserOrigins = []string{host}
	i.Webhook.URL = host + "/webhooks/verge"
	return i
}

// put adds or replaces an integration.
func (w *fixture) put(i integration.Integration) {
	w.t.Helper()
	i.Name += w.suffix
	sealed := secret
	if i.Webhook.URL == "" {
		sealed = ""
	}
	coretest.Must(w.t, w.directory.PutIntegration(ctx, i, sealed))
}

// change changes any record of an integration.
func (w *fixture) change(id string, change func(*integration.Integration)) {
	w.t.Helper()
	i, err := w.directory.ReadIntegration(ctx, id)
	coretest.Must(w.t, err)
	change(&i.Value)
	coretest.Must(w.t, w.directory.PutIntegration(ctx, i.Value, ""))
}

// tested records the result of a signed webhook test.
func (w *fixture) tested(id string, ready bool) {
	w.t.Helper()
	i, err := w.directory.ReadIntegration(ctx, id)
	coretest.Must(w.t, err)
	coretest.Must(w.t, w.directory.RecordReadiness(ctx, &i.Value, secret, ready))
}

func (w *fixture) addPeople() {
	w.t.Helper()
	w.at(50 * days)
	ada, grace := w.joins("admin", mineID), w.joins("developer", mineID)
	w.joins("viewer", mineID)
	w.joins("other", othersID)
	w.at(4 * time.Minute)
	w.signIn(grace)
	w.signIn(grace)
	w.at(2 * time.Minute)
	w.signIn(ada)

	operator := w.access.actors["operator"]
	for n, c := range []struct {
		name    string
		role    operate.Role
		made    time.Duration
		expires *time.Time
	}{{"CI pipeline", operate.RoleOperator, 30 * days, ptr(w.now.Add(60 * days))},
		{"Support desk", operate.RoleViewer, 10 * days, nil},
		{"Old laptop", operate.RoleOperator, 200 * days, nil}} {
		w.at(c.made)
		made, err := w.Operations.CreateOperatorToken(ctx, operator, c.name+w.suffix, c.role, c.expires)
		coretest.Must(w.t, err)
		w.aliases[fmt.Sprintf("op_%d", n+1)] = made.Info.ID
	}
	w.at(60 * days)
	_, err := w.Operations.RevokeOperatorToken(ctx, operator, w.aliases["op_3"])
	coretest.Must(w.t, err)
	w.at(4 * time.Hour)
	invited, err := w.Operations.Invite(ctx, w.access.actors["admin"], mineID, "Karen Jones"+w.suffix,
		operate.RoleDeveloper)
	coretest.Must(w.t, err)
	w.aliases["inv_1"] = invited.ID
}

// joins makes the actor of a cookie a member of a publisher. It returns the device with the passkey.
func (w *fixture) joins(cookie, publisher string) *passkeytest.Authenticator {
	w.t.Helper()
	who, people := w.access.actors[cookie], w.Operations.People
	who.Name += w.suffix
	secret, _, err := people.Invite(ctx, member.Actor(w.access.actors["operator"]), publisher, who.Name,
		who.Role, nil)
	coretest.Must(w.t, err)
	_, ceremony, err := people.BeginEnrolment(ctx, secret, who.Name)
	coretest.Must(w.t, err)
	device := passkeytest.New(base)
	made, err := device.Create(ceremony.Options)
	coretest.Must(w.t, err)
	_, session, err := people.Enrol(ctx, secret, ceremony.Form, who.Name, made.JSON(), nil)
	coretest.Must(w.t, err)
	w.aliases["mem_"+cookie] = session.ID
	w.access.actors[cookie] = operate.Actor(session.Actor)
	return device
}

func (w *fixture) signIn(device *passkeytest.Authenticator) {
	w.t.Helper()
	ceremony, err := w.Operations.People.BeginSignIn()
	coretest.Must(w.t, err)
	response, err := device.Get(ceremony.Options)
	coretest.Must(w.t, err)
	_, _, err = w.Operations.People.SignIn(ctx, ceremony.Form, response.JSON(), nil)
	coretest.Must(w.t, err)
}

// addKeys adds keys, and the changes of the developer.
func (w *fixture) addKeys() {
	w.t.Helper()
	developer := w.access.actors["developer"]
	var used []host.KeyUse
	for _, c := range []struct {
		alias, integration string
		made               time.Duration
		expires            *time.Time
	}{{"key_3", "", 200 * days, nil}, {"key_1", "", 90 * days, nil},
		{"key_2", shopID, 60 * days, ptr(w.now.Add(72 * time.Hour))}} {
		w.at(c.made)
		made, err := w.Operations.CreateKey(ctx, developer,
			operate.KeyInput{Publisher: mineID, Integration: c.integration, Expires: c.expires})
		coretest.Must(w.t, err)
		w.aliases[c.alias], w.aliases["last4 of "+c.alias] = made.Info.ID, made.Info.Last4
		used = append(used, host.KeyUse{Key: made.Info.ID, Day: host.DayOf(w.now)})
	}
	w.at(90 * days)
	_, err := w.Operations.RevokeKey(ctx, developer, w.aliases["key_3"])
	coretest.Must(w.t, err)
	w.at(0)
	coretest.Must(w.t, w.Operations.Counted.Record(ctx, host.Totals{Keys: used[1:]}))

	w.at(2 * time.Hour)
	_, err = w.Operations.StageWebhook(ctx, developer, shopID, "",
		operate.WebhookInput{URL: ptr("https://events.shop.example/verge"), NewSecret: true})
	coretest.Must(w.t, err)
	w.at(3 * time.Minute)
	_, err = w.Operations.ChangeIntegration(ctx, developer, shopID, "", operate.IntegrationInput{
		ChallengeAge: ptr(25), CallbackOrigins: &[]string{"https://shop.example"}})
	coretest.Must(w.t, err)
}

// addTraffic adds sessions, their events, and usage.
func (w *fixture) addTraffic() {
	w.t.Helper()
	w.at(3 * time.Hour)
	failed := w.start(shopID, 1)
	w.fire(failed, 0, session.Unclassified, session.Step{})
	w.answers = []int{200, 401}
	w.deliver(1)
	w.answers = []int{200}
	w.at(6 * time.Minute)
	_, err := w.Operations.SendTestEvent(ctx, w.access.actors["developer"], shopID, webhook.TypeStarted)
	coretest.Must(w.t, err)
	w.aliases[sessionID] = w.completes(5 * time.Minute)
	w.at(40 * time.Second)
	w.start(shopID, 2)
	w.answers = []int{0}
	w.deliver(2)
	w.at(time.Minute)
	w.aliases[pendingID], w.aliases[theirsID] = w.start(shopID, 3).Text, w.start(foreignID, 3).Text
	w.at(0)
	page, err := w.Operations.Deliveries(ctx, w.access.actors["operator"],
		operate.DeliveryQuery{Integration: shopID})
	coretest.Must(w.t, err)
	for _, d := range page.Items {
		switch {
		case d.State == operate.DeliveryWaiting:
			w.aliases[waitingID] = d.Place
		case d.State == operate.DeliveryDead && !d.Test:
			w.aliases[deadID] = d.Place
		case d.Type == webhook.TypeCompleted:
			w.aliases[deliveryID] = d.Place
		}
	}
	w.addPasskeys(3)
	w.used(host.OutcomeStarted, host.OutcomeRejected, host.OutcomeCancelled, host.OutcomeExpired)
}

// addPasskeys adds passkeys of users, as far as one can count them.
func (w *fixture) addPasskeys(count int) {
	w.t.Helper()
	made := []byte(w.now.Format(time.RFC3339Nano))
	for n := range count {
		coretest.Must(w.t, w.Memory.Commit(ctx, kv.Tx{ID: fmt.Sprint("passkey ", count, n), Partition: "k0",
			Puts: []kv.Put{{Name: fmt.Sprintf("o/%s/%05d", mineID, n), Value: made}}}))
	}
}

// used counts outcomes of the last 30 days.
func (w *fixture) used(outcomes ...string) {
	w.t.Helper()
	var totals host.Totals
	for n := range 30 {
		counts := host.Counts{}
		for k, outcome := range outcomes {
			counts.Add(outcome, uint64((40+(n*n*7)%90)/(k+1)))
		}
		totals.Days = append(totals.Days, host.DayTotal{Integration: shopID,
			Day: host.DayOf(w.now) - host.Day(n), Instance: strings.Join(outcomes[:1], ""), Counts: counts})
	}
	coretest.Must(w.t, w.Operations.Counted.Record(ctx, totals))
}

// start begins a session in a partition.
func (w *fixture) start(id string, partition session.Partition) lifecycle.Session {
	w.t.Helper()
	i, err := w.directory.Integration(ctx, id)
	coretest.Must(w.t, err)
	sid, err := session.NewID(w.Random, id, session.L1, i.ChallengeAge, w.Clock.Now(), partition)
	coretest.Must(w.t, err)
	text, err := sid.Format(w.Ring)
	coretest.Must(w.t, err)
	s := lifecycle.Session{ID: sid, Text: text, Integration: i}
	coretest.Must(w.t, w.sessions.Begin(ctx, s, nil, nil, nil))
	return s
}

func (w *fixture) fire(s lifecycle.Session, attempt int, trigger session.Trigger, step session.Step) {
	w.t.Helper()
	_, err := w.sessions.Fire(ctx, s, lifecycle.Step{Trigger: trigger, Attempt: attempt, Entry: step})
	coretest.Must(w.t, err)
}

// completes returns the id of a session that was completed before now, after a failed attempt, and whose
// result was used. Its receiver was down for a minute.
func (w *fixture) completes(before time.Duration) string {
	w.t.Helper()
	s := w.completed(before)
	used := s.ID.UsedKey()
	id, err := kv.NewTxID(w.Random)
	coretest.Must(w.t, err)
	coretest.Must(w.t, w.Memory.Commit(ctx, kv.Tx{ID: id, Partition: used.Partition,
		Puts: []kv.Put{{Name: used.Name, Value: []byte("{}")}}}))
	return s.Text
}

func (w *fixture) completed(before time.Duration) lifecycle.Session {
	w.t.Helper()
	w.at(before + time.Minute)
	s := w.start(shopID, 0)
	w.deliver(0)
	w.at(before + 30*time.Second)
	w.fire(s, 0, session.AttemptFailed, session.Step{Method: "bank", Result: "attempt_failed",
		Reason: "unconfirmed", Setting: "proof.claim", Detail: "age.over"})
	w.at(before)
	w.fire(s, 1, session.Succeeded, session.Step{})
	w.answers = []int{503}
	w.deliver(0)
	w.at(before - time.Minute)
	w.answers = []int{200}
	w.deliver(0)
	return s
}

// deliver makes one attempt for each event that is due in a partition.
func (w *fixture) deliver(partition session.Partition) {
	w.t.Helper()
	w.asked = 0
	tasks, _, err := w.Memory.Claim(ctx, partition.Name(), w.Clock.Now(), time.Minute, 1000)
	coretest.Must(w.t, err)
	for _, task := range tasks {
		m, sealed, err := outbox.Read(task)
		coretest.Must(w.t, err)
		if m.Kind == outbox.Expire {
			continue
		}
		coretest.Must(w.t, w.Operations.Outbox.Deliver(ctx, host.Job{Partition: partition.Name(), Task: task,
			Until: w.Clock.Now().Add(time.Minute)}, m, sealed))
	}
}

// audit returns the latest entries of all publishers, the latest first.
func (w *fixture) audit() []operate.AuditEntry {
	w.t.Helper()
	page, err := w.Operations.Audit(ctx, actors["operator"], "", operate.Cursor{Limit: 200})
	coretest.Must(w.t, err)
	return page.Items
}

// did returns the operations of the test that changed something or sent something. The audit does not have
// those that only send something.
func (w *fixture) did() (all []string) {
	w.t.Helper()
	entries := w.audit()
	for _, e := range entries[:len(entries)-w.entries] {
		all = append(all, string(e.Operation))
	}
	if w.asked > 0 && !slices.Contains(all, "webhook.test") {
		all = append(all, "webhook.test")
	}
	if w.started > 0 {
		all = append(all, "session.test")
	}
	return all
}

var integrationPath = regexp.MustCompile(`/integrations/([^/?]+)`)

// real returns a path and a form with ids and versions instead of their aliases.
func (w *fixture) real(path, form string) (string, string) {
	var pairs []string
	for alias, id := range w.aliases {
		pairs = append(pairs, alias, id)
	}
	ids := strings.NewReplacer(pairs...)
	path, form = ids.Replace(path), ids.Replace(form)
	if strings.Contains(form, current) {
		form = strings.ReplaceAll(form, current, w.version(path))
	}
	return path, form
}

// version returns the present version of the integration or publisher of a path.
func (w *fixture) version(path string) string {
	if of := integrationPath.FindStringSubmatch(path); of != nil {
		i, err := w.directory.ReadIntegration(ctx, of[1])
		coretest.Must(w.t, err)
		return i.Version
	}
	p, err := w.directory.ReadPublisher(ctx, strings.Split(strings.TrimPrefix(path, "/console/p/"), "/")[0])
	coretest.Must(w.t, err)
	return p.Version
}

const cookieName = "__Host-verge-console"

// ask sends one request as the routes would.
func (w *fixture) ask(method, path, who, form string, header ...string) *web.Response {
	path, form = w.real(path, form)
	path, query, _ := strings.Cut(path, "?")
	req := &web.Request{Method: method, Path: path, Query: query, Header: web.Header{}, Body: []byte(form),
		Client: netip.MustParseAddr("203.0.113.7")}
	if who != "" {
		req.Header.Set("Cookie", cookieName+"="+who)
	}
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if strings.HasPrefix(form, "do=save-brand&") {
			var contentType string
			contentType, req.Body = multipartOf(form)
			req.Header.Set("Content-Type", contentType)
		}
		req.Header.Set("Origin", base)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for n := 0; n < len(header); n += 2 {
		req.Header[header[n]] = slices.Compact([]string{header[n+1]})
	}
	route, text, _ := w.Console.Routes().Find(req)
	if route == nil {
		return &web.Response{Status: 404, Header: web.Header{}}
	}
	resp, err := route.Handle(context.Background(), &router.Call{Request: req, Route: route, Text: text})
	if err != nil {
		panic(err) // errors of the console are pages
	}
	return resp
}

// multipartOf returns the same form as browsers send it together with a file.
func multipartOf(form string) (contentType string, body []byte) {
	values, err := url.ParseQuery(form)
	if err != nil {
		panic(err)
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, all := range values {
		for _, value := range all {
			err = errors.Join(err, w.WriteField(name, value))
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return w.FormDataContentType(), b.Bytes()
}
