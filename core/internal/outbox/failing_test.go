package outbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/kvadapters/kvtest"
)

const alertURL = "https://alerts.publisher.example/verge"

// alerting is a fixture whose integration has an alert URL. Its webhook answers with hook, its alert URL with
// alert.
type alerting struct {
	*fixture
	hook, alert int
	alerts      []host.FetchRequest
}

func newAlerting(t testing.TB) *alerting {
	t.Helper()
	a := &alerting{fixture: newFixture(t), hook: 503, alert: 204}
	a.answer = func(r host.FetchRequest) (int, error) {
		if r.URL == alertURL {
			a.alerts = append(a.alerts, r)
			return a.alert, nil
		}
		return a.hook, nil
	}
	a.setAlert(t, alertURL)
	return a
}

func (a *alerting) setAlert(t testing.TB, url string) {
	t.Helper()
	coretest.Must(
		t,
		a.Directory.PutIntegration(ctx, integration.Integration{ID: testUUID, PublisherID: "pub_a",
			Webhook: integration.Webhook{URL: hookURL}, AlertURL: url}, secret),
	)
}

// pass moves the clock and then runs all due tasks of all partitions.
func (a *alerting) pass(t testing.TB, d time.Duration) {
	t.Helper()
	a.Clock.Advance(d)
	for _, p := range a.Partitions {
		now := a.Clock.Now()
		tasks, _, err := a.Memory.Claim(ctx, p, now, lease, 100)
		coretest.Must(t, err)
		for _, task := range tasks {
			m, sealed, err := Read(task)
			coretest.Must(t, err)
			coretest.Must(
				t,
				a.Deliver(ctx, host.Job{Partition: p, Task: task, Until: now.Add(lease)}, m, sealed),
			)
		}
	}
}

// failing returns the state as operators see it, in minutes since the beginning; -1 is no time.
func (a *alerting) failing(t testing.TB, begin time.Time) (since, alerted int) {
	t.Helper()
	i, err := a.Directory.Integration(ctx, testUUID)
	coretest.Must(t, err)
	s, w, err := a.Failing(ctx, i)
	coretest.Must(t, err)
	minutes := func(at time.Time) int {
		if at.IsZero() {
			return -1
		}
		return int(at.Sub(begin).Minutes())
	}
	return minutes(s), minutes(w)
}

func (a *alerting) wantFailing(t testing.TB, begin time.Time, since, alerted, alerts int) {
	t.Helper()
	s, w := a.failing(t, begin)
	if s != since || w != alerted || len(a.alerts) != alerts {
		t.Errorf(
			"contract 61: failing since %d, alerted %d, %d alerts; want %d, %d, %d",
			s,
			w,
			len(a.alerts),
			since,
			alerted,
			alerts,
		)
	}
}

// An hour of failures creates one alert. The next one comes a day later. A delivery ends the failure.
func TestAlert_OnceADay(t *testing.T) {
	for name, status := range map[string]int{"contract 61: retries": 503, "contract 61: rejections": 401} {
		t.Run(name, func(t *testing.T) {
			a := newAlerting(t)
			a.hook = status
			begin := a.Clock.Now()
			a.wantFailing(t, begin, -1, -1, 0)
			each := func(d time.Duration) {
				t.Helper()
				a.schedule(t)
				a.pass(t, d)
				a.pass(t, time.Millisecond) // the alert itself
			}
			each(0)
			a.wantFailing(t, begin, 0, -1, 0)
			each(59 * time.Minute)
			a.wantFailing(t, begin, 0, -1, 0)
			each(2 * time.Minute)
			a.wantFailing(t, begin, 0, 61, 1)
			for range 11 {
				each(2 * time.Hour)
			}
			a.wantFailing(t, begin, 0, 61, 1)
			each(3 * time.Hour)
			a.wantFailing(t, begin, 0, 61+25*60, 2)
			a.hook = 204
			each(time.Minute)
			a.wantFailing(t, begin, -1, -1, 2)
			a.hook = status
			again := 61 + 25*60 + 1 + 60
			each(time.Hour)
			a.wantFailing(t, begin, again, 61+25*60, 2)
			each(2 * time.Hour)
			a.wantFailing(t, begin, again, 61+25*60, 2) // the day of the alert is not over
			each(21 * time.Hour)
			a.wantFailing(t, begin, again, again+23*60, 3)
			a.hook = 204
			each(25 * time.Hour)
			a.wantFailing(t, begin, -1, -1, 3)
			a.hook = status
			each(0)
			each(59 * time.Minute)
			if s, w := a.failing(t, begin); s < 0 || w != -1 {
				t.Errorf("contract 61: a new failure begins a new hour: %d, %d", s, w)
			}
		})
	}
}

// While there is no alert URL, deliveries are not tracked. Setting one begins a new hour, but no new day.
func TestAlert_URLSetAgain(t *testing.T) {
	a := newAlerting(t)
	begin := a.Clock.Now()
	fail := func(d time.Duration) {
		t.Helper()
		a.schedule(t)
		a.pass(t, d)
		a.pass(t, time.Millisecond) // the alert itself
	}
	set := func(url string) {
		t.Helper()
		v, err := a.Directory.ReadIntegration(ctx, testUUID)
		coretest.Must(t, err)
		v.Value.AlertURL = url
		coretest.Must(t, a.Directory.PutIntegration(ctx, v.Value, ""))
	}
	fail(0)
	fail(time.Hour)
	a.wantFailing(t, begin, 0, 60, 1)
	set("https://alerts.publisher.example/other") // the failure continues
	a.wantFailing(t, begin, 0, 60, 1)
	set("")
	a.Clock.Advance(10 * time.Hour)
	set(alertURL)
	a.wantFailing(t, begin, -1, -1, 1)
	fail(time.Minute)
	a.wantFailing(t, begin, 11*60+1, 60, 1)
	fail(2 * time.Hour)
	a.wantFailing(t, begin, 11*60+1, 60, 1) // the day of the alert is not over
	fail(12 * time.Hour)
	a.wantFailing(t, begin, 11*60+1, 25*60+1, 2)
}

