package corpus

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/edge/transcript"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
)

// play is one recording.
type play struct {
	name   string
	config core.Config // over what begin sets
	play   func(*recording)
}

// recordings are the files of the corpus.
var recordings = []play{
	{"start", core.Config{Dev: true}, start},
	{"callbacks-dev", core.Config{Dev: true}, func(s *recording) { callbacks(s, true) }},
	{"callbacks-production", core.Config{Test: true}, func(s *recording) { callbacks(s, false) }},
	{"hosted", core.Config{Dev: true, Partitions: 3}, hosted},
	{"results", core.Config{Dev: true, Partitions: 2}, results},
	{"tokens", core.Config{Dev: true}, tokens},
	{"routes", core.Config{Dev: true}, routes},
	{"webhooks", core.Config{Test: true, Partitions: 2}, webhooks},
	{"operators", core.Config{Test: true}, operators},
	{"sites", core.Config{Test: true}, sites},
	{"limits", core.Config{Dev: true, Limits: web.Limits{PublicPerIP: ratelimit.PerMinute(12),
		PublicPerKey: ratelimit.PerMinute(20), SecretPerIP: ratelimit.PerMinute(30),
		ReconcilePerKey: ratelimit.PerMinute(15)}}, limits},
	{"faults", core.Config{Dev: true}, faults},
}

// record does it and returns the transcript.
func (p play) record() *transcript.Transcript {
	s := begin(p.config)
	p.play(s)
	return &s.recorder.Transcript
}

// epoch is when every recording begins. The odd part of a second shows where
// times are rounded.
var epoch = time.Date(2026, 11, 20, 22, 10, 0, 123_456_789, time.UTC)

// many is a rate that no recording reaches.
const many = 1_000_000

const operatorToken = "op_of_the_corpus_of_answers"

// A recording is one service on a store, with its publishers and receivers.
type recording struct {
	now      time.Time
	store    *memory.Store
	sealer   host.Sealer
	meter    meter
	setup    *core.Service // sets up publishers; what it does is not recorded
	recorder *transcript.Recorder

	shop, other *publisher

	// receiver gets webhooks. Nil: it verifies them, as a publisher should.
	receiver func(host.FetchRequest) (host.FetchResponse, error)
	secrets  map[string]string // of webhooks, by URL

	// fault returns the fault of an effect, the nth of its step from 1. Nil: effects have no fault.
	fault   func(n int, k abi.Kind) fault
	effects int
}

type publisher struct {
	id, secretKey string
	l1, l2        *integrated
	silent        *integrated // has no webhook
	off           *integrated // has its webhook switched off
}

type integrated struct {
	id, publicKey, webhookURL string
}

// fault is the fault of an effect.
type fault int

const (
	none        fault = iota
	unavailable       // not done, and the caller gets an error for this
	vanished          // not done, and the caller gets no reply
	lost              // done, and the caller gets no reply
)

const (
	callback = "https://shop.example/return"
	origin   = "https://shop.example"
)

// begin begins a recording with two publishers.
func begin(service core.Config) *recording {
	c := settings.Config{Config: service}
	s := &recording{now: epoch, meter: meter{}, secrets: map[string]string{}}
	s.store = memory.New(memory.Config{Now: func() time.Time { return s.now }})
	random := transcript.Entropy(0)
	keys, err := keyring.Generate(random, s.now)
	check(err)
	c.Keyring, err = keys.Marshal()
	check(err)
	var compact json.RawMessage // the form that the file has
	check(json.Unmarshal(c.Keyring, &compact))
	c.Keyring = compact
	c.BaseURL, c.Host, c.OperatorToken = "https://verge.example", "verge.example", operatorToken
	l := &c.Limits
	for _, limit := range []*ratelimit.Limit{
		&l.PublicPerIP, &l.PublicPerNetwork, &l.PublicPerKey, &l.StartsPerPublisher,
		&l.SecretPerIP, &l.ReconcilePerKey, &l.PreflightsPerIP, &l.PagesPerIP,
	} {
		*limit = cmp.Or(*limit, ratelimit.PerMinute(many))
	}
	// A window costs a whole period for each count, and the guest's host bounds a charge.
	l.FailedOperatorsPerIP = cmp.Or(l.FailedOperatorsPerIP, ratelimit.PerMinute(1000))
	ring, err := keys.Ring(c.Host, random, func() time.Time { return s.now })
	check(err)
	s.sealer = ring
	s.setup, err = core.New(c.Config,
		host.Host{KV: s.store, Sealer: ring,
			Now: func() time.Time { return s.now }, Random: random, Fetch: s})
	check(err)
	s.shop = s.publisher("pub_shop", "5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a", origin)
	s.other = s.publisher("pub_other", "c3d1a6b2-47e8-4f19-b6aa-90de4b7c51", "https://other.example")

	s.recorder, err = transcript.NewRecorder(c, s.now, s.carry)
	check(err)
	return s
}

