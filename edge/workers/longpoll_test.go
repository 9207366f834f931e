package workers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/edge/internal/bothservers"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/workerd"
)

// The Worker and the native server read a Prefer alike.
func TestLongPoll_SamePreference(t *testing.T) {
	cases := bothservers.Preferences(t)
	var all [][]string
	for _, c := range cases {
		all = append(all, c.Prefer)
	}
	var got []int
	if askWorker(t, "prefer", all, &got); len(got) != len(cases) {
		t.Fatalf("%d answers, want %d", len(got), len(cases))
	}
	for i, c := range cases {
		if got[i] != c.Seconds {
			t.Errorf("RFC 7240: the Worker takes %q for %d seconds, want %d", c.Prefer, got[i], c.Seconds)
		}
	}
}

// askWorker calls only the Worker under test, without a service.
func askWorker(t *testing.T, what string, question, answer any) {
	t.Helper()
	body, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := workerd.Shared(t).Client().Post("http://control.localhost/"+what, "", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		t.Fatalf("%s: %d, %v", what, resp.StatusCode, err)
	}
}

// The limits of waiting requests also apply at the edge, per client and in total. An overdue request has
// ended without a release.
func TestLongPoll_Callers(t *testing.T) {
	type step struct {
		Client string `json:"client,omitempty"`
		Now    int    `json:"now"`             // in milliseconds; it waits for 20 s
		Leave  int    `json:"leave,omitempty"` // 1 is the first step; 0: a request begins to wait
	}
	from := func(client string, now, n int) (steps []step) {
		for range n {
			steps = append(steps, step{Client: client, Now: now})
		}
		return steps
	}
	var crowd []step // of 256
	for n := range 16 {
		crowd = append(crowd, from(fmt.Sprint("client ", n), 0, 16)...)
	}
	for _, c := range []struct {
		rule  string
		steps []step
		may   string // of the last steps, whether each may wait: y or n
	}{
		{"16 of a client", from("a", 0, 17), "yn"},
		{"another client", append(from("a", 0, 16), from("b", 0, 1)...), "y"},
		{"one has left", append(append(from("a", 0, 16), step{Leave: 1}), from("a", 0, 2)...), "yn"},
		{"256 in all", append(crowd[:256:256], step{Client: "z"}), "yn"},
		{"one of all has left", append(append(crowd[:256:256], step{Leave: 7}), from("z", 0, 2)...), "yn"},
		{"the addresses are unknown", from("", 0, 257), "yn"},
		{"they ask for the last time", append(from("a", 0, 16), from("a", 35_000, 1)...), "n"},
		{"they are past their time", append(from("a", 0, 16), from("a", 35_001, 17)...), "yn"},
	} {
		var may string
		if askWorker(t, "waits", c.steps, &may); !strings.HasSuffix(may, c.may) {
			t.Errorf("contract, Load: %s: %q, want %q at the end", c.rule, may, c.may)
		}
	}
}

// Who has been answered waits no more, and others may. So it is with a client that has gone, if the platform
// tells.
func TestLongPoll_ClientGone(t *testing.T) {
	s, _ := newSite(t, newInbox(t), workerd.Config{})
	query := url.Values{"integration_id": {integrationID}, "since": {"2026-11-20T22:10:00.000Z"}}
	target := s.base + web.TestsPath + "?" + query.Encode()
	tag := s.do("GET", target, bearer(s.key), nil).header.Get("Etag")
	if tag == "" {
		t.Fatal("the list has no tag")
	}
	ask := func(seconds int) answer {
		header := bearer(s.key)
		header.Set("If-None-Match", tag)
		header.Set("Prefer", fmt.Sprint("wait=", seconds))
		return s.do("GET", target, header, nil)
	}
	const most = 16
	answered := make(chan answer, most)
	for range most {
		go func() { answered <- ask(1) }()
	}
	for range most {
		if a := wait.For(answered); a.header.Get("Preference-Applied") != "wait=1" {
			t.Fatalf("contract 49: one of %d did not wait: %d %v %s", most, a.status, a.header, a.body)
		}
	}
	if a := ask(1); a.header.Get("Preference-Applied") != "wait=1" {
		t.Errorf("contract 49: %d were finished, and no other may wait: %d %s", most, a.status, a.body)
	}

	request := fmt.Sprintf("GET %s?%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"If-None-Match: %s\r\nPrefer: wait=20\r\n\r\n", web.TestsPath, query.Encode(),
		strings.TrimPrefix(s.base, "http://"), s.key, tag)
	var waiting []net.Conn
	var newest time.Time // when the newest of them began to wait
	wait := func() {
		newest = time.Now()
		c, err := net.Dial("tcp", workerd.Shared(t).Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c)
	}
	for range most {
		wait()
	}
	// If a request may wait, it came before one of the others.
	for start := time.Now(); ask(1).header.Get("Preference-Applied") != ""; {
		if wait(); time.Since(start) > time.Minute {
			t.Fatalf("contract, Load: more than %d requests of a client wait", most)
		}
		time.Sleep(200 * time.Millisecond) // a new connection is slower than the open one
	}
	for _, c := range waiting {
		if err := c.(*net.TCPConn).SetLinger(0); err != nil { // so that workerd notices it
			t.Fatal(err)
		}
		c.Close()
	}
	for ; ; time.Sleep(50 * time.Millisecond) {
		if a := ask(1); a.header.Get("Preference-Applied") == "wait=1" {
			return
		} else if a.status != http.StatusNotModified {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if time.Since(newest) > 18*time.Second { // after 20 s, it ends without its client
			t.Fatal("contract 49: all have gone, and no other request may wait")
		}
	}
}
