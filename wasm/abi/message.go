package abi

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// Append has a method for each message, which adds it to a buffer: Append.Request(b, q).
var Append appender

// Read has a method for each message, which accepts exactly the bytes that Append writes: Read.Request(b).
// A message that is read and appended again has the same bytes. The result may refer to the argument's
// memory.
var Read parser

type (
	appender struct{}
	parser   struct{}
)

// Request appends the argument of Handle and Admin.
func (appender) Request(b []byte, q *web.Request) []byte {
	w := writer{b}
	w.str(q.Method)
	w.str(q.Path)
	w.str(q.Query)
	w.header(q.Header)
	w.bytes(q.Body)
	w.bytes(q.Client.AsSlice())
	return w.b
}

// Request reads the argument of Handle and Admin.
func (parser) Request(b []byte) (*web.Request, error) {
	r := read(b)
	q := &web.Request{Method: r.str(), Path: r.str(), Query: r.str(), Header: r.header(), Body: r.bytes()}
	if client := r.bytes(); client != nil {
		var ok bool
		if q.Client, ok = netip.AddrFromSlice(client); !ok {
			r.Failf("an address of %d bytes", len(client))
		}
	}
	return q, r.end()
}

// Response appends the result of Handle and Admin.
func (appender) Response(b []byte, p *web.Response) []byte {
	w := writer{b}
	w.u32(uint32(p.Status))
	w.header(p.Header)
	w.bytes(p.Body)
	return w.b
}

// Response reads the result of Handle and Admin.
func (parser) Response(b []byte) (*web.Response, error) {
	r := read(b)
	p := &web.Response{Status: r.small(), Header: r.header(), Body: r.bytes()}
	return p, r.end()
}

// header writes names in byte order, so that equal headers have equal bytes.
func (w *writer) header(h web.Header) {
	names := make([]string, 0, 16) // on the stack; it is enough for requests and responses
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	w.u32(uint32(len(names)))
	for _, name := range names {
		values := h[name]
		w.str(name)
		w.u32(uint32(len(values)))
		for _, v := range values {
			w.str(v)
		}
	}
}

func (r *reader) header() web.Header {
	count := r.count()
	h, before := make(web.Header, min(count, reserved)), ""
	single := make([]string, min(count, reserved)) // memory for all names that have one value, as most do
	for n := range count {
		name := r.str()
		if n > 0 && name <= before {
			r.Failf("header names out of order")
		}
		var values []string
		if of := r.count(); of == 1 && len(single) > 0 {
			values, single = single[:1:1], single[1:]
			values[0] = r.str()
		} else if of > 0 {
			values = make([]string, 0, min(of, reserved))
			for range of {
				if values = append(values, r.str()); r.Err() != nil {
					return nil
				}
			}
		}
		if r.Err() != nil {
			return nil
		}
		h[name], before = values, name
	}
	return h
}

// Key appends the argument of Get.
func (appender) Key(b []byte, k kv.Key) []byte {
	w := writer{b}
	w.key(k)
	return w.b
}

// Key reads the argument of Get.
func (parser) Key(b []byte) (kv.Key, error) {
	r := read(b)
	return r.key(), r.end()
}

func (w *writer) key(k kv.Key) {
	w.str(string(k.Partition))
	w.str(k.Name)
}

func (r *reader) key() kv.Key { return kv.Key{Partition: kv.Partition(r.str()), Name: r.str()} }

// Item appends the reply to Get.
func (appender) Item(b []byte, it kv.Item) []byte {
	w := writer{b}
	w.item(it)
	return w.b
}

// Item reads the reply to Get.
func (parser) Item(b []byte) (kv.Item, error) {
	r := read(b)
	return r.item(), r.end()
}

func (w *writer) item(it kv.Item) {
	w.key(it.Key)
	w.bytes(it.Value)
	w.str(it.Tx)
	w.time(it.Expires)
}

func (r *reader) item() kv.Item {
	return kv.Item{Key: r.key(), Value: r.bytes(), Tx: r.str(), Expires: r.time()}
}

