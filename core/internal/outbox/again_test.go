package outbox

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

// wait returns an event whose next attempt is minutes away.
func (w *fixture) wait(t testing.TB) webhook.Event {
	t.Helper()
	e := w.schedule(t)
	w.answer = status(503)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	w.retry(t)
	w.retry(t)
	w.answer = status(200)
	return e
}

func TestSendNow(t *testing.T) {
	w := newFixture(t)
	e := w.wait(t)
	var woken []time.Time
	w.watchWake(&woken)
	coretest.Must(t, w.SendNow(ctx, part, e.ID, testUUID))
	if len(woken) != 1 || !woken[0].Equal(w.Clock.Now()) {
		t.Errorf("the runner was woken for %v", woken)
	}
	if got := w.log(t, StateWaiting); len(got) != 1 || !got[0].Due.Equal(ms(w.Clock.Now())) ||
		len(got[0].Attempts) != 3 {
		t.Errorf("log entry %+v", got)
	}
	if got := w.waiting(t); len(got) != 1 || !got[0].Due.Equal(ms(w.Clock.Now())) {
		t.Errorf("waiting: %+v", got)
	}
	w.agree(t)
	coretest.Must(t, w.SendNow(ctx, part, e.ID, testUUID)) // already due: nothing to do
	job := w.claimOne(t)
	coretest.Must(t, w.SendNow(ctx, part, e.ID, testUUID)) // in flight
	coretest.Must(t, w.run(t, job))
	w.idle(t)
	if len(w.posts) != 4 || !bytes.Equal(w.posts[3].Body, e.Body()) || w.counts["lease_lost"] != 0 {
		t.Errorf("%d posts, counted %v", len(w.posts), w.counts)
	}
	if got := w.log(t); len(got) != 1 || got[0].State != StateDelivered || len(got[0].Attempts) != 4 {
		t.Errorf("log entry %+v", got)
	}
	if err := w.SendNow(ctx, part, e.ID, testUUID); !errors.Is(err, ErrNotWaiting) {
		t.Errorf("a delivered one: %v", err)
	}
	w.agree(t)
}

// Sending now does not restart the schedule.
func TestSendNow_CountsAsNextAttempt(t *testing.T) {
	w := newFixture(t)
	e := w.wait(t)
	w.answer = status(503)
	coretest.Must(t, w.SendNow(ctx, part, e.ID, testUUID))
	coretest.Must(t, w.run(t, w.claimOne(t)))
	_, next := w.claim(t)
	if d := next.Sub(w.Clock.Now()); d < 8*time.Minute || d > 12*time.Minute {
		t.Errorf("contract 26: attempt 5 comes after %s, want 10 min ±20 %%", d)
	}
	w.agree(t)
}

// An event whose retry is near is unchanged: another instance may be about to send it.
func TestSendNow_RetryNear(t *testing.T) {
	w := newFixture(t)
	e := w.wait(t)
	_, next := w.claim(t)
	w.Clock.Advance(next.Sub(w.Clock.Now()) - soon + time.Millisecond)
	coretest.Must(t, w.SendNow(ctx, part, e.ID, testUUID))
	if jobs, _ := w.claim(t); len(jobs) != 0 {
		t.Error("the event is due now")
	}
}

// The runner postpones the task of an event whose destination is full. The list has the earlier time.
func TestSendNow_Postponed(t *testing.T) {
	w := newFixture(t)
	e := w.wait(t)
	_, next := w.claim(t)
	w.Clock.Advance(next.Sub(w.Clock.Now()))
	coretest.Must(t, w.Defer(ctx, w.claimOne(t), w.Clock.Now().Add(7*time.Minute)))
	w.Clock.Advance(time.Minute)
	coretest.Must(t, w.SendNow(ctx, part, e.ID, testUUID))
	coretest.Must(t, w.run(t, w.claimOne(t)))
	if got := w.log(t); len(got) != 1 || got[0].State != StateDelivered {
		t.Errorf("contract 27: log entry %+v", got)
	}
	w.agree(t)
}

func TestSendNow_ItemOfEarlierRelease(t *testing.T) {
	w := newFixture(t)
	e := w.wait(t)
	old := w.waiting(t)[0]
	coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "old", Partition: part,
		Puts: []kv.Put{{Name: waitingPrefix + e.ID, Value: join(old, nil)}}}))
	if err := w.SendNow(ctx, part, e.ID, testUUID); !errors.Is(err, ErrNotWaiting) {
		t.Errorf("%v", err)
	}
	if jobs, next := w.claim(t); len(jobs) != 0 || next.IsZero() {
		t.Error("its retry is gone")
	}
}

