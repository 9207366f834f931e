package effect_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
)

var (
	ctx = context.Background()
	at  = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)
)

// port is a store, a meter and a fetcher. It returns the test's results and records the arguments.
type port struct {
	asked []any
	err   error
}

var (
	anItem = kv.Item{Key: kv.Key{Partition: "p0", Name: "n"}, Value: []byte("v"), Tx: "t", Expires: at}
	aTask  = kv.Task{ID: "t", Due: at, Payload: []byte("p"), Lease: "l"}
	answer = host.FetchResponse{Status: 204, Header: map[string]string{"Date": "x"}, Body: []byte("b")}
)

func (p *port) ask(args ...any) error { p.asked = args; return p.err }

func (p *port) Get(_ context.Context, k kv.Key) (kv.Item, error) { return anItem, p.ask(k) }
func (p *port) Commit(_ context.Context, tx kv.Tx) error         { return p.ask(tx) }
func (p *port) Claim(
	_ context.Context, q kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	return []kv.Task{aTask}, at, p.ask(q, now, lease, n)
}
func (p *port) List(_ context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	return []kv.Item{anItem}, p.ask(prefix, after, n)
}
func (p *port) Spend(
	_ context.Context, q kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	return []time.Time{at}, p.ask(q, now, charges)
}
func (p *port) Fetch(_ context.Context, q host.FetchRequest) (host.FetchResponse, error) {
	return answer, p.ask(q)
}
func (p *port) sign(_ context.Context, key, algorithm string, message []byte) ([]byte, error) {
	return []byte("signature"), p.ask(key, algorithm, message)
}
func (p *port) decrypt(_ context.Context, key, algorithm string, message []byte) ([]byte, error) {
	return message, p.ask(key, algorithm, message)
}

func (p *port) verify(
	_ context.Context, algorithm string, publicKey, message, signature []byte,
) (bool, error) {
	err := p.ask(algorithm, publicKey, message, signature)
	return err == nil && string(signature) == "good", err
}

// ports returns the host's side, with p as each port.
func (p *port) ports() *effect.Ports {
	return &effect.Ports{
		KV:          p,
		Meter:       p,
		Fetch:       p,
		Sign:        p.sign,
		Decrypt:     p.decrypt,
		Verify:      p.verify,
		VerifyProof: p.verifyProof,
	}
}

func (p *port) verifyProof(_ context.Context, s host.ProofStatement, proof []byte) (bool, string, error) {
	if err := p.ask(s, proof); err != nil {
		return false, "", err
	}
	if string(proof) != "good" {
		return false, "malformed proof", nil
	}
	return true, "", nil
}

