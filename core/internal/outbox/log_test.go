package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/internal/timeline"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// log returns the whole log of the test's integration.
func (w *fixture) log(t testing.TB, states ...string) []Delivery {
	t.Helper()
	q := Query{Integrations: []string{testUUID}, Limit: 7}
	if len(states) > 0 {
		q.State = states[0]
	}
	var all []Delivery
	for {
		page, err := w.Deliveries(ctx, q)
		coretest.Must(t, err)
		all = append(all, page.Deliveries...)
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

// names returns the names in the store that begin with the prefix, without it.
func (w *fixture) names(t testing.TB, prefix string) []string {
	t.Helper()
	var all []string
	for _, p := range w.Partitions {
		items, err := w.Memory.List(ctx, kv.Key{Partition: p, Name: prefix}, "", 10_000)
		coretest.Must(t, err)
		for _, it := range items {
			all = append(all, strings.TrimPrefix(it.Key.Name, prefix))
		}
	}
	slices.Sort(all)
	return all
}

// agree checks that the log, its two indexes, and the lists of waiting and dead events agree.
func (w *fixture) agree(t testing.TB) {
	t.Helper()
	var waits, died []string
	for _, d := range w.log(t) {
		name := d.Integration + "/" + d.Place
		switch {
		case d.Test:
		case d.State == StateWaiting:
			waits = append(waits, name)
		case d.State == StateDead:
			died = append(died, name)
		}
	}
	slices.Sort(waits)
	slices.Sort(died)
	if got := w.names(t, waitingInLog); !slices.Equal(got, waits) {
		t.Errorf("index of waiting events %q, log %q", got, waits)
	}
	if got := w.names(t, deadInLog); !slices.Equal(got, died) {
		t.Errorf("index of dead events %q, log %q", got, died)
	}
	if got := w.names(t, deadPrefix); len(got) != len(died) {
		t.Errorf("dead events %q, in the log %q", got, died)
	}
}

func ms(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

// retry moves the clock to the next attempt and makes it.
func (w *fixture) retry(t testing.TB) {
	t.Helper()
	_, next := w.claim(t)
	w.Clock.Advance(next.Sub(w.Clock.Now()))
	coretest.Must(t, w.run(t, w.claimOne(t)))
}

// Contract 27: every attempt is recorded with its time, its result and its duration. Each attempt costs one
// commit, as without the log, and no read.
func TestLog_EveryAttempt(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	created := w.Clock.Now().UTC()
	calls := map[string]int{}
	w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		if c.Key.Partition != integration.Partition { // the look-up of the receiver is tested elsewhere
			calls[c.Method]++
		}
		return kvtest.Pass
	}
	var want []Attempt
	for n, result := range []struct {
		status int
		cause  string
		took   time.Duration
	}{{503, "", 1500 * time.Millisecond}, {0, host.FetchTimeout, 10 * time.Second}, {302, "", 0},
		{0, host.FetchTLS, time.Millisecond}, {204, "", 30 * time.Millisecond}} {
		w.answer = func(host.FetchRequest) (int, error) {
			w.Clock.Advance(result.took)
			if result.cause != "" {
				return fails(result.cause)(host.FetchRequest{})
			}
			return result.status, nil
		}
		clear(calls)
		job := w.claimOne(t)
		began := ms(w.Clock.Now())
		coretest.Must(t, w.run(t, job))
		if calls["Commit"] != 1 || len(calls) != 1 {
			t.Errorf("attempt %d: store calls %v; want one commit only", n+1, calls)
		}
		want = append(want, Attempt{At: began, Status: result.status, Cause: result.cause, Took: result.took})
		all := w.log(t)
		if len(all) != 1 {
			t.Fatalf("attempt %d: the log has %d entries", n+1, len(all))
		}
		got := all[0]
		if !slices.Equal(got.Attempts, want) || got.Unrecorded != 0 {
			t.Errorf("attempt %d: recorded %v and %d more, want %v", n+1, got.Attempts, got.Unrecorded, want)
		}
		if got.Event != e.ID || got.Type != e.Type || got.Session != e.SessionID ||
			got.Integration != testUUID ||
			!got.Created.Equal(created) || !got.At.Equal(ms(w.Clock.Now())) || got.Test ||
			got.Partition != part {
			t.Errorf("attempt %d: %+v", n+1, got)
		}
		state, due := StateDelivered, time.Time{}
		if result.status != 204 {
			_, due = w.claim(t)
			state = StateWaiting
		}
		if got.State != state || !got.Due.Equal(ms(due)) || got.Reason != "" {
			t.Errorf("attempt %d: %s %q, due %s; want %s, due %s", n+1, got.State, got.Reason, got.Due, state,
				due)
		}
		found, err := w.Find(ctx, testUUID, got.Place)
		if err != nil || found.Event != e.ID {
			t.Errorf("attempt %d: found %+v, %v", n+1, found, err)
		}
		w.agree(t)
		w.Clock.Advance(max(0, due.Sub(w.Clock.Now())))
	}
	w.idle(t)
}

// Contract 27: a delivered event is stored without state and user id. Contract 19: the store has neither of
// them, even sealed.
func TestLog_DeliveredWithoutStateAndUser(t *testing.T) {
	w := newFixture(t)
	state, user := "canary-state", "canary-user"
	e := webhook.Failed(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(),
		PublisherID:   "pub_a",
		IntegrationID: testUUID, SessionID: "svc_sess_<b>&amp;'\""}, webhook.FailureUnknown,
		"<script>alert(1)</script> & \u2028 \\u0041", &user, &state)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: part, Schedule: []kv.Task{w.task(t, e)}}))
	w.answer = status(500)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	w.answer = status(200)
	w.retry(t)
	entry := w.log(t)[0]
	want := e
	want.Data.ExternalUserID, want.Data.PublisherState = nil, nil
	if !bytes.Equal(entry.Body, want.Body()) {
		t.Errorf("kept is\n%s, want\n%s", entry.Body, want.Body())
	}
	items, err := w.Memory.List(ctx, kv.Key{Partition: part}, "", 100)
	coretest.Must(t, err)
	if len(items) != 1 || bytes.Contains(items[0].Value, []byte("canary")) {
		t.Errorf("contract 19: of a delivered event the store has %d items: %q", len(items), items)
	}
	if strings.Contains(w.Logged.String(), "canary") {
		t.Errorf("contract 13: %s", &w.Logged)
	}
}

