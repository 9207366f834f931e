package testharness

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

// Sink receives webhooks. By default it behaves like a correct publisher: it returns 204 for a request that
// verifies and 401 for any other. Next and Always make it misbehave. It records every request, also a
// rejected one.
type Sink struct {
	URL string // each integration's destination is a path below it

	t       testing.TB
	now     func() time.Time
	server  *httptest.Server
	closing chan struct{}

	mu       sync.Mutex
	secrets  map[string]string // by path
	got      []Delivery
	next     []Reply
	standing Reply
}

// Delivery is one request that the sink got.
type Delivery struct {
	Path   string
	Header http.Header
	Body   []byte
	At     time.Time     // on the harness's clock
	Err    error         // of webhook.Verify; nil: it verifies
	Event  webhook.Event // zero if the body is none
}

// Reply is the sink's response to one request. The zero Reply is a correct publisher's response.
type Reply struct {
	Status int // 0: 204 or 401, by the signature
	Header http.Header
	Body   string

	Hang  bool          // no response, until the sender closes the connection
	Stall bool          // the status, and then an endless body
	Reset bool          // the connection is cut
	Delay time.Duration // real time before the answer
	Size  int64         // this many bytes of body, instead of Body
}

// Answer is the Reply of a status.
func Answer(status int) Reply { return Reply{Status: status} }

// RedirectTo is the Reply that sends the request elsewhere.
func RedirectTo(url string) Reply {
	return Reply{Status: http.StatusTemporaryRedirect, Header: Headers("Location", url)}
}

func newSink(t testing.TB, now func() time.Time) *Sink {
	s := &Sink{t: t, now: now, closing: make(chan struct{}), secrets: map[string]string{}}
	s.server = httptest.NewServer(s)
	s.URL = s.server.URL
	t.Cleanup(func() {
		close(s.closing)
		s.server.Close()
	})
	return s
}

func (s *Sink) expect(path, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secrets[path] = secret
}

// SetSecret sets the secret that the sink uses to verify an integration's later events. Its publisher would
// do the same when the webhook secret changes.
func (s *Sink) SetSecret(i *Integration, secret string) {
	s.expect(strings.TrimPrefix(i.WebhookURL, s.URL), secret)
}

// Next queues replies, one for each of the next requests.
func (s *Sink) Next(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = append(s.next, replies...)
}

// Always sets the reply to every request for which none is queued.
func (s *Sink) Always(r Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.standing = r
}

// Deliveries are all requests so far, in the order they came.
func (s *Sink) Deliveries() []Delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Delivery(nil), s.got...)
}

// Events are the events so far whose signature is good, one for each
// idempotency key, in the order they came. A receiver acts on these.
func (s *Sink) Events() []webhook.Event {
	var out []webhook.Event
	seen := map[string]bool{}
	for _, d := range s.Deliveries() {
		if d.Err == nil && !seen[d.Event.IdempotencyKey] {
			seen[d.Event.IdempotencyKey] = true
			out = append(out, d.Event)
		}
	}
	return out
}

// EventsOf are the Events of one session.
func (s *Sink) EventsOf(sessionID string) []webhook.Event {
	var out []webhook.Event
	for _, e := range s.Events() {
		if e.SessionID == sessionID {
			out = append(out, e)
		}
	}
	return out
}

// Types are the types of the Events of one session, in the order they came.
func (s *Sink) Types(sessionID string) []string {
	out := []string{}
	for _, e := range s.EventsOf(sessionID) {
		out = append(out, e.Type)
	}
	return out
}

// Forget drops the recorded requests.
func (s *Sink) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = nil
}

// ServeHTTP implements http.Handler.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
	if err != nil {
		return // the sender has left
	}
	d := Delivery{Path: r.URL.Path, Header: r.Header, Body: body, At: s.now()}
	s.mu.Lock()
	d.Err = webhook.Verify(s.secrets[r.URL.Path], r.Header, body, d.At, 0)
	json.Unmarshal(body, &d.Event) // without JSON, Event stays zero
	s.got = append(s.got, d)
	reply := s.standing
	if len(s.next) > 0 {
		reply, s.next = s.next[0], s.next[1:]
	}
	s.mu.Unlock()
	s.answer(w, r, d, reply)
}

func (s *Sink) answer(w http.ResponseWriter, r *http.Request, d Delivery, reply Reply) {
	wait := func(d <-chan time.Time) {
		select {
		case <-d:
		case <-r.Context().Done():
		case <-s.closing:
		}
	}
	if reply.Delay > 0 {
		wait(time.After(reply.Delay))
	}
	switch {
	case reply.Reset:
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
		return
	case reply.Hang:
		wait(nil)
		return
	}
	maps.Copy(w.Header(), reply.Header)
	status := reply.Status
	if status == 0 {
		status = http.StatusNoContent
		if d.Err != nil {
			status = http.StatusUnauthorized
		}
	}
	w.WriteHeader(status)
	if reply.Stall {
		http.NewResponseController(w).Flush()
		wait(nil)
		return
	}
	if reply.Size == 0 {
		io.WriteString(w, reply.Body)
		return
	}
	out := bufio.NewWriter(w)
	for range reply.Size {
		if out.WriteByte('x') != nil {
			return // the sender has closed the connection
		}
	}
	out.Flush()
}