func (s *recording) publisher(id, uuid, origin string) *publisher {
	d := s.setup.Directory()
	check(d.PutPublisher(context.Background(), integration.Publisher{ID: id, Name: id}))
	p := &publisher{id: id}
	add := func(end, level string, age int, hook integration.Webhook) *integrated {
		i := &integrated{id: uuid + end, webhookURL: hook.URL}
		secret := ""
		if hook.URL != "" {
			secret = webhookSecret(uuid + end)
			s.secrets[hook.URL] = secret
		}
		check(d.PutIntegration(context.Background(),
			integration.Integration{ID: i.id, PublisherID: id, Name: id + " " + level,
				Level: level, ChallengeAge: age, Method: sandbox.Name, BrowserOrigins: []string{origin},
				Webhook: hook}, secret))
		i.publicKey = s.key(id, i.id, nil)
		return i
	}
	p.l1 = add("01", "L1", 25, integration.Webhook{URL: origin + "/hooks/l1"})
	p.l2 = add("02", "L2", 18, integration.Webhook{URL: origin + "/hooks/l2"})
	p.silent = add("03", "L1", 21, integration.Webhook{})
	p.off = add("04", "L2", 99, integration.Webhook{Off: true})
	p.secretKey = s.key(id, "", nil)
	return p
}

// webhookSecret returns the secret of an integration. It has the form of Standard Webhooks (contract 51).
func webhookSecret(id string) string {
	key := sha256.Sum256([]byte(id))
	return "whsec_" + base64.StdEncoding.EncodeToString(key[:])
}

func (s *recording) key(publisher, integration string, expires *time.Time) string {
	text, _, err := s.setup.Directory().CreateKey(context.Background(), publisher, integration, expires)
	check(err)
	return text
}

// change changes an integration.
func (s *recording) change(id string, change func(*integration.Integration)) {
	i, err := s.setup.Directory().Integration(context.Background(), id)
	check(err)
	next := *i
	change(&next)
	check(s.setup.Directory().PutIntegration(context.Background(), next, ""))
}

func check(err error) {
	if err != nil {
		panic(err) // a mistake in this program
	}
}

// carry carries out what the service asks for.
func (s *recording) carry(k abi.Kind, body []byte) (abi.Status, []byte) {
	s.effects++
	f := none
	if s.fault != nil {
		f = s.fault(s.effects, k)
	}
	if k == abi.Fetch && f != none {
		return abi.NoResponse, abi.Append.FetchError(nil, host.FetchNetwork, "the connection was reset")
	}
	if f == unavailable || f != none && k != abi.KVCommit {
		return abi.Unavailable, []byte("the store is away")
	}
	if f == vanished {
		return abi.Unknown, []byte("no reply came")
	}
	ports := effect.Ports{KV: s.store, Meter: s.meter, Fetch: s, Verify: signing.Verify}
	status, reply := ports.Do(context.Background(), k, body)
	if f == lost {
		return abi.Unknown, []byte("no reply came")
	}
	return status, reply
}

// meter forgets no counter. The service's own meter forgets some at random.
type meter map[string]time.Time

