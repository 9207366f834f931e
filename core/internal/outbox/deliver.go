package outbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/delivery"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// DeadLife is the time for which a dead event stays visible and can be sent again (contract 27).
const DeadLife = 30 * 24 * time.Hour

// AttemptTime is the maximum duration of one attempt (contract 26), including the time to record it.
const AttemptTime = 10*time.Second + recordTime

// recordTime is the maximum time to record an attempt. If recording takes longer, the event is due again and
// is posted a second time.
const recordTime = 3 * time.Second

// AttemptTimeFor returns the maximum duration of one attempt, including its record, for a Fetcher with the
// timeout fetch.
func AttemptTimeFor(fetch time.Duration) time.Duration { return fetch + recordTime }

// ResponseTime returns the time within which a receiver must respond, given the maximum duration of an
// attempt.
func ResponseTime(attempt time.Duration) time.Duration { return attempt - recordTime }

// Outbox delivers events. All fields except Schedule are required.
type Outbox struct {
	host.Host

	// Partitions are the partitions of sessions. The methods that read the log need them, and alerts.
	Partitions []kv.Partition

	Directory *integration.Directory
	Schedule  webhook.Schedule // the zero value is the contract's schedule

	// AttemptTime limits one attempt: no POST starts under a lease that might end before the attempt does.
	AttemptTime time.Duration
}

// Deliver makes one attempt for a leased delivery and records the result under that lease. If the lease is
// too short for an attempt, Deliver posts nothing. If another instance has taken the task over, Deliver
// records no result, because that instance decides now. An internal error postpones the event and does not
// count as an attempt. Deliver returns only errors of the store; the task is then free again when its lease
// ends.
func (o *Outbox) Deliver(ctx context.Context, job host.Job, m Meta, sealed []byte) error {
	e, reason, err := o.prepare(ctx, job, m, sealed)
	switch {
	case err != nil:
		return err
	case reason == noSecret, reason == keyAwaited:
		return o.postpone(ctx, job, e, reason)
	case reason != "":
		return o.fail(ctx, job, e, reason, reason)
	}
	// Read the clock after the look-up above, which may have been slow.
	now := o.Now()
	if now.Add(o.AttemptTime).After(job.Until) {
		return nil
	}
	header := webhook.Headers(e.id, now, e.body, e.secrets.active, e.secrets.staged)
	resp, fetchErr := o.fetch(ctx, e.url, header, e.body)
	if ctx.Err() != nil {
		// The context ended because this instance stops. That is no result of the receiver.
		return fmt.Errorf("outbox: %w", ctx.Err())
	}
	ended := o.Now()
	e.Attempts++
	a := attempt(now, ended, resp.Status, fetchErr)
	e.Tried = withAttempt(e.Tried, a)
	verdict := delivery.Classify(resp.Status, fetchErr)
	o.track(ctx, e, verdict == delivery.Delivered, ended)
	switch verdict {
	case delivery.Delivered:
		return o.end(ctx, job, e, a, ended)
	case delivery.Failed:
		return o.fail(ctx, job, e, rejected, a.String(), a.attrs()...)
	}
	return o.retry(ctx, job, e, a, ended)
}

// prepare returns the event of a task with its receiver, or the reason why it cannot be sent. All its errors
// are errors of the store.
func (o *Outbox) prepare(
	ctx context.Context, job host.Job, m Meta, sealed []byte,
) (e event, reason string, err error) {
	e = event{Meta: m, id: eventID(job), sealed: sealed}
	e.target, e.secrets, reason, err = o.target(ctx, m.Integration)
	if err != nil {
		return e, "", err
	}
	e.body, e.subject, err = o.open(m, e.id, sealed)
	if e.target != nil {
		e.url = e.target.Webhook.URL
		if e.alerts() {
			e.url = e.target.AlertURL
		}
	}
	switch {
	case reason != "":
	case errors.Is(err, host.ErrKeyAwaited):
		reason = keyAwaited
	case err != nil:
		reason = unreadable
	case e.url == "":
		reason = noTarget
	}
	return e, reason, nil
}