// An entry restores the stored part of an event byte for byte, for every type, and is shorter.
func TestKept_RestoresEvent(t *testing.T) {
	w := newFixture(t)
	h := webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(), PublisherID: "pub_a",
		IntegrationID: testUUID, SessionID: "svc_sess_" + strings.Repeat("x", 79)}
	failed := webhook.Failed(h, webhook.FailureUnknown, "a \"0\", null and [0,null]", nil, nil)
	odd := webhook.Completed(h, "L2", 18, nil, nil)
	odd.IdempotencyKey = "another"
	test, ok := webhook.TestEvent(h, webhook.TypeStarted, "L1", 25)
	if !ok {
		t.Fatal("a type that is sent has no test event")
	}
	for _, e := range []webhook.Event{webhook.Started(h, h.CreatedAt),
		webhook.Completed(h, "L1", 25, nil, nil), webhook.Expired(h, h.CreatedAt), failed, odd, test} {
		body := e.Body()
		read, err := strictjson.Read(body)
		coretest.Must(t, err)
		s := subjectOf(testUUID, read)
		if s == nil {
			t.Fatalf("%s: there is no entry for %s", e.Type, body)
		}
		var values []json.RawMessage
		coretest.Must(t, json.Unmarshal(s.body, &values))
		if got := keptBody(e.ID, testUUID, values); !bytes.Equal(got, body) {
			t.Errorf("%s: kept is\n%s, want\n%s", e.Type, got, body)
		}
		if len(s.body) > len(body)-200 {
			t.Errorf("%s: of %d bytes %d are kept: %s", e.Type, len(body), len(s.body), s.body)
		}
	}
}

