// Package lifecycle changes sessions. It applies a trigger to the stored record, and commits the new record
// together with the resulting event and the timer that it sets or cancels.
//
// Only this package decides attempts and the outcome, by compare-and-set and never by data from a browser
// (contract 18). If two browsers finish one session concurrently, or if it completes and expires at the same
// time, one of them wins and the other receives that outcome.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/finished"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/token"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/webhook"
)

// Lifecycle applies triggers. All fields are required.
type Lifecycle struct {
	host.Host

	// Attempts is the number of failed attempts after which a session fails (contract 23). An integration can
	// override it.
	Attempts int

	OutcomeLife time.Duration // time for which outcomes are kept (contract 21)
}

// Session is a session, together with the data of its events.
type Session struct {
	ID          session.ID
	Text        string // the id as publishers know it
	Integration *integration.Integration
	User, State *string // as given at start; nil: not given
	OpenID      bool    // started by a client of the OpenID provider
	Untimed     bool    // started without a timer, because its integration sent no events then
}

// Load returns the record of a session, and its version for the next compare-and-set. A record that no
// instance of this service wrote is an error (contract 19).
func (l *Lifecycle) Load(ctx context.Context, id session.ID) (r session.Record, version string, err error) {
	item, err := l.KV.Get(ctx, id.Key())
	if errors.Is(err, kv.ErrNotFound) {
		return session.Record{}, "", nil
	}
	if err != nil {
		return session.Record{}, "", err
	}
	if err := l.authentic(id, item); err != nil {
		return session.Record{}, "", err
	}
	r, err = session.ParseRecord(item.Value)
	return r, item.Tx, err
}

// foreign counts an item of the store that this service did not write, and returns the error for it.
func (l *Lifecycle) foreign(as string, err error) error {
	l.Count(metric.NotAuthentic)
	return fmt.Errorf("the store holds what this service did not write, as %s: %w", as, err)
}

// authentic checks the MAC of a record. Its key must have been in use when the session began.
func (l *Lifecycle) authentic(id session.ID, item kv.Item) error {
	until, err := token.CheckRecord(l.Sealer, item.Key.String(), item.Value)
	if err == nil && !host.ValidAt(id.Created, until) {
		err = fmt.Errorf("%w: %s", token.ErrRecord, item.Key)
	}
	if errors.Is(err, token.ErrRecord) {
		err = l.foreign("an outcome", err)
	}
	return err
}

// Begin commits the state of a new session. If its integration sends events, that is the started event and
// the expiry timer. If the provider could not begin, failed is that step, and Begin commits the failed
// outcome with its event. The caller's own checks and puts, in the same partition, are part of the commit. If
// there is nothing to commit, Begin does not access the KV.
//
// A *kv.Conflict is only about the caller's checks. Without any check a lost reply cannot be resolved, since
// a second commit could send an event twice. An unused session may then exist until it expires.
func (l *Lifecycle) Begin(ctx context.Context, s Session, failed *session.Step, checks []kv.Check,
	extra []kv.Put) error {
	initiated := failed == nil
	tx := kv.Tx{Partition: s.ID.Partition.Name(), Checks: checks, Puts: extra}
	sends := s.Integration.Webhook.Sends()
	var now time.Time
	var r session.Record
	if sends || !initiated { // reading the clock has a cost in a guest
		now = l.Now()
	}
	if sends {
		if err := l.addEvent(&tx, s, session.Record{State: session.Started}, now); err != nil {
			return err
		}
		if initiated {
			tx.Schedule = append(tx.Schedule, outbox.Timer(s.ID, s.Text))
		}
	}
	if !initiated {
		failed.At = now
		r, _ = session.Record{}.Apply(session.InitiationFailed, now, s.ID.Expires(), l.AttemptsOf(s))
		r, _ = r.With(*failed)
		if err := l.addOutcome(&tx, s, r, "", failed.Method); err != nil {
			return err
		}
	}
	started := func() {
		l.countUsage(s, host.OutcomeStarted)
		if !sends && initiated {
			l.countUsage(s, host.OutcomeUntimed)
		}
	}
	if len(tx.Puts)+len(tx.Schedule) == 0 {
		started()
		return nil
	}
	if err := l.identify(&tx); err != nil {
		return err
	}
	commit := l.KV.Commit
	if len(tx.Checks) > 0 {
		commit = func(ctx context.Context, tx kv.Tx) error { return kv.CommitSurely(ctx, l.KV, tx) }
	}
	if err := commit(ctx, tx); err != nil {
		return err
	}
	l.announce(tx)
	started()
	if !initiated {
		l.countUsage(s, host.OutcomeUnknown)
		l.logEnd(ctx, s, r, *failed)
	}
	return nil
}