// The arguments at one end must arrive at the other, and the results must return, including errors.
func TestPorts_RoundTrip(t *testing.T) {
	p := &port{}
	carry := p.ports()
	do := func(k abi.Kind, body []byte) (abi.Status, []byte) { return carry.Do(ctx, k, body) }
	store, fetcher, signer := effect.Store(do), effect.Fetcher(do), effect.Signer(do)

	tx := kv.Tx{ID: "tx", Partition: "p0", Puts: []kv.Put{{Name: "n", Value: []byte("v")}}}
	charges := []kv.Charge{{Name: "c", Cost: time.Second, Burst: time.Minute}}
	request := host.FetchRequest{
		Method: "POST",
		URL:    "https://shop.example",
		Header: map[string]string{"A": "b"},
		Body:   []byte("b"),

		For:     "bankid",
		Timeout: 3 * time.Second,
	}
	unavailable, unknown := []error{kv.ErrUnavailable}, []error{kv.ErrUnavailable, kv.ErrUnknown}
	for _, c := range []struct {
		name   string
		call   func() ([]any, error)
		asked  []any
		want   []any
		errors []error // must return as the same errors
	}{
		{"get", func() ([]any, error) {
			v, err := store.Get(ctx, anItem.Key)
			return []any{v}, err
		}, []any{anItem.Key}, []any{anItem}, append([]error{kv.ErrNotFound}, unavailable...)},
		{"commit", func() ([]any, error) { return nil, store.Commit(ctx, tx) }, []any{tx}, nil, unknown},
		{"claim", func() ([]any, error) {
			v, next, err := store.Claim(ctx, "p0", at, time.Second, 3)
			return []any{v, next}, err
		},
			[]any{kv.Partition("p0"), at, time.Second, 3}, []any{[]kv.Task{aTask}, at}, unavailable},
		{"list", func() ([]any, error) {
			v, err := store.List(ctx, anItem.Key, "a", 3)
			return []any{v}, err
		}, []any{anItem.Key, "a", 3}, []any{[]kv.Item{anItem}}, unavailable},
		{"spend", func() ([]any, error) {
			v, err := store.Spend(ctx, "l", at, charges)
			return []any{v}, err
		}, []any{kv.Partition("l"), at, charges}, []any{[]time.Time{at}}, unavailable},
		{"fetch", func() ([]any, error) {
			v, err := fetcher.Fetch(ctx, request)
			return []any{v}, err
		}, []any{request}, []any{answer}, nil},
		{"sign", func() ([]any, error) {
			v, err := signer.Sign(ctx, "client", "ES256", []byte("message"))
			return []any{v}, err
		}, []any{"client", "ES256", []byte("message")}, []any{[]byte("signature")},
			[]error{host.ErrNoSuchKey}},
		{"decrypt", func() ([]any, error) {
			v, err := signer.Decrypt(ctx, "client", "ECDH-ES", []byte("point"))
			return []any{v}, err
		}, []any{"client", "ECDH-ES", []byte("point")}, []any{[]byte("point")},
			[]error{host.ErrNoSuchKey}},
		{"decrypt what is for another key", func() ([]any, error) {
			v, err := signer.Decrypt(ctx, "client", "ECDH-ES", nil)
			return []any{v}, err
		}, []any{"client", "ECDH-ES", []byte(nil)}, []any{[]byte(nil)}, []error{host.ErrNoSuchKey}},
	} {
		p.err = nil
		got, err := c.call()
		if err != nil || !reflect.DeepEqual(got, c.want) || !reflect.DeepEqual(p.asked, c.asked) {
			t.Errorf("%s: %v\nasked %+v, want %+v\ngot   %+v, want %+v", c.name, err, p.asked, c.asked, got,
				c.want)
		}
		for _, want := range c.errors {
			p.err = want
			if _, err := c.call(); !errors.Is(err, want) {
				t.Errorf("%s: %v comes back as %v", c.name, want, err)
			}
		}
	}

	p.err = errors.New("boom")
	if _, err := store.Get(ctx, anItem.Key); !errors.Is(err, kv.ErrUnavailable) || err.Error() != "boom" {
		t.Errorf("an unexpected error of a store: %v", err)
	}
	if _, err := signer.Sign(ctx, "client", "RS256", nil); err == nil || err.Error() != "boom" {
		t.Errorf("a key that cannot sign by this algorithm: %v", err)
	}
	p.err = &kv.Conflict{Items: []kv.Item{anItem}, Lost: []string{"t"}}
	var conflict *kv.Conflict
	if err := store.Commit(ctx, tx); !errors.As(err, &conflict) || !reflect.DeepEqual(conflict, p.err) {
		t.Errorf("a conflict comes back as %v", err)
	}
}

// An error of a request keeps its reason and its text.
func TestPorts_FetchError(t *testing.T) {
	p := &port{}
	carry := p.ports()
	fetcher := effect.Fetcher(func(k abi.Kind, body []byte) (abi.Status, []byte) {
		return carry.Do(ctx, k, body)
	})
	request := host.FetchRequest{Method: "POST", URL: "https://shop.example"}
	for _, c := range []struct {
		err    error
		reason string
	}{
		{&host.FetchError{Reason: host.FetchBlocked, Err: errors.New("off limits")}, host.FetchBlocked},
		{errors.New("off limits"), host.FetchNetwork},
	} {
		p.err = c.err
		var fetch *host.FetchError
		_, err := fetcher.Fetch(ctx, request)
		if !errors.As(err, &fetch) || fetch.Reason != c.reason || fetch.Err.Error() != "off limits" {
			t.Errorf("%v comes back as %v", c.err, err)
		}
	}
}

