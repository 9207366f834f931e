package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/wait"
)

// TestTerminateUnderLoad sends SIGTERM while clients use every endpoint. Half of them keep their
// connections, and half open a new one for each request. Every client that gets a connection gets an
// answer, and the process exits with 0. A rejected connection afterwards is no failure, and the kernel may
// reset one connection that arrives exactly when the listener closes (stopAccepting in edge/internal/server).
// A request on a connection that was idle for longer than IdleGrace may be lost, too.
func TestTerminateUnderLoad(t *testing.T) {
	t.Parallel()
	sink := newEvents(t)
	dev := startDev(t, t.TempDir(), "--webhook-url", sink.URL, "--log-level", "warn")
	sink.trust(dev.WebhookSecret)

	var requests, walks, resets atomic.Int64
	var signalled atomic.Bool
	var clients sync.WaitGroup
	for n := range 8 {
		client := newPublisher(dev.readyFile) // with connections of its own
		short, idle := n%2 == 1, &idleTimer{RoundTripper: client.http.Transport, last: time.Now()}
		client.http.Transport.(*http.Transport).DisableKeepAlives = short
		client.http.Transport = idle
		failed := func(request string, err error) bool {
			switch {
			case err == nil:
				requests.Add(1)
				return false
			case rejected(err):
			case short && signalled.Load() && errors.Is(err, syscall.ECONNRESET):
				resets.Add(1)
			case !short && signalled.Load() && idle.before() > idleGrace &&
				(errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
			default:
				t.Errorf("%s: %v", request, err)
			}
			return true
		}
		clients.Go(func() {
			// 600 calls a minute are allowed; two of a walk's four requests count.
			for range 30 {
				_, redirect, err := client.start(client.IntegrationID)
				if failed("start", err) {
					return
				}
				token, err := client.approve(redirect)
				if failed("approve", err) {
					return
				}
				status, _, body, err := client.api("POST", "/api/v1/verify/validate",
					map[string]string{"result_token": token})
				if err == nil && status != 200 {
					err = fmt.Errorf("%d %s", status, body)
				}
				if failed("validate", err) {
					return
				}
				walks.Add(1)
			}
		})
	}
	wait.Until(t, "load", func() bool { return walks.Load() >= 20 })
	before := requests.Load()
	signalled.Store(true)
	if err := dev.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	clients.Wait()
	if err := dev.cmd.Wait(); err != nil {
		t.Errorf("exit: %v: %s", err, dev.logs)
	}
	if n := resets.Load(); n > 1 {
		t.Errorf("%d connections were reset, but only one can arrive exactly at the close", n)
	}
	t.Logf("%d requests answered, %d of them after SIGTERM was sent", requests.Load(), requests.Load()-before)
}

// idleGrace is the time after which a server that drains closes idle connections.
const idleGrace = time.Second

// idleTimer is a transport for one request at a time. It measures how long it was idle before each request.
type idleTimer struct {
	http.RoundTripper
	last time.Time    // of the last response
	idle atomic.Int64 // nanoseconds until the current request was sent
}

func (i *idleTimer) before() time.Duration { return time.Duration(i.idle.Load()) }

func (i *idleTimer) RoundTrip(req *http.Request) (*http.Response, error) {
	last := i.last
	sent := func(httptrace.WroteRequestInfo) { i.idle.Store(int64(time.Since(last))) }
	sent(httptrace.WroteRequestInfo{})
	resp, err := i.RoundTripper.RoundTrip(req.WithContext(
		httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteRequest: sent})))
	i.last = time.Now()
	return resp, err
}

// rejected reports whether there was no connection, so that the server never had the request. If the
// listener closes in the middle of a handshake, the kernel resets the connection instead of rejecting
// it.
func rejected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" &&
		(errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET))
}

