package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/edge/server"
	"github.com/verge-id/verge/testharness/kit"
)

// TestI15IdleConnectionsCostNobodyElseAnything lets one address hold half-sent
// requests, renewed as they end, while a publisher at another one walks whole
// verifications (contract, Load): it is answered as it was before they came,
// and so are health checks. Held to the limit of an address, and with a limit
// that lets all of them stay. A third of them sends half a head; of 1,536 the
// others are as many as there are places for requests in hand.
func TestI15IdleConnectionsCostNobodyElseAnything(t *testing.T) {
	modules := newGuests(t)
	guest := sync.OnceValue(func() string {
		module := modules.put("verge.wasm", kit.Module(t))
		modules.compile(module)
		return modules.section(module, "")
	})
	for _, c := range []struct {
		crowd, perIP int // 0: the limit that holds if none is set
		wasm, long   bool
	}{
		{crowd: 1536},
		{crowd: 1536, perIP: 2048},
		{crowd: 1536, wasm: true},
		{crowd: 1536, perIP: 2048, wasm: true},
		{crowd: 8000},
		{crowd: 8000, perIP: 10000},
		{crowd: 8000, wasm: true, long: true},
		{crowd: 8000, perIP: 10000, wasm: true, long: true},
	} {
		name := map[bool]string{true: "wasm", false: "native"}[c.wasm] + "/" + strconv.Itoa(c.crowd)
		more := unlimited
		if c.perIP > 0 {
			name += "/all held"
			more += fmt.Sprintf("connections_per_ip = %d\n", c.perIP)
		}
		t.Run(name, func(t *testing.T) {
			if files := server.OpenFiles(); server.ConnsFor(files) < c.crowd+100 {
				t.Skipf("SKIP: %d connections need more than the %d files that a process may open here", c.crowd, files)
			}
			if c.long && os.Getenv("VERGE_LONG") != "1" {
				t.Skip("SKIP: takes long; VERGE_LONG=1 runs it")
			}
			if c.wasm {
				more += guest()
			}
			if c.crowd < 8000 { // of which this process can hold no two
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

// crowded walks through the same verifications without and within a crowd of
// so many, of whom so many are connected at a time.
func crowded(t *testing.T, in *served, size, held int) {
	alone := walks(in, 40)
	if alone.failed != "" {
		t.Fatalf("alone: %s", alone.failed)
	}
	begin := time.Now()
	// Those that are cut off for there being too many of them begin anew some 500 a second.
	crowd := newHalfSent(t, in.at.Public, size, time.Duration(size-held)*time.Second/256)
	eventually(t, "the crowd", func() bool { return connections(t, in.at.Ops) >= held })
	var rounds []time.Duration
	end := time.Now().Add(2 * patience)
	for ; int(crowd.sent.Load()) < size*5/4; time.Sleep(100 * time.Millisecond) {
		within := walks(in, 40)
		if rounds = append(rounds, within.took); within.failed != "" {
			t.Fatalf("I15: within a crowd of %d half-sent requests: %s", size, within.failed)
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain for the crowd to begin anew: %d halves sent", crowd.sent.Load())
		}
	}
	t.Logf("I15: 40 walks alone in %v, within a crowd of %d in %v (median of %d); %d halves sent",
		alone.took, size, median(rounds), len(rounds), crowd.sent.Load())
	eventually(t, "the crowd to be there still", func() bool { return connections(t, in.at.Ops) >= held })
	crowd.stop()

	// One line for each kind of refusal in ten seconds.
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

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// walking is how walks went.
type walking struct {
	took   time.Duration
	failed string // the first thing that did
}

// walks walks through n verifications, four at a time, and asks after the
// service's health beside each.
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

// halfSent is a crowd at 127.0.0.2 that sends half of a request each and then
// waits, and begins anew some time after it was cut off, at most pause.
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

// connections reads how many the public listener has.
func connections(t *testing.T, ops string) int {
	t.Helper()
	resp, err := http.Get("http://" + ops + "/metrics")
	if err != nil {
		t.Fatal(err)
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
