package transcript

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/wasm/abi"
)

// reading decodes a message, to check its form and to display it.
type reading func([]byte) (any, error)

func of[T any](read func([]byte) (T, error)) reading {
	return func(b []byte) (any, error) { return read(b) }
}

func nothing(b []byte) (any, error) {
	if len(b) > 0 {
		return nil, errors.New("there should be nothing")
	}
	return nil, nil
}

func text(b []byte) (any, error) { return string(b), nil }

// Messages of more than one value.
type (
	jobUntil struct {
		Job   host.Job
		Until time.Time
	}
	tasksNext struct {
		Tasks []kv.Task
		Next  time.Time
	}
	wake struct {
		Partition kv.Partition
		Due       time.Time
	}
	fetchError struct{ Reason, Text string }
)

func readJob(b []byte) (j jobUntil, err error) {
	j.Job, j.Until, err = abi.Read.Job(b)
	return j, err
}

func readTasks(b []byte) (t tasksNext, err error) {
	t.Tasks, t.Next, err = abi.Read.Tasks(b)
	return t, err
}

func readWake(b []byte) (w wake, err error) {
	w.Partition, w.Due, err = abi.Read.Wake(b)
	return w, err
}

func readFetchError(b []byte) (f fetchError, err error) {
	f.Reason, f.Text, err = abi.Read.FetchError(b)
	return f, err
}

// entry is a form of request. The self-test is not one: it has its own clock and randomness.
type entry struct {
	name         string
	body, result reading
}

var entries = map[abi.Entry]entry{
	abi.Handle:   {"handle", of(abi.Read.Request), of(abi.Read.Response)},
	abi.Admin:    {"admin", of(abi.Read.Request), of(abi.Read.Response)},
	abi.Ready:    {"ready", nothing, of(abi.Read.Outcome)},
	abi.ClaimDue: {"claim", of(abi.Read.ClaimJobs), of(abi.Read.Jobs)},
	abi.Run:      {"run", of(readJob), of(abi.Read.Outcome)},
	abi.Defer:    {"defer", of(readJob), of(abi.Read.Outcome)},
	abi.RunDue:   {"run due", nothing, of(abi.Read.Jobs)},
	abi.Apply:    {"apply", text, of(abi.Read.Outcome)},

	abi.RecordUsage: {"record usage", of(abi.Read.Totals), of(abi.Read.Outcome)},
	abi.HandleAgain: {"handle again", of(abi.Read.Request), of(abi.Read.Response)},
}

// kind is a form of event. replies has the forms of the replies to an effect, by status.
type kind struct {
	name    string
	body    reading
	replies map[abi.Status]reading
}

func asked(name string, body, reply reading, others map[abi.Status]reading) kind {
	k := kind{name, body, map[abi.Status]reading{abi.OK: reply, abi.Unavailable: text}}
	maps.Copy(k.replies, others)
	return k
}

var kinds = map[abi.Kind]kind{
	abi.KVGet: asked("get", of(abi.Read.Key), of(abi.Read.Item),
		map[abi.Status]reading{abi.NotFound: nothing}),
	abi.KVCommit: asked("commit", of(abi.Read.Tx), nothing,
		map[abi.Status]reading{abi.Conflicted: of(abi.Read.Conflict), abi.Unknown: text}),
	abi.KVClaim: asked("claim", of(abi.Read.Claim), of(readTasks), nil),
	abi.KVList:  asked("list", of(abi.Read.List), of(abi.Read.Items), nil),
	abi.KVSpend: asked("spend", of(abi.Read.Spend), of(abi.Read.Times), nil),
	abi.Fetch: {"fetch", of(abi.Read.Fetch), map[abi.Status]reading{
		abi.OK: of(abi.Read.Fetched), abi.NoResponse: of(readFetchError)}},
	abi.Sign:        asked("sign", of(abi.Read.Sign), text, map[abi.Status]reading{abi.NotFound: nothing}),
	abi.Decrypt:     asked("decrypt", of(abi.Read.Sign), text, map[abi.Status]reading{abi.NotFound: nothing}),
	abi.Verify:      asked("verify", of(abi.Read.Verify), of(abi.Read.Verified), nil),
	abi.VerifyProof: asked("verify proof", of(abi.Read.VerifyProof), of(readProven), nil),
	abi.Log:         {"log", text, nil},
	abi.Count:       {"count", text, nil},
	abi.Wake:        {"wake", of(readWake), nil},
	abi.Measure:     {"measure", of(abi.Read.MethodEvent), nil},
	abi.UsageEvent:  {"usage event", of(abi.Read.UsageEvent), nil},
	abi.About:       {"about", of(abi.Read.About), nil},
}

// proven is the reply about a proof.
type proven struct {
	Shown  bool
	Reason string `json:",omitempty"`
}

func readProven(b []byte) (p proven, err error) {
	p.Shown, p.Reason, err = abi.Read.Proven(b)
	return p, err
}

var statuses = map[abi.Status]string{
	abi.OK: "done", abi.NotFound: "not found", abi.Conflicted: "conflict", abi.Unavailable: "unavailable",
	abi.Unknown: "unknown", abi.NoResponse: "no answer", abi.Failed: "failed",
}

// EntryName, KindName and StatusName return the names in ABI.md.
func (s Step) EntryName() string   { return entries[s.Entry].name }
func (e Event) KindName() string   { return kinds[e.Kind].name }
func (e Event) StatusName() string { return statuses[e.Status] }

// named returns the number with that name.
func named[K ~uint8, V interface{ called() string }](all map[K]V, name string) (K, error) {
	var names []string
	for k, v := range all {
		if v.called() == name {
			return k, nil
		}
		names = append(names, v.called())
	}
	slices.Sort(names)
	return 0, fmt.Errorf("%q is none of %q", name, names)
}

func (e entry) called() string { return e.name }
func (k kind) called() string  { return k.name }
