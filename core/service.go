package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/verge-id/verge/core/admin"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/api"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/console"
	"github.com/verge-id/verge/core/internal/hosted"
	"github.com/verge-id/verge/core/internal/lifecycle"
	"github.com/verge-id/verge/core/internal/liststore"
	"github.com/verge-id/verge/core/internal/member"
	"github.com/verge-id/verge/core/internal/openid"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/passkey"
	"github.com/verge-id/verge/core/internal/result"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/usage"
	"github.com/verge-id/verge/core/internal/webauthn"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// Service is the core. Its methods may be called concurrently.
type Service struct {
	host       host.Host
	lease      time.Duration
	partitions []kv.Partition
	methods    method.Catalog
	dev        bool

	directory  *integration.Directory
	lifecycle  *lifecycle.Lifecycle
	outbox     *outbox.Outbox
	api        *api.API
	documents  *api.Documents
	hosted     *hosted.Hosted
	openID     *openid.Provider
	admin      *admin.Admin
	usage      *usage.Usage
	people     *member.Registry
	operations *operate.Operations
	console    *console.Console
	consoleOn  string // one of the Console constants
	limits     web.Limits
	maxCall    int    // bytes of a wallet's response
	contact    string // Config.SecurityContact
	baseURL    string

	public, operators, operatorsConsole *router.Router
}

// New returns the service that cfg describes on the host h.
func New(config Config, h host.Host) (*Service, error) {
	cfg, wrong := config.parse()
	if err := wrong.Err(); err != nil {
		return nil, fmt.Errorf("verge: %w", err)
	}
	h = host.WithDefaults(h)
	limiter := limiterOf(h)
	h.KV = audit.Logged(h.KV, slog.New(audit.Chained(h.Log.Handler(), h.Random)))
	lists := &liststore.Store{Host: h}
	methods, err := cfg.catalog.Open(method.Host{Now: h.Now, Random: h.Random, Fetch: h.Fetch, Sign: h.Sign,
		Decrypt: h.Decrypt, Verify: h.Verify, VerifyProof: h.VerifyProof, Measure: h.Measure, Log: h.Log,
		TrustLists: lists})
	if err != nil {
		return nil, fmt.Errorf("verge: %w", err)
	}
	s := &Service{host: h, lease: cfg.Lease, dev: cfg.Dev, methods: cfg.catalog,
		maxCall: cfg.catalog.MaxCall(), directory: integration.NewDirectory(h)}
	for n := range cfg.Partitions {
		s.partitions = append(s.partitions, session.Partition(n).Name())
	}
	s.lifecycle = &lifecycle.Lifecycle{Host: h, Attempts: cfg.Attempts, OutcomeLife: cfg.OutcomeLife}
	s.outbox = &outbox.Outbox{
		Host:        h,
		Partitions:  s.partitions,
		Directory:   s.directory,
		Schedule:    cfg.Schedule,
		AttemptTime: cfg.AttemptTime,
	}
	results := &result.Tokens{Host: h, Lifecycle: s.lifecycle}
	s.usage = &usage.Usage{Host: h}
	s.api = &api.API{Host: h, BaseURL: cfg.BaseURL, Dev: cfg.Dev, Partitions: uint16(cfg.Partitions),
		Directory: s.directory, Lifecycle: s.lifecycle, Results: results, Limits: cfg.Limits,
		Methods: methods, Outbox: s.outbox}
	s.documents = api.NewDocuments(api.Settings{BaseURL: cfg.BaseURL, Limits: cfg.Limits,
		Schedule: cfg.Schedule, ResponseTime: outbox.ResponseTime(cfg.AttemptTime),
		OutcomeLife: cfg.OutcomeLife, Console: cfg.Console == ConsolePublic})
	s.openID = &openid.Provider{Host: h, BaseURL: cfg.BaseURL, API: s.api, Directory: s.directory,
		Results: results, Keys: cfg.providerKeys}
	party := passkeysAt(cfg.BaseURL, cfg.ServiceName)
	passkeys := &passkey.Store{Host: h, Life: time.Duration(cfg.PasskeyDays) * 24 * time.Hour}
	s.hosted = &hosted.Hosted{Host: h, BaseURL: cfg.BaseURL, Directory: s.directory, Lifecycle: s.lifecycle,
		Results: results, Service: cfg.brand(), Dev: cfg.Dev, Methods: methods, Partitions: cfg.Partitions}
	if party != nil {
		passkeys.Party, s.hosted.Passkeys = *party, passkeys
	}
	s.people = member.New(h, member.Config{OperatorToken: cfg.OperatorToken, Passkeys: party})
	s.operations = &operate.Operations{Host: h, Lists: lists, HostFetchesLists: cfg.HostFetchesLists,
		Dev: cfg.Dev, BaseURL: cfg.BaseURL, ServiceName: cfg.ServiceName, Catalog: cfg.catalog,
		Partitions: s.partitions, Directory: s.directory, People: s.people, Outbox: s.outbox,
		Lifecycle: s.lifecycle, Counted: s.usage, UserPasskeys: passkeys,
		Reports: cfg.reports(), StartTest: s.api.StartTestSession}
	guard := &operate.TokenGuard{Limiter: limiter, Limit: cfg.Limits.FailedOperatorsPerIP,
		Operations: s.operations}
	s.admin = &admin.Admin{Now: h.Now, Operations: s.operations, People: s.people, Guard: guard}
	s.console = &console.Console{Operations: s.operations, Host: h, BaseURL: cfg.BaseURL,
		Service: cfg.ServiceName, Directory: s.directory, Dev: cfg.Dev,
		Access: &console.People{Registry: s.people, Directory: s.directory, Guard: guard,
			Sealer: h.Sealer, Now: h.Now, Random: h.Random}}
	s.console.Reports = cfg.ReportKey != ""
	if len(cfg.providerKeys) > 0 {
		s.console.Issuer = cfg.BaseURL + openid.Path
	}
	s.consoleOn, s.contact, s.baseURL = cfg.Console, cfg.SecurityContact, cfg.BaseURL
	s.limits = cfg.Limits
	s.public = &router.Router{Host: h, Limiter: limiter, Routes: s.publicRoutes(), ErrorPage: s.errorPage,
		Explain: explain}
	s.operatorsConsole = &router.Router{Host: h, Limiter: limiter, Routes: s.consoleRoutes(ConsoleOperators),
		ErrorPage: func(status int, _ string, req *web.Request) *web.Response {
			return cfg.ErrorPage(status, req)
		}, Explain: explain}
	s.operators = &router.Router{Host: h, Limiter: limiter, Routes: s.admin.Routes(),
		NoRoute: s.admin.NoRoute, Explain: explain}
	return s, nil
}