func TestSendNow_LostReply(t *testing.T) {
	for _, c := range []struct {
		faults    []kvtest.Fault
		want      error
		scheduled bool
	}{
		{[]kvtest.Fault{kvtest.LoseReply}, nil, true},
		{[]kvtest.Fault{kvtest.LoseRequest}, nil, true},
		{[]kvtest.Fault{kvtest.Delay}, nil, true},
		{[]kvtest.Fault{kvtest.Reject}, kv.ErrUnavailable, false},
		{[]kvtest.Fault{kvtest.LoseRequest, kvtest.LoseRequest, kvtest.LoseRequest}, kv.ErrUnknown, false},
		{[]kvtest.Fault{kvtest.LoseReply, kvtest.Reject}, kv.ErrUnknown, true},
	} {
		t.Run(fmt.Sprintf("contract 27: %v", c.faults), func(t *testing.T) {
			w := newFixture(t)
			e := w.wait(t)
			commits := 0
			w.Store.Decide = func(call kvtest.Call) kvtest.Fault {
				if call.Method == "Commit" {
					if commits++; commits <= len(c.faults) {
						return c.faults[commits-1]
					}
				}
				return kvtest.Pass
			}
			if err := w.SendNow(ctx, part, e.ID, ""); !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Errorf("error %v, want %v", err, c.want)
			}
			jobs, _ := w.claim(t)
			if (len(jobs) == 1) != c.scheduled || len(jobs) > 1 {
				t.Errorf("%d tasks are due; want it scheduled: %v", len(jobs), c.scheduled)
			}
			w.agree(t)
			for _, job := range jobs {
				coretest.Must(t, w.run(t, job))
			}
			w.Store.Deliver(ctx)
			if jobs, _ := w.claim(t); len(jobs) > 0 {
				t.Error("contract 27: a late commit sends it again")
			}
			w.agree(t)
		})
	}
}

func TestSendNow_Parallel(t *testing.T) {
	w := newFixture(t)
	e := w.wait(t)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			if err := w.SendNow(ctx, part, e.ID, testUUID); err != nil && !errors.Is(err, ErrNotWaiting) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	coretest.Must(t, w.run(t, w.claimOne(t)))
	w.idle(t)
	w.agree(t)
}

// The log of a dead event continues when the event is resent.
func TestResend_ContinuesLog(t *testing.T) {
	w := newFixture(t)
	e := w.schedule(t)
	w.answer = status(400)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	for n, code := range []int{410, 404} {
		w.resend(t, e.ID, testUUID)
		w.agree(t)
		if got := w.log(t, StateWaiting); len(got) != 1 || len(got[0].Attempts) != n+1 ||
			got[0].Reason != "" || !got[0].Due.Equal(ms(w.Clock.Now())) {
			t.Errorf("resent: %+v", got)
		}
		w.answer = status(code)
		coretest.Must(t, w.run(t, w.claimOne(t)))
		w.agree(t)
	}
	w.resend(t, e.ID, testUUID)
	w.answer = status(200)
	coretest.Must(t, w.run(t, w.claimOne(t)))
	w.agree(t)
	got := w.log(t)
	if len(got) != 1 || got[0].State != StateDelivered || got[0].Unrecorded != 0 ||
		len(got[0].Attempts) != 4 {
		t.Fatalf("%+v", got)
	}
	for n, want := range []int{400, 410, 404, 200} {
		if got[0].Attempts[n].Status != want {
			t.Errorf("attempt %d got status %d, want %d", n+1, got[0].Attempts[n].Status, want)
		}
	}
}

// An event does not exist for another integration, even if the unsealed fields name that integration.
func TestResend_OtherIntegration(t *testing.T) {
	relabel := func(t *testing.T, w *fixture, prefix string) {
		items, err := w.Memory.List(ctx, kv.Key{Partition: part, Name: prefix}, "", 5)
		coretest.Must(t, err)
		value := bytes.ReplaceAll(items[0].Value, []byte(testUUID), []byte(testhost.Other))
		coretest.Must(t, w.Memory.Commit(ctx, kv.Tx{ID: "forger", Partition: part,
			Puts: []kv.Put{{Name: items[0].Key.Name, Value: value}}}))
	}
	for _, relabelled := range []bool{false, true} {
		w := newFixture(t)
		w.kill(t, 1)
		id := w.dead(t)[0].Event
		if relabelled {
			relabel(t, w, deadPrefix)
		}
		if _, err := w.Resend(ctx, part, id, testhost.Other); !errors.Is(err, ErrNotDead) {
			t.Errorf("relabelled %v: dead: %v", relabelled, err)
		}
		w.idle(t)

		w = newFixture(t)
		id = w.wait(t).ID
		if relabelled {
			relabel(t, w, waitingPrefix)
		}
		if err := w.SendNow(ctx, part, id, testhost.Other); !errors.Is(err, ErrNotWaiting) {
			t.Errorf("relabelled %v: waiting: %v", relabelled, err)
		}
		if jobs, _ := w.claim(t); len(jobs) != 0 {
			t.Errorf("relabelled %v: it is due", relabelled)
		}
	}
}
