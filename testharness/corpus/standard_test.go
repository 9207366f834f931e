package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/internal/standardhooks"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/wasm/abi"
)

// recordedEvents returns each event that a recording sent. Libraries must accept all except the negative
// probes of webhook tests.
func recordedEvents(t *testing.T, p play) (all []standardhooks.Request) {
	t.Helper()
	secrets := begin(p.config).secrets // as in the recording
	sent := map[string]int{}           // requests of a test event
	for n, s := range read(t, p.name).Steps {
		for _, e := range s.Events {
			if e.Kind != abi.Fetch {
				continue
			}
			q, err := abi.Read.Fetch(e.Body)
			if err != nil {
				t.Fatal(err)
			}
			var event webhook.Event
			if err := json.Unmarshal(q.Body, &event); err != nil {
				t.Fatalf("%s, step %d: %v", p.name, n+1, err)
			}
			r := standardhooks.Request{Name: fmt.Sprintf("%s, step %d, %s", p.name, n+1, event.Type),
				Secret: secrets[q.URL], Headers: q.Header, Body: q.Body, Now: s.Now.Unix(), Accepted: true}
			if event.Test {
				// The signed webhook test sends the good event first, and four probes with the same id.
				sent[event.ID]++
				r.Accepted = sent[event.ID] == 1
				r.Name += fmt.Sprintf(", test request %d", sent[event.ID])
			}
			all = append(all, r)
		}
	}
	return all
}

// mistaken returns the request with each mistake that a library has to find.
func mistaken(r standardhooks.Request) (all []standardhooks.Request) {
	at := time.Unix(r.Now, 0)
	for _, m := range []struct {
		name   string
		change func(*standardhooks.Request)
	}{
		{"another body", func(r *standardhooks.Request) { r.Body = append([]byte{' '}, r.Body...) }},
		{"another id", func(r *standardhooks.Request) { r.Headers["webhook-id"] += "0" }},
		{"another time", func(r *standardhooks.Request) {
			r.Headers["webhook-timestamp"] = fmt.Sprint(r.Now - 1)
		}},
		{"the signature of another secret", func(r *standardhooks.Request) {
			r.Headers = webhook.Headers(r.Headers["webhook-id"], at, r.Body, webhookSecret("another"))
		}},
		{"no signature", func(r *standardhooks.Request) { delete(r.Headers, "webhook-signature") }},
		{"too old", func(r *standardhooks.Request) { r.Now += 301 }},
		{"too far in the future", func(r *standardhooks.Request) { r.Now -= 301 }},
	} {
		wrong := r
		wrong.Headers, wrong.Body = maps.Clone(r.Headers), bytes.Clone(r.Body)
		wrong.Name, wrong.Accepted = r.Name+", "+m.name, false
		m.change(&wrong)
		all = append(all, wrong)
	}
	return all
}

// contract 51: libraries of Standard Webhooks accept all recorded events, and reject their negative probes
// and each event with a mistake.
func TestStandardWebhooks_RecordedEvents(t *testing.T) {
	counts := map[string]int{}
	node := long.Run(t, "TestStandardWebhooks_RecordedEvents")
	for _, p := range recordings {
		t.Run(p.name, func(t *testing.T) {
			var requests []standardhooks.Request
			for _, r := range recordedEvents(t, p) {
				requests = append(requests, r)
				if !r.Accepted {
					counts["probes"]++
					continue
				}
				counts["events"]++
				wrong := mistaken(r)
				counts["mistakes"] += len(wrong)
				requests = append(requests, wrong...)
			}
			standardhooks.CheckGo(t, requests)
			if node && len(requests) > 0 {
				standardhooks.CheckNode(t, requests)
			}
		})
	}
	t.Log(counts)
	if counts["events"] < 200 || counts["probes"] < 100 {
		t.Errorf("the corpus has only %v", counts)
	}
}