// passkeysAt returns the site that passkeys of members and users are for, or nil at an address without a
// name, where browsers offer none.
func passkeysAt(baseURL, name string) *webauthn.RelyingParty {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil
	}
	party, err := webauthn.NewRelyingParty(u.Hostname(), name, baseURL)
	if err != nil {
		return nil
	}
	return &party
}

// maxCounters is how many rate counters an instance keeps in memory. Each takes about 100 bytes.
const maxCounters = 1 << 18

// limiterOf returns a limiter that counts in the store if instances share it. Otherwise it counts in this
// instance's memory, where the names of counters need no hash.
func limiterOf(h host.Host) *ratelimit.Limiter {
	m, ok := h.KV.(kv.Meter)
	if !ok {
		return &ratelimit.Limiter{Store: ratelimit.NewLocal(maxCounters)}
	}
	return &ratelimit.Limiter{Store: ratelimit.FromMeter(m, "limits"),
		MAC: func(message []byte) ([]byte, error) { return h.Sealer.MAC(token.Secret, message) }}
}

// Directory returns the store of publishers, integrations and keys.
func (s *Service) Directory() *integration.Directory { return s.directory }

// Usage is the stored usage of a service, by all instances.
type Usage = usage.Usage

// Usage returns the stored usage of the service.
func (s *Service) Usage() *Usage { return s.usage }

// TellDone adds an audit entry for an operation that the host has carried out itself. See operate.Operations.
func (s *Service) TellDone(ctx context.Context, who operate.Actor, op operate.Operation, target string) {
	s.operations.TellDone(ctx, who, op, target)
}

// TrustLists returns the host's access to the stored trusted lists.
func (s *Service) TrustLists() operate.HostLists { return operate.HostLists{Operations: s.operations} }

// CountUndelivered returns the number of events that wait for a retry, the number of dead events, and the
// time of the oldest waiting event, or zero. It counts up to a limit, so that its cost is limited too.
func (s *Service) CountUndelivered(ctx context.Context) (waiting, dead int, oldest time.Time, err error) {
	all, _, err := s.outbox.Undelivered(ctx)
	for _, u := range all {
		waiting += u.Waiting
		dead += u.Dead
		if !u.Oldest.IsZero() && (oldest.IsZero() || u.Oldest.Before(oldest)) {
			oldest = u.Oldest
		}
	}
	return waiting, dead, oldest, err
}

// Record writes sums of the core's usage. It may be given the same ones again.
func (s *Service) Record(ctx context.Context, t host.Totals) error { return s.usage.Record(ctx, t) }

// Apply checks a site, which is an integration.Site as JSON. It puts the site into the store, unless it was
// the last one put there.
func (s *Service) Apply(ctx context.Context, site []byte) error {
	parsed, err := integration.ReadSite(site)
	if err != nil {
		return err
	}
	if err := parsed.Validate(s.methods, s.dev); err != nil {
		return err
	}
	return s.directory.Apply(ctx, parsed)
}

// Ready reports whether the KV responds.
func (s *Service) Ready(ctx context.Context) error {
	_, err := s.host.KV.Get(ctx, kv.Key{Partition: integration.Partition, Name: "ready"})
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	return err
}

