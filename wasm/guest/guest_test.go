package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyset"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/wallettest"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// fake is a service whose Handle a test sets.
type fake struct {
	*guest
	handle func(ctx context.Context, req *web.Request) *web.Response
	run    func(ctx context.Context, job host.Job) error
}

func (f *fake) Handle(ctx context.Context, req *web.Request) *web.Response { return f.handle(ctx, req) }
func (f *fake) Admin(context.Context, *web.Request) *web.Response {
	return &web.Response{Status: 299, Header: web.Header{}}
}
func (f *fake) Ready(ctx context.Context) error {
	_, err := effect.Store(f.effect).Get(ctx, kv.Key{Partition: "c", Name: "ready"})
	if errors.Is(err, kv.ErrNotFound) {
		return nil
	}
	return err
}
func (f *fake) Claim(ctx context.Context, p kv.Partition, n int) ([]host.Job, time.Time, error) {
	tasks, next, err := effect.Store(f.effect).Claim(ctx, p, at, time.Minute, n)
	var jobs []host.Job
	for _, t := range tasks {
		jobs = append(jobs, host.Job{Partition: p, Task: t})
	}
	return jobs, next, err
}
func (f *fake) Run(ctx context.Context, job host.Job) error { return f.run(ctx, job) }
func (f *fake) Defer(_ context.Context, job host.Job, until time.Time) error {
	return fmt.Errorf("%s until %s", job.Task.ID, until.Format(time.TimeOnly))
}
func (f *fake) Apply(_ context.Context, site []byte) error {
	return fmt.Errorf("%w: %s", kv.ErrUnavailable, site)
}
func (f *fake) Record(_ context.Context, t host.Totals) error {
	return fmt.Errorf("%w: %+v", kv.ErrUnavailable, t)
}
func (f *fake) RunDue(context.Context) (time.Time, error) { return at, kv.ErrUnavailable }

var at = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

// newFake returns a guest whose Handle reads the key in the path, once for each byte of the query, and
// responds with the results.
func newFake() *fake {
	f := &fake{guest: newGuest(nil)}
	f.service = f
	f.handle = func(ctx context.Context, req *web.Request) *web.Response {
		var got []string
		for range req.Query {
			it, err := effect.Store(f.effect).Get(ctx, kv.Key{Partition: "p", Name: req.Path})
			got = append(got, fmt.Sprintf("%s%v", it.Value, err))
		}
		return &web.Response{Status: 200, Header: web.Header{}, Body: []byte(strings.Join(got, ","))}
	}
	return f
}

// outbox returns the outbox of the last call.
func (f *fake) outbox(t *testing.T) (all []abi.Record) {
	t.Helper()
	for rest := f.take(); len(rest) > 0; {
		var rec abi.Record
		var err error
		if rec, rest, err = abi.Read.Record(rest); err != nil {
			t.Fatal(err)
		}
		rec.Body = append([]byte(nil), rec.Body...)
		all = append(all, rec)
	}
	return all
}

func (f *fake) one(t *testing.T) abi.Record {
	t.Helper()
	all := f.outbox(t)
	if len(all) != 1 {
		t.Fatalf("%d records, want one: %+v", len(all), all)
	}
	return all[0]
}

func (f *fake) begin(id uint32, path, query string) {
	f.submit(id, abi.Append.Request([]byte{byte(abi.Handle)}, &web.Request{Path: path, Query: query}))
}

func wantBody(t *testing.T, rec abi.Record, id uint32, body string) {
	t.Helper()
	resp, err := abi.Read.Response(rec.Body)
	if err != nil || rec.Kind != abi.Respond || rec.Request != id || string(resp.Body) != body {
		t.Errorf("request %d: record %d of request %d: %s, %v, want %s",
			id, rec.Kind, rec.Request, resp.Body, err, body)
	}
}

func item(value string) []byte { return abi.Append.Item(nil, kv.Item{Value: []byte(value)}) }

