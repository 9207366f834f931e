package lifecycle

import (
	"context"
	"log/slog"
	"time"

	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
)

// stepMessage returns the log message for a step that does not end the session, by session.Step's Result.
func stepMessage(result string) string {
	switch result {
	case metric.MethodUnavailable, metric.MethodFailed, metric.MethodResponseRejected:
		return "method failed"
	case metric.MethodAttemptFailed:
		return "attempt failed"
	case metric.MethodCancelled:
		return "method cancelled"
	case metric.MethodLeft:
		return "method begun" // the browser is at another site, or waits for a wallet
	}
	return ""
}

// Ended logs a step after which the user has to begin again. It stores the step in the record, which costs a
// commit, and ends the claim of the attempt. cause is for the log and may be nil. If the store fails, the
// step is only logged, and the claim times out.
func (l *Lifecycle) Ended(ctx context.Context, s Session, claim string, step session.Step, cause error) {
	step.At = l.Now()
	l.LogStep(ctx, s, step, cause)
	if err := l.keep(ctx, s, claim, step); err != nil {
		l.Log.LogAttrs(ctx, slog.LevelDebug, "step not kept", slog.String("session", s.Text),
			slog.String("error", err.Error()))
	}
}

// LogStep logs a step without storing it. cause may be nil.
func (l *Lifecycle) LogStep(ctx context.Context, s Session, step session.Step, cause error) {
	level := slog.LevelInfo
	switch step.Result {
	case metric.MethodUnavailable, metric.MethodFailed, metric.MethodResponseRejected:
		level = slog.LevelWarn
	}
	l.Log.LogAttrs(ctx, level, stepMessage(step.Result), StepAttrs(s, step, cause)...)
}

// StepAttrs returns the log attributes of a session and of its last step.
func StepAttrs(s Session, step session.Step, cause error) []slog.Attr {
	attrs := []slog.Attr{slog.String("session", s.Text)}
	for _, a := range [...][2]string{{"method", step.Method}, {"reason", step.Reason},
		{"setting", step.Setting},
		{"detail", step.Detail}, {"result", step.Result}, {"integration", s.Integration.ID},
		{"publisher", s.Integration.PublisherID}} {
		if a[1] != "" {
			attrs = append(attrs, slog.String(a[0], a[1]))
		}
	}
	if cause != nil {
		attrs = append(attrs, slog.String("error", cause.Error()))
	}
	return attrs
}

// keep adds a step to the record of an active session, and ends the claim. While another request has claimed
// the attempt, keep does not write: that request decides.
func (l *Lifecycle) keep(ctx context.Context, s Session, claim string, step session.Step) error {
	for range maxRaces {
		r, version, err := l.Load(ctx, s.ID)
		if err != nil {
			return err
		}
		now := l.Now()
		own := claim != "" && claimIn(r) == claim
		if r = r.As(now, s.ID.Expires()); r.Terminal() || r.IsAsked(now) && !own {
			return nil
		}
		next, changed := r.With(step)
		if !next.AskedUntil.IsZero() { // this step's own claim, or a claim that timed out
			next.AskedUntil, changed = time.Time{}, true
		}
		if !changed {
			return nil
		}
		if _, err = l.put(ctx, s, next, version, kv.Tx{}); !kv.IsConflict(err) {
			return err
		}
	}
	return errRaces
}
