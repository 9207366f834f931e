package edge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge"
	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/testharness/wait"
)

const endpointPath, configured = "/admin/v1/own", "the-operator-token-of-tests"

// endpointTest is a service with an AdminEndpoint. said returns its log and operations.
type endpointTest struct {
	t       *testing.T
	service *edge.Service
	url     string
	begin   time.Time

	mu   sync.Mutex
	log  bytes.Buffer
	past time.Duration // since begin
	did  []string      // the operations at the path, with their actors

	changing func(context.Context) // called by a change; may be nil
	store    *filling
}

// Write implements io.Writer, for the log.
func (o *endpointTest) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.log.Write(p)
}

func (o *endpointTest) now() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begin.Add(o.past)
}

func (o *endpointTest) advance(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.past += d
}

// said returns the log and the operations at the path since the last call.
func (o *endpointTest) said() (log string, did []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	log, did = o.log.String(), o.did
	o.log.Reset()
	o.did = nil
	return log, did
}

// filling is a store that rejects writes once it is full.
type filling struct {
	kv.KV
	full atomic.Bool
}

func (f *filling) Commit(ctx context.Context, tx kv.Tx) error {
	if f.full.Load() {
		return kv.ErrUnavailable
	}
	return f.KV.Commit(ctx, tx)
}

// answer is the endpoint's Answer; it may also reject the request.
func (o *endpointTest) answer(ctx context.Context, c *edge.Call) (any, *web.Error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.did = append(o.did, c.Method+" by "+c.Operator)
	b, err := io.ReadAll(c.Stream)
	if made, ok := strings.CutPrefix(string(b), "make "); ok {
		c.Changed = made
		if o.changing != nil {
			o.changing(ctx)
		}
	}
	if err != nil || string(b) == "bad" {
		return nil, &web.Error{Code: web.BackupRejected, Message: "It is bad."}
	}
	return map[string]int{"bytes": len(b)}, nil
}

// serveEndpoint runs a service with an operator token. around stands between the network and its engine; nil
// is nothing.
func serveEndpoint(t *testing.T, around func(engine.Engine) engine.Engine) *endpointTest {
	return serveEndpointWith(t, configured, around)
}

func serveEndpointWith(t *testing.T, token string, around func(engine.Engine) engine.Engine) *endpointTest {
	t.Helper()
	o := &endpointTest{t: t, begin: time.Now()}
	conf := config(t)
	conf.Core.OperatorToken, conf.Admin, conf.Now = token, listen(t), o.now
	conf.Log = slog.New(slog.NewJSONHandler(o, nil))
	conf.Server.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	conf.AdminEndpoints = map[string]edge.AdminEndpoint{endpointPath: {Handle: o.answer,
		Operations: map[string]operate.Operation{"GET": operate.ModuleRead, "POST": operate.BackupMake}}}
	o.store = &filling{KV: conf.Store.KV}
	conf.Store.KV = o.store
	if around != nil {
		conf.Engine = func(_ context.Context, s edge.Setup) (engine.Engine, error) {
			return around(s.Native),
				nil
		}
	}
	o.url = "http://" + conf.Admin.Addr().String()
	o.service = open(t, conf)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.service.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := wait.For(ended); err != nil {
			t.Error(err)
		}
	})
	return o
}

// told is an answer.
type told struct {
	status int
	header http.Header
	body   string
	Code   string `json:"code"`
	Error  string `json:"error"`
}

// ask sends a request of a client with that address.
func (o *endpointTest) ask(method, path, token, body, from string) (a told) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.url+path, strings.NewReader(body))
	if err != nil {
		o.t.Fatal(err)
	}
	req.Header.Set("X-Forwarded-For", from)
	req.Header.Set("X-Correlation-Id", "4bf92f3577b34da6a3ce929d0e0e4736")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	_ = json.Unmarshal(b, &a) // what is no error has no code
	a.status, a.header, a.body = resp.StatusCode, resp.Header, string(b)
	return a
}

// token makes an operator token.
func (o *endpointTest) token(role operate.Role) (text, id string) {
	o.t.Helper()
	var made operate.CreatedOperatorToken
	a := o.ask("POST", operate.CreateOperator.Path, configured, `{"name":"Olga","role":"`+string(role)+`"}`,
		"192.0.2.9")
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || a.status != 200 {
		o.t.Fatalf("%d %s", a.status, a.body)
	}
	return made.Token, made.Info.ID
}