// AttemptsOf returns the maximum number of failed attempts of a session.
func (l *Lifecycle) AttemptsOf(s Session) int {
	if s.Integration.Attempts > 0 {
		return s.Integration.Attempts
	}
	return l.Attempts
}

// Step is the result of an attempt.
type Step struct {
	Trigger session.Trigger
	Attempt int    // number of attempts that failed before this one
	Browser string // session.Record's, if the step completes the session

	// Proven is session.Record's, if the step completes the session.
	Proven verdict.Basis

	// Estimated is the age that an estimate was compared with, if one completes the session. 0: none does.
	Estimated int

	// Entry is the step with its method and reason. The record keeps it unless it is an approval.
	Entry session.Step
}

// Fire applies a step. It returns the record that is valid afterwards, even if another caller wrote it. If
// the session is at another attempt, the step has no effect: a form that is posted twice counts once
// (contract 23).
func (l *Lifecycle) Fire(ctx context.Context, s Session, step Step) (session.Record, error) {
	r, _, err := l.fire(ctx, s, step, nil)
	return r, err
}

// MinOutcomeLife is the shortest OutcomeLife.
const MinOutcomeLife = time.Hour

// Outcome returns the record of a session as of now. If its time is over without an outcome, Outcome first
// commits that it has expired: a request that began in time and whose commit is still on its way could
// otherwise complete a session that a publisher has seen expired (contract 18). An hour later no such request
// is active, and the absent record can be one whose life is over, so Outcome does not commit.
func (l *Lifecycle) Outcome(ctx context.Context, s Session) (session.Record, error) {
	r, _, err := l.Load(ctx, s.ID)
	if err != nil {
		return session.Record{}, err
	}
	now := l.Now()
	if r.Terminal() || now.Before(s.ID.Expires()) || !now.Before(s.ID.Expires().Add(MinOutcomeLife)) {
		return r.As(now, s.ID.Expires()), nil
	}
	return l.Fire(ctx, s, Step{Trigger: session.TimeUp, Attempt: anyAttempt})
}

// anyAttempt is the attempt of a trigger that belongs to no attempt.
const anyAttempt = -1

// maxRaces is the maximum number of tries of Fire after concurrent writes. A session has few writers, and
// each writes a few times.
const maxRaces = 16

