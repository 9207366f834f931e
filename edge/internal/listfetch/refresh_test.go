package listfetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
)

// lists is a store of one list, as several instances see it.
type lists struct {
	mu      sync.Mutex
	now     func() time.Time
	stored  operate.TrustList
	claimed time.Time // until
	err     error
	loads   int
}

func newLists(now func() time.Time) *lists {
	return &lists{
		now:    now,
		stored: operate.TrustList{Method: "wallet", Name: "eu", State: operate.ListMissing},
	}
}

func (s *lists) All(context.Context) ([]operate.TrustList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []operate.TrustList{s.stored}, s.err
}

func (s *lists) Load(_ context.Context, in operate.TrustListInput) (operate.TrustList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return operate.TrustList{}, s.err
	}
	s.loads++
	at := s.now()
	s.stored.Fetched, s.stored.NextUpdate, s.stored.Document = &at, &in.NextUpdate, in.Document
	s.stored.State, s.stored.Entries = operate.ListGood, len(in.Certificates)
	return s.stored, nil
}

// count returns the number of loads.
func (s *lists) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads
}

func (s *lists) Claim(_ context.Context, _, _ string, until time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.now().Before(s.claimed) {
		return false, s.err
	}
	s.claimed = until
	return true, nil
}

// metrics keeps its reports.
type metrics struct {
	failed  []string
	entries int
	next    time.Time
}

func (m *metrics) TrustList(_, _ string, next, _, _ time.Time, entries int) {
	m.next, m.entries = next, entries
}

func (m *metrics) TrustListFailed(of, list, reason string) {
	m.failed = append(m.failed, of+" "+list+" "+reason)
}

// instance is a Refresher with its parts.
type instance struct {
	*Refresher
	metrics metrics
	log     bytes.Buffer
	asked   int
	answer  error // of a fetch
}

func newInstance(s store, now func() time.Time, lists ...method.TrustList) *instance {
	i := &instance{}
	kind := method.Kind{Lists: func(method.Config) []method.TrustList { return lists }}
	i.Refresher = New(Config{Methods: method.Catalog{{Config: method.Config{Name: "wallet"}, Of: kind}},
		Store: s, Now: now, Jitter: func() float64 { return 0 }, Metrics: &i.metrics,
		Log: slog.New(slog.NewTextHandler(&i.log, nil)),
		Get: func(context.Context, string, method.TrustList) (operate.TrustListInput, error) {
			i.asked++
			return operate.TrustListInput{NextUpdate: now().AddDate(0, 0, 10), Document: fmt.Sprint(i.asked),
				Certificates: []string{"a"}}, i.answer
		}})
	return i
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		name          string
		fetched, next time.Duration // from now
		jitter        float64
		want          time.Duration
	}{
		{"a good list", 0, 240 * time.Hour, 0, 6 * time.Hour},
		{"with jitter", 0, 240 * time.Hour, 1, 324 * time.Minute},
		{"after two hours", -2 * time.Hour, 240 * time.Hour, 0, 4 * time.Hour},
		{"after seven hours", -7 * time.Hour, 240 * time.Hour, 0, 0},
		{"half of the time that is left", 0, 4 * time.Hour, 0, 2 * time.Hour},
		{"near its next update", 0, 30 * time.Minute, 0, time.Hour},
		{"late", 0, -48 * time.Hour, 0, time.Hour},
		{"the clock was set back", 9 * time.Hour, 240 * time.Hour, 0, 6 * time.Hour},
	} {
		fetched, next := now.Add(c.fetched), now.Add(c.next)
		if got := due(operate.TrustList{Fetched: &fetched, NextUpdate: &next}, now, c.jitter); got != c.want {
			t.Errorf("contract 53: %s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := due(operate.TrustList{}, now, 0); got != 0 {
		t.Errorf("a list that is missing is due in %s", got)
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute,
		8 * time.Minute, mostRetry, mostRetry} {
		if got := backoff(failures); got != want {
			t.Errorf("contract 53: after %d failures %s, want %s", failures, got, want)
		}
	}
	if got := backoff(1 << 20); got != mostRetry {
		t.Errorf("after very many failures %s", got)
	}
}

// Three instances share one fetch, and each of them reports the list.
func TestRefresher_Instances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLists(time.Now)
		ctx, stop := context.WithCancel(t.Context())
		var all []*instance
		var ended sync.WaitGroup
		for range 3 {
			i := newInstance(s, time.Now, spec)
			all = append(all, i)
			ended.Go(func() { i.Run(ctx) })
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := s.count(); n != 1 {
			t.Errorf("contract 53: after the start there were %d fetches", n)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := s.count(); n != 5 {
			t.Errorf("contract 53: after a day there were %d fetches", n)
		}
		all[1].Ask()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.count(); n != 6 {
			t.Errorf("contract 53: a list that is asked for is not fetched: %d", n)
		}
		stop()
		ended.Wait()
		for _, i := range all {
			if i.metrics.entries != 1 || i.metrics.next.IsZero() || len(i.metrics.failed) > 0 {
				t.Errorf("an instance reports %+v", i.metrics)
			}
		}
	})
}