// Contract 42: who may do what at a path of the host's own. A rejection is the same as at the core's paths.
func TestAdminEndpoint_Callers(t *testing.T) {
	o := serveEndpoint(t, nil)
	operator, operatorID := o.token(operate.RoleOperator)
	viewer, viewerID := o.token(operate.RoleViewer)
	revoked, revokedID := o.token(operate.RoleOperator)
	o.ask("POST", strings.Replace(operate.RevokeOperator.Path, "{id}", revokedID, 1), configured, "",
		"192.0.2.9")
	forbidden := o.ask("POST", operate.CreateOperator.Path, viewer, `{"name":"x","role":"viewer"}`,
		"192.0.2.9")
	unauthorized := o.ask("GET", operate.ListMethods.Path, "", "", "192.0.2.9")
	for _, c := range []struct {
		rule, method, token, body string
		status                    int
		code, did                 string
		as                        told // a rejection at a path of the core
	}{
		{rule: "the configuration's token does everything", method: "POST", token: configured, body: "1",
			status: 200, did: "POST by configuration"},
		{rule: "an operator does everything", method: "POST", token: operator,
			status: 200, did: "POST by " + operatorID},
		{rule: "an operator sees everything", method: "GET", token: operator, status: 200,
			did: "GET by " + operatorID},
		{rule: "a viewer sees everything", method: "GET", token: viewer, status: 200,
			did: "GET by " + viewerID},
		{rule: "a viewer changes nothing", method: "POST", token: viewer,
			status: 403, code: "FORBIDDEN", as: forbidden},
		{rule: "no token", method: "GET", status: 401, code: "UNAUTHORIZED", as: unauthorized},
		{rule: "a guess", method: "POST", token: configured[1:], status: 401, code: "UNAUTHORIZED",
			as: unauthorized},
		{rule: "a revoked token", method: "POST", token: revoked, status: 401, code: "UNAUTHORIZED",
			as: unauthorized},
		{rule: "another method, without a token", method: "PUT", status: 401, code: "UNAUTHORIZED",
			as: unauthorized},
		{rule: "another method", method: "PUT", token: viewer, status: 405, code: "METHOD_NOT_ALLOWED"},
		{rule: "what the path itself refuses", method: "POST", token: operator, body: "bad", status: 409,
			code: "BACKUP_REFUSED", did: "POST by " + operatorID},
	} {
		o.said()
		a := o.ask(c.method, endpointPath, c.token, c.body, "192.0.2.1")
		log, did := o.said()
		if a.status != c.status || a.Code != c.code || strings.Join(did, ", ") != c.did {
			t.Errorf("contract 42: %s: %d %s, done: %q, want %d %s, %q", c.rule, a.status, a.body, did,
				c.status, c.code, c.did)
		}
		if c.as.status != 0 && (a.status != c.as.status || a.Error != c.as.Error ||
			a.header.Get("Www-Authenticate") != c.as.header.Get("Www-Authenticate")) {
			t.Errorf("contract 5: %s: %s, and elsewhere %s", c.rule, a.body, c.as.body)
		}
		if (a.status == 405) != (a.header.Get("Allow") == "GET, HEAD, POST") {
			t.Errorf("contract 5, 405: %s: allows %q", c.rule, a.header.Get("Allow"))
		}
		if !strings.HasPrefix(a.header.Get("X-Request-Id"), "req_") ||
			a.header.Get("X-Correlation-Id") != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("contract 4: %s: %v", c.rule, a.header)
		}
		o.hasLine(c.rule, log, a)
	}
	index := o.ask("GET", "/", "", "", "192.0.2.1")
	if !strings.Contains(index.body, "\n  GET   "+endpointPath+"\n  POST  "+endpointPath+"\n") {
		t.Errorf("the index does not name the path: %s", index.body)
	}
}