// fire implements Fire. It also reports whether this call changed the record.
func (l *Lifecycle) fire(ctx context.Context, s Session, step Step, held []kv.Held) (
	session.Record, bool, error) {
	t, attempt, late := step.Trigger, step.Attempt, false
	for range maxRaces {
		r, version, err := l.Load(ctx, s.ID)
		if err != nil {
			return session.Record{}, false, err
		}
		now, expires := l.Now(), s.ID.Expires()
		holds := r.As(now, expires)
		if !late && holds.Terminal() && t != session.Cancelled && t != session.TimeUp {
			late = true
			l.Count(metric.LateAnswer)
		}
		if !holds.Terminal() && attempt != anyAttempt && attempt != r.Attempts {
			return holds, false, nil
		}
		next, changed := r.Apply(t, now, expires, l.AttemptsOf(s))
		if !changed {
			return next, false, nil
		}
		if next.State == session.Completed {
			next.Browser, next.Proven = step.Browser, step.Proven
			if s.OpenID {
				next.Age = s.Integration.Minimum()
				if e := step.Estimated; e > 0 { // the integration's ages can have been raised since the start
					next.Age = min(next.Age, e)
				}
			}
		} else if step.Entry.Method != "" && t != session.Succeeded { // an approval after the expiry
			step.Entry.At = now
			next, _ = next.With(step.Entry)
		}
		tx := kv.Tx{Partition: s.ID.Partition.Name(), Held: held}
		if err := l.addOutcome(&tx, s, next, version, step.Entry.Method); err != nil {
			return session.Record{}, false, err
		}
		for _, p := range r.Pending() { // they end with the attempt
			tx.Deletes = append(tx.Deletes, session.PendingName(p))
		}
		if err := l.identify(&tx); err != nil {
			return session.Record{}, false, err
		}
		err = kv.CommitSurely(ctx, l.KV, tx)
		var conflict *kv.Conflict
		switch {
		case err == nil:
			l.announce(tx)
			if next.Terminal() {
				if next.State != session.Expired {
					l.countEnd(s, next)
				}
				l.logEnd(ctx, s, next, step.Entry)
			} else {
				l.LogStep(ctx, s, step.Entry, nil)
			}
			return next, true, nil
		case errors.As(err, &conflict) && len(conflict.Lost) > 0:
			return session.Record{}, false, errLeaseLost
		case !errors.As(err, &conflict):
			return session.Record{}, false, err
		}
		// Retrying is safe even if this write was applied and another has replaced it since: the session has
		// then ended or is at another attempt.
	}
	return session.Record{}, false, errRaces
}

var errRaces = fmt.Errorf("%w: session changed %d times under one request", kv.ErrUnavailable, maxRaces)

var errLeaseLost = errors.New("lifecycle: lease lost")

// Errors of Claim. After each of them, the request is not sent.
var (
	// ErrAsked: another request about this attempt is in progress.
	ErrAsked = errors.New("lifecycle: the attempt is being asked about")
	// ErrRepeated: the form has already sent its only request.
	ErrRepeated = errors.New("lifecycle: the form has asked before")

	// ErrInterrupted is an ErrRepeated after a claim that timed out: its holder stored no result.
	ErrInterrupted = fmt.Errorf("%w, and the process that sent the request ended before the response",
		ErrRepeated)
	// ErrMovedOn: the session has ended, or is at another attempt.
	ErrMovedOn = errors.New("lifecycle: the session is no longer at this attempt")
)

// Asking describes the request that needs a claim.
type Asking struct {
	Attempt int
	Form    string // session.Proof of the handle of the form or authorization request; "": none
	Picture bool   // the request contains a photo
}

// maxForms is the number of forms that a session remembers. An older form may send its request again.
const maxForms = 8

// maxPictures is the maximum number of photos that a session sends, regardless of their result (contract 37).
const maxPictures = 10

// Claim reserves an attempt for one request until the given time, the decision of the attempt or GiveBack.
// This ensures that a request that must be sent once is sent once (contract 37). A form can claim only once.
// If the holder of a claim crashes, another request may follow after the time. Claim returns ErrAsked,
// ErrRepeated, ErrMovedOn, method.ErrTooMany or the store's error. After each error the caller sends no
// request.
func (l *Lifecycle) Claim(ctx context.Context, s Session, a Asking, life time.Duration) (
	claim string, err error) {
	for range maxRaces {
		r, version, err := l.Load(ctx, s.ID)
		if err != nil {
			return "", err
		}
		now := l.Now()
		r = r.As(now, s.ID.Expires())
		switch {
		case r.Terminal() || r.Attempts != a.Attempt:
			return "", ErrMovedOn
		case r.IsAsked(now):
			return "", ErrAsked
		case a.Form != "" && strings.Contains(r.Forms, a.Form):
			if !r.AskedUntil.IsZero() {
				return "", ErrInterrupted
			}
			return "", ErrRepeated
		case a.Picture && r.Pictures >= maxPictures:
			return "", method.ErrTooMany
		}
		r.AskedUntil, r.Forms = now.Add(life), r.Forms+a.Form
		if over := len(r.Forms) - maxForms*len(a.Form); a.Form != "" && over > 0 {
			r.Forms = r.Forms[over:]
		}
		if a.Picture {
			r.Pictures++
		}
		if _, err := l.put(ctx, s, r, version, kv.Tx{}); !kv.IsConflict(err) {
			return claimIn(r), err
		}
	}
	return "", errRaces
}