// A value of another release that equals a placeholder would be misread, so the event has no entry.
func TestKept_ValueLikePlaceholder(t *testing.T) {
	w := newFixture(t)
	e := webhook.Started(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(),
		IntegrationID: testUUID}, w.Clock.Now())
	for from, to := range map[string]string{`"test":false`: `"test":0`, `"status":"started"`: `"status":0`} {
		body := bytes.Replace(e.Body(), []byte(from), []byte(to), 1)
		read, err := strictjson.Read(body)
		coretest.Must(t, err)
		if s := subjectOf(testUUID, read); s != nil {
			t.Errorf("%s is kept as %s", body, s.body)
		}
	}
}

func TestLog_Expiry(t *testing.T) {
	for _, c := range []struct {
		state  string
		answer int
		life   time.Duration
	}{{StateDelivered, 200, logLife}, {StateDead, 400, DeadLife}} {
		w := newFixture(t)
		w.schedule(t)
		w.answer = status(c.answer)
		coretest.Must(t, w.run(t, w.claimOne(t)))
		w.Clock.Advance(c.life - time.Millisecond)
		if all := w.log(t, c.state); len(all) != 1 || all[0].State != c.state {
			t.Errorf("contract 27: %s: before its end: %+v", c.state, all)
		}
		w.Clock.Advance(time.Millisecond)
		for _, prefix := range []string{logPrefix, waitingInLog, deadInLog} {
			if left := w.names(t, prefix); len(left) != 0 {
				t.Errorf("contract 19: %s: kept permanently: %s%q", c.state, prefix, left)
			}
		}
	}
}

// An event that waited for long is kept after its delivery for as long as any other.
func TestLog_ExpiryFollowsLastState(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	w.answer = status(500)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	w.answer = status(200)
	w.retry(t)
	w.Clock.Advance(logLife)
	if left := w.names(t, "l"); len(left) != 0 {
		t.Errorf("%q", left)
	}
}

// The log matches the recorded results: a recorded result is in the log; otherwise the log is unchanged.
func TestLog_LostReplies(t *testing.T) {
	all := []kvtest.Fault{kvtest.Pass, kvtest.Reject, kvtest.LoseRequest, kvtest.LoseReply, kvtest.Delay}
	states := map[int]string{200: StateDelivered, 400: StateDead, 500: StateWaiting}
	for code, want := range states {
		for _, first := range all {
			for _, second := range all {
				t.Run(fmt.Sprintf("%d, %v then %v", code, first, second), func(t *testing.T) {
					w := newFixture(t)
					w.schedule(t)
					w.answer = status(503)
					coretest.Must(t, w.run(t, w.claimOne(t))) // so that an entry exists
					_, next := w.claim(t)
					w.Clock.Advance(next.Sub(w.Clock.Now()))
					job := w.claimOne(t)
					w.answer = status(code)
					commits := 0
					w.Store.Decide = func(c kvtest.Call) kvtest.Fault {
						if c.Method != "Commit" {
							return kvtest.Pass
						}
						commits++
						return append([]kvtest.Fault{first, second}, kvtest.Pass, kvtest.Pass)[commits-1]
					}
					w.run(t, job)
					w.Store.Deliver(ctx)
					w.Store.Decide = nil
					_, next = w.claim(t)
					recorded := !next.Equal(job.Until)
					entries := w.log(t)
					w.agree(t)
					if len(entries) != 1 {
						t.Fatalf("%d entries", len(entries))
					}
					got := entries[0]
					if !recorded && (got.State != StateWaiting || len(got.Attempts) != 1) {
						t.Errorf("no result was recorded, but the log has %+v", got)
					}
					if recorded && (got.State != want || len(got.Attempts) != 2 ||
						got.Attempts[1].Status != code) {
						t.Errorf("the result was recorded, but the log has %+v", got)
					}
				})
			}
		}
	}
}

