package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/memory"
)

func stringReader(s string) io.Reader {
	if s == "" {
		return nil
	}
	return strings.NewReader(s)
}

// endpoint is one line of the table: what to send where, beside which floor.
type endpoint struct {
	name string
	goal float64 // ratio to the floor; 0: as measured
	open func() (s *service, next func() []byte, group func() string, err error)
}

// mostPerSecond bounds how many single-use requests a round is given.
const mostPerSecond = 60_000

func endpoints(length time.Duration) []endpoint {
	onMemory := func() (kv.KV, func() string, error) {
		return memory.New(memory.Config{}), func() string { return "" }, nil
	}
	onBolt := func() (kv.KV, func() string, error) {
		dir, err := os.MkdirTemp("", "verge-bench-")
		if err != nil {
			return nil, nil, err
		}
		store, err := bolt.Open(filepath.Join(dir, "verge.db"), bolt.Config{})
		if err != nil {
			return nil, nil, err
		}
		return store, func() string {
			s := store.Stats()
			store.Close()
			os.RemoveAll(dir)
			return fmt.Sprintf("%.1f commits a write, largest %d", s.Mean(), s.Largest)
		}, nil
	}
	type storage func() (kv.KV, func() string, error)
	// The sink is an address where nobody listens: deliveries are measured
	// apart, here they would only take processor time from the starts.
	start := func(open storage, webhook string) func() (*service, func() []byte, func() string, error) {
		return func() (*service, func() []byte, func() string, error) {
			store, group, err := open()
			if err != nil {
				return nil, nil, nil, err
			}
			s, err := newService(store, webhook)
			if err != nil {
				return nil, nil, nil, err
			}
			if webhook != "" {
				s.pause()
			}
			req := s.startRequest()
			return s, func() []byte { return req }, group, nil
		}
	}
	validate := func(open storage) func() (*service, func() []byte, func() string, error) {
		return func() (*service, func() []byte, func() string, error) {
			store, group, err := open()
			if err != nil {
				return nil, nil, nil, err
			}
			s, err := newService(store, "")
			if err != nil {
				return nil, nil, nil, err
			}
			requests, err := s.results(int(mostPerSecond * length.Seconds()))
			if err != nil {
				return nil, nil, nil, err
			}
			var at atomic.Int64
			return s, func() []byte {
				if i := int(at.Add(1)) - 1; i < len(requests) {
					return requests[i]
				}
				return nil
			}, group, nil
		}
	}
	reconcile := func() (*service, func() []byte, func() string, error) {
		s, err := newService(memory.New(memory.Config{}), "")
		if err != nil {
			return nil, nil, nil, err
		}
		_, text, err := s.session()
		req := request("GET", api.SessionsPath+text, s.key, "")
		return s, func() []byte { return req }, func() string { return "" }, err
	}
	return []endpoint{
		{"start, no webhook, memory", 0.60, start(onMemory, "")},
		{"validate, memory", 0.60, validate(onMemory)},
		{"reconcile, memory", 0.70, reconcile},
		{"start with webhook, memory", 0, start(onMemory, "https://sink.invalid/")},
		{"start with webhook, bolt", 0, start(onBolt, "https://sink.invalid/")},
		{"validate, bolt", 0, validate(onBolt)},
	}
}

// throughput prints each endpoint whose name contains only beside its floor.
func throughput(length time.Duration, only string) error {
	fmt.Printf("%-28s %10s %10s %7s %6s\n", "answers per second", "verge", "floor", "ratio", "goal")
	for _, e := range endpoints(length) {
		if !strings.Contains(e.name, only) {
			continue
		}
		var verge, bare, ratio []float64
		var note string
		for range rounds {
			v, f, n, err := e.round(length)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			verge, bare, ratio, note = append(verge, v), append(bare, f), append(ratio, v/f), n
		}
		goal := "-"
		if e.goal > 0 {
			goal = fmt.Sprintf("%.2f", e.goal)
		}
		fmt.Printf("%-28s %10.0f %10.0f %7.2f %6s  %s\n", e.name, median(verge), median(bare), median(ratio), goal, note)
	}
	fmt.Println()
	return nil
}

func (e endpoint) round(length time.Duration) (verge, bare float64, note string, err error) {
	s, next, group, err := e.open()
	if err != nil {
		return 0, 0, "", err
	}
	sample := next()
	method, path, body := parts(sample)
	size, err := sizeOf(s.addr, method, path, s.key, body)
	if err != nil {
		return 0, 0, "", err
	}
	addr, stop, err := floor(size)
	if err != nil {
		return 0, 0, "", err
	}
	bare, err = loop(addr, length, func() []byte { return sample })
	stop()
	if err != nil {
		return 0, 0, "", err
	}
	verge, err = loop(s.addr, length, next)
	s.stop()
	return verge, bare, group(), err
}

// parts takes a prepared request apart.
func parts(req []byte) (method, path, body string) {
	head, rest, _ := bytes.Cut(req, []byte("\r\n\r\n"))
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	fields := strings.Fields(string(line))
	return fields[0], fields[1], string(rest)
}
