package faultproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/wait"
)

// server answers each line with "did " and the line, and remembers it.
type server struct {
	net.Listener
	mu  sync.Mutex
	did []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					s.mu.Lock()
					s.did = append(s.did, lines.Text())
					s.mu.Unlock()
					fmt.Fprintf(c, "did %s\n", lines.Text())
				}
			}()
		}
	}()
	return s
}

func (s *server) has(line string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.did, line)
}

type client struct {
	net.Conn
	in *bufio.Reader
}

// dial returns a client whose connection may already be rejected.
func dial(t *testing.T, p *Proxy) *client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if errors.Is(err, syscall.ECONNRESET) { // accepted and reset, that early
		c, _ = net.Pipe()
		c.Close()
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &client{c, bufio.NewReader(c)}
}

// ask waits for a reply no longer than wait.
func (c *client) ask(line string, wait time.Duration) (string, error) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	c.SetReadDeadline(time.Now().Add(wait))
	reply, err := c.in.ReadString('\n')
	return strings.TrimSuffix(reply, "\n"), err
}

func cut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.ErrClosedPipe)
}

const soon, long = 150 * time.Millisecond, 10 * time.Second

func TestProxy_EachFault(t *testing.T) {
	for _, c := range []struct {
		fault   Fault
		arrives bool // the request, at the server
		check   func(reply string, err error) bool
	}{
		{pass, true, func(r string, err error) bool { return err == nil && r == "did second" }},
		{Delay, true, func(r string, err error) bool { return err == nil && r == "did second" }},
		{Slow, true, func(r string, err error) bool { return err == nil && r == "did second" }},
		{Reject, false, func(_ string, err error) bool { return cut(err) }},
		{DropRequest, false, func(_ string, err error) bool { return cut(err) }},
		{DropReply, true, func(_ string, err error) bool { return cut(err) }},
		{HangRequest, false, func(_ string,
			err error) bool {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}},
		{HangReply, true, func(_ string,
			err error) bool {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			s := newServer(t)
			p := New(t, s.Addr().String(), Config{})
			conn := dial(t, p)
			if r, err := conn.ask("first", long); err != nil || r != "did first" {
				t.Fatalf("off: %q, %v", r, err)
			}
			p.Use(Script(c.fault))
			patience := long
			if c.fault == HangRequest || c.fault == HangReply {
				patience = soon
			}
			r, err := conn.ask("second", patience)
			if !c.check(r, err) {
				t.Errorf("got %q, %v", r, err)
			}
			if c.arrives {
				wait.Until(t, "the server has the request", func() bool { return s.has("second") })
			} else if time.Sleep(soon); s.has("second") {
				t.Error("the server has the request")
			}
			p.Off()
			if r, err := dial(t, p).ask("third", long); err != nil || r != "did third" {
				t.Errorf("off again: %q, %v", r, err)
			}
			if p.Count(c.fault) != 1 {
				t.Errorf("counted: %s", p.Summary())
			}
		})
	}
}

func TestDelayAndSlowTakeTheirTime(t *testing.T) {
	s := newServer(t)
	p := New(t, s.Addr().String(), Config{Delay: soon, Pace: 10 * time.Millisecond})
	conn := dial(t, p)
	p.Use(Script(Delay, Slow))
	long1 := strings.Repeat("x", 320) // ten pieces there, more back
	for _, line := range []string{"late", long1} {
		start := time.Now()
		if r, err := conn.ask(line, long); err != nil || r != "did "+line {
			t.Errorf("%.9s: %q, %v", line, r, err)
		}
		if took := time.Since(start); took < soon {
			t.Errorf("%.9s took only %v", line, took)
		}
	}
}

func TestConnectionsAreRejectedOrHang(t *testing.T) {
	s := newServer(t)
	p := New(t, s.Addr().String(), Config{})
	p.Use(Always(Reject))
	if r, err := dial(t, p).ask("a", long); !cut(err) {
		t.Errorf("refused: %q, %v", r, err)
	}
	p.Use(Always(HangRequest))
	if r, err := dial(t, p).ask("b", soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("hangs: %q, %v", r, err)
	}
	p.Down()
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("down: somebody listens")
	}
	if err := p.Up(); err != nil {
		t.Fatal(err)
	}
	p.Off()
	if r, err := dial(t, p).ask("c", long); err != nil || r != "did c" {
		t.Errorf("up: %q, %v", r, err)
	}
	if s.has("a") || s.has("b") {
		t.Error("the server has the rejected request")
	}
}