func TestLog_LostLease(t *testing.T) {
	for _, code := range []int{200, 400, 500} {
		w := newFixture(t)
		w.schedule(t)
		job := w.claimOne(t)
		w.answer = func(host.FetchRequest) (int, error) {
			w.Clock.Advance(lease)
			w.claimOne(t)
			return code, nil
		}
		coretest.Must(t, w.run(t, job))
		if left := w.names(t, "l"); len(left) != 0 {
			t.Errorf("%d: %q", code, left)
		}
	}
}

// counting is a store that counts reads.
type counting struct {
	kv.KV
	lists, items, gets int
}

func (c *counting) List(ctx context.Context, prefix kv.Key, after string, n int) ([]kv.Item, error) {
	items, err := c.KV.List(ctx, prefix, after, n)
	c.lists++
	c.items += len(items)
	return items, err
}

func (c *counting) Get(ctx context.Context, key kv.Key) (kv.Item, error) {
	c.gets++
	return c.KV.Get(ctx, key)
}

// fill adds n delivered events of the integration to the log, a minute apart, in alternating partitions. It
// returns their ids, the latest first. Every hundredth is of another type.
func (w *fixture) fill(t testing.TB, integration string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range n {
		at := w.Clock.Now().Add(-time.Duration(i) * time.Minute)
		h := webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: at, PublisherID: "pub_a",
			IntegrationID: integration, SessionID: "svc_sess_x"}
		e := webhook.Completed(h, "L1", 25, nil, nil)
		if i%100 == 99 {
			e = webhook.Failed(h, webhook.FailureUnknown, "", nil, nil)
		}
		tx := kv.Tx{ID: "fill-" + e.ID, Partition: w.Partitions[i%len(w.Partitions)]}
		body, err := strictjson.Read(e.Body())
		coretest.Must(t, err)
		w.enter(&tx, tx.Partition, subjectOf(integration, body), state{is: StateDelivered, at: w.Clock.Now(),
			tried: withAttempt("", Attempt{At: at, Status: 200}), made: 1})
		coretest.Must(t, w.Memory.Commit(ctx, tx))
		ids[i] = e.ID
	}
	return ids
}

// The cost of a page does not depend on the length of the log.
func TestDeliveries_CostOfPage(t *testing.T) {
	w := newFixture(t)
	const long, size = 10_000, 50
	ids := w.fill(t, testUUID, long)
	w.fill(t, testhost.Other, 300)
	store := &counting{KV: w.Outbox.KV}
	w.Outbox.KV = store
	for _, at := range []int{0, 40, long/2 + 7, long - size} {
		*store = counting{KV: store.KV}
		q := Query{Integrations: []string{testUUID}, Limit: size}
		if at > 0 {
			before, err := w.Deliveries(ctx,
				Query{Integrations: q.Integrations, Limit: 1, After: w.placeAt(ids, at-2)})
			coretest.Must(t, err)
			q.After = before.Next
			*store = counting{KV: store.KV}
		}
		page, err := w.Deliveries(ctx, q)
		coretest.Must(t, err)
		for n, d := range page.Deliveries {
			if d.Event != ids[at+n] {
				t.Fatalf("from %d: event %d is another one", at, n)
			}
		}
		if len(page.Deliveries) != size || (page.Next == "") != (at == long-size) {
			t.Errorf("from %d: a page of %d, next %q", at, len(page.Deliveries), page.Next)
		}
		if store.items > 2*size || store.lists > 2*len(w.Partitions) || store.gets > 0 {
			t.Errorf("from %d: a page of %d took %d lists of %d items and %d gets",
				at, size, store.lists, store.items, store.gets)
		}
	}
}

// placeAt returns the place of an event that fill has made.
func (w *fixture) placeAt(ids []string, n int) string {
	return placeOf(w.Clock.Now().Add(-time.Duration(n)*time.Minute), ids[n])
}