// Tx appends the argument of Commit.
func (appender) Tx(b []byte, tx kv.Tx) []byte {
	w := writer{b}
	w.str(tx.ID)
	w.str(string(tx.Partition))
	list(&w, tx.Checks, func(c kv.Check) { w.str(c.Name); w.str(c.Tx) })
	list(&w, tx.Held, func(h kv.Held) { w.str(h.TaskID); w.str(h.Lease) })
	list(&w, tx.Puts, func(p kv.Put) { w.str(p.Name); w.bytes(p.Value); w.time(p.Expires) })
	list(&w, tx.Deletes, w.str)
	list(&w, tx.Schedule, w.task)
	list(&w, tx.Cancel, w.str)
	return w.b
}

// Tx reads the argument of Commit.
func (parser) Tx(b []byte) (kv.Tx, error) {
	r := read(b)
	tx := kv.Tx{
		ID:        r.str(),
		Partition: kv.Partition(r.str()),
		Checks:    readList(&r, func() kv.Check { return kv.Check{Name: r.str(), Tx: r.str()} }),
		Held:      readList(&r, func() kv.Held { return kv.Held{TaskID: r.str(), Lease: r.str()} }),
		Puts: readList(&r, func() kv.Put {
			return kv.Put{Name: r.str(), Value: r.bytes(), Expires: r.time()}
		}),
		Deletes:  readList(&r, r.str),
		Schedule: readList(&r, r.task),
		Cancel:   readList(&r, r.str),
	}
	return tx, r.end()
}

func (w *writer) task(t kv.Task) {
	w.str(t.ID)
	w.time(t.Due)
	w.bytes(t.Payload)
	w.str(t.Lease)
}

func (r *reader) task() kv.Task {
	return kv.Task{ID: r.str(), Due: r.time(), Payload: r.bytes(), Lease: r.str()}
}

// Conflict appends the reply to a Commit that was rejected.
func (appender) Conflict(b []byte, c *kv.Conflict) []byte {
	w := writer{b}
	list(&w, c.Items, w.item)
	list(&w, c.Lost, w.str)
	return w.b
}

// Conflict reads the reply to a Commit that was rejected.
func (parser) Conflict(b []byte) (*kv.Conflict, error) {
	r := read(b)
	return &kv.Conflict{Items: readList(&r, r.item), Lost: readList(&r, r.str)}, r.end()
}

// Claim has the arguments of kv.KV's Claim.
type Claim struct {
	Partition kv.Partition
	Now       time.Time
	Lease     time.Duration
	N         int
}

// Claim appends the argument of the effect Claim.
func (appender) Claim(b []byte, c Claim) []byte {
	w := writer{b}
	w.str(string(c.Partition))
	w.time(c.Now)
	w.i64(int64(c.Lease))
	w.u32(uint32(c.N))
	return w.b
}

// Claim reads the argument of the effect Claim.
func (parser) Claim(b []byte) (Claim, error) {
	r := read(b)
	return Claim{
		Partition: kv.Partition(r.str()),
		Now:       r.time(),
		Lease:     time.Duration(r.i64()),
		N:         r.small(),
	}, r.end()
}

// Tasks appends the reply to the effect Claim.
func (appender) Tasks(b []byte, tasks []kv.Task, next time.Time) []byte {
	w := writer{b}
	list(&w, tasks, w.task)
	w.time(next)
	return w.b
}

// Tasks reads the reply to the effect Claim.
func (parser) Tasks(b []byte) (tasks []kv.Task, next time.Time, err error) {
	r := read(b)
	tasks, next = readList(&r, r.task), r.time()
	return tasks, next, r.end()
}

// List has the arguments of kv.KV's List.
type List struct {
	Prefix kv.Key
	After  string
	N      int
}

// List appends the argument of List.
func (appender) List(b []byte, l List) []byte {
	w := writer{b}
	w.key(l.Prefix)
	w.str(l.After)
	w.u32(uint32(l.N))
	return w.b
}

// List reads the argument of List.
func (parser) List(b []byte) (List, error) {
	r := read(b)
	return List{Prefix: r.key(), After: r.str(), N: r.small()}, r.end()
}

// Items appends the reply to List.
func (appender) Items(b []byte, items []kv.Item) []byte {
	w := writer{b}
	list(&w, items, w.item)
	return w.b
}

