package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/lifecycle"
)

// delivery measures the outbox on a store: how fast a backlog drains to one
// receiver, and how long an event takes at a steady 100 a second. Its floor is
// a forwarder.
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

	first := receiver.expect(1)
	_, path, body := parts(s.startRequest())
	size, err := sizeOf(s.addr, "POST", path, s.key, body)
	if err != nil {
		return err
	}
	<-first
	bare, err := newForwarder(receiver, server, size)
	if err != nil {
		return err
	}
	defer bare.stop()
	if err := backlogs(name, s, bare, receiver, server); err != nil {
		return err
	}
	return delays(name, s, bare, receiver)
}

// backlogs measures how many events a second leave a full outbox.
func backlogs(name string, s *service, bare *forwarder, receiver *sink, server *redisServer) error {
	const backlog = 10_000
	busy := endpoint{redis: server}.busy
	// timed is the pace at which send's events arrive.
	timed := func(send func() error) (pace, error) {
		all := receiver.expect(backlog)
		before, begin := busy(), time.Now()
		if err := send(); err != nil {
			return pace{}, err
		}
		select {
		case <-all:
			return pace{backlog / time.Since(begin).Seconds(),
				float64((busy() - before).Microseconds()) / backlog}, nil
		case <-time.After(time.Minute):
			return pace{}, fmt.Errorf("delivery: not all of %d events arrived within a minute", backlog)
		}
	}
	var verge, floor, ratio, cpu []float64
	for range rounds {
		s.pause()
		f, err := timed(func() error { return bare.drain(backlog) })
		if err != nil {
			return err
		}
		if err := s.begin(backlog); err != nil {
			return err
		}
		v, err := timed(func() error { s.resume(); return nil })
		if err != nil {
			return err
		}
		verge, floor, ratio, cpu = append(verge, v.rate), append(floor, f.rate),
			append(ratio, v.rate/f.rate), append(cpu, f.cpu/v.cpu)
	}
	fmt.Printf("webhook delivery, %s, backlog of %d to one receiver: %.0f a second (goal 2500), "+
		"floor %.0f, ratio %.2f, of CPU %.2f\n",
		name, backlog, median(verge), median(floor), median(ratio), median(cpu))
	return nil
}

// delays measures the time from a start to its event. The service and its floor
// take turns, so that both meet the same machine: it can be a third slower a
// minute later, which is more than what this measures.
func delays(name string, s *service, bare *forwarder, receiver *sink) error {
	const steady = 3000 // the 30 slowest of them stand above p99
	sent, floorSent := make(map[string]time.Time, steady), make(map[string]time.Time, steady)
	all := receiver.expect(2 * steady)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for i := range steady {
		<-tick.C
		at := time.Now()
		id, err := s.startOnce()
		if err != nil {
			return err
		}
		sent[id] = at
		<-tick.C
		id, at = fmt.Sprintf("steady%d", i), time.Now()
		if err := bare.start(id); err != nil {
			return err
		}
		floorSent[id] = at
	}
	select {
	case <-all:
	case <-time.After(time.Minute):
		return fmt.Errorf("delivery: not all of %d events arrived within a minute", 2*steady)
	}
	verge, floor := receiver.delays(sent), receiver.delays(floorSent)
	at := func(percent int) string {
		v, f := verge[steady*percent/100], floor[steady*percent/100]
		return fmt.Sprintf("p%d %s, floor %s, %.2f times", percent, v.Round(10*time.Microsecond),
			f.Round(10*time.Microsecond), v.Seconds()/f.Seconds())
	}
	fmt.Printf("webhook delivery, %s, at 100 a second, start sent to event received: %s; %s (goal 20ms)\n\n",
		name, at(50), at(99))
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
						lifecycle.Session{ID: id, Text: text, Integration: i}, nil, nil, nil)
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
		if err := l.Begin(context.Background(), session, nil, nil, nil); err != nil {
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