// Handle returns the response to a request to the public API, the hosted pages or the documentation.
func (s *Service) Handle(ctx context.Context, req *web.Request) *web.Response {
	return s.public.Serve(ctx, req)
}

// Admin returns the response to a request to the operators' API, or to the console if it is on this listener.
func (s *Service) Admin(ctx context.Context, req *web.Request) *web.Response {
	if s.consoleOn == ConsoleOperators {
		if route, _, _ := s.operatorsConsole.Routes.Find(req); route != nil {
			return s.operatorsConsole.Serve(ctx, req)
		}
	}
	return s.operators.Serve(ctx, req)
}

// explain returns the API error for an error of the key ring or of the store's content, or nil.
func explain(err error) *web.Error {
	switch {
	case errors.Is(err, host.ErrKeyAwaited):
		return keyAwaited
	case errors.Is(err, token.ErrRecord):
		return storeNotTrusted
	}
	return nil
}

// keyAwaited is the error for a token that is sealed with a key that this instance has not read yet.
var keyAwaited = &web.Error{Code: web.Unavailable, RetryAfter: 1,
	Message: "This instance has not read the newest key of its key ring yet; nothing was granted. Try again."}

// storeNotTrusted is the error for a record in the store that this service did not write. To the caller it is
// like a store that does not respond: nothing is known, and nothing is granted.
var storeNotTrusted = &web.Error{Code: web.Unavailable, RetryAfter: 1,
	Message: "The service cannot trust the store's data for this request; nothing was granted. " +
		"If this continues, report the request id to the operator."}

// Partitions returns the partitions over which sessions, and so tasks, are spread.
func (s *Service) Partitions() []kv.Partition { return s.partitions }

// Claim leases up to n due tasks of the partition. next is when to look again. It is zero if nothing is
// scheduled.
func (s *Service) Claim(
	ctx context.Context, p kv.Partition, n int,
) (jobs []host.Job, next time.Time, err error) {
	now := s.host.Now()
	tasks, next, err := s.host.KV.Claim(ctx, p, now, s.lease, n)
	// Until has no monotonic reading, because other claimants go by the wall clock. That reading ignores
	// that the clock was set or the machine slept. By it, the lease would seem to hold after another has
	// taken it over.
	until := now.Round(0).Add(s.lease)
	for _, t := range tasks {
		job := host.Job{Partition: p, Task: t, Until: until}
		if m, _, err := outbox.Read(t); err == nil && m.Kind == outbox.Deliver {
			job.Destination = m.Integration
			if m.Type == webhook.TypeFailing { // it must not wait for the receiver that fails
				job.Destination += "/alert"
			}
		}
		jobs = append(jobs, job)
	}
	return jobs, next, err
}

// Run carries out a claimed task. It returns only errors of the store. After one, the task comes free again
// when its lease runs out.
func (s *Service) Run(ctx context.Context, job host.Job) error {
	m, sealed, err := outbox.Read(job.Task)
	if err != nil {
		return s.outbox.Drop(ctx, job, err)
	}
	if m.Kind == outbox.Deliver {
		return s.outbox.Deliver(ctx, job, m, sealed)
	}
	id, err := session.ParseID(s.host.Sealer, m.Session)
	if errors.Is(err, host.ErrKeyAwaited) {
		return err
	}
	if err != nil {
		return s.outbox.Drop(ctx, job, err)
	}
	i, err := s.directory.Integration(ctx, id.Integration)
	if errors.Is(err, integration.ErrNotFound) {
		// it was deleted in the meantime, so no event is sent
		i, err = &integration.Integration{ID: id.Integration}, nil
	}
	if err != nil {
		return err
	}
	return s.lifecycle.Expire(ctx, lifecycle.Session{ID: id, Text: m.Session, Integration: i}, job)
}

// Defer gives a claimed task back. The task is due again at until, and no attempt is counted.
func (s *Service) Defer(ctx context.Context, job host.Job, until time.Time) error {
	return s.outbox.Defer(ctx, job, until)
}

// RunDue runs all due tasks, one at a time. It returns the time at which the next task is due, or zero. It is
// for hosts without threads. Other hosts claim tasks and run them in parallel.
func (s *Service) RunDue(ctx context.Context) (next time.Time, err error) {
	for ran := true; ran && err == nil; {
		ran, next = false, time.Time{}
		for _, p := range s.partitions { // a few of each, so that no partition waits for all of another
			jobs, pNext, claimErr := s.Claim(ctx, p, 16)
			err = errors.Join(err, claimErr) // the tasks of the other partitions still run
			for _, job := range jobs {
				err = errors.Join(err, s.Run(ctx, job))
				ran = true
			}
			if !pNext.IsZero() && (next.IsZero() || pNext.Before(next)) {
				next = pNext
			}
		}
	}
	return next, err
}