// The guest must do exactly what the example in ABI.md shows, byte for byte.
func TestABIDocument_Example(t *testing.T) {
	doc, err := os.ReadFile("../ABI.md")
	if err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.submit(1, []byte{3})
	first := hex.EncodeToString(f.take())
	f.complete(1, 1, abi.NotFound, nil)
	second := hex.EncodeToString(f.take())
	want := "01000000" + "01000000" + "01" + "0e000000" + "01000000" + "63" + "05000000" + "7265616479"
	if first != want {
		t.Errorf("the effect is %s, want %s", first, want)
	}
	if want := "01000000" + "00000000" + "10" + "05000000" + "0000000000"; second != want {
		t.Errorf("the result is %s, want %s", second, want)
	}
	for _, words := range []string{
		"01000000 01000000 01 0e000000",
		"01000000 63",
		"05000000 7265616479",
		"01000000 00000000 10 05000000",
		"00 00000000",
	} {
		if !strings.Contains(string(doc), words) {
			t.Errorf("ABI.md does not have %q", words)
		}
	}
}

func TestGuest_ConcurrentRequests(t *testing.T) {
	f := newFake()
	const n = 1000
	ops := map[uint32]uint32{}
	for id := uint32(1); id <= n; id++ {
		f.begin(id, fmt.Sprint("k", id), "xx")
		rec := f.one(t)
		key, err := abi.Read.Key(rec.Body)
		if err != nil || key.Name != fmt.Sprint("k", id) || rec.Request != id || rec.Kind != abi.KVGet {
			t.Fatalf("request %d asks for %v with record %+v, %v", id, key, rec, err)
		}
		ops[id] = rec.Op
	}
	if len(f.tasks) != n {
		t.Errorf("%d requests in progress, want %d", len(f.tasks), n)
	}
	for id := uint32(n); id >= 1; id-- { // in reverse order
		f.complete(id, ops[id], abi.OK, item(fmt.Sprint("a", id)))
		ops[id] = f.one(t).Op
	}
	for id := uint32(1); id <= n; id++ {
		f.complete(id, ops[id], abi.NotFound, nil)
		wantBody(t, f.one(t), id, fmt.Sprintf("a%d<nil>,kv: not found", id))
	}
	if len(f.tasks) != 0 || len(f.idle) != n {
		t.Errorf("%d requests are left, %d coroutines are idle", len(f.tasks), len(f.idle))
	}
	f.begin(n+1, "k", "x")
	if f.one(t); len(f.idle) != n-1 {
		t.Errorf("a new coroutine was created, though %d are idle", len(f.idle))
	}
}

func TestGuest_RequestWithoutEffects(t *testing.T) {
	f := newFake()
	f.begin(7, "k", "")
	wantBody(t, f.one(t), 7, "")
	if len(f.tasks) != 0 {
		t.Errorf("%d requests under way", len(f.tasks))
	}
}

func TestComplete_EndedRequest(t *testing.T) {
	f := newFake()
	f.begin(1, "k", "x")
	op := f.one(t).Op
	f.complete(1, op+1, abi.OK, item("another effect's"))
	f.complete(2, op, abi.OK, item("another request's"))
	f.complete(1, 0, abi.OK, item("no effect's"))
	if all := f.outbox(t); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	f.complete(1, op, abi.OK, item("v"))
	wantBody(t, f.one(t), 1, "v<nil>")
	f.complete(1, op, abi.OK, item("again"))
	if all := f.outbox(t); len(all) != 0 {
		t.Errorf("a request that has ended: %+v", all)
	}
}