// claimIn returns the claim in a record, or "". A claim is known by its end: the next one of the session ends
// later. The version of the record does not identify it, because other tabs change the record, such as by a
// pending response.
func claimIn(r session.Record) string {
	if r.AskedUntil.IsZero() {
		return ""
	}
	return strconv.FormatInt(r.AskedUntil.UnixMilli(), 10)
}

// GiveBack ends a claim without a decision, so that another form can claim immediately. If the attempt was
// decided or has another claim, it has no effect.
func (l *Lifecycle) GiveBack(ctx context.Context, s Session, claim string) error {
	for range maxRaces {
		r, version, err := l.Load(ctx, s.ID)
		if err != nil || r.Terminal() || claim == "" || claimIn(r) != claim {
			return err
		}
		r.AskedUntil = time.Time{}
		if _, err = l.put(ctx, s, r, version, kv.Tx{}); !kv.IsConflict(err) {
			return err
		}
	}
	return errRaces
}

// put replaces that version of the record of an active session, and commits tx with it. It returns the new
// version.
func (l *Lifecycle) put(ctx context.Context, s Session, r session.Record, version string, tx kv.Tx) (
	string, error) {
	tx.Partition = s.ID.Partition.Name()
	if err := l.addOutcome(&tx, s, r, version, ""); err != nil {
		return "", err
	}
	if err := l.identify(&tx); err != nil {
		return "", err
	}
	return tx.ID, kv.CommitSurely(ctx, l.KV, tx)
}

// Expire handles a leased expiry timer.
func (l *Lifecycle) Expire(ctx context.Context, s Session, job host.Job) error {
	held := []kv.Held{{TaskID: job.Task.ID, Lease: job.Task.Lease}}
	r, ended, err := l.fire(ctx, s, Step{Trigger: session.TimeUp, Attempt: anyAttempt}, held)
	switch {
	case ended: // the commit removed the timer too
		l.countEnd(s, r)
		return nil
	case errors.Is(err, errLeaseLost):
		return nil
	case err != nil:
		return err
	}
	// The timer still exists. Either it fired early, by the faster clock of another instance, or the session
	// has ended without it, such as by reconcile.
	tx := kv.Tx{Partition: job.Partition, Held: held}
	if r.Terminal() {
		tx.Cancel = []string{job.Task.ID}
	} else {
		tx.Schedule = []kv.Task{{ID: job.Task.ID, Due: s.ID.Expires(), Payload: job.Task.Payload}}
	}
	if err := l.identify(&tx); err != nil {
		return err
	}
	err = kv.CommitSurely(ctx, l.KV, tx)
	switch {
	case kv.IsConflict(err):
		return nil
	case err != nil:
		return err
	case r.State == session.Expired:
		l.countEnd(s, r)
	}
	l.announce(tx)
	return nil
}

// addOutcome adds to tx that record r replaces that version. If r is final, it also adds the event and the
// entry in the list of finished sessions, and removes the timer, except for an expired session that still
// needs it (countEnd). method is the one that ended the session; "": the last one of the record's steps did.
func (l *Lifecycle) addOutcome(tx *kv.Tx, s Session, r session.Record, version, method string) error {
	key := s.ID.Key()
	value, err := token.SignRecord(l.Sealer, key.String(), r.Marshal())
	if err != nil {
		return err
	}
	tx.Checks = append(tx.Checks, kv.Check{Name: key.Name, Tx: version})
	kept := s.ID.Expires().Add(l.OutcomeLife + host.ClockMargin)
	tx.Puts = append(tx.Puts, kv.Put{Name: key.Name, Value: value, Expires: kept})
	if !r.Terminal() {
		return nil
	}
	if steps := r.Steps.All(); method == "" && len(steps) > 0 {
		method = steps[len(steps)-1].Method
	}
	entry, err := finished.Put(l.Sealer, s.Integration.PublisherID, finished.Session{ID: s.ID, Text: s.Text,
		Ended: r.At, Outcome: outcomeOf(r), Method: method}, kept)
	if err != nil {
		return err
	}
	tx.Puts = append(tx.Puts, entry)
	if r.State != session.Expired || len(tx.Held) > 0 {
		tx.Cancel = append(tx.Cancel, s.ID.TimerID())
	}
	if s.Integration.Webhook.Sends() {
		return l.addEvent(tx, s, r, l.Now())
	}
	return nil
}