func TestRefresher_Failures(t *testing.T) {
	clock := now
	s := newLists(func() time.Time { return clock })
	file := spec // which needs no claim, so only the pauses count
	file.URL, file.File = "", "list.jwt"
	i := newInstance(s, s.now, file)
	i.answer = &failure{"wrong_signature", errors.New("trusted list rejected")}
	for n, want := range []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute} {
		if got := i.round(t.Context(), i.lists[0]); got != want {
			t.Errorf("contract 53: after failure %d the next round is in %s, want %s", n+1, got, want)
		}
		if i.round(t.Context(), i.lists[0]); i.asked != n+1 {
			t.Errorf("contract 53: the list is fetched again too soon: %d", i.asked)
		}
		clock = clock.Add(want)
	}
	if !slices.Equal(i.metrics.failed, slices.Repeat([]string{"wallet eu wrong_signature"}, 3)) {
		t.Errorf("failures %v", i.metrics.failed)
	}
	if text := i.log.String(); !strings.Contains(
		text,
		`msg="trusted list not refreshed" method=wallet list=eu`+
			` reason=wrong_signature`,
	) {
		t.Errorf("the log has %s", text)
	}
	i.answer = nil
	if clock = clock.Add(mostRetry); i.round(t.Context(), i.lists[0]) != lookEach || s.loads != 1 ||
		i.failures() != 0 {
		t.Errorf("after the fault there were %d loads", s.loads)
	}
}

func (i *instance) failures() int { return i.lists[0].failures }

// A store that does not respond is no failure of a list, and nothing is fetched in the meantime.
func TestRefresher_StoreError(t *testing.T) {
	s := newLists(func() time.Time { return now })
	i := newInstance(s, s.now, spec)
	s.err = fmt.Errorf("x: %w", kv.ErrUnavailable)
	if wait := i.round(t.Context(), i.lists[0]); wait != firstRetry || i.asked > 0 ||
		len(i.metrics.failed) > 0 ||
		i.log.Len() > 0 {
		t.Errorf("the next round is in %s; %d requests, %v, %s", wait, i.asked, i.metrics.failed, &i.log)
	}
	s.err = host.ErrKeyAwaited
	if i.round(t.Context(), i.lists[0]); i.asked > 0 ||
		!strings.Contains(i.log.String(), "trusted lists not read") {
		t.Errorf("another error: %d requests, %s", i.asked, &i.log)
	}
}

// The log reports once that a list is late, and that it is too old.
func TestRefresher_States(t *testing.T) {
	s := newLists(func() time.Time { return now })
	i := newInstance(s, s.now, spec)
	i.round(t.Context(), i.lists[0])
	i.answer = &failure{"status", errors.New("x")}
	for _, state := range []string{operate.ListGood, operate.ListLate, operate.ListLate, operate.ListTooOld,
		operate.ListTooOld} {
		s.stored.State = state
		i.round(t.Context(), i.lists[0])
	}
	text := i.log.String()
	if strings.Count(text, "trusted list late") != 1 || strings.Count(text, "trusted list too old") != 1 ||
		strings.Count(text, "trusted list loaded") != 1 {
		t.Errorf("contract 53: the log has %s", text)
	}
}

