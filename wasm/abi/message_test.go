package abi

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"net/netip"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

var at = time.Date(2026, 11, 20, 22, 10, 0, 123456789, time.UTC)

// message is one message of the wire format, with an example.
type message struct {
	name   string
	sample any
	append func(any) []byte
	read   func([]byte) (any, error)
}

func form[T any](name string, sample T, add func([]byte, T) []byte, read func([]byte) (T, error)) message {
	return message{name, sample,
		func(v any) []byte { return add(nil, v.(T)) },
		func(b []byte) (any, error) { return read(b) }}
}

// Messages of several values, as one type each.
type (
	tasksAndNext struct {
		Tasks []kv.Task
		Next  time.Time
	}
	jobAndUntil struct {
		Job   host.Job
		Until time.Time
	}
	fetchFailure struct{ Reason, Text string }
	wakeUp       struct {
		Partition kv.Partition
		Due       time.Time
	}
)

var (
	aTask  = kv.Task{ID: "t1", Due: at, Payload: []byte("payload"), Lease: "lease-1"}
	aJob   = host.Job{Partition: "p0", Task: aTask, Until: at.Add(29 * time.Second), Destination: "0a4e1f7c"}
	anItem = kv.Item{Key: kv.Key{Partition: "p0", Name: "s/1"}, Value: []byte{0, 1, 255}, Tx: "tx1",
		Expires: at}
)