// addEvent adds the delivery of a state's event to tx. A completed or failed event has the time of the
// record, so that outbox.OfSession finds it.
func (l *Lifecycle) addEvent(tx *kv.Tx, s Session, r session.Record, now time.Time) error {
	h := webhook.Head{ID: webhook.NewID(l.Random), CreatedAt: now, PublisherID: s.Integration.PublisherID,
		IntegrationID: s.Integration.ID, SessionID: s.Text}
	var e webhook.Event
	switch r.State {
	case session.Completed:
		h.CreatedAt = r.At
		e = webhook.Completed(h, s.ID.Level.String(), s.ID.ChallengeAge, s.User, s.State)
	case session.Failed:
		h.CreatedAt = r.At
		e = webhook.Failed(h, r.FailureCode, webhook.FailureMessage(r.FailureCode), s.User, s.State)
	case session.Expired:
		e = webhook.Expired(h, s.ID.Expires())
	default:
		e = webhook.Started(h, s.ID.Expires())
	}
	task, err := outbox.Event(l.Sealer, e, s.Integration.ID, now)
	tx.Schedule = append(tx.Schedule, task)
	return err
}

func (l *Lifecycle) identify(tx *kv.Tx) (err error) {
	tx.ID, err = kv.NewTxID(l.Random)
	return err
}

// announce reports the due times of tx's scheduled tasks to the runner.
func (l *Lifecycle) announce(tx kv.Tx) {
	for _, t := range tx.Schedule {
		l.Wake(tx.Partition, t.Due)
	}
}

// logEnd logs the end of a session for operators. last is the step that ended it. An expired session has no
// such step; the last step in the record is then logged, if any.
func (l *Lifecycle) logEnd(ctx context.Context, s Session, r session.Record, last session.Step) {
	if steps := r.Steps.All(); last.Method == "" && len(steps) > 0 {
		last = steps[len(steps)-1]
	}
	last.Result = "" // part of the state
	attrs := append(StepAttrs(s, last, nil), slog.String("state", r.State.Status()))
	if r.FailureCode != "" {
		attrs = append(attrs, slog.String("code", r.FailureCode))
	}
	l.Log.LogAttrs(ctx, slog.LevelInfo, "session ended", attrs...)
}

// countOf returns the counter name for the end of a session.
func countOf(s session.State) string {
	switch s {
	case session.Completed:
		return metric.SessionCompleted
	case session.Failed:
		return metric.SessionFailed
	}
	return metric.SessionExpired
}

// outcomeOf returns the outcome name of a final record for usage.
func outcomeOf(r session.Record) string {
	switch {
	case r.State == session.Completed:
		return host.OutcomeCompleted
	case r.State == session.Expired:
		return host.OutcomeExpired
	case r.FailureCode == webhook.FailureProviderRejected:
		return host.OutcomeRejected
	case r.FailureCode == webhook.FailureMaxAttempts:
		return host.OutcomeMaxAttempts
	case r.FailureCode == webhook.FailureUserCancelled:
		return host.OutcomeCancelled
	}
	return host.OutcomeUnknown
}

// countEnd counts the end of a session. It is called only after this instance's own commit has decided the
// outcome, so that each outcome counts once across all instances. Expirations are an exception, because
// reconcile cannot know whether a session has a timer: they count when the timer is removed. Without a timer,
// the instance that started the session counts the expiry if no other end was counted (contract 44).
func (l *Lifecycle) countEnd(s Session, r session.Record) {
	l.Count(countOf(r.State))
	l.countUsage(s, outcomeOf(r))
	if s.Untimed {
		l.countUsage(s, host.OutcomeUntimedEnded)
	}
}

func (l *Lifecycle) countUsage(s Session, outcome string) {
	l.CountUsage(host.UsageEvent{Integration: s.ID.Integration, Outcome: outcome})
}