func TestGuest_Panic(t *testing.T) {
	f := newFake()
	well := f.handle
	f.handle = func(ctx context.Context, req *web.Request) *web.Response {
		if req.Path == "bad" {
			effect.Store(f.effect).Get(ctx, kv.Key{})
			panic("canary7")
		}
		return well(ctx, req)
	}
	f.begin(1, "good", "x")
	good := f.one(t).Op
	f.begin(2, "bad", "")
	f.complete(2, f.one(t).Op, abi.NotFound, nil)
	all := f.outbox(t)
	if len(all) != 2 || all[0].Kind != abi.Log {
		t.Fatalf("%+v", all)
	}
	if end := all[1]; end.Kind != abi.Respond || end.Request != 2 || end.Body != nil {
		t.Fatalf("%+v", all)
	}
	l, err := abi.Read.Log(all[0].Body)
	attrs := fmt.Sprintf("%s", l.Attrs)
	placed := strings.Contains(attrs, "guest_test.go")
	if err != nil || l.Level != 8 || strings.Contains(attrs, "canary7") || !placed {
		t.Errorf("logged %+v, %v", l, err)
	}
	f.complete(1, good, abi.OK, item("v"))
	wantBody(t, f.one(t), 1, "v<nil>")
	f.begin(3, "bad", "")
	if len(f.tasks) != 1 {
		t.Error("the guest accepts no more requests")
	}
}

func TestCancel(t *testing.T) {
	for _, c := range []struct {
		reason abi.Reason
		want   error
	}{{abi.DeadlineExceeded, context.DeadlineExceeded}, {abi.Canceled, context.Canceled}} {
		f := newFake()
		var get, again, commit, late error
		var fetched error
		f.handle = func(ctx context.Context, _ *web.Request) *web.Response {
			_, get = effect.Store(f.effect).Get(ctx, kv.Key{})
			_, again = effect.Store(f.effect).Get(ctx, kv.Key{})
			late = effect.Store(f.effect).Commit(ctx, kv.Tx{})
			_, fetched = effect.Fetcher(f.effect).Fetch(ctx, host.FetchRequest{})
			if !errors.Is(ctx.Err(), c.want) {
				t.Errorf("the context ends with %v, want %v", ctx.Err(), c.want)
			}
			<-ctx.Done()
			return &web.Response{Status: 503, Header: web.Header{}}
		}
		f.begin(1, "", "")
		op := f.one(t).Op
		f.cancel(1, c.reason)
		if rec := f.one(t); rec.Kind != abi.Respond || rec.Request != 1 {
			t.Errorf("after the cancel: %+v", rec)
		}
		var failed *host.FetchError
		if !errors.Is(get, kv.ErrUnavailable) || !errors.Is(again, kv.ErrUnavailable) {
			t.Errorf("get %v, then %v, want unavailable", get, again)
		}
		if !errors.As(fetched, &failed) || failed.Reason != host.FetchTimeout {
			t.Errorf("fetch %v, want a timeout", fetched)
		}
		if !errors.Is(late, kv.ErrUnavailable) {
			t.Errorf("a commit that was not sent: %v, want unavailable", late)
		}
		f.complete(1, op, abi.OK, item("late"))
		f.cancel(1, c.reason)
		f.cancel(99, c.reason)
		if all := f.outbox(t); len(all) != 0 {
			t.Errorf("afterwards: %+v", all)
		}

		f.handle = func(ctx context.Context, _ *web.Request) *web.Response {
			commit = effect.Store(f.effect).Commit(ctx, kv.Tx{})
			return &web.Response{Status: 503, Header: web.Header{}}
		}
		f.begin(2, "", "")
		f.cancel(2, c.reason)
		if !errors.Is(commit, kv.ErrUnknown) {
			t.Errorf("a commit that was sent and then cancelled: %v, want unknown", commit)
		}
	}
}