var messages = []message{
	form("request", &web.Request{
		Method: "POST",
		Path:   "/api/v1/verify/start",
		Query:  "a=b",
		Header: web.Header{"Content-Type": {"application/json"}, "Accept": {"a", "b"}},
		Body:   []byte("{}"),
		Client: netip.MustParseAddr("192.0.2.1"),
	}, Append.Request, Read.Request),
	form("response", &web.Response{
		Status: 200,
		Header: web.Header{"Cache-Control": {"no-store"}},
		Body:   []byte(`{"valid":true}`),
	}, Append.Response, Read.Response),
	form("key", kv.Key{Partition: "p0", Name: "s/1"}, Append.Key, Read.Key),
	form("item", anItem, Append.Item, Read.Item),
	form("items", []kv.Item{anItem, {Key: kv.Key{Partition: "c", Name: "n"}, Tx: "tx2"}}, Append.Items,
		Read.Items),
	form("tx", kv.Tx{ID: "tx3", Partition: "p0",
		Checks: []kv.Check{{Name: "used/1"}, {Name: "s/1", Tx: "tx1"}},
		Held:   []kv.Held{{TaskID: "t1", Lease: "lease-1"}},
		Puts: []kv.Put{
			{Name: "used/1", Value: []byte("x"), Expires: at},
			{Name: "forever", Value: []byte("y")},
		},
		Deletes:  []string{"old"},
		Schedule: []kv.Task{{ID: "t2", Due: at, Payload: []byte("event")}},
		Cancel:   []string{"t1"}}, Append.Tx, Read.Tx),
	form("conflict", &kv.Conflict{Items: []kv.Item{anItem}, Lost: []string{"t1"}}, Append.Conflict,
		Read.Conflict),
	form("claim", Claim{Partition: "p0", Now: at, Lease: 29 * time.Second, N: 16}, Append.Claim, Read.Claim),
	form("tasks", tasksAndNext{[]kv.Task{aTask}, at.Add(time.Minute)},
		func(b []byte, v tasksAndNext) []byte { return Append.Tasks(b, v.Tasks, v.Next) },
		func(b []byte) (v tasksAndNext, err error) { v.Tasks, v.Next, err = Read.Tasks(b); return v, err }),
	form("list", List{
		Prefix: kv.Key{Partition: "c", Name: "c/key/"},
		After:  "c/key/1",
		N:      100,
	}, Append.List, Read.List),
	form("spend", Spend{
		Partition: "limits",
		Now:       at,
		Charges: []kv.Charge{{Name: "secret-ip/192.0.2.1", Cost: 100 * time.Millisecond,
			Burst: time.Minute}},
	}, Append.Spend, Read.Spend),
	form("times", []time.Time{{}, at}, Append.Times, Read.Times),
	form("fetch", host.FetchRequest{
		Method: "POST",
		URL:    "https://shop.example/hooks",
		Header: map[string]string{"Content-Type": "application/json", "Accept": "*/*"},
		Body:   []byte("{}"),
	}, Append.Fetch, Read.Fetch),
	form("method_fetch", host.FetchRequest{
		Method:  "GET",
		URL:     "https://id.example/jwks",
		Header:  map[string]string{"Accept": "application/json"},
		For:     "bankid",
		Timeout: 5 * time.Second,
	}, Append.Fetch, Read.Fetch),
	form("fetched", host.FetchResponse{Status: 204, Header: map[string]string{"Date": "x"}}, Append.Fetched,
		Read.Fetched),
	form("fetch_error", fetchFailure{host.FetchTimeout, "nobody answered"},
		func(b []byte, v fetchFailure) []byte { return Append.FetchError(b, v.Reason, v.Text) },
		func(b []byte) (v fetchFailure, err error) {
			v.Reason, v.Text, err = Read.FetchError(b)
			return v,
				err
		}),
	form("sign", SignRequest{Key: "client", Algorithm: "ES256", Message: []byte("head.claims")},
		Append.Sign, Read.Sign),
	form("verify", VerifyRequest{Algorithm: "ES256", PublicKey: []byte{0x30, 0x59},
		Message: []byte("head.claims"), Signature: []byte{1, 2}}, Append.Verify, Read.Verify),
	form("verified", true, Append.Verified, Read.Verified),
	form("proof", ProofRequest{host.ProofStatement{Circuit: "8d07", Issuer: []byte{0x30}, DocType: "org.iso",
		SessionTranscript: []byte{
			0x83,
		}, Elements: []host.ProvenElement{{Identifier: "age", Value: []byte{0xf5}}},
		Time: time.Unix(1770000000, 0).UTC()}, []byte{1, 2}}, Append.VerifyProof, Read.VerifyProof),
	form(
		"proven",
		provenOrNot{false, "malformed proof"},
		func(b []byte, v provenOrNot) []byte { return Append.Proven(b, v.Shown, v.Rejected) },
		func(b []byte) (v provenOrNot, err error) {
			v.Shown, v.Rejected, err = Read.Proven(b)
			return v, err
		},
	),
	form("claim_jobs", ClaimJobs{Partition: "p0", N: 256}, Append.ClaimJobs, Read.ClaimJobs),
	form("jobs", Jobs{
		Jobs:    []host.Job{aJob},
		Next:    at,
		Outcome: Outcome{Unavailable, "no store"},
	}, Append.Jobs, Read.Jobs),
	form("job", jobAndUntil{aJob, at.Add(time.Hour)},
		func(b []byte, v jobAndUntil) []byte { return Append.Job(b, v.Job, v.Until) },
		func(b []byte) (v jobAndUntil, err error) { v.Job, v.Until, err = Read.Job(b); return v, err }),
	form("outcome", Outcome{Unknown, "no reply"}, Append.Outcome, Read.Outcome),
	form("self", Self{Random: []byte{1, 2, 3}, Now: at, Signed: NotFound}, Append.Self, Read.Self),
	form("wake", wakeUp{"p0", at},
		func(b []byte, v wakeUp) []byte { return Append.Wake(b, v.Partition, v.Due) },
		func(b []byte) (v wakeUp, err error) { v.Partition, v.Due, err = Read.Wake(b); return v, err }),
	form("method_event", MethodEvent{Method: "bankid", Event: "refused", Reason: "other"},
		Append.MethodEvent, Read.MethodEvent),
	form("usage_event", host.UsageEvent{Integration: "0a4e1f7c-1b2d-4c3e-8f4a-5b6c7d8e9f00",
		Outcome: host.OutcomeStarted}, Append.UsageEvent, Read.UsageEvent),
	form("key_usage_event", host.UsageEvent{Key: "key_0a4e1f7c1b2d4c3e"}, Append.UsageEvent, Read.UsageEvent),
	form("about", host.RequestInfo{Session: "svc_sess_1", Integration: "0a4e1f7c-1b2d-4c3e-8f4a-5b6c7d8e9f00",
		Publisher: "pub_shop", Key: "key_0a4e1f7c1b2d4c3e", Code: "EXPIRED"}, Append.About, Read.About),
	form("totals", host.Totals{
		Days: []host.DayTotal{{Integration: "0a4e1f7c-1b2d-4c3e-8f4a-5b6c7d8e9f00", Day: host.DayOf(at),
			Instance: "i1", Counts: host.Counts{12, 9, 0, 0, 0, 1, 1 << 40}}},
		Keys: []host.KeyUse{{Key: "key_0a4e1f7c1b2d4c3e", Day: host.DayOf(at)}},
	}, Append.Totals, Read.Totals),
	form("log", LogRecord{
		Level:   -4,
		Message: "hello",
		Attrs:   []LogAttr{{"n", []byte("1")}, {"s", []byte(`"x"`)}},
	}, Append.Log, Read.Log),
	form("record", Record{
		Request: 7,
		Op:      9,
		Kind:    KVGet,
		Body:    []byte("body"),
	}, Append.Record, func(b []byte) (Record, error) {
		rec, rest, err := Read.Record(b)
		if err == nil && len(rest) > 0 {
			err = ErrMalformed
		}
		return rec, err
	}),
}

// provenOrNot is the reply to VerifyProof.
type provenOrNot struct {
	Shown    bool
	Rejected string
}

var update = flag.Bool("update", false, "rewrite testdata/vectors.json")

const vectorsFile = "testdata/vectors.json"

type vector struct {
	Message string `json:"message"`
	Hex     string `json:"hex"`
}