// TestSecondSignal shows that a second signal ends the process, even if a receiver hangs.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	sink := newEvents(t)
	sink.hang = make(chan struct{})
	defer close(sink.hang)
	sink.trust(testSecret)
	// The delivery must last longer than the test.
	in := newSite(t, "memory", sink.URL, unlimited+"[webhooks]\ntimeout = \"1m\"\n").start()
	if _, _, err := in.start(testIntegration); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "a delivery that hangs", func() bool { return sink.hanging.Load() > 0 })
	if err := in.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-in.ended:
		t.Fatalf("the first signal does not wait for the active job: %v", in.cmd.ProcessState)
	case <-time.After(1500 * time.Millisecond): // longer than the server waits for idle connections
	}
	if err := in.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	wait.For(in.ended)
	if code := in.cmd.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d says that the process drained, but the second signal cut it off", code)
	}
}

// TestSignal_DuringStart ends a server that waits for its store.
func TestSignal_DuringStart(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"serve": {"--config", "/verge.toml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
			"--ops-listen", "127.0.0.1:0"},
		"dev": {"--addr", "127.0.0.1:0", "--demo-addr", "127.0.0.1:0", "--data", "/data"},
	} {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		kv := "redis://" + silent.Addr().String()
		p := serveFiles(t, map[string]string{
			"/verge.toml": configFor("dev", kv, "https://shop.example.com/hooks", "HOOK")})
		var errs bytes.Buffer
		p.stderr = &errs
		ctx, signal := context.WithCancel(t.Context())
		exit := make(chan int, 1)
		go func() { exit <- run(ctx, append([]string{name, "--kv", kv}, args...), p) }()
		connected := make(chan error, 1)
		go func() {
			_, err := silent.Accept()
			connected <- err
		}()
		if err := wait.For(connected); err != nil {
			t.Fatal(err)
		}
		signal()
		if code := wait.For(exit); code != exitOK ||
			!strings.Contains(errs.String(), "stopped while starting") {
			t.Errorf("%s: exit code %d: %s", name, code, &errs)
		}
	}
}

// TestHangUp shows that SIGHUP makes dev drain, as when a terminal closes, and that a server continues.
func TestHangUp(t *testing.T) {
	dev := startDev(t, t.TempDir())
	if err := dev.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := dev.cmd.Wait(); err != nil {
		t.Errorf("dev: %v", err)
	}

	p := serveFiles(t, map[string]string{
		"/verge.toml": configFor("test", "memory", "https://hooks.publisher.example/", "HOOK"),
	})
	at, stop := serveHere(t, p, "--config", "/verge.toml")
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	// if the signal were not ignored, it would have ended this process by now
	time.Sleep(50 * time.Millisecond)
	if code, out := asOperator(p, at, "integration", "list"); code != exitOK {
		t.Errorf("after the signal: exit code %d: %s", code, out)
	}
	if code := stop(); code != exitOK {
		t.Errorf("exit code %d", code)
	}
}

// TestHangUpReadsTheSite shows that SIGHUP reads publishers and integrations again (contract 46): what the
// file drops continues to work and is logged, archived = true archives, and a wrong file is rejected
// as a whole.
func TestHangUpReadsTheSite(t *testing.T) {
	t.Parallel()
	site := newSite(t, "memory", newEvents(t).URL, unlimited)
	whole, err := os.ReadFile(site.config)
	if err != nil {
		t.Fatal(err)
	}
	in := site.start()
	read := func(written, says string) {
		t.Helper()
		if err := config.WritePrivate(afero.NewOsFs(), site.config, []byte(written)); err != nil {
			t.Fatal(err)
		}
		before := strings.Count(in.logs.String(), says)
		in.hangUp(t)
		wait.Until(t, says, func() bool { return strings.Count(in.logs.String(), says) > before })
	}
	starts := func(want bool, when string) {
		t.Helper()
		_, _, err := in.publisher.start(testIntegration)
		if got := err == nil; got != want {
			t.Errorf("contract 46: %s it starts sessions: %v, %v", when, got, err)
		}
	}
	head, rest, _ := strings.Cut(string(whole), "[[integrations]]")
	_, limits, _ := strings.Cut(rest, "[limits]")
	starts(true, "at first")
	const gone = `"msg":"no longer in the configuration, continues to work","what":"integration","id":"` +
		testIntegration
	read(head+"\n[limits]\n"+limits, gone)
	starts(true, "dropped")
	read(head+"\n[limits]\n"+limits, gone) // each time
	archived := "[[integrations]]\nid = \"" + testIntegration +
		"\"\npublisher = \"pub_example\"\narchived = true\n"
	read(head+archived+"\n[limits]\n"+limits, `publishers and integrations were read again","changes":1`)
	starts(false, "archived by the file")
	read("mode = ", "publishers and integrations were not read again")
	read(strings.Replace(string(whole), `method = "sandbox"`, `method = "palm"`, 1), "were not read again")
	read(strings.Replace(string(whole), `method = "sandbox"`, `method = "palm"`, 1)+
		"\n[[methods]]\nname = \"palm\"\nkind = \"sandbox\"\n", "which take effect with a restart")
	starts(false, "after a file that is wrong")
	read(string(whole), `publishers and integrations were read again","changes":1`)
	starts(true, "named again")
	read(string(whole), `publishers and integrations were read again","changes":0`)
	if strings.Contains(in.logs.String(), testSecret) {
		t.Errorf("contract 13: the log holds a secret: %s", in.logs)
	}
}