// For any reply of the host, the core must get one of the errors of its ports. A commit with a malformed
// reply is unknown.
func TestReplies(t *testing.T) {
	conflict := &kv.Conflict{
		Items: []kv.Item{{Key: kv.Key{Partition: "p", Name: "n"}, Tx: "x"}},
		Lost:  []string{"t"},
	}
	junk := []byte{1, 2, 3}
	ctx := new(taskContext)
	calls := map[string]func(f *fake) error{
		"get":    func(f *fake) error { _, err := effect.Store(f.effect).Get(ctx, kv.Key{}); return err },
		"commit": func(f *fake) error { return effect.Store(f.effect).Commit(ctx, kv.Tx{}) },
		"claim": func(f *fake) error {
			_, _, err := effect.Store(f.effect).Claim(ctx, "p", at, time.Second, 1)
			return err
		},
		"list": func(f *fake) error {
			_, err := effect.Store(f.effect).List(ctx, kv.Key{}, "", 1)
			return err
		},
		"spend": func(f *fake) error {
			_, err := effect.Store(f.effect).Spend(ctx, "p", at, []kv.Charge{{}})
			return err
		},
	}
	for _, c := range []struct {
		call   string
		status abi.Status
		reply  []byte
		want   error
	}{
		{"get", abi.OK, item("v"), nil},
		{"get", abi.NotFound, nil, kv.ErrNotFound},
		{"get", abi.OK, junk, kv.ErrUnavailable},
		{"get", abi.Unavailable, []byte("why"), kv.ErrUnavailable},
		{"get", abi.Unknown, nil, kv.ErrUnavailable},
		{"get", abi.Conflicted, nil, kv.ErrUnavailable},
		{"get", 200, nil, kv.ErrUnavailable},
		{"commit", abi.OK, nil, nil},
		{"commit", abi.Conflicted, abi.Append.Conflict(nil, conflict), conflict},
		{"commit", abi.Conflicted, junk, kv.ErrUnknown},
		{"commit", abi.Unavailable, []byte("why"), kv.ErrUnavailable},
		{"commit", abi.Unknown, []byte("why"), kv.ErrUnknown},
		{"commit", abi.NotFound, nil, kv.ErrUnknown},
		{"commit", abi.Failed, nil, kv.ErrUnknown},
		{"claim", abi.OK, abi.Append.Tasks(nil, nil, at), nil},
		{"claim", abi.OK, junk, kv.ErrUnavailable},
		{"claim", abi.Unknown, nil, kv.ErrUnavailable},
		{"list", abi.OK, abi.Append.Items(nil, nil), nil},
		{"list", abi.OK, junk, kv.ErrUnavailable},
		{"spend", abi.OK, abi.Append.Times(nil, []time.Time{at}), nil},
		{"spend", abi.OK, abi.Append.Times(nil, nil), kv.ErrUnavailable},
		{"spend", abi.NotFound, nil, kv.ErrUnavailable},
	} {
		f := newFake()
		var got error
		f.handle = func(context.Context, *web.Request) *web.Response {
			got = calls[c.call](f)
			return &web.Response{Header: web.Header{}}
		}
		f.begin(1, "", "")
		f.complete(1, f.one(t).Op, c.status, c.reply)
		if conflicted, ok := errors.AsType[*kv.Conflict](c.want); ok {
			if !errors.As(got, &conflicted) || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s, status %d: %v, want %v", c.call, c.status, got, c.want)
			}
		} else if !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s, status %d, %x: %v, want %v", c.call, c.status, c.reply, got, c.want)
		}
	}
}

func TestFetchReplies(t *testing.T) {
	for _, c := range []struct {
		status abi.Status
		reply  []byte
		code   int
		reason string
	}{
		{abi.OK, abi.Append.Fetched(nil, host.FetchResponse{Status: 204}), 204, ""},
		{abi.OK, []byte{1}, 0, host.FetchNetwork},
		{abi.NoResponse, abi.Append.FetchError(nil, host.FetchBlocked, "loopback"), 0, host.FetchBlocked},
		{abi.NoResponse, nil, 0, host.FetchNetwork},
		{abi.Unavailable, nil, 0, host.FetchNetwork},
	} {
		f := newFake()
		f.handle = func(ctx context.Context, _ *web.Request) *web.Response {
			resp, err := effect.Fetcher(f.effect).Fetch(ctx, host.FetchRequest{URL: "https://x.example"})
			var failed *host.FetchError
			reason := ""
			if errors.As(err, &failed) {
				reason = failed.Reason
			}
			if resp.Status != c.code || reason != c.reason {
				t.Errorf("status %d: %d, %v", c.status, resp.Status, err)
			}
			return &web.Response{Header: web.Header{}}
		}
		f.begin(1, "", "")
		f.complete(1, f.one(t).Op, c.status, c.reply)
	}
}