// A malformed effect must not be carried out.
func TestCarry_Malformed(t *testing.T) {
	p := &port{}
	carry := p.ports()
	for _, k := range []abi.Kind{
		0,
		abi.KVGet,
		abi.KVCommit,
		abi.KVClaim,
		abi.KVList,
		abi.KVSpend,
		abi.Fetch,
		abi.Sign,
		abi.Verify,
		abi.VerifyProof,
		abi.Decrypt,
		abi.Respond,
		99,
	} {
		if status, _ := carry.Do(ctx, k, []byte{1}); status != abi.Unavailable || p.asked != nil {
			t.Errorf("kind %d: status %d, asked %v", k, status, p.asked)
		}
	}
}

// asked is an effect that a guest requests.
type asked struct {
	kind abi.Kind
	body []byte
}

// limit is an effect that must be carried out, and one slightly above it that must not.
type limit struct {
	of   string
	good asked
	bad  asked
}

func text(n int) string { return strings.Repeat("x", n) }

func TestCarry_Excessive(t *testing.T) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	over := last.Add(time.Second)
	year := 366 * 24 * time.Hour
	get := func(p, n string) asked {
		return asked{abi.KVGet, abi.Append.Key(nil, kv.Key{Partition: kv.Partition(p), Name: n})}
	}
	list := func(after string, n int) asked {
		return asked{abi.KVList, abi.Append.List(nil,
			abi.List{Prefix: kv.Key{Partition: "p0"}, After: after, N: n})}
	}
	claim := func(now time.Time, lease time.Duration, n int) asked {
		return asked{abi.KVClaim, abi.Append.Claim(nil,
			abi.Claim{Partition: "p0", Now: now, Lease: lease, N: n})}
	}
	spend := func(now time.Time, charges ...kv.Charge) asked {
		return asked{
			abi.KVSpend,
			abi.Append.Spend(nil, abi.Spend{Partition: "l", Now: now, Charges: charges}),
		}
	}
	put := func(expires time.Time) asked {
		return asked{
			abi.KVCommit,
			abi.Append.Tx(
				nil,
				kv.Tx{ID: "t", Partition: "p0", Puts: []kv.Put{{Name: "n", Expires: expires}}},
			),
		}
	}
	schedule := func(due time.Time) asked {
		return asked{
			abi.KVCommit,
			abi.Append.Tx(nil, kv.Tx{ID: "t", Partition: "p0", Schedule: []kv.Task{{ID: "n", Due: due}}}),
		}
	}
	for _, c := range []limit{
		{"a partition's name", get(text(16<<10), "n"), get(text(16<<10+1), "n")},
		{"a name", get("p0", text(16<<10)), get("p0", text(16<<10+1))},
		{"a place in a list", list(text(16<<10), 1), list(text(16<<10+1), 1)},
		{"items of a list", list("", 1024), list("", 1025)},
		{"tasks of a claim", claim(at, time.Second, 1024), claim(at, time.Second, 1025)},
		{"a lease", claim(at, year, 1), claim(at, year+1, 1)},
		{"a lease that ends before it begins", claim(at, 0, 1), claim(at, -1, 1)},
		{"the time of a claim", claim(last, time.Second, 1), claim(over, time.Second, 1)},
		{
			"a time before there were any",
			claim(time.Unix(0, 0), time.Second, 1),
			claim(time.Unix(-1, 0), time.Second, 1),
		},
		{"the time of charges", spend(last), spend(over)},
		{"charges", spend(at, make([]kv.Charge, 64)...), spend(at, make([]kv.Charge, 65)...)},
		{"a charge", spend(at, kv.Charge{Cost: year}), spend(at, kv.Charge{Cost: year + 1})},
		{"a negative charge", spend(at, kv.Charge{}), spend(at, kv.Charge{Cost: -1})},
		{"a burst", spend(at, kv.Charge{Burst: year}), spend(at, kv.Charge{Burst: year + 1})},
		{"a negative burst", spend(at, kv.Charge{}), spend(at, kv.Charge{Burst: -1})},
		{
			"a counter's name",
			spend(at, kv.Charge{Name: text(16 << 10)}),
			spend(at, kv.Charge{Name: text(16<<10 + 1)}),
		},
		{"an item's end", put(last), put(over)},
		{"an item without an expiry", put(time.Time{}), put(time.Unix(-1, 0))},
		{"a task's time", schedule(last), schedule(over)},
	} {
		c.holds(t)
	}
}