// A SIGHUP during an outage of the store is carried out once the store is back, unless a newer one replaces
// it.
func TestHangUps_StoreAway(t *testing.T) {
	for _, c := range []struct {
		rule    string
		fails   int  // so many attempts fail
		newer   int  // before this attempt, another SIGHUP comes; 0: none does
		stops   bool // the server stops at the attempt that fails last
		actions string
		pauses  []time.Duration
	}{
		{"the store is there", 0, 0, false, "F", nil},
		{"away for a while", 7, 0, false, "Faaaaaaa", []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		{"a newer one", 3, 2, false, "FaFa", []time.Duration{1, 1}},
		{"the server stops", 2, 0, true, "Fa", []time.Duration{1}},
	} {
		hangUps, actions := make(chan os.Signal, 1), ""
		var pauses []time.Duration
		hangUps <- syscall.SIGHUP
		after := func(d time.Duration) <-chan time.Time {
			if c.newer == len(actions) && c.newer > 0 {
				hangUps <- syscall.SIGHUP
				return nil
			}
			if c.stops && len(actions) == c.fails {
				close(hangUps)
				return nil
			}
			pauses = append(pauses, d/time.Second)
			passed := make(chan time.Time, 1)
			passed <- time.Time{}
			return passed
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			onHangUps(hangUps, after, func(first bool) bool {
				actions += map[bool]string{true: "F", false: "a"}[first]
				again := len(actions) <= c.fails
				if !again && !c.stops {
					close(hangUps)
				}
				return again
			})
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: the server waits for nothing", c.rule)
		}
		if actions != c.actions || !slices.Equal(pauses, c.pauses) {
			t.Errorf("%s: %s with pauses %v, want %s with %v", c.rule, actions, pauses, c.actions, c.pauses)
		}
	}
}

// A server that gets SIGHUP while Redis is away puts the changed file into the store afterwards.
func TestServe_HangUpWhileStoreAway(t *testing.T) {
	t.Parallel()
	redis := stores.StartRedis(t, stores.Durable...)
	s := newSite(t, redis.URL(), "https://shop.example.com/hooks", unlimited)
	in := s.start()
	config := readText(t, s.config)
	changed := strings.Replace(config, "challenge_age = 25", "challenge_age = 30", 1)
	redis.Kill()
	if err := os.WriteFile(s.config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	in.hangUp(t)
	wait.Until(t, "the first attempt", func() bool {
		return strings.Contains(in.logs.String(), "SIGHUP: store unavailable")
	})
	redis.Start()
	wait.Until(t, "the change", func() bool {
		return strings.Contains(in.logs.String(), "SIGHUP: publishers and integrations were read again")
	})
	code, out := asOperator(operator(), in.at, "integration", "list", "--json")
	if code != exitOK || !strings.Contains(strings.ReplaceAll(out, " ", ""), `"challenge_age":30`) {
		t.Errorf("the integration: exit code %d: %s", code, out)
	}
}
