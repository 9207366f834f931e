package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

// sink is a webhook receiver that returns 204 and records the arrival of each session's event.
type sink struct {
	url string

	mu      sync.Mutex
	arrived map[string]time.Time
	last    []byte // the body of the event that came last
	count   int
	enough  chan struct{}
	want    int
}

func newSink(b *testing.B) *sink {
	s := &sink{arrived: make(map[string]time.Time)}
	s.url = "http://" + serve(b, s.ServeHTTP) + "/"
	return s
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	var e struct {
		Session string `json:"session_id"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, webhook.MaxBody))
	if err != nil || json.Unmarshal(body, &e) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived[e.Session], s.last = now, body
	if s.count++; s.count == s.want {
		close(s.enough)
	}
}

// expect returns a channel that is closed when n more events have arrived.
func (s *sink) expect(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want, s.enough = s.count+n, make(chan struct{})
	return s.enough
}

// around returns the parts before and after the session's id in the latest event.
func (s *sink) around() (before, after []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e struct {
		Session string `json:"session_id"`
	}
	if err := json.Unmarshal(s.last, &e); err != nil {
		return nil, nil, err
	}
	before, after, _ = bytes.Cut(s.last, []byte(e.Session))
	return before, after, nil
}

// delays returns how long after sent each session's event arrived, shortest first.
func (s *sink) delays(sent map[string]time.Time) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]time.Duration, 0, len(sent))
	for session, at := range sent {
		out = append(out, s.arrived[session].Sub(at))
	}
	slices.Sort(out)
	return out
}