func TestCarry_ExcessiveFetch(t *testing.T) {
	fields := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[text(i+1)] = ""
		}
		return all
	}
	year := 366 * 24 * time.Hour
	fetch := func(q host.FetchRequest) asked { return asked{abi.Fetch, abi.Append.Fetch(nil, q)} }
	for _, c := range []limit{
		{"a URL", fetch(host.FetchRequest{URL: text(8 << 10)}),
			fetch(host.FetchRequest{URL: text(8<<10 + 1)})},
		{"a method", fetch(host.FetchRequest{Method: text(16)}), fetch(host.FetchRequest{Method: text(17)})},
		{"fields", fetch(host.FetchRequest{Header: fields(64)}),
			fetch(host.FetchRequest{Header: fields(65)})},
		{
			"bytes of fields",
			fetch(host.FetchRequest{Header: map[string]string{"A": text(80<<10 - 1)}}),
			fetch(host.FetchRequest{Header: map[string]string{"A": text(80 << 10)}}),
		},
		{
			"a body",
			fetch(host.FetchRequest{Body: make([]byte, 2<<20)}),
			fetch(host.FetchRequest{Body: make([]byte, 2<<20+1)}),
		},
		{"a method's name", fetch(host.FetchRequest{For: text(64)}), fetch(host.FetchRequest{For: text(65)})},
		{
			"the time of a fetch",
			fetch(host.FetchRequest{Timeout: year}),
			fetch(host.FetchRequest{Timeout: year + 1}),
		},
		{"a negative time", fetch(host.FetchRequest{}), fetch(host.FetchRequest{Timeout: -1})},
	} {
		c.holds(t)
	}
}

func TestCarry_ExcessiveSign(t *testing.T) {
	sign := func(key, algorithm string, message int) asked {
		q := abi.SignRequest{Key: key, Algorithm: algorithm, Message: make([]byte, message)}
		return asked{abi.Sign, abi.Append.Sign(nil, q)}
	}
	decrypt := func(message int) asked { return asked{abi.Decrypt, sign("k", "ECDH-ES", message).body} }
	for _, c := range []limit{
		{"a key's name", sign(text(64), "ES256", 1), sign(text(65), "ES256", 1)},
		{"an algorithm", sign("k", text(16), 1), sign("k", text(17), 1)},
		{"a message to sign", sign("k", "ES256", 4<<20), sign("k", "ES256", 4<<20+1)},
		{"a message to decrypt", decrypt(4 << 20), decrypt(4<<20 + 1)},
	} {
		c.holds(t)
	}
}

func TestVerifier_ThereAndBack(t *testing.T) {
	p := &port{}
	carry := p.ports()
	do := func(k abi.Kind, body []byte) (abi.Status, []byte) { return carry.Do(ctx, k, body) }
	for _, c := range []struct {
		signature string
		err       error
		want      bool
	}{
		{"good", nil, true},
		{"bad", nil, false},
		{"good", kv.ErrUnavailable, false},
		{"good", errors.New("boom"), false},
	} {
		p.err = c.err
		ok, err := effect.Verifier(do).Verify(ctx, "ES256", []byte("key"), []byte("message"),
			[]byte(c.signature))
		asked := []any{"ES256", []byte("key"), []byte("message"), []byte(c.signature)}
		if ok != c.want || !reflect.DeepEqual(p.asked, asked) || (err == nil) != (c.err == nil) ||
			err != nil && (!errors.Is(err, kv.ErrUnavailable) || err.Error() != c.err.Error()) {
			t.Errorf("%+v: %v, %v, asked %v", c, ok, err, p.asked)
		}
	}
}

