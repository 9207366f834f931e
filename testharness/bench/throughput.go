package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/verge-id/verge/core/api"
	"github.com/verge-id/verge/kvadapters/memory"
)

func stringReader(s string) io.Reader {
	if s == "" {
		return nil
	}
	return strings.NewReader(s)
}

// endpoint is one line of the table: what to send where, and its floor.
type endpoint struct {
	name string
	goal float64 // ratio to the floor; 0: as measured
	open func() (s *service, next func() []byte, group func() string, err error)

	// floor serves what the service is compared with, with answers of n bytes.
	floor func(n int) (addr string, stop func(), err error)

	redis *redisServer // nil: the endpoint uses none
}

// mostPerSecond limits how many single-use requests are prepared for a round.
const mostPerSecond = 60_000

// endpoints are the lines of the table. Those on Redis are left out if r is nil,
// and those on a Redis that keeps a log if aof is nil.
func endpoints(length time.Duration, r, aof *redisServer) []endpoint {
	// Nobody listens at the sink's address. Deliveries are measured elsewhere.
	// Here they would take processor time from the starts.
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
			return s, always(s.startRequest()), group, nil
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
			next, err := s.validations(int(mostPerSecond * length.Seconds()))
			return s, next, group, err
		}
	}
	reconcile := func() (*service, func() []byte, func() string, error) {
		s, err := newService(memory.New(memory.Config{}), "")
		if err != nil {
			return nil, nil, nil, err
		}
		_, text, err := s.session()
		return s, always(request("GET", api.SessionsPath+text, s.key, "")), func() string { return "" }, err
	}
	traced := func() (*service, func() []byte, func() string, error) {
		s, err := newServiceTraced(memory.New(memory.Config{}), "https://sink.invalid/", 0.01)
		if err != nil {
			return nil, nil, nil, err
		}
		s.pause()
		return s, always(s.startRequest()), func() string { return "" }, nil
	}
	lines := []endpoint{
		{"start, no webhook, memory", 0.60, start(onMemory, ""), floor, nil},
		{"validate, memory", 0.60, validate(onMemory), floor, nil},
		{"reconcile, memory", 0.70, reconcile, floor, nil},
		{"start with webhook, memory", 0, start(onMemory, "https://sink.invalid/"), floor, nil},
		{"start with webhook, 1 % traced", 0, traced, floor, nil},
		{"start with webhook, bolt", 0, start(onBolt, "https://sink.invalid/"), floor, nil},
		{"validate, bolt", 0, validate(onBolt), floor, nil},
	}
	if hasPostgres() {
		// There is no line for validate: to prepare as many tokens takes a minute for each round.
		lines = append(lines,
			endpoint{"start with webhook, postgres", 0, start(onPostgres, "https://sink.invalid/"), floor,
				nil})
	}
	if r != nil && aof != nil {
		lines = append(lines,
			endpoint{"validate, redis", 0.80, validate(r.storage), r.floor, r},
			endpoint{"start with webhook, redis", 0, start(r.storage, "https://sink.invalid/"), r.floor, r},
			endpoint{"validate, redis, everysec", 0, validate(aof.storage), aof.floor, aof},
		)
	}
	return lines
}

// throughput prints each endpoint whose name contains only, with its floor.
func throughput(length time.Duration, only string, redis, aof *redisServer) error {
	lines := slices.DeleteFunc(endpoints(length, redis, aof),
		func(e endpoint) bool { return !strings.Contains(e.name, only) })
	if len(lines) == 0 {
		return nil
	}
	fmt.Printf("%-31s %10s %10s %7s %6s %7s\n",
		"answers per second", "verge", "floor", "ratio", "goal", "of CPU")
	for _, e := range lines {
		var verge, bare, ratio, cpu []float64
		var note string
		for range rounds {
			v, f, n, err := e.round(length)
			if err != nil {
				return fmt.Errorf("%s: %w", e.name, err)
			}
			verge, bare, ratio, note = append(verge, v.rate), append(bare, f.rate),
				append(ratio, v.rate/f.rate), n
			cpu = append(cpu, f.cpu/v.cpu)
		}
		goal := "-"
		if e.goal > 0 {
			goal = fmt.Sprintf("%.2f", e.goal)
		}
		fmt.Printf("%-31s %10.0f %10.0f %7.2f %6s %7.2f  %s\n",
			e.name, median(verge), median(bare), median(ratio), goal, median(cpu), note)
	}
	fmt.Println()
	return nil
}

// pace is the answers per second, and the processor time for one, in microseconds:
// that of the process and of its Redis.
type pace struct{ rate, cpu float64 }

func (e endpoint) measure(addr string, length time.Duration, next func() []byte) (pace, error) {
	before, begin := e.busy(), time.Now()
	rate, err := loop(addr, length, next)
	answers := rate * time.Since(begin).Seconds()
	return pace{rate, float64((e.busy() - before).Microseconds()) / answers}, err
}

// busy is the processor time of this process and its Redis.
func (e endpoint) busy() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano()+u.Stime.Nano()) + e.redis.busy()
}

func (e endpoint) round(length time.Duration) (verge, bare pace, note string, err error) {
	s, next, group, err := e.open()
	if err != nil {
		return pace{}, pace{}, "", err
	}
	sample := next()
	method, path, body := parts(sample)
	size, err := sizeOf(s.addr, method, path, s.key, body)
	if err != nil {
		return pace{}, pace{}, "", err
	}
	addr, stop, err := e.floor(size)
	if err != nil {
		return pace{}, pace{}, "", err
	}
	bare, err = e.measure(addr, length, func() []byte { return sample })
	stop()
	if err != nil {
		return pace{}, pace{}, "", err
	}
	verge, err = e.measure(s.addr, length, next)
	s.stop()
	return verge, bare, group(), err
}

// parts splits a prepared request.
func parts(req []byte) (method, path, body string) {
	head, rest, _ := bytes.Cut(req, []byte("\r\n\r\n"))
	line, _, _ := bytes.Cut(head, []byte("\r\n"))
	fields := strings.Fields(string(line))
	return fields[0], fields[1], string(rest)
}