// contract 30: only a separate entry prevents that a request is counted again.
func TestHandleAgain(t *testing.T) {
	f := newFake()
	again := map[abi.Entry]bool{}
	f.handle = func(_ context.Context, req *web.Request) *web.Response {
		return &web.Response{Status: 200, Header: web.Header{"Again": {fmt.Sprint(req.Again)}}}
	}
	for _, entry := range []abi.Entry{abi.Handle, abi.HandleAgain} {
		f.submit(1, abi.Append.Request([]byte{byte(entry)}, &web.Request{Again: true}))
		resp, err := abi.Read.Response(f.one(t).Body)
		if err != nil {
			t.Fatal(err)
		}
		again[entry] = resp.Header.Get("Again") == "true"
	}
	if again[abi.Handle] || !again[abi.HandleAgain] {
		t.Errorf("contract 30: a request is not counted again: %v, want that only for entry 11", again)
	}
}

func TestEntries(t *testing.T) {
	f := newFake()
	f.run = func(_ context.Context, job host.Job) error {
		return fmt.Errorf("%s: %w", job.Task.ID, kv.ErrUnknown)
	}
	job := host.Job{Partition: "p", Task: kv.Task{ID: "t1"}}
	outcome := func(rec abi.Record) abi.Outcome {
		o, err := abi.Read.Outcome(rec.Body)
		if err != nil {
			t.Error(err)
		}
		return o
	}

	f.submit(1, abi.Append.Request([]byte{byte(abi.Admin)}, &web.Request{}))
	if resp, err := abi.Read.Response(f.one(t).Body); err != nil || resp.Status != 299 {
		t.Errorf("admin: %+v, %v", resp, err)
	}
	f.submit(2, []byte{byte(abi.Ready)})
	f.complete(2, f.one(t).Op, abi.Unavailable, []byte("gone"))
	if o := outcome(f.one(t)); o.Status != abi.Unavailable || o.Text != "gone" {
		t.Errorf("ready: %+v", o)
	}
	f.submit(3, abi.Append.ClaimJobs([]byte{byte(abi.ClaimDue)}, abi.ClaimJobs{Partition: "p", N: 5}))
	rec := f.one(t)
	if c, err := abi.Read.Claim(rec.Body); err != nil || c.N != 5 || c.Partition != "p" {
		t.Errorf("claim asks for %+v, %v", c, err)
	}
	f.complete(3, rec.Op, abi.OK, abi.Append.Tasks(nil, []kv.Task{job.Task}, at))
	j, err := abi.Read.Jobs(f.one(t).Body)
	whole := j.Outcome.Status == abi.OK && reflect.DeepEqual(j.Jobs, []host.Job{job})
	if err != nil || !j.Next.Equal(at) || !whole {
		t.Errorf("claim: %+v, %v", j, err)
	}
	f.submit(4, abi.Append.Job([]byte{byte(abi.Run)}, job, time.Time{}))
	if o := outcome(f.one(t)); o.Status != abi.Unknown || !strings.HasPrefix(o.Text, "t1: ") {
		t.Errorf("run: %+v", o)
	}
	f.submit(5, abi.Append.Job([]byte{byte(abi.Defer)}, job, at))
	if o := outcome(f.one(t)); o.Status != abi.Failed || o.Text != "t1 until 22:10:00" {
		t.Errorf("defer: %+v", o)
	}
	f.submit(6, []byte{byte(abi.RunDue)})
	j, err = abi.Read.Jobs(f.one(t).Body)
	if err != nil || !j.Next.Equal(at) || j.Outcome.Status != abi.Unavailable {
		t.Errorf("run due: %+v, %v", j, err)
	}

	for _, c := range []struct{ status, want abi.Status }{
		{abi.NotFound, abi.NotFound}, {abi.OK, abi.OK}, {abi.Unavailable, abi.Failed},
	} {
		f.submit(7, []byte{byte(abi.SelfTest)})
		rec = f.one(t)
		q, err := abi.Read.Sign(rec.Body)
		if err != nil || rec.Kind != abi.Sign || q.Key != abi.TestKey || q.Algorithm != "ES256" {
			t.Errorf("the self-test asks for %+v with record %+v, %v", q, rec, err)
		}
		f.complete(7, rec.Op, c.status, []byte("x"))
		self, err := abi.Read.Self(f.one(t).Body)
		if err != nil || len(self.Random) != 32 || time.Since(self.Now).Abs() > time.Minute ||
			self.Signed != c.want {
			t.Errorf("self-test, a signature with status %d: %+v, %v", c.status, self, err)
		}
	}

	f.submit(8, []byte("\x09{}"))
	if o := outcome(f.one(t)); o.Status != abi.Unavailable || !strings.HasSuffix(o.Text, ": {}") {
		t.Errorf("apply: %+v", o)
	}

	for _, bad := range [][]byte{
		nil,
		{0},
		{10},
		{255, 1},
		{byte(abi.Handle)},
		{byte(abi.ClaimDue), 1},
		{byte(abi.Run), 1},
	} {
		f.submit(9, bad)
		all := f.outbox(t)
		if len(all) != 2 || all[0].Kind != abi.Log || all[1].Kind != abi.Respond || all[1].Body != nil {
			t.Errorf("entry %x: %+v", bad, all)
		}
	}
}

