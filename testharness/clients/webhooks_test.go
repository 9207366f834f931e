package clients

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/kit"
	"github.com/verge-id/verge/testharness/long"
)

// webhookModules is where .ci/install puts the npm libraries of Standard Webhooks.
const webhookModules = "/usr/local/lib/webhooks/node_modules"

// signedRequest is a webhook request, and whether a library of Standard Webhooks must accept it.
type signedRequest struct {
	Name     string            `json:"name"`
	Secret   string            `json:"secret"`
	Headers  map[string]string `json:"headers"`
	Body     []byte            `json:"body_base64"`
	Now      int64             `json:"now"`
	Accepted bool              `json:"accepted"`
}

// standardVectors returns the requests of core/webhook/testdata/standard_vectors.json.
func standardVectors(t *testing.T) []signedRequest {
	t.Helper()
	text, err := os.ReadFile("../../core/webhook/testdata/standard_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []signedRequest }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

// probeRequests returns the probes of the signed webhook test, for an event of each type.
func probeRequests() (all []signedRequest) {
	secret := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	now := time.Unix(1795212600, 0)
	for _, typ := range webhook.Types() {
		event, _ := webhook.TestEvent(webhook.Head{ID: "evt_694069ac-4d4e-475f-906b-2f11c5eca7bd",
			CreatedAt: now, PublisherID: "pub_a", IntegrationID: "694069ac-4d4e-475f-906b-2f11c5eca7bd",
			SessionID: "svc_sess_x"}, typ, "L1", 25)
		for _, p := range webhook.Probes(secret, event, now) {
			all = append(all, signedRequest{Name: typ + ", probe " + p.Name, Secret: secret,
				Headers: p.Header, Body: p.Body, Now: now.Unix(), Accepted: p.Want == webhook.WantAccepted})
		}
	}
	return all
}

// sentRequests returns the events of a service, as its receiver got them.
func sentRequests(t *testing.T) (all []signedRequest) {
	t.Helper()
	h := testharness.New(t, nil)
	for _, outcome := range []string{"approve", "reject", ""} {
		s := h.Start(map[string]any{"state": "Zürich \u2028<&>", "external_user_id": "u"})
		if outcome != "" {
			h.Open(s.RedirectURL).Submit(outcome)
		}
		h.Settle()
	}
	h.Advance(10 * time.Minute)
	h.Settle()
	for _, d := range h.Sink.Deliveries() {
		headers := map[string]string{}
		for name := range d.Header {
			headers[name] = d.Header.Get(name)
		}
		all = append(all, signedRequest{Name: "sent " + d.Event.Type, Secret: h.Publisher.L1.WebhookSecret,
			Headers: headers, Body: d.Body, Now: d.At.Unix(), Accepted: true})
	}
	if len(all) < 6 {
		t.Fatalf("spec, Events: only %d events", len(all))
	}
	return all
}

// goVerdict verifies a request with the Go library, whose clock is the bubble's.
func goVerdict(t *testing.T, r signedRequest) (accepted bool) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(r.Now, 0)))
		hook, err := standardwebhooks.NewWebhook(r.Secret)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		for name, value := range r.Headers {
			header.Set(name, value)
		}
		accepted = hook.Verify(r.Body, header) == nil
	})
	return accepted
}

// contract 51: the libraries of Standard Webhooks accept every event and reject every negative probe.
func TestStandardWebhooks_Go(t *testing.T) {
	for _, r := range append(standardVectors(t), probeRequests()...) {
		if got := goVerdict(t, r); got != r.Accepted {
			t.Errorf("contract 51: %s: accepted is %v", r.Name, got)
		}
	}
}

func TestStandardWebhooks_Node(t *testing.T) {
	long.Skip(t, "TestStandardWebhooks_Node")
	node := kit.Program(t, "node")
	kit.File(t, filepath.Join(webhookModules, "svix/package.json"))
	requests := append(standardVectors(t), probeRequests()...)
	requests = append(requests, sentRequests(t)...)
	input, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/webhooks")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(webhookModules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(node, "verify.cjs")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &failed)
	}
	var verdicts map[string][]bool
	if err := json.Unmarshal(out, &verdicts); err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{"standardwebhooks", "svix"} {
		if len(verdicts[library]) != len(requests) {
			t.Fatalf("%s: %d verdicts of %d requests", library, len(verdicts[library]), len(requests))
		}
		for n, r := range requests {
			if verdicts[library][n] != r.Accepted {
				t.Errorf("contract 51: %s: %s: accepted is %v", library, r.Name, verdicts[library][n])
			}
		}
	}
	for _, r := range requests {
		if got := goVerdict(t, r); got != r.Accepted {
			t.Errorf("contract 51: Go: %s: accepted is %v", r.Name, got)
		}
	}
}