// end records that the event is delivered.
func (o *Outbox) end(ctx context.Context, job host.Job, e event, a Attempt, ended time.Time) error {
	o.Count(metric.WebhookDelivered)
	o.say(ctx, slog.LevelInfo, "webhook delivered", e, a.String(), a.attrs()...)
	tx := kv.Tx{Cancel: []string{job.Task.ID}}
	if e.waited() {
		tx.Deletes = []string{waitingPrefix + e.id}
		leave(&tx, waitingInLog, e.subject)
	}
	o.enter(&tx, job.Partition, e.subject, e.state(StateDelivered, "", ended))
	return o.record(ctx, job, tx)
}

// retry schedules the next attempt. After the last one, the event has failed.
func (o *Outbox) retry(ctx context.Context, job host.Job, e event, a Attempt, ended time.Time) error {
	o.Count(metric.AttemptFailed)
	var rnd [8]byte
	if _, err := io.ReadFull(o.Random, rnd[:]); err != nil {
		return fmt.Errorf("outbox: reading randomness: %w", err)
	}
	delay, more := o.Schedule.Next(e.Attempts, binary.LittleEndian.Uint64(rnd[:]))
	if !more {
		return o.fail(ctx, job, e, exhausted, a.String(), a.attrs()...)
	}
	o.say(ctx, slog.LevelInfo, "webhook retry scheduled", e, a.String(),
		append(a.attrs(), slog.String("in", delay.Round(time.Second).String()))...)
	e.listAt(e.subject)
	tx := kv.Tx{
		Schedule: []kv.Task{{ID: job.Task.ID, Due: ended.Add(delay), Payload: e.payload(e.sealed)}},
		Puts:     []kv.Put{e.waitingItem(a.String(), ended, ended.Add(delay))},
	}
	o.enter(&tx, job.Partition, e.subject, e.waiting("", ended, ended.Add(delay)))
	return o.record(ctx, job, tx)
}

// errForeign: the sealed event is not the event that the task names.
var errForeign = errors.New("outbox: the sealed event is another one")

// open opens the event of a task. It returns the body and the subject of the event's log entry.
func (o *Outbox) open(m Meta, id string, sealed []byte) ([]byte, *subject, error) {
	body, err := Body(o.Sealer, sealed)
	if err != nil {
		return nil, nil, err
	}
	read, ok := m.owns(id, body)
	if !ok {
		return nil, nil, errForeign
	}
	return body, subjectOf(m.Integration, read), nil
}

// event is the state of an event during one attempt.
type event struct {
	Meta
	id      string
	sealed  []byte
	body    []byte   // nil if the event cannot be read
	subject *subject // nil if the event cannot be read

	target  *integration.Integration // nil if no integration has that id
	url     string                   // of the receiver; "": none
	secrets secrets
}

// state returns the log's state of an event that has ended, or that waits if the caller adds a due time.
func (e event) state(is, reason string, at time.Time) state {
	return state{is: is, reason: reason, at: at, tried: e.Tried, made: e.Before + e.Attempts}
}

// waiting returns the log's state of an event that waits until due.
func (e event) waiting(reason string, at, due time.Time) state {
	s := e.state(StateWaiting, reason, at)
	s.due = due
	return s
}

// waitingItem returns the item of an event that waits until due.
func (e event) waitingItem(last string, at, due time.Time) kv.Put {
	due = due.UTC().Truncate(time.Millisecond)
	return waitingItem{UndeliveredEvent{
		Event:       e.id,
		Type:        e.Type,
		Session:     e.Session,
		Integration: e.Integration,
		Last:        last,
		Attempts:    e.Attempts,
		At:          at.UTC().Truncate(time.Millisecond),
		Due:         &due,
	}, e.Meta}.put(e.sealed)
}

// fetch makes one signed request. The error is a *host.FetchError or the context's error.
func (o *Outbox) fetch(
	ctx context.Context, url string, header map[string]string, body []byte,
) (host.FetchResponse, error) {
	return o.Fetch.Fetch(ctx, host.FetchRequest{Method: "POST", URL: url, Header: header, Body: body})
}

