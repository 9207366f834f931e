package finished

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/kv"
)

const (
	publisher = "pub_a"
	shop      = "694069ac-4d4e-475f-906b-2f11c5eca7bd"
	kiosk     = "77777777-7777-4777-8777-777777777702"
)

var ctx = context.Background()

type fixture struct {
	*testhost.Host
	t     *testing.T
	list  List
	texts []string // the ids, the latest first
}

// newFixture has a session each hour: number n ended n hours ago.
func newFixture(t *testing.T, n int) *fixture {
	w := &fixture{Host: testhost.New(t), t: t}
	w.list = List{Host: w.Host.Host, Partitions: []kv.Partition{"p0", "p1", "p2"}}
	now := w.Clock.Now()
	for k := range n {
		integration := []string{shop, kiosk}[k%2]
		ended := now.Add(-time.Duration(k) * time.Hour)
		id, err := session.NewID(w.Random, integration, session.L1, 25, ended.Add(-time.Minute),
			session.Partition(k%3))
		coretest.Must(t, err)
		text, err := id.Format(w.Sealer)
		coretest.Must(t, err)
		w.texts = append(w.texts, text)
		w.put(publisher, Session{ID: id, Text: text, Ended: ended,
			Outcome: []string{host.OutcomeCompleted, host.OutcomeExpired, host.OutcomeRejected}[k%3],
			Method:  []string{"bank", "camera", "", "bank"}[k%4]})
	}
	return w
}

func (w *fixture) put(of string, s Session) kv.Put {
	w.t.Helper()
	put, err := Put(w.Sealer, of, s, w.Clock.Now().Add(time.Hour))
	coretest.Must(w.t, err)
	coretest.Must(w.t, w.KV.Commit(ctx, kv.Tx{ID: put.Name, Partition: s.ID.Partition.Name(),
		Puts: []kv.Put{put}}))
	return put
}

// read returns the numbers of the sessions that a query finds, over all pages.
func (w *fixture) read(q Query) (numbers []int) {
	w.t.Helper()
	q.Publisher = publisher
	for {
		page, err := w.list.Read(ctx, q)
		coretest.Must(w.t, err)
		if len(page.Sessions) > q.Limit {
			w.t.Fatalf("a page of %d sessions, want %d", len(page.Sessions), q.Limit)
		}
		for _, s := range page.Sessions {
			for n, text := range w.texts {
				if text == s.Text {
					numbers = append(numbers, n)
				}
			}
		}
		if q.After = page.Next; q.After == "" {
			return numbers
		}
	}
}

// Contract 44: finished sessions by time, outcome, method and integration, the latest first.
func TestList_Filters(t *testing.T) {
	w := newFixture(t, 60)
	now := w.Clock.Now()
	today := host.DayOf(now)
	for rule, c := range map[string]struct {
		query Query
		takes func(n int) bool
	}{
		"all":            {Query{}, func(int) bool { return true }},
		"an outcome":     {Query{Outcome: host.OutcomeExpired}, func(n int) bool { return n%3 == 1 }},
		"a method":       {Query{Method: "bank"}, func(n int) bool { return n%4 == 0 || n%4 == 3 }},
		"an integration": {Query{Integration: kiosk}, func(n int) bool { return n%2 == 1 }},
		"a day": {Query{From: today - 1, To: today - 1}, func(n int) bool {
			return host.DayOf(now.Add(-time.Duration(n)*time.Hour)) == today-1
		}},
		"no results": {Query{Method: "palm"}, func(int) bool { return false }},
	} {
		for _, limit := range []int{1, 7, 200} {
			t.Run(fmt.Sprint("contract 44: ", rule, " by ", limit), func(t *testing.T) {
				var want []int
				for n := range 60 {
					if c.takes(n) {
						want = append(want, n)
					}
				}
				q := c.query
				q.Limit = limit
				if got := w.read(q); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%v, want %v", got, want)
				}
			})
		}
	}
}

// Contract 19: an entry that this service did not write at its place does not count, and is reported.
func TestList_Foreign(t *testing.T) {
	w := newFixture(t, 3)
	page, err := w.list.Read(ctx, Query{Publisher: publisher, Limit: 1})
	coretest.Must(t, err)
	moved := w.put("pub_b", page.Sessions[0])
	moved.Name = strings.Replace(moved.Name, "pub_b", publisher, 1) + "00"
	coretest.Must(t, w.KV.Commit(ctx, kv.Tx{ID: "moved", Partition: "p0", Puts: []kv.Put{moved}}))
	if got := w.read(Query{Limit: 10}); len(got) != 3 {
		t.Errorf("%v, want the three sessions of this service", got)
	}
	_, err = w.list.Read(ctx, Query{Publisher: publisher, After: "x", Limit: 1})
	if !errors.Is(err, ErrCursor) {
		t.Errorf("a cursor that no page has: %v", err)
	}
}
