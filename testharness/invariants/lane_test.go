package invariants_test

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

// I9: an endpoint that hangs adds nothing that could be felt to what the
// others wait for. Two services take the same load in turns, one of them with
// a dead endpoint besides; what is compared is the median of their 99th
// percentiles, in one run on one machine.
//
// The invariant's "under 10 %" is of a few milliseconds here, less than what
// the machine itself adds at times, so the bound is a fifth of the time that
// one attempt at the dead endpoint takes: whoever had to wait for a place
// behind it would wait that long, or several times that.
func TestI9ADeadEndpointDelaysNobody(t *testing.T) {
	const rounds, each, pause = 3, 100, 8 * time.Millisecond
	calm := newService(t, setup{Store: openMemory(t)})
	dead := newService(t, setup{Store: openMemory(t)})
	hole := newSink(t)
	hole.always(func(webhook.Event, int) reply { return reply{hang: true} })
	dead.configure(otherID, hole.URL)
	for range 200 { // a backlog, more than all places that there are for one receiver
		dead.start(otherID)
	}
	if !within(recovery, func() bool { return len(hole.all()) >= 16 }) {
		t.Fatal("the dead endpoint is not tried")
	}
	var without, with []time.Duration
	for range rounds {
		without = append(without, p99(t, calm, each, pause))
		with = append(with, p99(t, dead, each, pause))
	}
	slices.Sort(without)
	slices.Sort(with)
	a, b := without[rounds/2], with[rounds/2]
	t.Logf("I9: p99 without %v, with a dead endpoint %v: %+.0f %%", a, b, 100*(b.Seconds()/a.Seconds()-1))
	if attempt := 700 * time.Millisecond; b > a*11/10+attempt/5 {
		t.Errorf("I9: p99 is %v with a dead endpoint and %v without: others wait for it", b, a)
	}
}

// p99 is how late the events of so many sessions came, while as many begin
// whose events go to the other integration.
func p99(t *testing.T, s *service, n int, pause time.Duration) time.Duration {
	t.Helper()
	posts := func() (mine []post) {
		for _, p := range s.sink.all() {
			if p.IntegrationID == "int_"+integrationID {
				mine = append(mine, p)
			}
		}
		return mine
	}
	before := len(posts())
	for range n {
		s.begin(1)
		s.start(otherID)
		time.Sleep(pause)
	}
	if !within(recovery, func() bool { return len(posts()) >= before+n }) {
		t.Fatalf("I9: %d of %d events came", len(posts())-before, n)
	}
	var late []time.Duration
	for _, p := range posts()[before:] {
		created, err := time.Parse(time.RFC3339, p.CreatedAt)
		must(t, err)
		late = append(late, p.at.Sub(created))
	}
	slices.Sort(late)
	return late[len(late)*99/100]
}
