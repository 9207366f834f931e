package operate

import (
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/outbox"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
)

// Contract 61: operators and members see since when deliveries fail, and the latest alert.
func TestIntegration_Failing(t *testing.T) {
	w := newFixture(t)
	coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{ID: intA, PublisherID: pubA,
		Name: "Shop", Level: "L1", ChallengeAge: 25, Method: "sandbox",
		Webhook:  integration.Webhook{URL: "https://hooks.publisher.example/"},
		AlertURL: "https://alerts.publisher.example/"}, secret))
	begin := w.Clock.Now().Truncate(time.Millisecond)
	for _, c := range []struct {
		rule           string
		after          time.Duration // from the case before
		status         int
		since, alerted time.Duration // from the beginning; -1 is absent
	}{
		{"a delivery", 0, 200, -1, -1},
		{"the first failure", time.Minute, 503, time.Minute, -1},
		{"an hour of failures", time.Hour, 503, time.Minute, time.Minute + time.Hour},
		{"a delivery ends it", time.Minute, 200, -1, -1},
	} {
		w.Clock.Advance(c.after)
		w.answer = func(host.FetchRequest) (int, error) { return c.status, nil }
		w.deliver(t, c.rule)
		for _, who := range []Actor{operator, viewer} {
			v, err := w.Integration(ctx, who, intA)
			coretest.Must(t, err)
			since, alerted := time.Duration(-1), time.Duration(-1)
			if v.Failing != nil {
				since = v.Failing.Since.Sub(begin)
				if v.Failing.Alerted != nil {
					alerted = v.Failing.Alerted.Sub(begin)
				}
			}
			if since.Truncate(time.Second) != c.since.Truncate(time.Second) ||
				alerted.Truncate(time.Second) != c.alerted.Truncate(time.Second) {
				t.Errorf("contract 61: %s, as %s: since %s, alerted %s", c.rule, who.Name, since, alerted)
			}
		}
	}
	_, err := w.Deliveries(ctx, viewer, DeliveryQuery{Integration: intA, Type: webhook.TypeFailing})
	if err != nil {
		t.Errorf("contract 61: alerts cannot be selected in the log of deliveries: %v", err)
	}
}

// deliver schedules an event and makes one attempt to deliver it.
func (w *fixture) deliver(t testing.TB, id string) {
	t.Helper()
	now := w.Clock.Now()
	e := webhook.Started(webhook.Head{ID: webhook.NewID(w.Host.Random), CreatedAt: now, PublisherID: pubA,
		IntegrationID: intA, SessionID: id}, now)
	task, err := outbox.Event(w.Host.Sealer, e, intA, now)
	coretest.Must(t, err)
	coretest.Must(t, w.Host.KV.Commit(ctx, kv.Tx{ID: id, Partition: "p1", Schedule: []kv.Task{task}}))
	claimed, _, err := w.Host.KV.Claim(ctx, "p1", now.Add(time.Second), time.Minute, 1)
	coretest.Must(t, err)
	m, sealed, err := outbox.Read(claimed[0])
	coretest.Must(t, err)
	job := host.Job{Partition: "p1", Task: claimed[0], Until: now.Add(time.Minute)}
	coretest.Must(t, w.Outbox.Deliver(ctx, job, m, sealed))
}
