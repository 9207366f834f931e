package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// failing is the record of an integration whose deliveries fail. A delivery deletes it, or keeps only the
// time of an alert of the last day. It is not authenticated: anyone who can write to the store can cause or
// prevent an alert.
type failing struct {
	Since   int64 `json:"s,omitempty"` // milliseconds since 1970: the first failed attempt
	Alerted int64 `json:"a,omitempty"` // the same: the latest alert
}

const (
	failingPrefix = "f/"
	alertAfter    = time.Hour      // of failures
	alertEach     = 24 * time.Hour // the minimum time between two alerts of an integration
)

// failingOf returns the record of an integration and its version. The record of the first partition counts,
// because the alert is a task of the same commit. A missing record is the zero value. A failure from before
// the alert URL was set does not count, because a delivery may have ended it untracked.
func (o *Outbox) failingOf(
	ctx context.Context, i *integration.Integration,
) (f failing, version string, err error) {
	item, err := o.KV.Get(ctx, kv.Key{Partition: o.Partitions[0], Name: failingPrefix + i.ID})
	if errors.Is(err, kv.ErrNotFound) {
		return f, "", nil
	}
	if err == nil {
		err = json.Unmarshal(item.Value, &f)
	}
	if i.AlertSince != nil && f.Since < i.AlertSince.UnixMilli() {
		f.Since = 0
	}
	return f, item.Tx, err
}

// Failing returns since when the deliveries of an integration fail, and when its latest alert was created.
// Both are zero if they do not fail. Only an integration with an alert URL is tracked.
func (o *Outbox) Failing(
	ctx context.Context,
	i *integration.Integration,
) (since, alerted time.Time, err error) {
	if i.AlertURL == "" {
		return since, alerted, nil
	}
	f, _, err := o.failingOf(ctx, i)
	if err == nil && f.Since != 0 {
		since = time.UnixMilli(f.Since).UTC()
		if f.Alerted != 0 {
			alerted = time.UnixMilli(f.Alerted).UTC()
		}
	}
	return since, alerted, err
}

// track notes the result of an attempt, and creates an alert if deliveries have failed for an hour. The
// attempt counts even if that fails.
func (o *Outbox) track(ctx context.Context, e event, delivered bool, now time.Time) {
	i := e.target
	if i.AlertURL == "" || e.alerts() {
		return
	}
	err := o.trackIn(ctx, i, delivered, now)
	if err != nil && !kv.IsConflict(err) { // another instance was first
		o.Log.Warn("failing deliveries not tracked", "integration", i.ID, "error", err.Error())
	}
}

func (o *Outbox) trackIn(
	ctx context.Context, i *integration.Integration, delivered bool, now time.Time,
) error {
	f, version, err := o.failingOf(ctx, i)
	if err != nil {
		return err
	}
	at, name := now.UnixMilli(), failingPrefix+i.ID
	tx := kv.Tx{Partition: o.Partitions[0], Checks: []kv.Check{{Name: name, Tx: version}}}
	lately := at-f.Alerted < alertEach.Milliseconds() // the day of an alert outlives the failure
	switch {
	case delivered && f.Since == 0:
		return nil
	case delivered && lately:
		f.Since = 0
	case delivered:
		tx.Deletes = []string{name}
	case f.Since == 0:
		f.Since = at
	case at-f.Since < alertAfter.Milliseconds(), lately:
		return nil
	default:
		f.Alerted = at
		alert := webhook.Failing(webhook.Head{ID: webhook.NewID(o.Random), CreatedAt: now,
			PublisherID: i.PublisherID, IntegrationID: i.ID}, time.UnixMilli(f.Since))
		task, err := Event(o.Sealer, alert, i.ID, now)
		if err != nil {
			return err
		}
		tx.Schedule = []kv.Task{task}
	}
	if len(tx.Deletes) == 0 {
		value, err := json.Marshal(f)
		if err != nil {
			return err
		}
		tx.Puts = []kv.Put{{Name: name, Value: value, Expires: now.Add(DeadLife)}}
	}
	if tx.ID, err = kv.NewTxID(o.Random); err != nil {
		return err
	}
	if err := kv.CommitSurely(ctx, o.KV, tx); err != nil {
		return err
	}
	if len(tx.Schedule) > 0 {
		o.Log.Warn("webhook failing; alert created", "integration", i.ID, "publisher", i.PublisherID)
		o.Wake(tx.Partition, now)
	}
	return nil
}

// alerts reports whether e is an alert. The sealed event decides: the type of a task is not authenticated.
func (e event) alerts() bool { return e.subject != nil && e.subject.alert }
