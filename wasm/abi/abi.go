// Package abi is the wire format between the core as a WASM guest and its host. Both use it. ../ABI.md
// describes the same format for authors of hosts in other languages. Tests check that the two agree.
//
// A guest never blocks and never calls its host for I/O. The host submits a request. The guest runs it as
// far as it can, writes its effects to an outbox, and returns. When an effect is done, the host completes
// it, and the guest continues that request. Any number of requests can be in progress in one instance, but
// only one export runs at a time.
package abi

import (
	"errors"

	"github.com/verge-id/verge/core/kv"
)

// Version is the result of verge_abi. A host rejects a module with another version.
const Version = 4

// MaxOutbox is the maximum number of bytes in the outbox of one export.
const MaxOutbox = 32 << 20

// MaxInbox is the maximum number of bytes that verge_reserve grants. A page of the largest items of a List
// fits into it.
const MaxInbox = 16 << 20

// CanaryPath is a path of the public API to which every module responds with 200 and a body, without an
// effect. A host requests it to check that a module runs.
const CanaryPath = "/api/v1/openapi.yaml"

// TestKey is the name of the key that the self-test asks for a signature. No key may have it, so the host
// replies NotFound, and the guest reports in Self the status that it has received.
const TestKey = "self-test"

// Entry is the kind of a submitted message, the first byte of the inbox.
type Entry uint8

const (
	Handle   Entry = 1 // a request of the public API or a hosted page: Request → Response
	Admin    Entry = 2 // a request of the operators' API: Request → Response
	Ready    Entry = 3 // whether the KV responds: nothing → Outcome
	ClaimDue Entry = 4 // lease due tasks: ClaimJobs → Jobs
	Run      Entry = 5 // run a leased task: Job → Outcome
	Defer    Entry = 6 // return a leased task until a time: Job → Outcome
	RunDue   Entry = 7 // run all due tasks, one at a time: nothing → Jobs
	SelfTest Entry = 8 // the guest's randomness, time and rejected signature: nothing → Self
	Apply    Entry = 9 // write publishers and integrations to the KV, unless they exist: JSON → Outcome

	// RecordUsage writes sums of the usage events that guests have reported: Totals → Outcome. A guest that
	// reports usage events has this entry, and a host that receives none does not need it. So both were added
	// without a new version.
	RecordUsage Entry = 10

	// HandleAgain is Handle for a request that the host has delayed, with Request.Again (core/web). Only a
	// guest that reports which requests may be delayed has such requests, and it has this entry. So it was
	// added without a new version, too.
	HandleAgain Entry = 11
)

// Kind is the kind of a record in the outbox.
type Kind uint8

// Effects. The host replies to each with verge_complete.
const (
	KVGet    Kind = 1 // Key → Item
	KVCommit Kind = 2 // Tx → nothing, or Conflict
	KVClaim  Kind = 3 // Claim → Tasks
	KVList   Kind = 4 // List → Items
	KVSpend  Kind = 5 // Spend → Times
	Fetch    Kind = 6 // Fetch → Fetched, or FetchError
	Sign     Kind = 7 // SignRequest → the signature, the whole body
	Verify   Kind = 8 // VerifyRequest → Verified

	// VerifyProof has ProofRequest → Proven. A guest uses it only if its configuration has verifies_proofs,
	// so it was added without a new version.
	VerifyProof Kind = 9

	// Decrypt has SignRequest → the secret, the whole body. A guest uses it only for methods with encrypted
	// tokens, so it was added without a new version.
	Decrypt Kind = 10
)

// Notices. They have no reply.
const (
	Respond    Kind = 16 // the request has ended: the result of its entry
	Log        Kind = 17 // a line for the log: LogRecord
	Count      Kind = 18 // an event worth a metric: its name, the whole body
	Wake       Kind = 19 // a task now falls due: Wake
	Measure    Kind = 20 // an event of a verification method: MethodEvent
	UsageEvent Kind = 21 // counts as usage: UsageEvent
	About      Kind = 22 // request info for the host's log: About
)

// Status is the outcome of an effect: an argument of verge_complete. It is also the outcome of a request
// without a Response.
type Status uint8

const (
	OK          Status = 0
	NotFound    Status = 1 // KVGet: no such item; Sign, Decrypt: no such key
	Conflicted  Status = 2 // KVCommit: Conflict follows
	Unavailable Status = 3 // nothing changed; the text of the error follows
	Unknown     Status = 4 // KVCommit: may or may not have happened; the text follows
	NoResponse  Status = 5 // Fetch: FetchError follows
	Failed      Status = 6 // only for a request: none of the above; the text follows
)

// Reason is why the host cancels a request.
type Reason uint8

const (
	DeadlineExceeded Reason = 1
	Canceled         Reason = 2
)

// Outcome is an error as a message, or none.
type Outcome struct {
	Status Status // OK, Unavailable, Unknown or Failed
	Text   string
}

// OutcomeOf turns an error into an Outcome.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Outcome{}
	case errors.Is(err, kv.ErrUnknown):
		return Outcome{Unknown, err.Error()}
	case errors.Is(err, kv.ErrUnavailable):
		return Outcome{Unavailable, err.Error()}
	}
	return Outcome{Failed, err.Error()}
}

// Err turns the Outcome back into an error, as far as errors.Is can distinguish.
func (o Outcome) Err() error {
	switch o.Status {
	case OK:
		return nil
	case Unknown:
		return remote{o.Text, kv.ErrUnknown}
	case Unavailable:
		return remote{o.Text, kv.ErrUnavailable}
	}
	return errors.New(o.Text)
}

// remote is an error of the peer: its whole text, and the error that it is.
type remote struct {
	text string
	is   error
}

func (e remote) Error() string { return e.text }
func (e remote) Unwrap() error { return e.is }

// Negative results of the sealing imports.
const (
	SealNotOffered   = -1 // the guest must use the keys of its configuration
	SealNotAuthentic = -2
	SealFailed       = -3
	SealTooSmall     = -4 // the result does not fit
	SealKeyAwaited   = -5 // other instances use the key, and this one does not have it yet
)
