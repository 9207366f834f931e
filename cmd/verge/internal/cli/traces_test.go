package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/wait"
)

// The server sends its spans to the collector that the configuration names, and the last ones when it ends.
func TestTracesReachTheConfiguredCollector(t *testing.T) {
	t.Parallel()
	got := make(chan string, 16)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err == nil {
			got <- r.URL.Path + " " + string(b)
		}
	}))
	defer collector.Close()
	in := newSite(t, "memory", "https://shop.example.com/hooks",
		"[traces]\nendpoint = \""+collector.URL+"\"\nsample = 1.0\n").start()
	if err := in.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wait.For(in.ended)
	for {
		select {
		case sent := <-got:
			if strings.HasPrefix(sent, "/v1/traces ") && strings.Contains(sent, "http.route") {
				return
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("no span of a request came: %s", in.logs)
		}
	}
}
