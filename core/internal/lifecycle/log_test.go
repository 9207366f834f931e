package lifecycle

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// accepting is a Fetcher whose receivers accept every event.
type accepting struct{}

func (accepting) Fetch(context.Context, host.FetchRequest) (host.FetchResponse, error) {
	return host.FetchResponse{Status: 204}, nil
}

// The record of a session determines the places of its events in the log, regardless of the time between the
// steps.
func TestLog_EventsOfSession(t *testing.T) {
	for name, c := range map[string]struct {
		initiated bool
		end       func(t *testing.T, w *fixture, s Session)
		want      []string
	}{
		"pending": {true, func(*testing.T, *fixture, Session) {}, []string{webhook.TypeStarted}},
		"completed": {true, func(t *testing.T, w *fixture, s Session) {
			_, err := w.Fire(ctx, s, Step{Trigger: session.Succeeded})
			coretest.Must(t, err)
		}, []string{webhook.TypeStarted, webhook.TypeCompleted}},
		"failed": {true, func(t *testing.T, w *fixture, s Session) {
			_, err := w.Fire(ctx, s, Step{Trigger: session.Rejected})
			coretest.Must(t, err)
		}, []string{webhook.TypeStarted, webhook.TypeFailed}},
		"could not begin": {false, func(*testing.T, *fixture, Session) {},
			[]string{webhook.TypeStarted, webhook.TypeFailed}},
		"expired, and the timer is late": {true, func(t *testing.T, w *fixture, s Session) {
			w.Clock.Advance(2 * time.Hour)
			tasks, _, err := w.Memory.Claim(ctx, "p3", w.Clock.Now(), time.Minute, 10)
			coretest.Must(t, err)
			for _, task := range tasks {
				job := host.Job{Partition: "p3", Task: task, Until: w.Clock.Now().Add(time.Minute)}
				if m, _, err := outbox.Read(task); err == nil && m.Kind == outbox.Expire {
					coretest.Must(t, w.Expire(ctx, s, job))
				}
			}
			w.Clock.Advance(2 * time.Minute) // the other leases have ended
		}, []string{webhook.TypeStarted, webhook.TypeExpired}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			s := w.session(t, withWebhook)
			w.Lifecycle.Now = func() time.Time {
				w.Clock.Advance(1700 * time.Microsecond)
				return w.Clock.Now()
			}
			w.Clock.Advance(40 * time.Millisecond)
			coretest.Must(t, w.Begin(ctx, s, beginning(c.initiated), nil, nil))
			w.Clock.Advance(3 * time.Second)
			c.end(t, w, s)

			directory := integration.NewDirectory(w.Host.Host)
			coretest.Must(t, directory.PutIntegration(ctx, *s.Integration, "whsec_only_for_tests"))
			box := &outbox.Outbox{Host: w.Host.Host, Directory: directory, AttemptTime: outbox.AttemptTime,
				Partitions: []kv.Partition{"p3"}}
			box.Fetch = accepting{}
			tasks, _, err := w.Memory.Claim(ctx, "p3", w.Clock.Now(), time.Minute, 10)
			coretest.Must(t, err)
			for _, task := range tasks {
				m, sealed, err := outbox.Read(task)
				coretest.Must(t, err)
				job := host.Job{Partition: "p3", Task: task, Until: w.Clock.Now().Add(time.Minute)}
				coretest.Must(t, box.Deliver(ctx, job, m, sealed))
			}
			r := w.record(t, s)
			events, err := box.OfSession(ctx, s.ID, r.At)
			coretest.Must(t, err)
			var types []string
			for _, e := range events {
				types = append(types, e.Type)
			}
			if !slices.Equal(types, c.want) {
				t.Errorf("contract 44: the log has the events %q of the session, want %q", types, c.want)
			}
		})
	}
}