// A filter that excludes most events does not read the whole log for one page.
func TestDeliveries_FilterIsBounded(t *testing.T) {
	w := newFixture(t)
	const long = 10_000
	w.fill(t, testUUID, long)
	store := &counting{KV: w.Outbox.KV}
	w.Outbox.KV = store
	q := Query{Integrations: []string{testUUID}, Type: webhook.TypeFailed}
	found, pages := 0, 0
	for {
		*store = counting{KV: store.KV}
		page, err := w.Deliveries(ctx, q)
		coretest.Must(t, err)
		if most := mostEntries + timeline.MaxRead*len(w.Partitions); store.items > most {
			t.Errorf("page %d read %d items, more than %d", pages, store.items, most)
		}
		for _, d := range page.Deliveries {
			if d.Type != webhook.TypeFailed {
				t.Errorf("found %s", d.Type)
			}
		}
		found += len(page.Deliveries)
		pages++
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if found != long/100 || pages < 2 {
		t.Errorf("found %d events on %d pages, want %d", found, pages, long/100)
	}
	for _, state := range []string{StateWaiting, StateDead} {
		*store = counting{KV: store.KV}
		page, err := w.Deliveries(ctx, Query{Integrations: q.Integrations, State: state})
		if err != nil || len(page.Deliveries) != 0 || page.Next != "" || store.items != 0 {
			t.Errorf("%s: %d found, %d items read, %v", state, len(page.Deliveries), store.items, err)
		}
	}
}

func TestDeliveries_States(t *testing.T) {
	w := newFixture(t)
	for _, code := range []int{200, 404, 500} {
		w.schedule(t)
		w.answer = status(code)
		coretest.Must(t, w.run(t, w.claimOne(t)))
		w.Clock.Advance(time.Millisecond)
	}
	w.agree(t)
	var states []string
	for _, d := range w.log(t) {
		states = append(states, d.State)
	}
	if want := []string{StateWaiting, StateDead, StateDelivered}; !slices.Equal(states, want) {
		t.Errorf("the log has %q, want the latest first: %q", states, want)
	}
	for _, s := range states {
		if found := w.log(t, s); len(found) != 1 || found[0].State != s {
			t.Errorf("%s: %+v", s, found)
		}
	}
	if d := w.log(t, StateDead)[0]; d.Reason != rejected {
		t.Errorf("the reason is %q", d.Reason)
	}
	for _, after := range []string{"x", "../c", strings.Repeat("f", placeSize), w.log(t)[0].Place + "0",
		strings.ToUpper(w.log(t)[0].Place)} {
		_, err := w.Deliveries(ctx, Query{Integrations: []string{testUUID}, After: after})
		if !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", after, err)
		}
		if _, err := w.Find(ctx, testUUID, after); !errors.Is(err, ErrNoEntry) {
			t.Errorf("place %q: %v", after, err)
		}
	}
	if page, err := w.Deliveries(ctx, Query{}); err != nil || len(page.Deliveries) != 0 {
		t.Errorf("without an integration: %+v, %v", page, err)
	}
	place := w.log(t)[0].Place
	if page, err := w.Deliveries(ctx, Query{Integrations: []string{testhost.Other}}); err != nil ||
		len(page.Deliveries) != 0 {
		t.Errorf("another's: %+v, %v", page, err)
	}
	if _, err := w.Find(ctx, testhost.Other, place); !errors.Is(err, ErrNoEntry) {
		t.Errorf("another's: %v", err)
	}
}