func TestLog(t *testing.T) {
	f := newFake()
	log := slog.New(logger{guest: f.guest, level: slog.LevelInfo}).With("a", 1).WithGroup("g").With("b", "x")
	f.handle = func(context.Context, *web.Request) *web.Response {
		log.Debug("not worth it")
		log.Warn("hello", "list", []string{"y"}, "err", errors.New("boom"),
			slog.Group("h", "d", 2*time.Second), "f", func() {})
		return &web.Response{Header: web.Header{}}
	}
	f.begin(4, "", "")
	all := f.outbox(t)
	if len(all) != 2 || all[0].Kind != abi.Log || all[0].Request != 4 || all[0].Op != 0 {
		t.Fatalf("%+v", all)
	}
	l, err := abi.Read.Log(all[0].Body)
	got := fmt.Sprintf("%d %s", l.Level, l.Message)
	for _, a := range l.Attrs {
		if !strings.HasPrefix(a.Key, "g.f") { // a function is logged as any text
			got += fmt.Sprintf(" %s=%s", a.Key, a.Value)
		}
	}
	want := `4 hello a=1 g.b="x" g.list=["y"] g.err="boom" g.h.d="2s"`
	if err != nil || got != want || len(l.Attrs) != 6 {
		t.Errorf("%v: %s\nwant %s", err, got, want)
	}
}

// sealing is a Sealer that opens values with the prefix "sealed:" and cannot seal.
type sealing struct{ host.Sealer }

func (sealing) Open(purpose string, sealed []byte) ([]byte, time.Time, error) {
	claims, ok := strings.CutPrefix(string(sealed), "sealed:")
	if !ok || purpose != host.MethodSecret {
		return nil, time.Time{}, host.ErrNotAuthentic
	}
	return []byte(claims), time.Time{}, nil
}

// A guest whose host seals opens the secrets of its methods when it is configured, and rejects an invalid
// one.
func TestConfigure_MethodSecrets(t *testing.T) {
	const claims = `{"method":"test","name":"client_secret","secret":"canary7"}`
	good := base64.RawURLEncoding.EncodeToString([]byte("sealed:" + claims))
	for _, c := range []struct {
		name, secret string
		opens        bool
	}{
		{"a secret that the host has sealed", good, true},
		{"a plain one", "canary7", false},
		{"an altered secret", good[1:], false},
	} {
		config := `{"base_url":"https://verge.example","test":true,` +
			`"methods":[{"name":"test","kind":"sandbox","secrets":{"client_secret":"` + c.secret + `"}}]}`
		_, err := configure([]byte(config), sealing{})
		rejected := err != nil && strings.HasPrefix(err.Error(), "abi: methods.test.secrets.client_secret: ")
		if rejected == c.opens || err != nil && strings.Contains(err.Error(), "canary7") {
			t.Errorf("%s: %v, want it opened: %v", c.name, err, c.opens)
		}
	}
}

