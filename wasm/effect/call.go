// Package effect transports the calls of the core's ports over the wire format of package abi, on both
// sides. A guest uses [Store], [Fetcher], [Signer], [Verifier] and [ProofVerifier], which turn each call of
// the core into an effect and the reply into the call's result. A host uses [Ports], which execute effects.
// The two sides are inverse to each other.
package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
)

// Func makes the host carry out an effect and returns the reply.
type Func func(kind abi.Kind, body []byte) (abi.Status, []byte)

// room returns a buffer that is large enough for nearly every call, because growing a buffer is expensive
// in a guest.
func room() []byte { return make([]byte, 0, 256) }

// Store is a KV and a Meter. Each of its calls is an effect. If a reply is malformed, the outcome is
// unknown, which denies.
type Store Func

var (
	_ kv.KV    = Store(nil)
	_ kv.Meter = Store(nil)
)

// Get implements kv.KV.
func (s Store) Get(_ context.Context, key kv.Key) (kv.Item, error) {
	status, reply := s(abi.KVGet, abi.Append.Key(room(), key))
	if status == abi.NotFound {
		return kv.Item{}, kv.ErrNotFound
	}
	return read(status, reply, kv.ErrUnavailable, abi.Read.Item)
}

// Commit implements kv.KV.
func (s Store) Commit(_ context.Context, tx kv.Tx) error {
	status, reply := s(abi.KVCommit, abi.Append.Tx(room(), tx))
	switch status {
	case abi.OK:
		return nil
	case abi.Conflicted:
		conflict, err := abi.Read.Conflict(reply)
		if err != nil {
			return fmt.Errorf("%w: %w", kv.ErrUnknown, err)
		}
		return conflict
	}
	return failure(status, reply, kv.ErrUnknown)
}

// Claim implements kv.KV.
func (s Store) Claim(
	_ context.Context, p kv.Partition, now time.Time, lease time.Duration, n int,
) ([]kv.Task, time.Time, error) {
	status, reply := s(abi.KVClaim,
		abi.Append.Claim(room(), abi.Claim{Partition: p, Now: now, Lease: lease, N: n}))
	if status != abi.OK {
		return nil, time.Time{}, failure(status, reply, kv.ErrUnavailable)
	}
	tasks, next, err := abi.Read.Tasks(reply)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	return tasks, next, nil
}

// List implements kv.KV.
func (s Store) List(_ context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	status, reply := s(abi.KVList, abi.Append.List(room(), abi.List{Prefix: prefix, After: after, N: n}))
	return read(status, reply, kv.ErrUnavailable, abi.Read.Items)
}

// Spend implements kv.Meter.
func (s Store) Spend(
	_ context.Context, p kv.Partition, now time.Time, charges []kv.Charge,
) ([]time.Time, error) {
	status, reply := s(abi.KVSpend, abi.Append.Spend(room(),
		abi.Spend{Partition: p, Now: now, Charges: charges}))
	times, err := read(status, reply, kv.ErrUnavailable, abi.Read.Times)
	if err == nil && len(times) != len(charges) {
		err = fmt.Errorf("%w: %d charges have %d times in the response", kv.ErrUnavailable, len(charges),
			len(times))
	}
	return times, err
}

// read decodes a reply with the status OK.
func read[T any](
	status abi.Status, reply []byte, otherwise error, decode func([]byte) (T, error),
) (T, error) {
	var none T
	if status != abi.OK {
		return none, failure(status, reply, otherwise)
	}
	v, err := decode(reply)
	if err != nil {
		return none, fmt.Errorf("%w: %w", otherwise, err)
	}
	return v, nil
}

// failure returns the error of a reply with a status other than OK. otherwise is the error for an
// unexpected status.
func failure(status abi.Status, reply []byte, otherwise error) error {
	switch {
	case status == abi.Unavailable:
		return abi.Outcome{Status: status, Text: string(reply)}.Err()
	case status == abi.Unknown && otherwise == kv.ErrUnknown:
		return abi.Outcome{Status: status, Text: string(reply)}.Err()
	}
	return fmt.Errorf("%w: the host returns status %d", otherwise, status)
}

