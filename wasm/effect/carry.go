package effect

import (
	"context"
	"errors"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
)

// Ports carry out effects. All fields except Sign, Decrypt and VerifyProof are required.
type Ports struct {
	KV    kv.KV
	Meter kv.Meter
	Fetch host.Fetcher

	// Sign is host.Host's. Nil: no keys.
	Sign func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	// Decrypt is host.Host's. Nil: no keys.
	Decrypt func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

	Verify host.VerifyFunc

	// VerifyProof is host.Host's. Nil: no proofs are verified.
	VerifyProof host.VerifyProofFunc
}

// Do carries out one effect and returns the reply. If the effect is malformed, it has no effect.
func (p *Ports) Do(ctx context.Context, kind abi.Kind, body []byte) (abi.Status, []byte) {
	status, reply, err := p.Carry(ctx, kind, body)
	if err != nil {
		return abi.Unavailable, []byte(err.Error())
	}
	return status, reply
}

// Carry is Do for a host that abandons a guest whose effects exceed the core's. The error is the excess;
// the effect was then not carried out.
func (p *Ports) Carry(ctx context.Context, kind abi.Kind, body []byte) (abi.Status, []byte, error) {
	switch kind {
	case abi.KVGet:
		return carry(body, abi.Read.Key, checkKey, func(k kv.Key) (abi.Status, []byte) {
			it, err := p.KV.Get(ctx, k)
			if errors.Is(err, kv.ErrNotFound) {
				return abi.NotFound, nil
			}
			return reply(err, func() []byte { return abi.Append.Item(nil, it) })
		})
	case abi.KVCommit:
		return carry(body, abi.Read.Tx, checkTx, func(tx kv.Tx) (abi.Status, []byte) {
			err := p.KV.Commit(ctx, tx)
			if conflict, ok := errors.AsType[*kv.Conflict](err); ok {
				return abi.Conflicted, abi.Append.Conflict(nil, conflict)
			}
			return reply(err, func() []byte { return nil })
		})
	case abi.KVClaim:
		return carry(body, abi.Read.Claim, checkClaim, func(c abi.Claim) (abi.Status, []byte) {
			tasks, next, err := p.KV.Claim(ctx, c.Partition, c.Now, c.Lease, c.N)
			return reply(err, func() []byte { return abi.Append.Tasks(nil, tasks, next) })
		})
	case abi.KVList:
		return carry(body, abi.Read.List, checkList, func(l abi.List) (abi.Status, []byte) {
			items, err := p.KV.List(ctx, l.Prefix, l.After, l.N)
			return reply(err, func() []byte { return abi.Append.Items(nil, items) })
		})
	case abi.KVSpend:
		return carry(body, abi.Read.Spend, checkSpend, func(s abi.Spend) (abi.Status, []byte) {
			times, err := p.Meter.Spend(ctx, s.Partition, s.Now, s.Charges)
			return reply(err, func() []byte { return abi.Append.Times(nil, times) })
		})
	case abi.Fetch:
		return carry(body, abi.Read.Fetch, checkFetch, func(q host.FetchRequest) (abi.Status, []byte) {
			response, err := p.Fetch.Fetch(ctx, q)
			var failed *host.FetchError
			switch {
			case errors.As(err, &failed):
				return abi.NoResponse, abi.Append.FetchError(nil, failed.Reason, failed.Err.Error())
			case err != nil:
				return abi.NoResponse, abi.Append.FetchError(nil, host.FetchNetwork, err.Error())
			}
			return abi.OK, abi.Append.Fetched(nil, response)
		})
	case abi.Sign, abi.Decrypt:
		use := p.Sign
		if kind == abi.Decrypt {
			use = p.Decrypt
		}
		return carry(body, abi.Read.Sign, checkSign, func(q abi.SignRequest) (abi.Status, []byte) {
			if use == nil || q.Key == abi.TestKey {
				return abi.NotFound, nil
			}
			result, err := use(ctx, q.Key, q.Algorithm, q.Message)
			if errors.Is(err, host.ErrNoSuchKey) {
				return abi.NotFound, nil
			}
			return reply(err, func() []byte { return result })
		})
	case abi.Verify:
		return carry(body, abi.Read.Verify, checkVerify, func(q abi.VerifyRequest) (abi.Status, []byte) {
			ok, err := p.Verify(ctx, q.Algorithm, q.PublicKey, q.Message, q.Signature)
			return reply(err, func() []byte { return abi.Append.Verified(nil, ok) })
		})
	case abi.VerifyProof:
		if p.VerifyProof == nil {
			break
		}
		return carry(body, abi.Read.VerifyProof, checkProof, func(q abi.ProofRequest) (abi.Status, []byte) {
			shown, rejected, err := p.VerifyProof(ctx, q.Statement, q.Proof)
			return reply(err, func() []byte { return abi.Append.Proven(nil, shown, rejected) })
		})
	}
	return abi.Unavailable, []byte("the host has no such effect"), nil
}

func carry[T any](
	body []byte, read func([]byte) (T, error), check func(T) error, do func(T) (abi.Status, []byte),
) (abi.Status, []byte, error) {
	v, err := read(body)
	if err == nil {
		err = check(v)
	}
	if err != nil {
		return 0, nil, err
	}
	status, reply := do(v)
	return status, reply, nil
}

func reply(err error, body func() []byte) (abi.Status, []byte) {
	if err == nil {
		return abi.OK, body()
	}
	o := abi.OutcomeOf(err)
	if o.Status == abi.Failed { // a store's errors are Unavailable or Unknown
		o.Status = abi.Unavailable
	}
	return o.Status, []byte(o.Text)
}