func TestMeasure(t *testing.T) {
	f := newFake()
	f.handle = func(context.Context, *web.Request) *web.Response {
		f.Measure(host.Measurement{Method: "bankid", Event: "attempt_failed", Reason: "below",
			Took: 1})
		return &web.Response{Header: web.Header{}}
	}
	f.begin(4, "", "")
	all := f.outbox(t)
	if len(all) != 2 || all[0].Kind != abi.Measure || all[0].Request != 4 || all[0].Op != 0 {
		t.Fatalf("%+v", all)
	}
	got, err := abi.Read.MethodEvent(all[0].Body)
	want := abi.MethodEvent{Method: "bankid", Event: "attempt_failed", Reason: "below"}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestConfigure(t *testing.T) {
	const ring = `"keyring":{"version":1,"keys":[{"id":"9f02ab31",` +
		`"secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","created":"2026-11-20T22:10:00Z"}]},` +
		`"host":"verge.example"`
	root, err := json.Marshal(string(wallettest.NewIssuer(wallettest.IssuerConfig{}).PEM()))
	if err != nil {
		t.Fatal(err)
	}
	proofs := `"base_url":"https://verge.example","methods":[{"name":"wallet","kind":"openid4vp","settings":` +
		`{"profile":"eu-av","zero_knowledge":"accept","trust_anchors":[` + string(root) + `],` +
		`"circuits":[{"file":"/a","hash":"` + host.Circuits()[0].Name + `"}]}}],` + ring
	for _, c := range []struct{ name, config, err string }{
		{"contract 56: proofs on a host that verifies them", `{"verifies_proofs":true,` + proofs + `}`, ""},
		{"contract 56: proofs on a host that does not, such as a Worker", `{` + proofs + `}`,
			"zero_knowledge: this engine verifies no proofs"},
		{
			"its own key ring",
			`{"base_url":"https://verge.example","test":true,` + ring + `,"retries_ms":[5000],"secret_per_ip":5}`,
			"",
		},
		{"no way to seal", `{"base_url":"https://verge.example","test":true}`, "the host does not seal"},
		{"an unknown member", `{"base":"x"}`, "unknown field"},
		{"a configuration that the core rejects",
			`{"base_url":"http://verge.example","test":true,` + ring + `}`, "base_url: "},
		{"no method outside of test", `{"base_url":"https://verge.example",` + ring + `}`,
			"no verification method"},
		{"a damaged ring", `{"base_url":"https://verge.example","test":true,"keyring":{"version":7}}`, "key ring"},
	} {
		g, err := configure([]byte(c.config), nil)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", c.name, err, c.err)
		}
		if err == nil {
			g.submit(1, abi.Append.Request([]byte{byte(abi.Handle)},
				&web.Request{Method: "GET", Path: "/nowhere"}))
			f := &fake{guest: g}
			told := f.outbox(t) // the request info, and the response
			if len(told) != 2 || told[0].Kind != abi.About {
				t.Fatalf("%s: %+v, want a notice and a response", c.name, told)
			}
			if resp, err := abi.Read.Response(told[1].Body); err != nil || resp.Status != 404 {
				t.Errorf("%s: %+v, %v", c.name, resp, err)
			}
		}
	}
}

// Contract 16: a store that is away hides no missing key, so /readyz?store=ignore is 503.
func TestReadiness_StoreAway(t *testing.T) {
	uncompared := errors.New("not compared yet")
	for _, c := range []struct {
		ring, store error
		want        abi.Status
	}{
		{nil, nil, abi.OK},
		{nil, kv.ErrUnavailable, abi.Unavailable},
		{uncompared, kv.ErrUnavailable, abi.Unavailable},
		{uncompared, nil, abi.Failed},
		{keyset.ErrUnfit, kv.ErrUnavailable, abi.Failed},
		{keyset.ErrUnfit, nil, abi.Failed},
	} {
		if got := abi.OutcomeOf(readiness(c.ring, c.store)).Status; got != c.want {
			t.Errorf("ring %v, store %v: status %v, want %v", c.ring, c.store, got, c.want)
		}
	}
}
