package faultproxy

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Config of a Proxy. The zero value forwards.
type Config struct {
	Seed uint64 // see Seed
	Odds Odds   // the first value of On

	// Delay is how long Delay takes. Zero: 20 ms.
	Delay time.Duration

	// Pace is the pause of Slow between pieces of 32 bytes. Zero: 2 ms.
	Pace time.Duration
}

// Proxy is a server on a loopback port that forwards to another. Its methods
// may be called concurrently.
type Proxy struct {
	config Config
	server string
	addr   string
	decide atomic.Pointer[decide] // nil: everything passes

	mu       sync.Mutex
	listener net.Listener // nil: down
	ended    bool
	count    int // of connections
	conns    map[*conn]bool
	log      []decision
	counts   [faults]int
	wg       sync.WaitGroup
}

// decision is a fault that happened.
type decision struct {
	exchange
	Fault
}

func (d decision) String() string { return fmt.Sprintf("%d/%d: %v", d.Conn, d.N, d.Fault) }

// New returns a proxy in front of server, host:port, that is off.
func New(t testing.TB, server string, c Config) *Proxy {
	t.Helper()
	c.Delay = cmp.Or(c.Delay, 20*time.Millisecond)
	c.Pace = cmp.Or(c.Pace, 2*time.Millisecond)
	p := &Proxy{config: c, server: server, addr: "127.0.0.1:0", conns: map[*conn]bool{}}
	if err := p.Up(); err != nil {
		t.Fatalf("faultproxy: %v", err)
	}
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			t.Logf("faultproxy: seed %d; %s\nlast decisions, connection/exchange: %v", c.Seed, p.Summary(),
				p.last(50))
		}
	})
	return p
}

// Addr is where it listens, host:port, also while it is down.
func (p *Proxy) Addr() string { return p.addr }

// On decides by the seed and the odds of its Config.
func (p *Proxy) On() { p.Use(seeded(p.config.Seed, p.config.Odds)) }

// Off lets all exchanges pass. Hanging ones keep hanging; see HangUp.
func (p *Proxy) Off() { p.decide.Store(nil) }

// Use makes d decide all later exchanges.
func (p *Proxy) Use(d decide) { p.decide.Store(&d) }

// HangUp cuts all connections.
func (p *Proxy) HangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.cut()
	}
}

// Down cuts all connections and rejects new ones, as if no server listened.
func (p *Proxy) Down() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.HangUp()
}

// Up listens again.
func (p *Proxy) Up() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil || p.ended {
		return nil
	}
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	p.listener, p.addr = l, l.Addr().String()
	p.wg.Go(func() { p.accept(l) })
	return nil
}

// Log is every fault so far, in the order in which they were decided.
func (p *Proxy) Log() []decision {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]decision(nil), p.log...)
}

// Count is how often a fault happened.
func (p *Proxy) Count(f Fault) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[f]
}

// Summary is how often each fault happened.
func (p *Proxy) Summary() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := []string{fmt.Sprint(p.count, " connections")}
	for f, n := range p.counts {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %v", n, Fault(f)))
		}
	}
	return strings.Join(all, ", ")
}

func (p *Proxy) last(n int) []decision {
	all := p.Log()
	return all[max(0, len(all)-n):]
}

func (p *Proxy) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.Down()
	p.wg.Wait()
}

// fault returns the decision for an exchange. Exchanges without a fault are counted, not logged.
func (p *Proxy) fault(x exchange) Fault {
	d := p.decide.Load()
	if d == nil || *d == nil {
		return pass
	}
	f := (*d)(x)
	p.mu.Lock()
	defer p.mu.Unlock()
	if f != pass {
		p.log = append(p.log, decision{x, f})
	}
	if x.N > 0 || f != pass {
		p.counts[f]++
	}
	return f
}

func (p *Proxy) accept(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(p.config.Pace) // out of descriptors, say
			continue
		}
		p.mu.Lock()
		p.count++
		c := &conn{proxy: p, n: p.count, in: in.(*net.TCPConn), gone: make(chan struct{})}
		dead := p.listener != l // down meanwhile
		if !dead {
			p.conns[c] = true
			p.wg.Add(1)
		}
		p.mu.Unlock()
		if dead {
			in.Close()
			continue
		}
		go func() {
			defer p.wg.Done()
			c.serve()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		}()
	}
}
