package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// TestI15IdleConnectionsCostNobodyElseAnything lets one address hold half-sent requests. Each one that
// ends is replaced. Meanwhile a publisher at another address does whole verifications (contract,
// Load). The service has to answer them and health checks as it did before the crowd came. One run has
// the standard limit for an address, another a limit that lets the whole crowd stay. A third of the
// crowd sends half a head. Of 1,536, the other two thirds are as many as the requests that the service
// handles at a time.
func TestI15IdleConnectionsCostNobodyElseAnything(t *testing.T) {
	long.Skip(t, "TestI15IdleConnectionsCostNobodyElseAnything")
	modules := newGuests(t)
	guest := sync.OnceValue(func() string {
		module := modules.put("verge.wasm", testenv.Module(t))
		modules.compile(module)
		return modules.section(module, "")
	})
	for _, c := range []struct {
		crowd, perIP int // 0: the default
		wasm         bool
	}{
		{crowd: 1536},
		{crowd: 1536, perIP: 2048},
		{crowd: 1536, wasm: true},
		{crowd: 1536, perIP: 2048, wasm: true},
		{crowd: 8000},
		{crowd: 8000, perIP: 10000},
		{crowd: 8000, wasm: true},
		{crowd: 8000, perIP: 10000, wasm: true},
	} {
		name := map[bool]string{true: "wasm", false: "native"}[c.wasm] + "/" + strconv.Itoa(c.crowd)
		more := unlimited
		if c.perIP > 0 {
			name += "/all held"
			more += fmt.Sprintf("connections_per_ip = %d\n", c.perIP)
		}
		t.Run(name, func(t *testing.T) {
			if files := openFiles(t); files/4*3 < c.crowd+100 { // a server uses 3/4 for connections
				t.Skipf("SKIP: %d connections need more than the %d files that a process may open here",
					c.crowd, files)
			}
			if c.wasm {
				more += guest()
			}
			if c.crowd < 8000 { // this process cannot hold two larger crowds at the same time
				t.Parallel()
			}
			sink := newEvents(t)
			sink.trust(testSecret)
			in := newSite(t, "memory", sink.URL, more).start()
			held := c.crowd
			if c.perIP == 0 {
				held = 512
			}
			crowded(t, in, c.crowd, held)
		})
	}
}

// crowded does the same verifications without a crowd and with one. size is how many the crowd has,
// and held is how many of them are connected at a time.
func crowded(t *testing.T, in *served, size, held int) {
	alone := walks(in, 40)
	if alone.failed != "" {
		t.Fatalf("alone: %s", alone.failed)
	}
	begin := time.Now()
	// The server cuts off those above its limit. About 500 of them connect again each second.
	crowd := newHalfSent(t, in.at.Public, size, time.Duration(size-held)*time.Second/256)
	wait.Until(t, "the crowd", func() bool { return connections(t, in.at.Ops) >= held })
	var rounds []time.Duration
	end := time.Now().Add(2 * patience)
	for ; len(rounds) == 0 || int(crowd.sent.Load()) < size*5/4; time.Sleep(100 * time.Millisecond) {
		within := walks(in, 40)
		if rounds = append(rounds, within.took); within.failed != "" {
			t.Fatalf("I15: within a crowd of %d half-sent requests: %s", size, within.failed)
		}
		if time.Now().After(end) {
			t.Fatalf("the crowd has not connected again in time: %d halves sent", crowd.sent.Load())
		}
	}
	t.Logf("I15: 40 walks alone in %v, within a crowd of %d in %v (median of %d); %d halves sent",
		alone.took, size, median(rounds), len(rounds), crowd.sent.Load())
	wait.Until(t, "the crowd to be there still", func() bool { return connections(t, in.at.Ops) >= held })
	crowd.stop()

	// The server logs one line for each kind of rejection in ten seconds.
	lines := 0
	for line := range strings.Lines(in.logs.String()) {
		if strings.Contains(line, `"status":408`) || strings.Contains(line, "too many connections") ||
			strings.Contains(line, "net/http") {
			lines++
		}
	}
	if most := 6 * (1 + int(time.Since(begin)/(10*time.Second))); lines > most {
		t.Errorf("I15: %d lines in the log for a crowd of %d, want at most %d", lines, size, most)
	}
}

// openFiles returns the number of files that a process may open.
func openFiles(t *testing.T) int {
	t.Helper()
	out, err := exec.Command("sh", "-c", "ulimit -n").Output()
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		return math.MaxInt32 // unlimited
	}
	return n
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// walking is the result of some walks.
type walking struct {
	took   time.Duration
	failed string // the first failure
}

// walks does n verifications, four at a time, and a health check beside each.
func walks(in *served, n int) walking {
	begin := time.Now()
	var failed atomic.Pointer[string]
	fail := func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		failed.CompareAndSwap(nil, &text)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range n / 4 {
				for _, path := range []string{"/healthz", "/readyz"} {
					req, err := http.NewRequest("GET", in.BaseURL+path, nil)
					if err != nil {
						panic(err)
					}
					if status, _, body, err := in.do(req); err != nil || status != 200 {
						fail("%s: %d %s, %v", path, status, body, err)
					}
				}
				_, redirect, err := in.publisher.start(testIntegration)
				if err != nil {
					fail("%v", err)
					continue
				}
				token, err := in.approve(redirect)
				if err != nil {
					fail("%v", err)
					continue
				}
				if valid, status, body := in.validate(token); !valid {
					fail("validate: %d %s", status, body)
				}
			}
		})
	}
	wg.Wait()
	w := walking{took: time.Since(begin)}
	if text := failed.Load(); text != nil {
		w.failed = *text
	}
	return w
}

// halfSent is a crowd of clients at 127.0.0.2. Each sends half of a request and then waits. After the
// server cuts it off, it pauses and connects again.
type halfSent struct {
	sent atomic.Int64
	stop func()
}

func newHalfSent(t *testing.T, address string, size int, pause time.Duration) *halfSent {
	halves := []string{
		"POST /api/v1/verify/start HTTP/1.1\r\nHost: x\r\nContent-",
		"POST /api/v1/verify/start HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" +
			"Content-Length: 100\r\n\r\n",
		"POST /verify HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nflow=",
	}
	ctx, cancel := context.WithCancel(context.Background())
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	crowd := new(halfSent)
	var wg sync.WaitGroup
	crowd.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(crowd.stop)
	for i := range size {
		wg.Go(func() {
			for ctx.Err() == nil {
				if conn, err := dialer.DialContext(ctx, "tcp", address); err == nil {
					free := context.AfterFunc(ctx, func() { conn.Close() })
					io.WriteString(conn, halves[i%len(halves)])
					crowd.sent.Add(1)
					io.Copy(io.Discard, conn) // until it is cut off
					conn.Close()
					free()
				}
				select {
				case <-ctx.Done():
				case <-time.After(rand.N(pause + time.Millisecond)):
				}
			}
		})
	}
	return crowd
}

// connections reads how many connections the public listener has.
func connections(t *testing.T, ops string) int {
	t.Helper()
	resp, err := http.Get("http://" + ops + "/metrics")
	if err != nil {
		// A machine that stands still under the crowd can make the server give up a connection that has just
		// come. A caller that waits for a number tries again.
		t.Log(err)
		return 0
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), `verge_http_connections{listener="public"} `); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
	}
	return 0
}
