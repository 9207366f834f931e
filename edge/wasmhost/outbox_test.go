package wasmhost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/kvadapters/memory"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

// A line of a guest must have the host's attributes once, with the host's values.
func TestGuestLog_Lines(t *testing.T) {
	text := func(s string) []byte { b, _ := json.Marshal(s); return b }
	attr := func(key, value string) abi.LogAttr { return abi.LogAttr{Key: key, Value: text(value)} }
	long := strings.Repeat("ä", 40<<10)
	var many []abi.LogAttr
	for n := range 1000 {
		many = append(many, attr(fmt.Sprint("k", n), strings.Repeat("v", 1000)))
	}
	for _, c := range []struct {
		name string
		in   abi.LogRecord
		want string // the line without its time
	}{
		{"a plain record", abi.LogRecord{
			Level:   4,
			Message: "m",
			Attrs:   []abi.LogAttr{attr("session", "s"), {Key: "n", Value: []byte("3")}},
		},
			`"level":"WARN","msg":"m","module":"abc","session":"s","n":3}`},
		{"attributes of the host", abi.LogRecord{
			Message: "m",
			Attrs: []abi.LogAttr{
				attr("time", "1970"),
				attr("LEVEL", "x"),
				attr("msg", "x"),
				attr("source", "x"),
				attr("module", "x"),
			},
		},
			`"level":"INFO","msg":"m","module":"abc","guest.time":"1970","guest.LEVEL":"x",` +
				`"guest.msg":"x","guest.source":"x","guest.module":"x"}`},
		{"a line break with a forged line", abi.LogRecord{
			Message: "m\n{\"msg\":\"serving\"}",
			Attrs:   []abi.LogAttr{attr("a\n{}", "b\n{}")},
		},
			`"level":"INFO","msg":"m\n{\"msg\":\"serving\"}","module":"abc","a\n{}":"b\n{}"}`},
		{"a level above all", abi.LogRecord{Level: 127, Message: "m"}, `"level":"ERROR","msg":"m","module":"abc"}`},
		{"a level between two", abi.LogRecord{Level: 3, Message: "m"}, `"level":"INFO","msg":"m","module":"abc"}`},
		{
			"a level below all",
			abi.LogRecord{Level: -128, Message: "m"},
			`"level":"DEBUG","msg":"m","module":"abc"}`,
		},
		{
			"a value that is not JSON",
			abi.LogRecord{Message: "m", Attrs: []abi.LogAttr{{Key: "a", Value: []byte(`{"b"`)}}},
			`"level":"INFO","msg":"m","module":"abc","a":"{\"b\""}`,
		},
		{
			"no value",
			abi.LogRecord{Message: "m", Attrs: []abi.LogAttr{{Key: "a"}}},
			`"level":"INFO","msg":"m","module":"abc","a":""}`,
		},
		{
			"a long message",
			abi.LogRecord{Message: long},
			`"level":"INFO","msg":"` + long[:4<<10] + `…","module":"abc"}`,
		},
		{
			"a long name",
			abi.LogRecord{Message: "m", Attrs: []abi.LogAttr{attr(long, "b")}},
			`"level":"INFO","msg":"m","module":"abc","` + long[:64] + `…":"b"}`,
		},
		{"a long value", abi.LogRecord{Message: "m", Attrs: []abi.LogAttr{attr("a", long)}},
			`"level":"INFO","msg":"m","module":"abc","a":"\"` + long[:8<<10-2] + `…"}`},
		{
			"a name that is cut inside a letter",
			abi.LogRecord{Message: "m", Attrs: []abi.LogAttr{attr("x"+long, "b")}},
			`"level":"INFO","msg":"m","module":"abc","x` + long[:62] + `…":"b"}`,
		},
	} {
		var b bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&b,
			&slog.HandlerOptions{Level: slog.LevelDebug})).With(moduleKey, "abc")
		level, message, attrs := lineOf(c.in)
		log.LogAttrs(t.Context(), level, message, attrs...)
		_, got, _ := strings.Cut(b.String(), `Z",`)
		if _, zoned, ok := strings.Cut(b.String(), `00",`); got == "" && ok {
			got = zoned
		}
		if strings.TrimSpace(got) != c.want {
			t.Errorf("%s: %.300s\nwant %.300s", c.name, b.String(), c.want)
		}
	}
	_, _, attrs := lineOf(abi.LogRecord{Attrs: many})
	size := 0
	for _, a := range attrs {
		size += len(a.Key) + len(a.Value.String())
	}
	if len(attrs) > maxAttrs || size > maxLine || size < maxLine/2 {
		t.Errorf("%d attributes of %d bytes", len(attrs), size)
	}
}