// The samples must encode to the bytes of vectors.json, with which hosts in other languages can be tested.
// The bytes must decode to the samples.
func TestVectors(t *testing.T) {
	var vectors []vector
	if *update {
		for _, m := range messages {
			vectors = append(vectors, vector{m.name, hex.EncodeToString(m.append(m.sample))})
		}
		b, err := json.MarshalIndent(vectors, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(vectorsFile, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &vectors); err != nil || len(vectors) != len(messages) {
		t.Fatalf("%d vectors for %d messages: %v", len(vectors), len(messages), err)
	}
	for i, m := range messages {
		v := vectors[i]
		if got := hex.EncodeToString(m.append(m.sample)); v.Message != m.name || got != v.Hex {
			t.Errorf("%s: %s\n%s has %s: %s", m.name, got, vectorsFile, v.Message, v.Hex)
		}
		raw, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := m.read(raw); err != nil || !reflect.DeepEqual(got, m.sample) {
			t.Errorf("%s: %v\nread  %+v\nwrote %+v", m.name, err, got, m.sample)
		}
	}
}

// A truncated message, or one with an additional byte, must be rejected.
func TestRead_Truncated(t *testing.T) {
	for _, m := range messages {
		whole := m.append(m.sample)
		for n := range whole {
			if v, err := m.read(whole[:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: its first %d of %d bytes are read as %+v, %v", m.name, n, len(whole), v, err)
			}
		}
		if _, err := m.read(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: with a byte left over: %v", m.name, err)
		}
	}
}

func TestRead_Malformed(t *testing.T) {
	header := func(names ...string) []byte {
		w := writer{}
		w.u32(200)
		w.u32(uint32(len(names)))
		for _, n := range names {
			w.str(n)
			w.u32(0)
		}
		w.bytes(nil)
		return w.b
	}
	times := func(seconds int64, nanoseconds uint32) []byte {
		w := writer{}
		w.u32(1)
		w.i64(seconds)
		w.u32(nanoseconds)
		return w.b
	}
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"header names twice", func() error { _, err := Read.Response(header("A", "A")); return err }},
		{"header names out of order", func() error { _, err := Read.Response(header("B", "A")); return err }},
		{"a length beyond the message reserves no memory", func() error {
			_, err := Read.Times([]byte{255, 255, 255, 255})
			return err
		}},
		{"a status that does not fit an int32", func() error {
			_, err := Read.Response(bytes.Repeat([]byte{255}, 4))
			return err
		}},
		{"a status that does not exist", func() error {
			_, err := Read.Outcome([]byte{7, 0, 0, 0, 0})
			return err
		}},
		{"a self-test with a status that does not exist", func() error {
			_, err := Read.Self(Append.Self(nil, Self{Random: []byte{1}, Now: at, Signed: Failed + 1}))
			return err
		}},
		{"a time of a second or more of nanoseconds", func() error {
			_, err := Read.Times(times(1, 1e9))
			return err
		}},
		{"another form of the zero time", func() error {
			_, err := Read.Times(times(time.Time{}.Unix(), 0))
			return err
		}},
		{"a client's address of three bytes", func() error {
			w := writer{}
			w.str("GET")
			w.str("/")
			w.str("")
			w.u32(0)
			w.bytes(nil)
			w.bytes([]byte{1, 2, 3})
			_, err := Read.Request(w.b)
			return err
		}},
	} {
		if err := c.read(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Each side reads the other's messages, and the other may be hostile. No bytes may make it panic, and
// accepted bytes must have only one meaning.
func FuzzRead(f *testing.F) {
	for i, m := range messages {
		f.Add(uint8(i), m.append(m.sample))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		m := messages[int(which)%len(messages)]
		v, err := m.read(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %v", m.name, err)
			}
			return
		}
		if again := m.append(v); !bytes.Equal(again, b) {
			t.Errorf("%s: %x is read as %+v, which is %x", m.name, b, v, again)
		}
	})
}

func TestOutcome_RoundTrip(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Status
	}{
		{nil, OK}, {kv.ErrUnavailable, Unavailable}, {kv.ErrUnknown, Unknown}, {errors.New("boom"), Failed},
		{errors.Join(errors.New("boom"), kv.ErrUnavailable), Unavailable},
	} {
		o := OutcomeOf(c.err)
		if o.Status != c.want {
			t.Errorf("%v is %d, want %d", c.err, o.Status, c.want)
		}
		back := o.Err()
		if (back == nil) != (c.err == nil) {
			t.Fatalf("%v comes back as %v", c.err, back)
		}
		if c.err == nil {
			continue
		}
		same := back.Error() == c.err.Error()
		for _, known := range []error{kv.ErrUnavailable, kv.ErrUnknown} {
			same = same && errors.Is(back, known) == errors.Is(c.err, known)
		}
		if !same {
			t.Errorf("%v comes back as %v", c.err, back)
		}
	}
}