// hasLine checks that the log has one line of the response, with its code.
func (o *endpointTest) hasLine(rule, log string, a told) {
	o.t.Helper()
	var line struct {
		Msg, Path, Code string
		Status          int
		RequestID       string `json:"request_id"`
	}
	lines := 0
	for text := range strings.Lines(log) {
		if strings.Contains(text, `"msg":"request"`) {
			lines++
			if err := json.Unmarshal([]byte(text), &line); err != nil {
				o.t.Fatal(err)
			}
		}
	}
	if lines != 1 || line.Code != a.Code || line.Status != a.status || line.Path != endpointPath ||
		line.RequestID != a.header.Get("X-Request-Id") {
		o.t.Errorf("contract 48: %s: %d lines, %+v", rule, lines, line)
	}
}

// Contract 30, 42: wrong tokens of an address count together, at all paths. Then the right ones wait,
// too.
func TestWrongTokensAtAnAdminEndpointAreCounted(t *testing.T) {
	o := serveEndpoint(t, nil)
	operator, _ := o.token(operate.RoleOperator)
	paths := []string{endpointPath, operate.ListKeys.Path}
	for n := range 20 {
		if a := o.ask("GET", paths[n%2], "guess", "", "192.0.2.1"); a.status != 401 {
			t.Fatalf("contract 30: guess %d at %s: %d %s", n+1, paths[n%2], a.status, a.body)
		}
	}
	for _, path := range paths {
		for _, method := range []string{"GET", "POST", "PUT"} {
			o.said()
			a := o.ask(method, path, "guess", "", "192.0.2.1")
			if a.status != 429 || a.Code != "RATE_LIMITED" || a.header.Get("Retry-After") == "" {
				t.Errorf("contract 30: one more, %s %s: %d %s", method, path, a.status, a.body)
			}
			if log, _ := o.said(); path == endpointPath {
				o.hasLine("a guess too many", log, a)
			}
		}
	}
	rights := map[string]string{"the configuration's": configured, "an operator's": operator}
	for rule, token := range rights {
		if a := o.ask("POST", endpointPath, token, "", "192.0.2.1"); a.status != 429 {
			t.Errorf("contract 30: %s token behind 20 guesses: %d %s", rule, a.status, a.body)
		}
		if a := o.ask("POST", endpointPath, token, "", "192.0.2.2"); a.status != 200 {
			t.Errorf("contract 30: %s token from another address: %d %s", rule, a.status, a.body)
		}
	}
	o.advance(time.Minute)
	for rule, token := range rights {
		if a := o.ask("POST", endpointPath, token, "", "192.0.2.1"); a.status != 200 {
			t.Errorf("contract 30: %s token after the minute: %d %s", rule, a.status, a.body)
		}
	}
}

// audit returns the audit entries of the host's operations, the earliest first.
func (o *endpointTest) audit() (all []string) {
	o.t.Helper()
	a := o.ask("GET", operate.ListAudit.Path, configured, "", "192.0.2.9")
	var page struct{ Audit []operate.AuditEntry }
	if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 {
		o.t.Fatalf("%d %s", a.status, a.body)
	}
	for _, e := range page.Audit {
		if e.Operation == operate.BackupMake || e.Operation == operate.ModuleRead {
			all = append(all, fmt.Sprintf("%s %s by %s %s (%s)", e.Operation, e.Target, e.ActorKind,
				e.ActorID, e.ActorName))
		}
	}
	slices.Reverse(all)
	return all
}

// Contract 42: every change is in the audit, with who made it, and nothing else is.
func TestAdminEndpoint_Audit(t *testing.T) {
	o := serveEndpoint(t, nil)
	operator, id := o.token(operate.RoleOperator)
	viewer, _ := o.token(operate.RoleViewer)
	for _, c := range []struct{ rule, method, token, body, entry string }{
		{"an operator's change", "POST", operator, "make /a", "backup.make /a by operator " + id + " (Olga)"},
		{"a change with the configuration's token", "POST", configured, "make /b",
			"backup.make /b by operator configuration (configuration)"},
		{"nothing changes", "POST", operator, "", ""},
		{"something is read", "GET", operator, "", ""},
		{"the path refuses", "POST", operator, "bad", ""},
		{"a viewer may not", "POST", viewer, "make /c", ""},
		{"rejected without a token", "POST", "guess", "make /c", ""},
		{"the path does not take that method", "PUT", operator, "make /c", ""},
	} {
		o.advance(time.Second) // the audit is in the order of time
		before := len(o.audit())
		o.ask(c.method, endpointPath, c.token, c.body, "192.0.2.1")
		if got := strings.Join(o.audit()[before:], "; "); got != c.entry {
			t.Errorf("contract 42: %s: the audit has %q, want %q", c.rule, got, c.entry)
		}
	}
}