// Contract 19: an attacker who can write to the store can neither create nor move entries.
func TestDeliveries_ForgedEntries(t *testing.T) {
	for name, forge := range map[string]func(item *kv.Item){
		"another outcome": func(item *kv.Item) {
			item.Value = bytes.Replace(item.Value, []byte(`"verified":true`), []byte(`"verified":false`), 1)
		},
		"without a MAC": func(item *kv.Item) {
			item.Value = append(bytes.TrimRight(item.Value[:bytes.LastIndex(item.Value, []byte(`,"m":`))], " "), '}')
		},
		"moved to another integration": func(item *kv.Item) {
			item.Key.Name = strings.Replace(item.Key.Name, testUUID, testhost.Other, 1)
		},
		"moved to another time": func(item *kv.Item) {
			item.Key.Name = strings.Replace(item.Key.Name, "/7", "/6", 1)
		},
		"moved to another partition": func(item *kv.Item) { item.Key.Partition = "p0" },
		"no JSON":                    func(item *kv.Item) { item.Value = []byte("no JSON") },
	} {
		t.Run("contract 19: "+name, func(t *testing.T) {
			w := newFixture(t)
			w.schedule(t)
			coretest.Must(t, w.run(t, w.claimOne(t)))
			items, err := w.Memory.List(ctx, kv.Key{Partition: part, Name: logPrefix}, "", 5)
			coretest.Must(t, err)
			item := items[0]
			item.Value = bytes.Clone(item.Value)
			forge(&item)
			coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "delete", Partition: part,
				Deletes: []string{items[0].Key.Name}}))
			coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "forge", Partition: item.Key.Partition,
				Puts: []kv.Put{{Name: item.Key.Name, Value: item.Value}}}))
			page, err := w.Deliveries(ctx, Query{Integrations: []string{testUUID, testhost.Other}})
			if err != nil || len(page.Deliveries) != 0 || w.counts[metric.NotAuthentic] != 1 {
				t.Errorf("listed %+v, counted %v, %v", page, w.counts, err)
			}
			integration, place, _ := strings.Cut(strings.TrimPrefix(item.Key.Name, logPrefix), "/")
			if d, err := w.Find(ctx, integration, place); !errors.Is(err, ErrNoEntry) {
				t.Errorf("found %+v, %v", d, err)
			}
		})
	}
}

// awaitingMACs is a Sealer that lacks a key with which other instances sign.
type awaitingMACs struct{ host.Sealer }

func (awaitingMACs) CheckMAC(string, []byte, []byte) (time.Time, error) {
	return time.Time{}, host.ErrKeyAwaited
}

func TestDeliveries_KeyAwaited(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	place := w.log(t)[0].Place
	w.Outbox.Sealer = awaitingMACs{w.Outbox.Sealer}
	page, err := w.Deliveries(ctx, Query{Integrations: []string{testUUID}})
	if !errors.Is(err, host.ErrKeyAwaited) {
		t.Errorf("contract 16: listed %+v, %v", page, err)
	}
	if _, err := w.Find(ctx, testUUID, place); !errors.Is(err, host.ErrKeyAwaited) {
		t.Errorf("contract 16: found, %v", err)
	}
}

// A task of an earlier release has no list of attempts, and an earlier release drops ours. These attempts are
// counted, so that readers do not take the logged ones for all. An earlier release can read our tasks.
func TestLog_EarlierRelease(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	job := w.claimOne(t)
	_, sealed, err := Read(job.Task)
	coretest.Must(t, err)
	old := fmt.Sprintf(`{"k":"deliver","sid":"svc_sess_x","int":%q,"typ":%q,"n":3}`, testUUID, e.Type)
	job.Task.Payload = append([]byte(old+"\n"), sealed...)
	w.answer = status(503)
	coretest.Must(t, w.run(t, job))
	got := w.log(t)
	if len(got) != 1 || len(got[0].Attempts) != 1 || got[0].Unrecorded != 3 {
		t.Fatalf("%+v", got)
	}
	_, next := w.claim(t)
	w.Clock.Advance(next.Sub(w.Clock.Now()))
	var earlier struct {
		Kind        Kind   `json:"k"`
		Session     string `json:"sid"`
		Integration string `json:"int"`
		Type        string `json:"typ"`
		Attempts    int    `json:"n"`
	}
	line, _, _ := bytes.Cut(w.claimOne(t).Task.Payload, []byte("\n"))
	if err := json.Unmarshal(line, &earlier); err != nil || earlier.Attempts != 4 ||
		earlier.Kind != Deliver ||
		earlier.Integration != testUUID || earlier.Session != e.SessionID || earlier.Type != e.Type {
		t.Errorf("an earlier release reads %+v, %v", earlier, err)
	}
	w.agree(t)
}