func TestHangUpAndDownCutWhatIsOpen(t *testing.T) {
	s := newServer(t)
	p := New(t, s.Addr().String(), Config{})
	for name, end := range map[string]func(){"HangUp": p.HangUp, "Down": p.Down} {
		conn := dial(t, p)
		if _, err := conn.ask("x", long); err != nil {
			t.Fatal(err)
		}
		end()
		if r, err := conn.ask("y", long); !cut(err) {
			t.Errorf("%s: %q, %v", name, r, err)
		}
		if err := p.Up(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProxy_HangAfterServerEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			c.Read(make([]byte, 9))
			c.Close()
		}
	}()
	p := New(t, l.Addr().String(), Config{})
	p.Use(Script(HangReply))
	if r, err := dial(t, p).ask("x", soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%q, %v: want silence", r, err)
	}
}

func TestProxy_SeedRepeats(t *testing.T) {
	odds := Odds{Delay: .2, Slow: .2, DropReply: .1,
		Reject: .2, DropRequest: .1}
	run := func(seed uint64, order []int) string {
		s := newServer(t)
		p := New(t, s.Addr().String(), Config{Seed: seed, Odds: odds,
			Delay: time.Microsecond, Pace: time.Microsecond})
		p.On()
		var conns []*client
		for range 4 { // their numbers are those in which they connect
			c := dial(t, p)
			conns = append(conns, c)
			wait.Until(t, "the connection is not accepted",
				func() bool { return strings.HasPrefix(p.Summary(), fmt.Sprint(len(conns))) })
		}
		for _, i := range order {
			for n := range 10 {
				conns[i].ask(fmt.Sprint("line", n), long)
			}
		}
		log := p.Log()
		slices.SortFunc(log, func(a, b decision) int { return (a.Conn-b.Conn)*1000 + a.N - b.N })
		return fmt.Sprint(log)
	}
	first := run(7, []int{0, 1, 2, 3})
	if again := run(7, []int{3, 1, 0, 2}); again != first {
		t.Errorf("seed 7 decides\n%s, and then\n%s", first, again)
	}
	if other := run(8, []int{0, 1, 2, 3}); other == first {
		t.Error("seed 8 decides as seed 7 does")
	}
	if len(first) < 20 {
		t.Errorf("only %s happened", first)
	}
}

func TestOddsAreKept(t *testing.T) {
	odds := Odds{DropReply: .25, Slow: .05, Reject: .5}
	decide := seeded(1, odds)
	count := map[Fault]int{}
	rejected := 0
	for conn := range 100 {
		if decide(exchange{Conn: conn}) == Reject {
			rejected++
		}
		for n := range 100 {
			count[decide(exchange{Conn: conn, N: n + 1})]++
		}
	}
	if rejected < 30 || rejected > 70 || count[Reject] > 0 {
		t.Errorf("%d of 100 connections and %d exchanges are rejected", rejected, count[Reject])
	}
	if n := count[DropReply]; n < 2200 || n > 2800 {
		t.Errorf("%d of 10000 replies are dropped, odds are 1 in 4", n)
	}
	if n := count[Slow]; n < 350 || n > 650 {
		t.Errorf("%d of 10000 are slow, odds are 1 in 20", n)
	}
}

// A failed test must log how to repeat it, as seen from outside.
func TestProxy_FailureNamesSeed(t *testing.T) {
	if os.Getenv("FAULTPROXY_FAILS") == "1" {
		p := New(t, newServer(t).Addr().String(), Config{Seed: Seed(t, 41),
			Odds: Odds{DropReply: 1}})
		p.On()
		dial(t, p).ask("x", long)
		t.Fatal("as told")
	}
	for seed, env := range map[string]string{"41": "VERGE_SEED=", "977": "VERGE_SEED=977"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "FAULTPROXY_FAILS=1", env)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("it does not fail:\n%s", out)
		}
		for _, want := range []string{
			"VERGE_SEED=" + seed + " go test -run", "seed " + seed + ";", "1/1: drop reply",
		} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the failure lacks %q:\n%s", want, out)
			}
		}
	}
}