// Spend implements kv.Meter.
func (m meter) Spend(
	_ context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	before, after := make([]time.Time, len(charges)), make([]time.Time, len(charges))
	allowed := true
	for i, c := range charges {
		before[i] = m[string(p)+"/"+c.Name]
		after[i] = now.Add(c.Cost)
		if before[i].After(now) {
			after[i] = before[i].Add(c.Cost)
		}
		allowed = allowed && !after[i].After(now.Add(c.Burst))
	}
	for i, c := range charges {
		if allowed {
			m[string(p)+"/"+c.Name] = after[i]
		}
	}
	return before, nil
}

// Fetch implements host.Fetcher: it receives the webhooks.
func (s *recording) Fetch(_ context.Context, q host.FetchRequest) (host.FetchResponse, error) {
	if s.receiver != nil {
		return s.receiver(q)
	}
	header := map[string][]string{}
	for name, value := range q.Header {
		header[name] = []string{value}
	}
	if webhook.Verify(s.secrets[q.URL], header, q.Body, s.now, 0) != nil {
		return host.FetchResponse{Status: 401}, nil
	}
	return host.FetchResponse{Status: 204,
		Header: map[string]string{"Date": "Fri, 20 Nov 2026 22:10:00 GMT"}}, nil
}

// answers is a receiver that always gives the same answer.
func answers(status int) func(host.FetchRequest) (host.FetchResponse, error) {
	return func(host.FetchRequest) (host.FetchResponse, error) {
		return host.FetchResponse{Status: status},
			nil
	}
}

// fails is a receiver that cannot be reached.
func fails(reason string) func(host.FetchRequest) (host.FetchResponse, error) {
	return func(host.FetchRequest) (host.FetchResponse, error) {
		return host.FetchResponse{}, &host.FetchError{Reason: reason, Err: errors.New("it cannot be reached")}
	}
}

// do has the service do something, a moment after the last step.
func (s *recording) do(name string, entry abi.Entry, body []byte) []byte {
	s.now = s.now.Add(7*time.Millisecond + 1234*time.Microsecond + 567)
	s.effects = 0
	answer, err := s.recorder.Do(name, s.now, entry, body)
	check(err)
	return answer
}

// pause lets time pass in which nothing happens.
func (s *recording) pause(d time.Duration) { s.now = s.now.Add(d) }

// ask sends a request with no other headers than header.
func (s *recording) ask(name, method, target string, header web.Header, body string) *web.Response {
	return s.send(name, abi.Handle, method, target, header, body)
}

// admin sends a request to the operators' side, with their token unless header is
// given.
func (s *recording) admin(name, method, target string, header web.Header, body string) *web.Response {
	if header == nil {
		header = bearer(operatorToken)
	}
	return s.send(name, abi.Admin, method, target, header, body)
}

func (s *recording) send(
	name string, entry abi.Entry, method, target string, header web.Header, body string,
) *web.Response {
	path, query, _ := strings.Cut(target, "?")
	return s.request(name, entry, &web.Request{Method: method, Path: path, Query: query, Header: header,
		Body: []byte(body), Client: netip.MustParseAddr("192.0.2.1")})
}

func (s *recording) request(name string, entry abi.Entry, q *web.Request) *web.Response {
	answer, err := abi.Read.Response(s.do(name, entry, abi.Append.Request(nil, q)))
	check(err)
	return answer
}

// must panics unless the response has the status, which later steps need.
func must(status int, r *web.Response) *web.Response {
	if r.Status != status {
		panic(fmt.Sprintf("status %d, want %d: %s", r.Status, status, r.Body))
	}
	return r
}

// headers makes a header of pairs.
func headers(pairs ...string) web.Header {
	h := web.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
	}
	return h
}

func bearer(key string) web.Header { return headers("Authorization", "Bearer "+key) }

// with is h and further headers.
func with(h web.Header, pairs ...string) web.Header {
	h = maps.Clone(h)
	maps.Copy(h, headers(pairs...))
	return h
}

// members are the fields of a JSON object. A nil one is left out.
type members map[string]any