// An internal error is logged with its reason, and not as an attempt.
func TestLog_PostponedEvent(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	whole := *w.Outbox
	on := w.Host.Host
	on.Sealer = secretless{w.Outbox.Sealer}
	w.Directory = integration.NewDirectory(on)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	got := w.log(t, StateWaiting)
	if len(got) != 1 || got[0].Reason != noSecret || len(got[0].Attempts) != 0 || got[0].Due.IsZero() {
		t.Errorf("contract 27: %+v", got)
	}
	*w.Outbox = whole
	w.retry(t)
	got = w.log(t)
	if len(got) != 1 || got[0].State != StateDelivered || len(got[0].Attempts) != 1 || got[0].Reason != "" {
		t.Errorf("contract 27: %+v", got)
	}
	w.agree(t)
}

// An unreadable event has no log entry, because its owner is not certain.
func TestLog_UnreadableEvent(t *testing.T) {
	w := newFixture(t)
	w.schedule(t)
	job := w.claimOne(t)
	job.Task.Payload = bytes.Clone(job.Task.Payload)
	job.Task.Payload[len(job.Task.Payload)-1] ^= 1
	coretest.Must(t, w.run(t, job))
	if len(w.dead(t)) != 1 || len(w.names(t, "l")) != 0 {
		t.Errorf("dead %+v, logged %q", w.dead(t), w.names(t, "l"))
	}
}

// An event whose key is lost after a failed attempt leaves the log, and no longer counts as waiting
// (contract 58).
func TestLog_UnreadableAfterRetry(t *testing.T) {
	damage := func(job host.Job) host.Job {
		job.Task.Payload = bytes.Clone(job.Task.Payload)
		job.Task.Payload[len(job.Task.Payload)-1] ^= 1
		return job
	}
	for name, end := range map[string]func(w *fixture, job host.Job) error{
		"unreadable": func(w *fixture, job host.Job) error { return w.run(t, damage(job)) },
		"dropped": func(w *fixture, job host.Job) error {
			return w.Outbox.Drop(ctx, damage(job), errors.New("its key is retired"))
		},
	} {
		w := newFixture(t)
		w.answer = status(503)
		w.schedule(t)
		coretest.Must(t, w.run(t, w.claimOne(t)))
		if names := w.names(t, "l"); len(names) != 2 {
			t.Fatalf("%s: logged %q, want the entry and its index", name, names)
		}
		w.Clock.Advance(time.Hour)
		coretest.Must(t, end(w, w.claimOne(t)))
		if names := w.names(t, "l"); len(names) != 0 {
			t.Errorf("%s: logged %q", name, names)
		}
	}
}

func TestAttemptsRoundTrip(t *testing.T) {
	var want []Attempt
	tried := ""
	for n := range mostAttempts + 10 {
		a := Attempt{At: time.UnixMilli(1795212600000 + int64(n)).UTC(), Status: 500 + n,
			Took: time.Duration(n) * time.Millisecond}
		if n%2 == 1 {
			a.Status, a.Cause = 0, host.FetchBlocked
		}
		tried = withAttempt(tried, a)
		want = append(want, a)
	}
	if got := readAttempts(tried); !slices.Equal(got, want[10:]) {
		t.Errorf("read %v, want the latest %d of %v", got, mostAttempts, want)
	}
	for _, damaged := range []string{"", "x", "1:2", "x:200:3", "1:200:x", "::", "1:2:3:4"} {
		if got := readAttempts(damaged); len(got) != 0 {
			t.Errorf("%q is read as %v", damaged, got)
		}
	}
}