func TestCheckJobs_Unrequested(t *testing.T) {
	now := time.Now()
	far := time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC)
	good := host.Job{
		Partition:   "p0",
		Task:        kv.Task{ID: "t", Due: now, Payload: make([]byte, kv.MaxValue)},
		Until:       now,
		Destination: "destination",
	}
	for _, c := range []struct {
		name   string
		change func(*abi.Jobs)
		ok     bool
	}{
		{"the job that was asked for", func(*abi.Jobs) {}, true},
		{"none", func(j *abi.Jobs) { j.Jobs = nil }, true},
		{"more jobs than asked for", func(j *abi.Jobs) { j.Jobs = append(j.Jobs, good, good) }, false},
		{"a job of another partition", func(j *abi.Jobs) { j.Jobs[0].Partition = "p1" }, false},
		{"a destination of a kilobyte",
			func(j *abi.Jobs) { j.Jobs[0].Destination = strings.Repeat("l", 1<<10) }, false},
		{"a task id of a kilobyte", func(j *abi.Jobs) { j.Jobs[0].Task.ID = strings.Repeat("l", 1<<10) },
			false},
		{"a payload over the limit of stores", func(j *abi.Jobs) {
			j.Jobs[0].Task.Payload = make([]byte, kv.MaxValue+1)
		}, false},
		{"due in the year 300000", func(j *abi.Jobs) { j.Jobs[0].Task.Due = far }, false},
		{"leased until the year 300000", func(j *abi.Jobs) { j.Jobs[0].Until = far }, false},
		{"the next job in the year 300000", func(j *abi.Jobs) { j.Next = far }, false},
	} {
		j := abi.Jobs{Jobs: []host.Job{good}, Next: now}
		c.change(&j)
		if err := checkJobs(j, "p0", 2); (err == nil) != c.ok ||
			err != nil && !errors.Is(err, abi.ErrMalformed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// astray is a fetcher that reads its request and returns no response.
type astray struct{}

func (astray) Fetch(_ context.Context, q host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{Status: 200, Body: []byte(q.URL)}, nil
}

// FuzzOutbox checks that any outbox is read without a panic, and that its effects are carried out without
// one. At most one effect may be accepted at a time.
func FuzzOutbox(f *testing.F) {
	add := func(records ...abi.Record) {
		var b []byte
		for _, r := range records {
			b = abi.Append.Record(b, r)
		}
		f.Add(b)
	}
	now := time.Unix(1795212600, 0)
	for kind, body := range map[abi.Kind][]byte{
		abi.KVGet: abi.Append.Key(nil, kv.Key{Partition: "p0", Name: "n"}),
		abi.KVCommit: abi.Append.Tx(nil, kv.Tx{
			ID:        "t",
			Partition: "p0",
			Puts:      []kv.Put{{Name: "n", Value: []byte("v")}},
			Schedule:  []kv.Task{{ID: "t", Due: now}},
		}),
		abi.KVClaim: abi.Append.Claim(nil, abi.Claim{Partition: "p0", Now: now, Lease: time.Second, N: 3}),
		abi.KVList:  abi.Append.List(nil, abi.List{Prefix: kv.Key{Partition: "p0", Name: "n"}, N: 3}),
		abi.KVSpend: abi.Append.Spend(nil, abi.Spend{
			Partition: "l",
			Now:       now,
			Charges:   []kv.Charge{{Name: "c", Cost: 1, Burst: 2}},
		}),
		abi.Fetch: abi.Append.Fetch(nil,
			host.FetchRequest{Method: "GET", URL: "https://shop.example",
				Header: map[string]string{"A": "b"}}),
		abi.Sign: abi.Append.Sign(nil, abi.SignRequest{Key: "k", Algorithm: "ES256", Message: []byte("m")}),

		abi.Decrypt: abi.Append.Sign(nil, abi.SignRequest{Algorithm: "ECDH-ES"}),
		abi.Verify: abi.Append.Verify(nil, abi.VerifyRequest{Algorithm: "ES256", PublicKey: []byte("k"),
			Message: []byte("m"), Signature: []byte("s")}),
		abi.VerifyProof: abi.Append.VerifyProof(nil, abi.ProofRequest{
			Statement: host.ProofStatement{Circuit: "c", Time: now,
				Elements: []host.ProvenElement{{Identifier: "a", Value: []byte{1}}}},
			Proof: []byte("p")}),
		abi.Measure: abi.Append.MethodEvent(nil,
			abi.MethodEvent{Method: "bankid", Event: "attempt_failed", Reason: "below"}),
		abi.Respond: abi.Append.Response(nil, &web.Response{Status: 200, Header: web.Header{"A": {"b"}}}),
		abi.Log: abi.Append.Log(nil,
			abi.LogRecord{Message: "m", Attrs: []abi.LogAttr{{Key: "a", Value: []byte(`{"b":[1]}`)}}}),
		abi.About:      abi.Append.About(nil, host.RequestInfo{Key: "key_0a4e1f7c1b2d4c3e", Code: "EXPIRED"}),
		abi.Count:      []byte("late_answer_ignored"),
		abi.Wake:       abi.Append.Wake(nil, "p0", now),
		abi.UsageEvent: abi.Append.UsageEvent(nil, host.UsageEvent{Key: "key_0a4e1f7c1b2d4c3e"}),
	} {
		add(abi.Record{Request: 1, Op: 1, Kind: kind, Body: body})
		add(abi.Record{Request: 1, Kind: abi.Count, Body: []byte{0xff}},
			abi.Record{Request: 1, Op: 1, Kind: kind, Body: body},
			abi.Record{Request: 2, Kind: kind, Body: body})
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		var log bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&log, nil))
		c := &call{ctx: t.Context(), id: 1, result: make(chan result, 1), stop: func() bool { return true }}
		config := Config{Host: host.Host{Log: logger}}
		e := &Engine{cfg: config.withDefaults(), partitions: []kv.Partition{"p0"}}
		e.ports = strict(t)
		in := &instance{
			engine: e,
			log:    logger,
			calls:  map[uint32]*call{1: c},
			events: make(chan event, 2),
			ended:  make(chan struct{}),
		}
		if err := in.handleOutbox(c, out); errors.Is(err, errPanicked) {
			t.Fatal(err)
		}
		if c.asking {
			wait.For(in.events)
		}
		if len(in.events) > 0 || bytes.Contains(log.Bytes(), []byte("panic in an effect")) {
			t.Errorf("%d more effects; %s", len(in.events), &log)
		}
		if len(c.result) > 0 {
			if r := wait.For(c.result); r.err == nil {
				if p, err := abi.Read.Response(r.body); err == nil {
					_ = checkResponse(p)
				}
			}
		}
	})
}