func (m members) String() string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(_ string, v any) bool { return v == nil })
	b, err := json.Marshal(m)
	check(err)
	return string(b)
}

// startBody asks for a session of the shop's L1, with the members of change.
func (s *recording) startBody(change members) string {
	m := members{"integration_id": s.shop.l1.id, "callback_url": callback}
	maps.Copy(m, change)
	return m.String()
}

// started is a session that was started.
type started struct {
	ID       string `json:"session_id"`
	Redirect string `json:"redirect_url"`
	flow     string
}

func (s *recording) start(change members) started {
	return s.session(s.ask("start", "POST", web.StartPath, bearer(s.shop.secretKey), s.startBody(change)))
}

func (s *recording) session(r *web.Response) (v started) {
	check(json.Unmarshal(must(200, r).Body, &v))
	u, err := url.Parse(v.Redirect)
	check(err)
	v.flow = u.Query().Get("flow")
	return v
}

// page asks for a session's page.
func (s *recording) page(name string, v started, more ...string) *web.Response {
	target := web.HostedPath + "?flow=" + v.flow
	for i := 0; i < len(more); i += 2 {
		target += "&" + more[i] + "=" + more[i+1]
	}
	return s.ask(name, "GET", target, headers(), "")
}

var form = headers("Content-Type", "application/x-www-form-urlencoded", "Origin", "https://verge.example")

// act posts the form of an outcome.
func (s *recording) act(name string, v started, outcome string, more ...string) *web.Response {
	fields := url.Values{"flow": {v.flow}, "outcome": {outcome}}
	for i := 0; i < len(more); i += 2 {
		fields.Set(more[i], more[i+1])
	}
	return s.ask(name, "POST", web.HostedPath, form, fields.Encode())
}

// approve approves a session and returns the result token.
func (s *recording) approve(v started, more ...string) string {
	must(303, s.act("approve", v, sandboxApprove, more...))
	return resultToken(s.page("the hop", v))
}

var hopLink = regexp.MustCompile(`<a data-hop[^>]* href="([^"]*)"`)

// resultToken returns the result token in the hop to the publisher.
func resultToken(page *web.Response) string {
	u, err := url.Parse(html.UnescapeString(string(hopLink.FindSubmatch(must(200, page).Body)[1])))
	check(err)
	return u.Query().Get("result_token")
}

func (s *recording) validate(name, result string, more ...string) *web.Response {
	return s.ask(name, "POST", web.ValidatePath, with(bearer(s.shop.secretKey), more...),
		members{"result_token": result}.String())
}

func (s *recording) reconcile(name, id string) *web.Response {
	return s.ask(name, "GET", web.SessionsPath+id, bearer(s.shop.secretKey), "")
}

// runDue runs all due tasks.
func (s *recording) runDue(name string) (next time.Time) {
	jobs, err := abi.Read.Jobs(s.do(name, abi.RunDue, nil))
	check(err)
	return jobs.Next
}

// claim leases due tasks of a partition.
func (s *recording) claim(name string, p kv.Partition, n int) []host.Job {
	jobs, err := abi.Read.Jobs(s.do(name, abi.ClaimDue,
		abi.Append.ClaimJobs(nil, abi.ClaimJobs{Partition: p, N: n})))
	check(err)
	return jobs.Jobs
}

func (s *recording) run(name string, j host.Job) {
	s.do(name, abi.Run, abi.Append.Job(nil, j, time.Time{}))
}

func (s *recording) put(name string, j host.Job, until time.Time) {
	s.do(name, abi.Defer, abi.Append.Job(nil, j, until))
}

// settle runs all due tasks on the service that is not recorded.
func (s *recording) settle() {
	_, err := s.setup.RunDue(context.Background())
	check(err)
}

// plant puts a value into the store past the service.
func (s *recording) plant(key kv.Key, value []byte) {
	check(s.store.Commit(context.Background(), kv.Tx{ID: "plant " + key.Name, Partition: key.Partition,
		Puts: []kv.Put{{Name: key.Name, Value: value}}}))
}
