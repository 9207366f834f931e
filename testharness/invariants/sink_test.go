package invariants_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

// sink is a publisher's server. It records every POST before its response.
type sink struct {
	URL string

	t      testing.TB
	mu     sync.Mutex
	posts  []post
	keys   map[string]int // POSTs by idempotency key
	answer func(e webhook.Event, n int) reply
}

// post is one request to the sink.
type post struct {
	webhook.Event
	body []byte
	at   time.Time
}

// reply is a response of the sink. The zero reply is an immediate 204.
type reply struct {
	status int
	after  time.Duration
	hang   bool // until the sender closes the connection
}

func newSink(t testing.TB) *sink {
	s := &sink{t: t, keys: map[string]int{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// always sets the response to every POST. n counts the POSTs with the same key, from 1.
func (s *sink) always(answer func(e webhook.Event, n int) reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// ServeHTTP implements http.Handler.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
	if err != nil {
		return // the sender has left
	}
	p := post{body: body, at: at}
	if err := json.Unmarshal(body, &p.Event); err != nil {
		s.t.Errorf("the sink got no event: %s", body)
	}
	// Use its own time, since Verge's clock may jump.
	sent, _ := strconv.ParseInt(r.Header.Get("X-Service-Timestamp"), 10, 64)
	if err := webhook.Verify(webhookSecret, r.Header, body, time.Unix(sent, 0), 0); err != nil {
		s.t.Errorf("the sink got an event that does not verify: %v", err)
	}
	s.mu.Lock()
	s.posts = append(s.posts, p)
	s.keys[p.IdempotencyKey]++
	n, answer := s.keys[p.IdempotencyKey], s.answer
	s.mu.Unlock()
	var re reply
	if answer != nil {
		re = answer(p.Event, n)
	}
	var late <-chan time.Time
	if !re.hang {
		late = time.After(re.after)
	}
	if re.hang || re.after > 0 {
		select {
		case <-late:
		case <-r.Context().Done():
			return
		}
	}
	if re.status == 0 {
		re.status = http.StatusNoContent
	}
	w.WriteHeader(re.status)
}

// all returns the POSTs so far.
func (s *sink) all() []post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]post(nil), s.posts...)
}

// count returns the number of POSTs with the idempotency key.
func (s *sink) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}
