package fetchcache

import (
	"errors"
	"testing"
	"time"
)

var (
	start  = time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	errOff = errors.New("no answer")
)

// server counts the requests for a document that is fresh for a minute and counts for an hour.
type server struct {
	asked int
	err   error
	while func() // a request is on its way
}

func (s *server) get(d *Document[int], now time.Time, p Policy) (int, bool, error) {
	return d.Get(now, p, func() (Copy[int], error) {
		s.asked++
		if s.while != nil {
			while := s.while
			s.while = nil
			while()
		}
		if s.err != nil {
			return Copy[int]{}, s.err
		}
		return Copy[int]{Value: s.asked, Fresh: now.Add(time.Minute), Until: now.Add(time.Hour)}, nil
	})
}

func TestGet(t *testing.T) {
	p := Policy{Window: 10 * time.Second, Burst: 2, Failure: 20 * time.Second}
	for _, c := range []struct {
		rule  string
		after time.Duration // since the document was asked for
		err   error         // of the server, at that time
		want  int
		asked int
	}{
		{"a fresh document is not asked for", time.Minute - 1, nil, 1, 1},
		{"a document that is no longer fresh is asked for", time.Minute, nil, 2, 2},
		{"an error is the caller's", time.Minute, errOff, 0, 2},
		{"a clock that was set back", -time.Second, nil, 2, 2},
		{"a document that no longer counts", 2 * time.Hour, nil, 2, 2},
	} {
		var d Document[int]
		var s server
		if got, fetched, err := s.get(&d, start, p); got != 1 || !fetched || err != nil {
			t.Fatalf("the first: %d, %v, %v", got, fetched, err)
		}
		s.err = c.err
		got, fetched, err := s.get(&d, start.Add(c.after), p)
		if got != c.want || s.asked != c.asked || fetched != (c.asked == 2) || !errors.Is(err, c.err) {
			t.Errorf("%s: %d, %v, %v, asked %d times", c.rule, got, fetched, err, s.asked)
		}
	}
}

func TestGet_Concurrent(t *testing.T) {
	p := Policy{Window: 10 * time.Second, Burst: 2, Failure: 20 * time.Second}
	var d Document[int]
	var s server
	first := func() {
		s.while = func() {
			if _, _, err := s.get(&d, start, p); err != nil {
				t.Errorf("the second of a burst of two: %v", err)
			}
			if _, fetched, err := s.get(&d, start, p); fetched || err != nil {
				t.Errorf("the third, after the second was answered: %v, %v", fetched, err)
			}
		}
		s.get(&d, start, p)
	}
	if first(); s.asked != 2 {
		t.Errorf("asked %d times at the same time, want 2", s.asked)
	}

	// Only one renews, and the others use the old one.
	later := start.Add(2 * time.Minute)
	s.while = func() {
		if got, fetched, err := s.get(&d, later, p); fetched || err != nil || got == 0 {
			t.Errorf("during a renewal: %d, %v, %v", got, fetched, err)
		}
	}
	if s.get(&d, later, p); s.asked != 3 {
		t.Errorf("asked %d times, want 3", s.asked)
	}

	d, s = Document[int]{}, server{}
	s.while = func() {
		s.while = func() {
			if _, fetched, err := s.get(&d, start, p); fetched || !errors.Is(err, ErrBusy) {
				t.Errorf("more than the burst: %v, %v", fetched, err)
			}
		}
		s.get(&d, start, p)
	}
	s.get(&d, start, p)
}

func TestGet_Failure(t *testing.T) {
	p := Policy{Window: 10 * time.Second, Burst: 4, Failure: 20 * time.Second}
	var d Document[int]
	s := server{err: errOff}
	s.get(&d, start, p)
	if _, fetched, err := s.get(&d, start.Add(20*time.Second-1), p); fetched || !errors.Is(err, errOff) {
		t.Errorf("while the error counts: %v, %v", fetched, err)
	}
	s.err = nil
	if got, _, err := s.get(&d, start.Add(20*time.Second), p); got != 2 || err != nil {
		t.Errorf("after that: %d, %v", got, err)
	}

	// An old document still counts if its renewal fails.
	s.err = errOff
	later := start.Add(2 * time.Minute)
	if _, _, err := s.get(&d, later, p); !errors.Is(err, errOff) {
		t.Errorf("a renewal: %v", err)
	}
	if got, ok := d.Last(later); got != 2 || !ok {
		t.Errorf("the last: %d, %v", got, ok)
	}
	if got, fetched, err := s.get(&d, later.Add(time.Second), p); got != 2 || fetched || err != nil {
		t.Errorf("while the error counts: %d, %v, %v", got, fetched, err)
	}
	if _, ok := d.Last(start.Add(20*time.Second + time.Hour)); ok {
		t.Error("a document that no longer counts was returned")
	}

	// Without Failure, errors do not count, but fewer requests follow one.
	d, s = Document[int]{}, server{err: errOff}
	p = Policy{Window: time.Second, Burst: 8, Retries: 4}
	for range 6 {
		_, _, _ = s.get(&d, start, p)
	}
	if s.asked != 4 {
		t.Errorf("asked %d times, want 4", s.asked)
	}
	s.err = nil
	if got, _, err := s.get(&d, start.Add(time.Second), p); got != 5 || err != nil {
		t.Errorf("in the next window: %d, %v", got, err)
	}
}

func TestMayRenew(t *testing.T) {
	var d Document[int]
	p := Policy{Renewal: time.Minute}
	for _, c := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Minute - 1, false}, {time.Minute, true}, {30 * time.Second, true}} {
		if got := d.MayRenew(start.Add(c.after), p); got != c.want {
			t.Errorf("after %v: %v", c.after, got)
		}
	}
}

func TestShelf(t *testing.T) {
	s := Shelf[string]{Most: 3, Bytes: 10, Size: func(s string) int { return len(s) }}
	put := func(name, value string) {
		s.Document(name).
			Put(start, Copy[string]{Value: value, Fresh: start.Add(time.Hour), Until: start.Add(time.Hour)})
	}
	has := func(rule string, names ...string) {
		t.Helper()
		s.Document("probe") // so that the last Put counts
		delete(s.named, "probe")
		for _, name := range names {
			if _, ok := s.named[name]; !ok {
				t.Errorf("%s: %q is gone", rule, name)
			}
		}
		if len(s.named) != len(names) {
			t.Errorf("%s: %d documents, want %d", rule, len(s.named), len(names))
		}
	}
	put("a", "1")
	put("b", "1")
	s.Document("a")
	has("all fit", "a", "b")
	put("c", "1")
	put("d", "1")
	if _, ok := s.named["b"]; ok || len(s.named) != 3 {
		t.Errorf("one document too many: %d documents, and the oldest still exists: %v", len(s.named), ok)
	}

	s.named = nil
	put("a", "12345")
	put("b", "12345")
	has("the bytes fit", "a", "b")
	put("c", "1")
	has("the oldest goes", "b", "c")
	put("d", "12345678901")
	s.Document("d")
	if _, ok := s.Document("d").Last(start); !ok || len(s.named) != 1 {
		t.Errorf("the document in use is larger than the shelf: %d documents, %v", len(s.named), ok)
	}
}