// echo is a Sign and a Decrypt that returns the message.
func echo(_ context.Context, _, _ string, message []byte) ([]byte, error) { return message, nil }

// strict returns ports that fail the test if a guest's output reaches them unchecked.
func strict(t *testing.T) ports {
	return ports{
		Ports: effect.Ports{
			KV:    memory.New(memory.Config{}),
			Meter: ratelimit.NewLocal(0).Meter(),
			Fetch: astray{},
			Sign:  echo, Decrypt: echo, Verify: signing.Verify,
		},
		Observer: strictObserver{t},
	}
}

// strictObserver fails the test if it receives an event that no core reports.
type strictObserver struct{ t *testing.T }

func (o strictObserver) About(_ context.Context, a host.RequestInfo) {
	if a != a.Sanitized() {
		o.t.Errorf("the host logs %+v", a)
	}
}

func (o strictObserver) Count(event string) {
	if event != host.CountName(event) {
		o.t.Errorf("the host counted %q", event)
	}
}

func (o strictObserver) Measure(m host.Measurement) {
	if m != host.NewMeasurement(m.Method, m.Event, m.Reason) || len(m.Method) > maxKey+len("…") {
		o.t.Errorf("the host measured %+v", m)
	}
}

func (o strictObserver) CountUsage(usage host.UsageEvent) {
	if !usage.Valid() {
		o.t.Errorf("the host counted %+v", usage)
	}
}

func (o strictObserver) Wake(p kv.Partition, due time.Time) {
	if p != "p0" || !effect.Plausible(due) {
		o.t.Errorf("told of %q at %s", p, due)
	}
}

// The outbox of an export may contain only records for the request of that export.
func TestOutbox_OtherRequest(t *testing.T) {
	for _, kind := range []abi.Kind{abi.Respond, abi.KVGet, abi.Fetch, abi.Sign, abi.Verify,
		abi.VerifyProof, abi.Decrypt, 11} {
		for _, of := range []uint32{0, 2, 3} {
			newCall := func(id uint32) *call {
				return &call{ctx: t.Context(), id: id, result: make(chan result, 1),
					stop: func() bool { return true }}
			}
			one, two := newCall(1), newCall(2)
			in := &instance{calls: map[uint32]*call{1: one, 2: two}}
			err := in.handleOutbox(one, abi.Append.Record(nil, abi.Record{Request: of, Op: 1, Kind: kind}))
			rejected := err != nil && !errors.Is(err, errPanicked)
			if !rejected || len(in.calls) != 2 || one.asking || two.asking || len(two.result) != 0 {
				t.Errorf("kind %d in the name of request %d, called for 1: %v", kind, of, err)
			}
		}
	}
}