// A file is read at the start although the stored list is fresh, and by every instance.
func TestRefresher_File(t *testing.T) {
	s := newLists(func() time.Time { return now })
	file := spec
	file.URL, file.File = "", "list.jwt"
	for n := range 2 {
		i := newInstance(s, s.now, file)
		if i.round(t.Context(), i.lists[0]); s.loads != n+1 {
			t.Errorf("contract 53: instance %d: %d loads", n, s.loads)
		}
		if i.round(t.Context(), i.lists[0]); s.loads != n+1 {
			t.Errorf("contract 53: a fresh file is read again: %d loads", s.loads)
		}
	}
}

// An operator asks for a list that was fetched a moment ago. If the request fails, it is repeated, although
// the stored list is fresh.
func TestRefresher_Ask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLists(time.Now)
		i := newInstance(s, time.Now, spec)
		get := i.config.Get
		i.config.Get = func(ctx context.Context, of string, l method.TrustList) (in operate.TrustListInput,
			err error) {
			if in, err = get(ctx, of, l); i.asked == 3 {
				err = errors.New("x")
			}
			return in, err
		}
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { i.Run(ctx) })
		for n, c := range []struct {
			rule         string
			wait         time.Duration
			asked, loads int
		}{
			{"a list is fetched at the start", time.Second, 1, 1},
			{"a list is fetched again a second later", time.Second, 2, 2},
			{"the third request fails", time.Second, 3, 2},
			{"a request that failed is repeated", mostRetry, 4, 3},
			{"the operator asks again", time.Hour, 5, 4},
		} {
			if n > 0 && n != 3 {
				i.Ask()
			}
			time.Sleep(c.wait)
			synctest.Wait()
			if i.asked != c.asked || s.count() != c.loads {
				t.Errorf("contract 53: %s: %d requests and %d loads, want %d and %d", c.rule, i.asked,
					s.count(), c.asked, c.loads)
			}
		}
		stop()
		ended.Wait()
	})
}

// A server that does not respond delays neither the other lists nor an operator who asks for them.
func TestRefresher_HangingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, file := spec, spec
		file.Name, file.URL, file.File = "file", "", "list.jwt"
		s := newLists(time.Now)
		i := newInstance(two{s}, time.Now, hangs, file)
		get := i.config.Get
		i.config.Get = func(ctx context.Context, of string, l method.TrustList) (operate.TrustListInput,
			error) {
			if l.Name == hangs.Name {
				<-ctx.Done()
				return operate.TrustListInput{}, ctx.Err()
			}
			return get(ctx, of, l)
		}
		ctx, stop := context.WithCancel(t.Context())
		var ended sync.WaitGroup
		ended.Go(func() { i.Run(ctx) })
		for n, rule := range []string{"fetched at the start", "fetched for an operator who asks"} {
			if n > 0 {
				i.Ask()
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if s.count() != n+1 {
				t.Errorf("contract 53: the list of another server is not %s: %d loads", rule, s.count())
			}
		}
		stop()
		ended.Wait()
	})
}

// two is a store of two lists. The first one is never stored.
type two struct{ *lists }

func (s two) All(ctx context.Context) ([]operate.TrustList, error) {
	all, err := s.lists.All(ctx)
	return append([]operate.TrustList{{State: operate.ListMissing}}, all...), err
}

func (s two) Claim(context.Context, string, string, time.Time) (bool, error) { return true, nil }

// A context that ends while a list is fetched is no failure.
func TestRefresher_Drain(t *testing.T) {
	s := newLists(func() time.Time { return now })
	i := newInstance(s, s.now, spec)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	i.answer = context.Canceled
	i.refresh(ctx, i.lists[0], s.stored)
	if i.Run(ctx); len(i.metrics.failed) > 0 || i.log.Len() > 0 {
		t.Errorf("%v, %s", i.metrics.failed, &i.log)
	}
	none := New(Config{})
	none.Run(t.Context())
}