// target returns the receiver of an integration's events and the secrets that sign them, or the reason why
// they cannot be sent. If no integration has that id, i is nil.
func (o *Outbox) target(
	ctx context.Context, id string,
) (i *integration.Integration, s secrets, reason string, err error) {
	i, err = o.Directory.Integration(ctx, id)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, s, noTarget, nil
	}
	if err != nil {
		return nil, s, "", err
	}
	if !i.Webhook.Sends() {
		return i, s, noTarget, nil
	}
	s.active, err = o.Directory.WebhookSecret(i)
	if err != nil {
		o.Log.Debug("webhook not signed", "integration", id, "error", err.Error())
		return i, s, noSecret, nil
	}
	s.staged = o.stagedSecret(i)
	return i, s, "", nil
}

// secrets sign the events of an integration. staged is "" if no change is staged.
type secrets struct{ active, staged string }

// stagedSecret returns the secret of a staged change, or "". If it does not open, events are sent anyway: the
// active secret still signs.
func (o *Outbox) stagedSecret(i *integration.Integration) string {
	if i.Staged == nil {
		return ""
	}
	secret, err := o.Directory.StagedSecret(i)
	if err != nil {
		o.Log.Debug("staged webhook secret not opened", "integration", i.ID, "error", err.Error())
		return ""
	}
	return secret
}

// postpone postpones an event after an internal error. It counts no attempt and never marks the event as dead
// (contract 27): once the operator has fixed the error, the event is sent. Each event is logged once.
func (o *Outbox) postpone(ctx context.Context, job host.Job, e event, reason string) error {
	if e.Postponed == 0 {
		o.say(ctx, slog.LevelError, "webhook postponed: internal error", e, "",
			slog.String("reason", reason))
	}
	o.Count(metric.WebhookPostponed)
	delay := min(postponeFirst<<min(e.Postponed, 10), postponeMost)
	e.Postponed++
	e.listAt(e.subject)
	now := o.Now()
	tx := kv.Tx{Schedule: []kv.Task{{
		ID: job.Task.ID, Due: now.Add(delay), Payload: e.payload(e.sealed)}}}
	if e.body != nil {
		tx.Puts = []kv.Put{e.waitingItem(reason, now, now.Add(delay))}
	}
	o.enter(&tx, job.Partition, e.subject, e.waiting(reason, now, now.Add(delay)))
	return o.record(ctx, job, tx)
}

// A postponed event is tried again after 10 s. The interval doubles each time, up to 10 minutes.
const (
	postponeFirst = 10 * time.Second
	postponeMost  = 10 * time.Minute
)

// fail cancels the task and stores its event as dead.
func (o *Outbox) fail(ctx context.Context, job host.Job, e event, reason, last string,
	more ...slog.Attr) error {
	d := UndeliveredEvent{Event: e.id, Type: e.Type, Session: e.Session, Integration: e.Integration,
		Reason: reason, Last: last, Attempts: e.Attempts, At: o.Now().UTC().Truncate(time.Millisecond)}
	o.Count(metric.WebhookDead)
	o.say(ctx, slog.LevelWarn, "webhook failed", e, last, append(more, slog.String("reason", reason))...)
	item := deadItem{UndeliveredEvent: d, Before: e.Before, Tried: e.Tried}
	tx := kv.Tx{
		Cancel: []string{job.Task.ID},
		Puts: []kv.Put{{Name: deadPrefix + d.Event, Value: join(item, e.sealed),
			Expires: d.At.Add(DeadLife)}},
		Deletes: []string{waitingPrefix + d.Event},
	}
	e.leaveWaiting(&tx, d.Event, e.subject)
	o.enter(&tx, job.Partition, e.subject, e.state(StateDead, reason, d.At))
	return o.record(ctx, job, tx)
}

// record commits tx under the job's lease. A lost lease is no error: either another instance holds the task,
// or an earlier try of this commit was applied.
func (o *Outbox) record(ctx context.Context, job host.Job, tx kv.Tx) error {
	id, err := kv.NewTxID(o.Random)
	if err != nil {
		return err
	}
	tx.ID, tx.Partition = id, job.Partition
	tx.Held = []kv.Held{{TaskID: job.Task.ID, Lease: job.Task.Lease}}
	err = kv.CommitSurely(ctx, o.KV, tx)
	if kv.IsConflict(err) {
		o.Count(metric.LeaseLost)
		err = nil
	}
	if err == nil {
		// The runner looked for the next due task while this one was leased, so it did not see it. Wake it
		// after a conflict too: the commit that was applied may have been our earlier try.
		for _, t := range tx.Schedule {
			o.Wake(tx.Partition, t.Due)
		}
	}
	return err
}