// Contract 42: an operation is in the audit even if its caller disconnects immediately.
func TestAdminEndpoint_AuditAfterCallerLeft(t *testing.T) {
	o := serveEndpoint(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	o.changing = func(asked context.Context) {
		leave()
		<-asked.Done() // the server knows
	}
	req, err := http.NewRequestWithContext(ctx, "POST", o.url+endpointPath, strings.NewReader("make /a"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+configured)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Fatalf("the caller who has left gets a response: %d", resp.StatusCode)
	}
	const want = "backup.make /a by operator configuration (configuration)"
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		if slices.Contains(o.audit(), want) {
			return
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("contract 42: the audit has %q, want %q", o.audit(), want)
		}
	}
}

// Contract 42: a completed operation returns success, and the log reports the missing audit entry.
func TestAdminEndpoint_AuditFails(t *testing.T) {
	o := serveEndpoint(t, nil)
	o.store.full.Store(true)
	a := o.ask("POST", endpointPath, configured, "make /a", "192.0.2.1")
	log, did := o.said()
	if a.status != 200 || len(did) != 1 || !strings.Contains(log, `"msg":"audit entry not written"`) ||
		!strings.Contains(log, `"operation":"backup.make","actor":"configuration","target":"/a"`) {
		t.Errorf("contract 42: %d %s, done %q, and the log has:\n%s", a.status, a.body, did, log)
	}
	o.store.full.Store(false)
	if all := o.audit(); len(all) > 0 {
		t.Errorf("the audit has %q", all)
	}
}

// judging is an engine that returns a test's response to the question for a token's owner.
type judging struct {
	engine.Engine
	says *web.Response
}

func (j judging) Admin(ctx context.Context, req *web.Request) *web.Response {
	if req.Path != operate.ReadSelf.Path {
		return j.Engine.Admin(ctx, req)
	}
	return j.says
}

// Only a clear yes of the engine lets a token in. The configuration's needs no engine, so that a module that
// fails can be replaced.
func TestAdminEndpoint_UnclearDecision(t *testing.T) {
	for _, c := range []struct {
		rule   string
		says   *web.Response
		status int
	}{
		{"the module is of a release that does not know the question",
			(&web.Error{Code: web.NotFound}).Response("req_x", ""), 403},
		{"the module does not know the operation",
			(&web.Error{Code: web.InvalidRequest}).Response("req_x", ""), 400},
		{"the engine gives no answer", nil, 503},
		{"the engine is busy", &web.Response{Status: 503}, 503},
		{"the engine fails", &web.Response{Status: 500}, 500},
		{"a malformed answer", &web.Response{Status: 200, Header: web.Header{}, Body: []byte("yes")},
			503},
		{"a response about no one", web.JSON(200, operate.OperatorToken{Role: operate.RoleOperator}), 503},
		{"an answer without a status", &web.Response{Header: web.Header{}}, 500},
		{"no content", &web.Response{Status: 204, Header: web.Header{}}, 503},
		{"it is elsewhere", &web.Response{Status: 302, Header: web.Header{}}, 503},
	} {
		t.Run(c.rule, func(t *testing.T) {
			o := serveEndpoint(t, func(e engine.Engine) engine.Engine { return judging{e, c.says} })
			operator, _ := o.token(operate.RoleOperator)
			a := o.ask("POST", endpointPath, operator, "", "192.0.2.1")
			if _, did := o.said(); a.status != c.status || len(did) > 0 {
				t.Errorf("contract 42: %d %s, done: %q, want %d", a.status, a.body, did, c.status)
			}
			if a := o.ask("POST", endpointPath, configured, "", "192.0.2.1"); a.status != 200 {
				t.Errorf("contract 42: the configuration's token: %d %s", a.status, a.body)
			}
		})
	}
	t.Run("no token is configured", func(t *testing.T) {
		o := serveEndpointWith(t, "", nil)
		for _, header := range []string{"", " ", "x"} {
			if a := o.ask("GET", endpointPath, header, "", "192.0.2.1"); a.status != 401 {
				t.Errorf("contract 42: with %q the request is accepted: %d %s", header, a.status, a.body)
			}
		}
	})
}