// The event has no session and is signed like every event, and it is in the log of deliveries.
func TestAlert_Event(t *testing.T) {
	a := newAlerting(t)
	begin := a.Clock.Now()
	a.alert = 500
	a.schedule(t)
	a.pass(t, 0)
	a.schedule(t)
	a.pass(t, time.Hour)
	a.pass(t, time.Millisecond)
	a.alert = 204
	a.pass(t, 7*time.Second) // the first retry
	if len(a.alerts) != 2 || string(a.alerts[0].Body) != string(a.alerts[1].Body) {
		t.Fatalf("contract 61: %d attempts, want a retry with the same bytes", len(a.alerts))
	}
	header := http.Header{}
	for name, value := range a.alerts[1].Header {
		header.Set(name, value)
	}
	if err := webhook.Verify(secret, header, a.alerts[1].Body, a.Clock.Now(), 0); err != nil {
		t.Errorf("contract 61: %v", err)
	}
	var e webhook.Event
	coretest.Must(t, json.Unmarshal(a.alerts[1].Body, &e))
	since, err := time.Parse(time.RFC3339, *e.Data.Since)
	if err != nil || since.Sub(begin).Abs() > time.Millisecond || e.Type != webhook.TypeFailing ||
		e.Data.Status != webhook.StatusFailing || e.PublisherID != "pub_a" ||
		e.IntegrationID != "int_"+testUUID ||
		e.IdempotencyKey != "int_"+testUUID+":webhook.failing:"+e.CreatedAt || e.Test ||
		strings.Contains(string(a.alerts[1].Body), "session_id") {
		t.Errorf("contract 61: %s", a.alerts[1].Body)
	}
	var logged []string
	for _, d := range a.log(t, StateDelivered) {
		logged = append(logged, fmt.Sprint(d.Type, len(d.Attempts), d.Session))
		if string(d.Body) != string(a.alerts[1].Body) {
			t.Errorf("contract 61: the log has %s, want %s", d.Body, a.alerts[1].Body)
		}
	}
	if fmt.Sprint(logged) != "[webhook.failing2]" {
		t.Errorf("contract 61: the log has %v", logged)
	}
	a.wantFailing(t, begin, 0, 60, 2) // the alert that was delivered is no delivery of the webhook
}

// A task whose unsealed type was changed does not go to the alert URL, and a sealed alert does not go to the
// webhook.
func TestAlert_TypeIsSealed(t *testing.T) {
	a := newAlerting(t)
	e := a.schedule(t)
	job := a.claimOne(t)
	m, sealed, err := Read(job.Task)
	coretest.Must(t, err)
	m.Type = webhook.TypeFailing
	coretest.Must(t, a.Deliver(ctx, job, m, sealed))
	if len(a.alerts) != 0 || len(a.posts) != 1 || a.posts[0].URL != hookURL {
		t.Errorf("contract 19: %s went to %+v", e.ID, a.posts)
	}
	alert := webhook.Failing(webhook.Head{ID: webhook.NewID(a.Outbox.Random), CreatedAt: a.Clock.Now(),
		PublisherID: "pub_a", IntegrationID: testUUID}, a.Clock.Now())
	a.setAlert(t, "") // since then, there is no address for it
	coretest.Must(
		t,
		a.Memory.Commit(ctx, kv.Tx{ID: "alert", Partition: "p0", Schedule: []kv.Task{a.task(t, alert)}}),
	)
	a.pass(t, time.Millisecond)
	if len(a.posts) != 1 {
		t.Errorf("contract 61: an alert went to %s", a.posts[1].URL)
	}
}

// Without an alert URL nothing is read or written. A store that fails loses no attempt.
func TestAlert_Cost(t *testing.T) {
	a := newAlerting(t)
	calls := map[string]int{}
	fail := false
	a.Store.Decide = func(c kvtest.Call) kvtest.Fault {
		tracked := strings.HasPrefix(c.Key.Name, failingPrefix)
		if c.Tx != nil && len(c.Tx.Checks) > 0 {
			tracked = strings.HasPrefix(c.Tx.Checks[0].Name, failingPrefix)
		}
		if tracked {
			calls[c.Method]++
			if fail {
				return kvtest.Reject
			}
		}
		return kvtest.Pass
	}
	count := func(name, want string) {
		t.Helper()
		if got := fmt.Sprint(calls); got != want {
			t.Errorf("contract 61: %s: %s, want %s", name, got, want)
		}
		clear(calls)
	}
	a.hook = 204
	a.schedule(t)
	a.pass(t, 0)
	count("a delivery", "map[Get:1]")
	a.hook = 503
	a.schedule(t)
	a.pass(t, 0)
	count("the first failure", "map[Commit:1 Get:1]")
	a.pass(t, 7*time.Second)
	count("another failure", "map[Get:1]")
	fail = true
	a.hook = 204
	a.pass(t, time.Minute)
	count("a failing store", "map[Get:1]")
	if got := len(a.log(t, StateDelivered)); got != 2 {
		t.Errorf("contract 61: %d events were delivered, want 2", got)
	}
	a.setAlert(t, "")
	a.schedule(t)
	a.pass(t, 0)
	count("no alert URL", "map[]")
}