// The longest entry fits into an item, its name into a name, and the whole entry into a transaction.
func TestLog_LongestEntry(t *testing.T) {
	w := newFixture(t)
	state, user := strings.Repeat("\u2028", 1024/3), strings.Repeat("\"", 256)
	e := webhook.Failed(webhook.Head{ID: webhook.NewID(w.Outbox.Random), CreatedAt: w.Clock.Now(),
		PublisherID: "pub_" + strings.Repeat("a", 64), IntegrationID: testUUID,
		SessionID: "svc_sess_" + strings.Repeat("A", 79)},
		webhook.FailureUnknown, webhook.FailureMessage(""), &user, &state)
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "x", Partition: part, Schedule: []kv.Task{w.task(t, e)}}))
	w.Schedule = webhook.Schedule{Delays: make([]time.Duration, 2*mostAttempts)}
	for n := range w.Schedule.Delays {
		w.Schedule.Delays[n] = time.Minute
	}
	w.answer = fails(host.FetchBlocked)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	for range w.Schedule.Delays {
		w.retry(t)
	}
	got := w.log(t, StateDead)
	if len(got) != 1 || len(got[0].Attempts) != mostAttempts || got[0].Unrecorded != mostAttempts+1 {
		t.Fatalf("%+v", got)
	}
	items, err := w.Memory.List(ctx, kv.Key{Partition: part, Name: logPrefix}, "", 1)
	coretest.Must(t, err)
	if len(items) != 1 || len(items[0].Value) > 8*1024 {
		t.Errorf("an entry has %d bytes", len(items[0].Value))
	}
}

// Events of a session are found by the times of the session's record.
func TestOutbox_OfSession(t *testing.T) {
	w := newFixture(t)
	put := func(e webhook.Event) {
		coretest.Must(t,
			w.Memory.Commit(ctx, kv.Tx{ID: e.ID, Partition: part, Schedule: []kv.Task{w.task(t, e)}}))
	}
	begin := func() (session.ID, webhook.Head) {
		id, err := session.NewID(w.Outbox.Random, testUUID, session.L1, 25, w.Clock.Now(), 3)
		coretest.Must(t, err)
		text, err := id.Format(w.Outbox.Sealer)
		coretest.Must(t, err)
		return id, webhook.Head{PublisherID: "pub_a", IntegrationID: testUUID, SessionID: text}
	}
	event := func(h webhook.Head) webhook.Head {
		h.ID, h.CreatedAt = webhook.NewID(w.Outbox.Random), w.Clock.Now()
		return h
	}
	id, h := begin()
	other, otherHead := begin() // in the same millisecond
	w.Clock.Advance(3 * time.Second)
	put(webhook.Started(event(h), id.Expires()))
	put(webhook.Started(event(otherHead), other.Expires()))
	w.Clock.Advance(20 * time.Second)
	ended := w.Clock.Now()
	put(webhook.Completed(event(h), "L1", 25, nil, nil))
	put(webhook.Completed(event(otherHead), "L1", 25, nil, nil))
	late, lateHead := begin()
	w.Clock.Advance(time.Hour)
	put(webhook.Expired(event(lateHead), late.Expires()))
	jobs, _ := w.claim(t)
	for _, job := range jobs {
		coretest.Must(t, w.run(t, job))
	}
	for _, c := range []struct {
		id    session.ID
		ended time.Time
		want  []string
	}{
		{id, ended, []string{webhook.TypeStarted, webhook.TypeCompleted}},
		{id, time.Time{}, []string{webhook.TypeStarted}},
		{other, ended, []string{webhook.TypeStarted, webhook.TypeCompleted}},
		{late, late.Expires(), []string{webhook.TypeExpired}},
		{session.ID{Integration: testUUID, Created: id.Created, Partition: 3}, ended, nil},
		{session.ID{Integration: testhost.Other, Created: id.Created, Partition: 3, Random: id.Random}, ended,
			nil},
	} {
		found, err := w.OfSession(ctx, c.id, c.ended)
		coretest.Must(t, err)
		var types []string
		for _, d := range found {
			types = append(types, d.Type)
		}
		if !slices.Equal(types, c.want) {
			t.Errorf("found %q, want %q", types, c.want)
		}
	}
}