// Drop removes a task that can never run: it is damaged, or the key of its session is retired.
func (o *Outbox) Drop(ctx context.Context, job host.Job, why error) error {
	o.Log.Error("task dropped", "task", job.Task.ID, "error", why.Error())
	o.Count(metric.TaskDropped)
	tx := kv.Tx{Cancel: []string{job.Task.ID}, Deletes: []string{waitingPrefix + eventID(job)}}
	if m, _, err := Read(job.Task); err == nil {
		m.leaveWaiting(&tx, eventID(job), nil)
	}
	return o.record(ctx, job, tx)
}

// Defer returns the lease. The task is due again at until, and no attempt is counted.
func (o *Outbox) Defer(ctx context.Context, job host.Job, until time.Time) error {
	return o.record(ctx, job,
		kv.Tx{Schedule: []kv.Task{{ID: job.Task.ID, Due: until, Payload: job.Task.Payload}}})
}

func eventID(job host.Job) string { return strings.TrimPrefix(job.Task.ID, taskID("")) }

// attempt returns the log's record of an attempt.
func attempt(began, ended time.Time, status int, err error) Attempt {
	a := Attempt{At: began.UTC().Truncate(time.Millisecond), Status: status,
		Took: max(0, ended.Sub(began).Truncate(time.Millisecond))}
	var fetch *host.FetchError
	switch {
	case errors.As(err, &fetch):
		a.Status, a.Cause, a.Fault = 0, fetch.Reason, handshakeFault(fetch)
	case err != nil:
		a.Status, a.Cause = 0, host.FetchNetwork
	case status < 100:
		a.Status, a.Cause = 0, host.FetchStatusLine // a host may pass on "HTTP/1.1 000"
	}
	return a
}

// handshakeFault returns the fault that TLS or the check of the certificate has reported, such as "x509:
// certificate has expired", or "". It omits the rest of the error's text, which may have addresses of this
// service. A certificate can have any text, so the fault is printable and short.
func handshakeFault(err *host.FetchError) string {
	if err.Reason != host.FetchTLS || err.Err == nil {
		return ""
	}
	text, _, _ := strings.Cut(err.Err.Error(), " (possibly because of ")
	for _, mark := range []string{"x509: ", "tls: "} {
		if n := strings.Index(text, mark); n >= 0 {
			printable := strings.Map(func(r rune) rune {
				if r < ' ' || r > '~' {
					return '?'
				}
				return r
			}, text[n:])
			return printable[:min(len(printable), mostOfFault)]
		}
	}
	return ""
}

// mostOfFault is the maximum length of a handshakeFault in bytes.
const mostOfFault = 200

// String describes the result of an attempt for operators.
func (a Attempt) String() string {
	if a.Cause != "" {
		return a.Cause
	}
	return fmt.Sprintf("status %d", a.Status)
}

// say logs a line about an event. last is the result of the last attempt, or "".
func (o *Outbox) say(ctx context.Context, level slog.Level, message string, e event, last string,
	more ...slog.Attr) {
	attrs := []slog.Attr{slog.String("event", e.id), slog.String("type", e.Type)}
	if e.Session != "" { // an alert has none
		attrs = append(attrs, slog.String("session", e.Session))
	}
	attrs = append(attrs, slog.String("integration", e.Integration), slog.Int("attempts", e.Attempts))
	if e.target != nil {
		attrs = append(attrs, slog.String("publisher", e.target.PublisherID))
	}
	if last != "" {
		attrs = append(attrs, slog.String("last", last))
	}
	o.Log.LogAttrs(ctx, level, message, append(attrs, more...)...)
}

// attrs returns the duration of an attempt, in the unit of the delivery log, and its fault.
func (a Attempt) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.Int64("took_ms", a.Took.Milliseconds())}
	if a.Fault != "" {
		attrs = append(attrs, slog.String("error", a.Fault))
	}
	return attrs
}