func TestProofVerifier_ThereAndBack(t *testing.T) {
	p := &port{}
	carry := p.ports()
	do := func(k abi.Kind, body []byte) (abi.Status, []byte) { return carry.Do(ctx, k, body) }
	s := host.ProofStatement{Circuit: "8d07", Issuer: []byte("key"), SessionTranscript: []byte{0x83},
		DocType: "org.iso", Elements: []host.ProvenElement{{Identifier: "a", Value: []byte{0xf5}},
			{Identifier: "b", Value: []byte{0xf4}}}, Time: at}
	for _, c := range []struct {
		proof    string
		err      error
		shown    bool
		rejected string
	}{
		{"good", nil, true, ""},
		{"bad", nil, false, "malformed proof"},
		{"good", kv.ErrUnavailable, false, ""},
		{"good", errors.New("boom"), false, ""},
	} {
		p.err = c.err
		shown, rejected, err := effect.ProofVerifier(do).VerifyProof(ctx, s, []byte(c.proof))
		if shown != c.shown || rejected != c.rejected || (err == nil) != (c.err == nil) ||
			!reflect.DeepEqual(p.asked, []any{s, []byte(c.proof)}) {
			t.Errorf("%+v: %v, %q, %v, asked %v", c, shown, rejected, err, p.asked)
		}
	}
	carry.VerifyProof = nil
	if shown, _, err := effect.ProofVerifier(do).VerifyProof(ctx, s, []byte("good")); shown || err == nil {
		t.Errorf("a host without this effect: %v, %v", shown, err)
	}
	for _, c := range []struct {
		status abi.Status
		reply  string
	}{
		{abi.OK, ""}, {abi.OK, "\x01"}, {abi.OK, "\x02\x00\x00\x00\x00"}, {abi.OK, "\x01\x01\x00\x00\x00a"},
		{abi.OK, "\x01\x00\x00\x00\x00\x00"}, {abi.NotFound, "\x01\x00\x00\x00\x00"},
		{abi.Unavailable, "\x01\x00\x00\x00\x00"}, {200, "\x01\x00\x00\x00\x00"},
	} {
		replies := func(abi.Kind, []byte) (abi.Status, []byte) { return c.status, []byte(c.reply) }
		shown, _, err := effect.ProofVerifier(replies).VerifyProof(ctx, s, nil)
		if shown || err == nil {
			t.Errorf("status %d, %q: %v, %v", c.status, c.reply, shown, err)
		}
	}
}

func TestCarry_ExcessiveProof(t *testing.T) {
	prove := func(change func(q *abi.ProofRequest)) asked {
		q := abi.ProofRequest{Statement: host.ProofStatement{Elements: []host.ProvenElement{{}}, Time: at}}
		change(&q)
		return asked{abi.VerifyProof, abi.Append.VerifyProof(nil, q)}
	}
	size := func(of string, most int, set func(*abi.ProofRequest, int)) limit {
		to := func(n int) asked { return prove(func(q *abi.ProofRequest) { set(q, n) }) }
		return limit{of, to(most), to(most + 1)}
	}
	for _, c := range []limit{
		size("a circuit", 255, func(q *abi.ProofRequest, n int) { q.Statement.Circuit = text(n) }),
		size("a type", 255, func(q *abi.ProofRequest, n int) { q.Statement.DocType = text(n) }),
		size("a key", 4<<10, func(q *abi.ProofRequest, n int) { q.Statement.Issuer = make([]byte, n) }),
		size("a session", 16<<10, func(q *abi.ProofRequest, n int) {
			q.Statement.SessionTranscript = make([]byte, n)
		}),
		size("elements", 4, func(q *abi.ProofRequest, n int) {
			q.Statement.Elements = make([]host.ProvenElement, n)
		}),
		size("an identifier", 255, func(q *abi.ProofRequest, n int) {
			q.Statement.Elements[0].Identifier = text(n)
		}),
		size("a value", 1<<20, func(q *abi.ProofRequest, n int) {
			q.Statement.Elements[0].Value = make([]byte, n)
		}),
		size("a proof", 1<<20, func(q *abi.ProofRequest, n int) { q.Proof = make([]byte, n) }),
		size("the time", 253402300799, func(q *abi.ProofRequest, n int) {
			q.Statement.Time = time.Unix(int64(n), 0)
		}),
	} {
		c.holds(t)
	}
}

func TestCarry_ExcessiveVerify(t *testing.T) {
	verify := func(algorithm, key, message, signature int) asked {
		q := abi.VerifyRequest{Algorithm: text(algorithm), PublicKey: make([]byte, key),
			Message: make([]byte, message), Signature: make([]byte, signature)}
		return asked{abi.Verify, abi.Append.Verify(nil, q)}
	}
	for _, c := range []limit{
		{"an algorithm", verify(64, 1, 1, 1), verify(65, 1, 1, 1)},
		{"a public key", verify(1, 4<<10, 1, 1), verify(1, 4<<10+1, 1, 1)},
		{"a message", verify(1, 1, 4<<20, 1), verify(1, 1, 4<<20+1, 1)},
		{"a signature", verify(1, 1, 1, 1<<10), verify(1, 1, 1, 1<<10+1)},
	} {
		c.holds(t)
	}
}

