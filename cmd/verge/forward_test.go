package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
)

// inbox is a developer's receiver. It takes what was signed with its secret.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex
	secret string
	got    []string // types, in the order they came
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{}
	in.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		in.mu.Lock()
		defer in.mu.Unlock()
		if err == nil {
			err = webhook.Verify(in.secret, r.Header, body, time.Now(), 0)
		}
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, rest, _ := strings.Cut(string(body), `"type":"`)
		typ, _, _ := strings.Cut(rest, `"`)
		in.got = append(in.got, typ)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) types() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got)
}

// contract 49: the command posts what a service says, signed with the secret that it prints, until it is
// stopped.
func TestListen(t *testing.T) {
	t.Parallel()
	h := testharness.New(t, nil)
	in := newInbox(t)
	p, stdout, stderr := testProgram()
	p.getenv = func(name string) (string, bool) {
		return h.Publisher.SecretKey, name == secretKeyVariable
	}
	in.secret = listenSecret(h.Publisher.SecretKey, h.Publisher.L1.ID)
	before := h.Admin("POST", "/admin/v1/integrations/"+h.Publisher.L1.ID+"/test-event",
		map[string]any{"type": webhook.TypeExpired})
	if before.Status != 200 {
		t.Fatal(before.Status)
	}
	h.Advance(time.Minute)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- execute(ctx, []string{"listen", "--url", h.BaseURL, "--integration", h.Publisher.L1.ID,
			"--forward", in.URL, "--since", "2m"}, p)
	}()
	eventually(t, "the event of a minute ago", func() bool { return len(in.types()) == 1 })
	for _, typ := range []string{webhook.TypeStarted, webhook.TypeCompleted} {
		h.Advance(time.Second)
		h.Admin("POST", "/admin/v1/integrations/"+h.Publisher.L1.ID+"/test-event",
			map[string]any{"type": typ})
	}
	eventually(t, "two events more", func() bool { return len(in.types()) == 3 })
	stop()
	if err := <-done; err != nil {
		t.Errorf("it ends with %v", err)
	}
	want := []string{webhook.TypeExpired, webhook.TypeStarted, webhook.TypeCompleted}
	if got := in.types(); !slices.Equal(got, want) {
		t.Errorf("contract 49: the receiver has %q, want %q", got, want)
	}
	if got := stdout.String(); got != in.secret+"\n" {
		t.Errorf("contract 47: standard output is %q, want the secret alone", got)
	}
	if strings.Contains(stderr.String(), h.Publisher.SecretKey) || !strings.Contains(stderr.String(), "204") {
		t.Errorf("standard error: %s", stderr)
	}
}

// fakeService answers the questions of a listener with a script.
func fakeService(t *testing.T, script []func(w http.ResponseWriter, since string)) *httptest.Server {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n == len(script) {
			t.Error("it asks more often than it should")
			return
		}
		n++
		script[n-1](w, r.URL.Query().Get("since"))
	}))
	t.Cleanup(s.Close)
	return s
}

// contract 49: requests that fail, and an event that comes later than one that was created after it, lose
// none and double none.
func TestListenLosesNothing(t *testing.T) {
	t.Parallel()
	const minute = "2026-11-20T22:1%d:00.000Z"
	event := func(id, at string) string {
		return fmt.Sprintf(`{"id":"evt_%s","type":%q,"created_at":%q,"test":true}`, id, id, at)
	}
	say := func(want string, events ...string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, since string) {
			if want != "" && since != want {
				t.Errorf("contract 49: it asks since %s, want %s", since, want)
			}
			fmt.Fprintf(w, `{"events":[%s],"now":%q,"more":false}`, strings.Join(events, ","), fmt.Sprintf(minute, 2))
		}
	}
	at := func(name string, n int) string { return event(name, fmt.Sprintf(minute, n)) }
	a, b, c := at("a", 3), at("b", 4), at("c", 9)
	in := newInbox(t)
	service := fakeService(t, []func(http.ResponseWriter, string){
		say(""), // the time alone
		func(w http.ResponseWriter, _ string) {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		say("2026-11-20T22:12:00.000Z", b),
		func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) },
		say("2026-11-20T22:12:00.000Z", a, b), // a was created first, and its receiver answered last
		say("2026-11-20T22:12:00.000Z", a, b, c),
		say("2026-11-20T22:14:00.000Z", b, c),
		func(w http.ResponseWriter, _ string) {
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, `{"code":"UNAUTHORIZED","error":"No."}`)
		},
	})
	in.secret = "whsec_only_for_tests"
	var out bytes.Buffer
	l := &listener{base: service.URL, forward: in.URL, secret: in.secret, integration: "i", key: "k",
		out: &out,
		now: time.Now, http: service.Client(), wait: time.Millisecond, seen: map[string]time.Time{}}
	err := l.run(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "UNAUTHORIZED") {
		t.Errorf("a key that is refused ends it: %v", err)
	}
	if got := in.types(); !slices.Equal(got, []string{"b", "a", "c"}) {
		t.Errorf("contract 49: the receiver has %q, want each event once: %s", got, &out)
	}
	if len(l.seen) != 2 {
		t.Errorf("it remembers %v, and only b and c can come again", l.seen)
	}
}

func TestListenRefuses(t *testing.T) {
	for _, c := range []struct {
		rule, want string
		args       []string
		key        string
	}{
		{"no service", "no service to ask", []string{"--forward", "http://localhost:3000/"}, "k"},
		{"no key", "no secret key", []string{"--forward", "http://localhost:3000/", "--url",
			"https://v.example"}, ""},
		{"no integration", "no integration", []string{"--forward", "http://localhost:3000/", "--url",
			"https://v.example"}, "k"},
		{"a key in the clear", "in the clear", []string{"--forward", "http://localhost:3000/", "--url",
			"http://v.example", "--integration", "i"}, "k"},
		{"a time without a unit", `"10" is no duration: write it like`,
			[]string{"--forward", "http://localhost:3000/", "--since", "10"}, "k"},
		{"no URL", "is not a URL", []string{"--forward", "localhost:3000", "--url", "https://v.example",
			"--integration", "i"}, "k"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			p, _, _ := testProgram()
			p.getenv = func(name string) (string, bool) { return c.key, name == secretKeyVariable }
			err := execute(t.Context(), append([]string{"listen", "--ready-file", "/none"}, c.args...), p)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
