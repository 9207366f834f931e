package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/lifecycle"
	"github.com/verge-id/verge/core/webhook"
)

// sink is a webhook receiver that answers 204 and notes when each session's
// event arrived.
type sink struct {
	url  string
	stop func()

	mu      sync.Mutex
	arrived map[string]time.Time
	count   int
	enough  chan struct{}
	want    int
}

func newSink() (*sink, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{url: "http://" + l.Addr().String() + "/", arrived: make(map[string]time.Time)}
	server := &http.Server{Handler: s}
	s.stop = func() { server.Close() }
	go server.Serve(l)
	return s, nil
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
	s.arrived[e.Session] = now
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

// delivery measures the outbox on a store: how fast a backlog drains to one
// receiver, and how long an event takes at a steady 100 a second.
//
// server is the Redis of the store, nil for another store.
func delivery(name string, open storage, server *redisServer) error {
	store, closeStore, err := open()
	if err != nil {
		return err
	}
	defer closeStore()
	receiver, err := newSink()
	if err != nil {
		return err
	}
	defer receiver.stop()
	s, err := newService(store, receiver.url)
	if err != nil {
		return err
	}
	defer s.stop()

	const backlog = 10_000
	busy := endpoint{redis: server}.busy
	var rates, cpu []float64
	for range rounds {
		s.pause()
		if err := s.begin(backlog); err != nil {
			return err
		}
		all := receiver.expect(backlog)
		before, begin := busy(), time.Now()
		s.resume()
		select {
		case <-all:
			rates = append(rates, backlog/time.Since(begin).Seconds())
			cpu = append(cpu, float64((busy()-before).Microseconds())/backlog)
		case <-time.After(time.Minute):
			return fmt.Errorf("delivery: %d of %d events arrived within a minute", receiver.count, backlog)
		}
	}
	fmt.Printf("webhook delivery, %s, backlog of %d to one receiver: %.0f a second (goal 2500), "+
		"%.1f µs of CPU each\n", name, backlog, median(rates), median(cpu))

	const steady = 500
	sent := make(map[string]time.Time, steady)
	all := receiver.expect(steady)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range steady {
		<-tick.C
		at := time.Now()
		id, err := s.startOnce()
		if err != nil {
			return err
		}
		sent[id] = at
	}
	<-all
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	late := make([]time.Duration, 0, steady)
	for id, at := range sent {
		late = append(late, receiver.arrived[id].Sub(at))
	}
	slices.Sort(late)
	fmt.Printf("webhook delivery, %s, at 100 a second, start sent to event received: "+
		"p50 %s, p99 %s (goal 20ms)\n\n",
		name, late[steady/2].Round(10*time.Microsecond), late[steady*99/100].Round(10*time.Microsecond))
	return nil
}

// begin makes n sessions with a started event each, by many at a time as
// requests would.
func (s *service) begin(n int) error {
	i, err := s.Directory().Integration(context.Background(), integration1)
	if err != nil {
		return err
	}
	l := s.lifecycle()
	var wg sync.WaitGroup
	errs := make(chan error, connections)
	for range connections {
		wg.Go(func() {
			for range n / connections {
				id, text, err := s.session()
				if err == nil {
					err = l.Begin(context.Background(),
						lifecycle.Session{ID: id, Text: text, Integration: i}, true, nil, nil)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	for range n % connections {
		id, text, err := s.session()
		if err != nil {
			return err
		}
		session := lifecycle.Session{ID: id, Text: text, Integration: i}
		if err := l.Begin(context.Background(), session, true, nil, nil); err != nil {
			return err
		}
	}
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func (s *service) startOnce() (session string, err error) {
	_, path, body := parts(s.startRequest())
	req, err := http.NewRequest("POST", "http://"+s.addr+path, stringReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var started struct {
		Session string `json:"session_id"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&started); err != nil || started.Session == "" {
		return "", fmt.Errorf("%s: %s: %v", api.StartPath, resp.Status, err)
	}
	return started.Session, nil
}