// Items reads the reply to List.
func (parser) Items(b []byte) ([]kv.Item, error) {
	r := read(b)
	return readList(&r, r.item), r.end()
}

// Spend has the arguments of kv.Meter's Spend.
type Spend struct {
	Partition kv.Partition
	Now       time.Time
	Charges   []kv.Charge
}

// Spend appends the argument of Spend.
func (appender) Spend(b []byte, s Spend) []byte {
	w := writer{b}
	w.str(string(s.Partition))
	w.time(s.Now)
	list(&w, s.Charges, func(c kv.Charge) { w.str(c.Name); w.i64(int64(c.Cost)); w.i64(int64(c.Burst)) })
	return w.b
}

// Spend reads the argument of Spend.
func (parser) Spend(b []byte) (Spend, error) {
	r := read(b)
	return Spend{Partition: kv.Partition(r.str()), Now: r.time(), Charges: readList(&r, func() kv.Charge {
		return kv.Charge{Name: r.str(), Cost: time.Duration(r.i64()), Burst: time.Duration(r.i64())}
	})}, r.end()
}

// Times appends the reply to Spend.
func (appender) Times(b []byte, times []time.Time) []byte {
	w := writer{b}
	list(&w, times, w.time)
	return w.b
}

// Times reads the reply to Spend.
func (parser) Times(b []byte) ([]time.Time, error) {
	r := read(b)
	return readList(&r, r.time), r.end()
}

// Fetch appends the argument of Fetch.
func (appender) Fetch(b []byte, q host.FetchRequest) []byte {
	w := writer{b}
	w.str(q.Method)
	w.str(q.URL)
	w.fields(q.Header)
	w.bytes(q.Body)
	w.str(q.For)
	w.i64(int64(q.Timeout))
	return w.b
}

// Fetch reads the argument of Fetch.
func (parser) Fetch(b []byte) (host.FetchRequest, error) {
	r := read(b)
	return host.FetchRequest{
		Method:  r.str(),
		URL:     r.str(),
		Header:  r.fields(),
		Body:    r.bytes(),
		For:     r.str(),
		Timeout: time.Duration(r.i64()),
	}, r.end()
}

// Fetched appends the reply to Fetch.
func (appender) Fetched(b []byte, p host.FetchResponse) []byte {
	w := writer{b}
	w.u32(uint32(p.Status))
	w.fields(p.Header)
	w.bytes(p.Body)
	return w.b
}

// Fetched reads the reply to Fetch.
func (parser) Fetched(b []byte) (host.FetchResponse, error) {
	r := read(b)
	return host.FetchResponse{Status: r.small(), Header: r.fields(), Body: r.bytes()}, r.end()
}

func (w *writer) fields(f map[string]string) {
	list(w, slices.Sorted(maps.Keys(f)), func(name string) {
		w.str(name)
		w.str(f[name])
	})
}

func (r *reader) fields() map[string]string {
	f, before := map[string]string{}, ""
	for n := range r.count() {
		name := r.str()
		if n > 0 && name <= before {
			r.Failf("header names out of order")
		}
		f[name], before = r.str(), name
		if r.Err() != nil {
			return nil
		}
	}
	return f
}

// FetchError appends the reply to a Fetch without a response.
func (appender) FetchError(b []byte, reason, text string) []byte {
	w := writer{b}
	w.str(reason)
	w.str(text)
	return w.b
}

// FetchError reads the reply to a Fetch without a response.
func (parser) FetchError(b []byte) (reason, text string, err error) {
	r := read(b)
	reason, text = r.str(), r.str()
	return reason, text, r.end()
}

// SignRequest has the arguments of host.Host's Sign, and of its Decrypt.
type SignRequest struct {
	Key       string
	Algorithm string
	Message   []byte
}

// Sign appends the argument of Sign or Decrypt.
func (appender) Sign(b []byte, q SignRequest) []byte {
	w := writer{b}
	w.str(q.Key)
	w.str(q.Algorithm)
	w.bytes(q.Message)
	return w.b
}

// Sign reads the argument of Sign or Decrypt.
func (parser) Sign(b []byte) (SignRequest, error) {
	r := read(b)
	return SignRequest{Key: r.str(), Algorithm: r.str(), Message: r.bytes()}, r.end()
}