// A malformed reply to a verification is an error, never a valid signature.
func TestVerifier_MalformedReply(t *testing.T) {
	for _, c := range []struct {
		status abi.Status
		reply  string
		says   string
	}{
		{abi.OK, "", "malformed"},
		{abi.OK, "\x02", "malformed"},
		{abi.OK, "\x01\x01", "malformed"},
		{abi.Unavailable, "\x01", "\x01"},
		{abi.Unavailable, "no WebCrypto", "no WebCrypto"},
		{abi.NotFound, "\x01", "status 1"},
		{abi.Unknown, "\x01", "status 4"},
		{200, "\x01", "status 200"},
	} {
		replies := func(abi.Kind, []byte) (abi.Status, []byte) { return c.status, []byte(c.reply) }
		ok, err := effect.Verifier(replies).Verify(ctx, "ES256", nil, nil, nil)
		if ok || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("status %d, %q: %v, %v, want %q", c.status, c.reply, ok, err, c.says)
		}
	}
}

// holds requests both effects.
func (c limit) holds(t *testing.T) {
	t.Helper()
	p := &port{}
	carry := p.ports()
	status, _, err := carry.Carry(ctx, c.good.kind, c.good.body)
	if err != nil || status != abi.OK || p.asked == nil {
		t.Errorf("%s: at the limit: status %d, %v", c.of, status, err)
	}
	p.asked = nil
	_, _, err = carry.Carry(ctx, c.bad.kind, c.bad.body)
	if !errors.Is(err, effect.ErrExcessive) || p.asked != nil {
		t.Errorf("%s: above the limit: %v, asked %v", c.of, err, p.asked)
	}
	if status, _ := carry.Do(ctx, c.bad.kind, c.bad.body); status != abi.Unavailable {
		t.Errorf("%s: above the limit: status %d", c.of, status)
	}
}

// The self-test asks for a signature with a key that does not exist. No host may use a key of that name, and
// a host without keys returns the same status.
func TestSign_SelfTestKey(t *testing.T) {
	p := &port{}
	without := p.ports()
	without.Sign, without.Decrypt = nil, nil
	for name, c := range map[string]struct {
		carry *effect.Ports
		key   string
	}{
		"the self-test's key":    {p.ports(), abi.TestKey},
		"a host without any key": {without, "client"},
	} {
		signer := effect.Signer(func(k abi.Kind, body []byte) (abi.Status, []byte) {
			return c.carry.Do(ctx, k, body)
		})
		if _, err := signer.Sign(ctx, c.key, "ES256", nil); !errors.Is(err, host.ErrNoSuchKey) ||
			p.asked != nil {
			t.Errorf("%s: %v, asked %v", name, err, p.asked)
		}
		if _, err := signer.Decrypt(ctx, c.key, "ECDH-ES", nil); !errors.Is(err, host.ErrNoSuchKey) ||
			p.asked != nil {
			t.Errorf("%s, to decrypt: %v, asked %v", name, err, p.asked)
		}
	}
}

// A malformed reply to a signature is an error, never a signature.
func TestSigner_MalformedReply(t *testing.T) {
	for _, c := range []struct {
		status abi.Status
		reply  string
		says   string
	}{
		{abi.OK, "", "status 0 and 0 bytes"},
		{abi.Unavailable, "the key is for ES256", "the key is for ES256"},
		{abi.Unknown, "x", "status 4 and 1 bytes"},
		{abi.NoResponse, "", "status 5 and 0 bytes"},
		{200, "", "status 200 and 0 bytes"},
	} {
		signer := effect.Signer(func(abi.Kind, []byte) (abi.Status, []byte) {
			return c.status,
				[]byte(c.reply)
		})
		got, err := signer.Sign(ctx, "client", "RS256", nil)
		if got != nil || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("status %d, %q: %x, %v, want %q", c.status, c.reply, got, err, c.says)
		}
	}
}