// Fetcher is a host.Fetcher. Each of its calls is an effect.
type Fetcher Func

var _ host.Fetcher = Fetcher(nil)

// Fetch implements host.Fetcher.
func (f Fetcher) Fetch(_ context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	status, reply := f(abi.Fetch, abi.Append.Fetch(room(), req))
	if status == abi.OK {
		resp, err := abi.Read.Fetched(reply)
		if err != nil {
			return host.FetchResponse{}, &host.FetchError{Reason: host.FetchNetwork, Err: err}
		}
		return resp, nil
	}
	if status == abi.NoResponse {
		if reason, text, err := abi.Read.FetchError(reply); err == nil {
			return host.FetchResponse{}, &host.FetchError{Reason: reason, Err: errors.New(text)}
		}
	}
	return host.FetchResponse{}, &host.FetchError{
		Reason: host.FetchNetwork,
		Err:    fmt.Errorf("the host returns status %d", status),
	}
}

// Signer signs and decrypts as host.Host's Sign and Decrypt do. Each of its calls is an effect.
type Signer Func

// Sign is host.Host's Sign.
func (s Signer) Sign(_ context.Context, key, algorithm string, message []byte) ([]byte, error) {
	signature, err := s.use(abi.Sign, key, algorithm, message)
	if err == nil && len(signature) == 0 {
		return nil, errors.New("the host returns a signature with status 0 and 0 bytes")
	}
	return signature, err
}

// Decrypt is host.Host's Decrypt.
func (s Signer) Decrypt(_ context.Context, key, algorithm string, message []byte) ([]byte, error) {
	return s.use(abi.Decrypt, key, algorithm, message)
}

// use has the host use a private key.
func (s Signer) use(kind abi.Kind, key, algorithm string, message []byte) ([]byte, error) {
	q := abi.SignRequest{Key: key, Algorithm: algorithm, Message: message}
	status, reply := s(kind, abi.Append.Sign(make([]byte, 0, 64+len(message)), q))
	switch status {
	case abi.OK:
		return reply, nil
	case abi.NotFound:
		return nil, host.ErrNoSuchKey
	case abi.Unavailable:
		return nil, abi.Outcome{Status: status, Text: string(reply)}.Err()
	}
	return nil, fmt.Errorf("the host returns for a private key status %d and %d bytes", status,
		len(reply))
}

// Verifier verifies signatures as host.Host's Verify does. Each of its calls is an effect. A malformed
// reply is an error, never a valid signature.
type Verifier Func

// Verify is host.Host's Verify.
func (v Verifier) Verify(
	_ context.Context, algorithm string, publicKey, message, signature []byte,
) (bool, error) {
	q := abi.VerifyRequest{Algorithm: algorithm, PublicKey: publicKey, Message: message, Signature: signature}
	size := 64 + len(publicKey) + len(message) + len(signature)
	status, reply := v(abi.Verify, abi.Append.Verify(make([]byte, 0, size), q))
	switch status {
	case abi.OK:
		return abi.Read.Verified(reply)
	case abi.Unavailable:
		return false, abi.Outcome{Status: status, Text: string(reply)}.Err()
	}
	return false, fmt.Errorf("the host returns for a verification status %d", status)
}

// ProofVerifier verifies zero-knowledge proofs as host.Host's VerifyProof does. Each of its calls is an
// effect. A malformed reply is an error, never an accepted proof.
type ProofVerifier Func

// VerifyProof is host.Host's VerifyProof.
func (v ProofVerifier) VerifyProof(_ context.Context, s host.ProofStatement, proof []byte) (
	shown bool, rejected string, err error,
) {
	body := abi.Append.VerifyProof(
		make([]byte, 0, 1024+len(proof)),
		abi.ProofRequest{Statement: s, Proof: proof},
	)
	status, reply := v(abi.VerifyProof, body)
	switch status {
	case abi.OK:
		return abi.Read.Proven(reply)
	case abi.Unavailable:
		return false, "", abi.Outcome{Status: status, Text: string(reply)}.Err()
	}
	return false, "", fmt.Errorf("the host returns for a proof status %d", status)
}