// VerifyRequest has the arguments of host.Host's Verify.
type VerifyRequest struct {
	Algorithm string
	PublicKey []byte
	Message   []byte
	Signature []byte
}

// Verify appends the argument of Verify.
func (appender) Verify(b []byte, q VerifyRequest) []byte {
	w := writer{b}
	w.str(q.Algorithm)
	w.bytes(q.PublicKey)
	w.bytes(q.Message)
	w.bytes(q.Signature)
	return w.b
}

// Verify reads the argument of Verify.
func (parser) Verify(b []byte) (VerifyRequest, error) {
	r := read(b)
	return VerifyRequest{r.str(), r.bytes(), r.bytes(), r.bytes()}, r.end()
}

// Verified appends the reply to Verify: whether the signature is the key's.
func (appender) Verified(b []byte, ok bool) []byte {
	if ok {
		return append(b, 1)
	}
	return append(b, 0)
}

// Verified reads the reply to Verify. Bytes other than 0 and 1 are an error.
func (parser) Verified(b []byte) (ok bool, err error) {
	if len(b) != 1 || b[0] > 1 {
		return false, fmt.Errorf("%w: a signature is either the key's or not", ErrMalformed)
	}
	return b[0] == 1, nil
}

// ProofRequest has the arguments of host.Host's VerifyProof.
type ProofRequest struct {
	Statement host.ProofStatement
	Proof     []byte
}

// VerifyProof appends the argument of VerifyProof.
func (appender) VerifyProof(b []byte, q ProofRequest) []byte {
	w := writer{b}
	w.str(q.Statement.Circuit)
	w.bytes(q.Statement.Issuer)
	w.bytes(q.Statement.SessionTranscript)
	w.str(q.Statement.DocType)
	list(&w, q.Statement.Elements, func(e host.ProvenElement) { w.str(e.Identifier); w.bytes(e.Value) })
	w.time(q.Statement.Time)
	w.bytes(q.Proof)
	return w.b
}

// VerifyProof reads the argument of VerifyProof.
func (parser) VerifyProof(b []byte) (ProofRequest, error) {
	r := read(b)
	return ProofRequest{host.ProofStatement{Circuit: r.str(), Issuer: r.bytes(), SessionTranscript: r.bytes(),
		DocType: r.str(), Elements: readList(&r, func() host.ProvenElement {
			return host.ProvenElement{Identifier: r.str(), Value: r.bytes()}
		}), Time: r.time()}, r.bytes()}, r.end()
}

// Proven appends the reply to VerifyProof: whether the proof shows the statement, and if not, the reason.
func (appender) Proven(b []byte, shown bool, rejected string) []byte {
	w := writer{appender{}.Verified(b, shown)}
	w.str(rejected)
	return w.b
}

// Proven reads the reply to VerifyProof. A reason with a proof that shows the statement is an error.
func (parser) Proven(b []byte) (shown bool, rejected string, err error) {
	r := read(b)
	first := r.Byte()
	rejected = r.str()
	if err := r.end(); err != nil {
		return false, "", err
	}
	if first > 1 || first == 1 && rejected != "" {
		return false, "", fmt.Errorf("%w: a proof is either accepted or rejected", ErrMalformed)
	}
	return first == 1, rejected, nil
}

// ClaimJobs has the arguments of the service's Claim.
type ClaimJobs struct {
	Partition kv.Partition
	N         int
}

// ClaimJobs appends the argument of the entry Claim.
func (appender) ClaimJobs(b []byte, c ClaimJobs) []byte {
	w := writer{b}
	w.str(string(c.Partition))
	w.u32(uint32(c.N))
	return w.b
}

// ClaimJobs reads the argument of the entry Claim.
func (parser) ClaimJobs(b []byte) (ClaimJobs, error) {
	r := read(b)
	return ClaimJobs{Partition: kv.Partition(r.str()), N: r.small()}, r.end()
}

// Jobs is the result of the service's Claim and RunDue.
type Jobs struct {
	Jobs    []host.Job // RunDue returns none
	Next    time.Time
	Outcome Outcome
}

// Jobs appends the result of the entries Claim and RunDue.
func (appender) Jobs(b []byte, j Jobs) []byte {
	w := writer{b}
	list(&w, j.Jobs, w.job)
	w.time(j.Next)
	w.outcome(j.Outcome)
	return w.b
}

// Jobs reads the result of the entries Claim and RunDue.
func (parser) Jobs(b []byte) (Jobs, error) {
	r := read(b)
	return Jobs{Jobs: readList(&r, r.job), Next: r.time(), Outcome: r.outcome()}, r.end()
}

// Job appends the argument of Run and Defer. until is Defer's, zero for Run.
func (appender) Job(b []byte, j host.Job, until time.Time) []byte {
	w := writer{b}
	w.job(j)
	w.time(until)
	return w.b
}

// Job reads the argument of Run and Defer.
func (parser) Job(b []byte) (j host.Job, until time.Time, err error) {
	r := read(b)
	j, until = r.job(), r.time()
	return j, until, r.end()
}

func (w *writer) job(j host.Job) {
	w.str(string(j.Partition))
	w.task(j.Task)
	w.time(j.Until)
	w.str(j.Destination)
}

func (r *reader) job() host.Job {
	return host.Job{Partition: kv.Partition(r.str()), Task: r.task(), Until: r.time(), Destination: r.str()}
}

// Outcome appends the result of Ready, Run and Defer.
func (appender) Outcome(b []byte, o Outcome) []byte {
	w := writer{b}
	w.outcome(o)
	return w.b
}

// Outcome reads the result of Ready, Run and Defer.
func (parser) Outcome(b []byte) (Outcome, error) {
	r := read(b)
	return r.outcome(), r.end()
}

func (w *writer) outcome(o Outcome) {
	w.u8(uint8(o.Status))
	w.str(o.Text)
}

func (r *reader) outcome() Outcome {
	return Outcome{Status: r.status(), Text: r.str()}
}

func (r *reader) status() Status {
	s := Status(r.Byte())
	if s > Failed {
		r.Failf("there is no status %d", s)
	}
	return s
}

// Self is the result of SelfTest.
type Self struct {
	Random []byte // 32 bytes
	Now    time.Time

	// Signed is the status of the reply to the self-test's signature, as the guest has received it:
	// NotFound, since TestKey is not the name of a key.
	Signed Status
}

// Self appends the result of SelfTest.
func (appender) Self(b []byte, s Self) []byte {
	w := writer{b}
	w.bytes(s.Random)
	w.time(s.Now)
	w.u8(uint8(s.Signed))
	return w.b
}

// Self reads the result of SelfTest.
func (parser) Self(b []byte) (Self, error) {
	r := read(b)
	return Self{Random: r.bytes(), Now: r.time(), Signed: r.status()}, r.end()
}

// Wake appends the notice Wake.
func (appender) Wake(b []byte, p kv.Partition, due time.Time) []byte {
	w := writer{b}
	w.str(string(p))
	w.time(due)
	return w.b
}

// Wake reads the notice Wake.
func (parser) Wake(b []byte) (p kv.Partition, due time.Time, err error) {
	r := read(b)
	p, due = kv.Partition(r.str()), r.time()
	return p, due, r.end()
}

// MethodEvent is an event of a verification method: the message "method event" of ABI.md. host.NewMeasurement
// limits it to the known events and reasons.
type MethodEvent struct{ Method, Event, Reason string }

// MethodEvent appends the notice Measure.
func (appender) MethodEvent(b []byte, t MethodEvent) []byte {
	w := writer{b}
	w.str(t.Method)
	w.str(t.Event)
	w.str(t.Reason)
	return w.b
}

// MethodEvent reads the notice Measure.
func (parser) MethodEvent(b []byte) (MethodEvent, error) {
	r := read(b)
	return MethodEvent{Method: r.str(), Event: r.str(), Reason: r.str()}, r.end()
}

// UsageEvent appends the notice UsageEvent.
func (appender) UsageEvent(b []byte, t host.UsageEvent) []byte {
	w := writer{b}
	w.str(t.Integration)
	w.str(t.Outcome)
	w.str(t.Key)
	return w.b
}

// UsageEvent reads the notice UsageEvent. host.UsageEvent's Valid reports whether a core can have sent it.
func (parser) UsageEvent(b []byte) (host.UsageEvent, error) {
	r := read(b)
	return host.UsageEvent{Integration: r.str(), Outcome: r.str(), Key: r.str()}, r.end()
}

// About appends the notice About.
func (appender) About(b []byte, a host.RequestInfo) []byte {
	w := writer{b}
	w.str(a.Session)
	w.str(a.Integration)
	w.str(a.Publisher)
	w.str(a.Key)
	w.str(a.Code)
	return w.b
}

// About reads the notice About. host.RequestInfo's Sanitized removes values that no core reports.
func (parser) About(b []byte) (host.RequestInfo, error) {
	r := read(b)
	return host.RequestInfo{Session: r.str(), Integration: r.str(), Publisher: r.str(), Key: r.str(),
		Code: r.str()}, r.end()
}

// Totals appends the argument of the entry RecordUsage.
func (appender) Totals(b []byte, t host.Totals) []byte {
	w := writer{b}
	list(&w, t.Days, w.dayTotal)
	list(&w, t.Keys, func(k host.KeyUse) { w.str(k.Key); w.u32(uint32(k.Day)) })
	return w.b
}

// Totals reads the argument of the entry RecordUsage. It skips counts of unknown outcomes, because the host
// may be newer.
func (parser) Totals(b []byte) (host.Totals, error) {
	r := read(b)
	return host.Totals{
		Days: readList(&r, r.dayTotal),
		Keys: readList(&r, func() host.KeyUse { return host.KeyUse{Key: r.str(), Day: host.Day(r.small())} }),
	}, r.end()
}

func (w *writer) dayTotal(d host.DayTotal) {
	w.str(d.Integration)
	w.u32(uint32(d.Day))
	w.str(d.Instance)
	type count struct {
		outcome string
		n       uint64
	}
	var counts []count
	for _, outcome := range host.Counted() {
		if n := d.Counts.Of(outcome); n > 0 {
			counts = append(counts, count{outcome, n})
		}
	}
	list(w, counts, func(c count) { w.str(c.outcome); w.i64(int64(c.n)) })
}

func (r *reader) dayTotal() host.DayTotal {
	d := host.DayTotal{Integration: r.str(), Day: host.Day(r.small()), Instance: r.str()}
	for range r.count() {
		outcome, n := r.str(), r.i64()
		if r.Err() != nil {
			break
		}
		if n < 0 {
			r.Failf("%d of an outcome", n)
			break
		}
		d.Counts.Add(outcome, uint64(n))
	}
	return d
}

// LogRecord is one line of the guest's log.
type LogRecord struct {
	Level   int8 // as in log/slog: -4 debug, 0 info, 4 warn, 8 error
	Message string
	Attrs   []LogAttr
}

// LogAttr is an attribute. Its Value is JSON.
type LogAttr struct {
	Key   string
	Value []byte
}

// Log appends the notice Log.
func (appender) Log(b []byte, l LogRecord) []byte {
	w := writer{b}
	w.u8(uint8(l.Level))
	w.str(l.Message)
	list(&w, l.Attrs, func(a LogAttr) { w.str(a.Key); w.bytes(a.Value) })
	return w.b
}

// Log reads the notice Log.
func (parser) Log(b []byte) (LogRecord, error) {
	r := read(b)
	return LogRecord{Level: int8(r.Byte()), Message: r.str(),
		Attrs: readList(&r, func() LogAttr { return LogAttr{Key: r.str(), Value: r.bytes()} })}, r.end()
}

// Record is one record of the guest's outbox.
type Record struct {
	Request uint32
	Op      uint32 // of an effect, for verge_complete; otherwise 0
	Kind    Kind
	Body    []byte
}

// Record appends a record to an outbox.
func (appender) Record(b []byte, rec Record) []byte {
	w := writer{b}
	w.u32(rec.Request)
	w.u32(rec.Op)
	w.u8(uint8(rec.Kind))
	w.bytes(rec.Body)
	return w.b
}

// Record returns the first record of an outbox.
func (parser) Record(b []byte) (rec Record, rest []byte, err error) {
	r := read(b)
	rec = Record{Request: r.u32(), Op: r.u32(), Kind: Kind(r.Byte()), Body: r.bytes()}
	return rec, r.Left, r.failed()
}
