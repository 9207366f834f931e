package clients

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/internal/standardhooks"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// standardVectors returns the requests of core/webhook/testdata/standard_vectors.json.
func standardVectors(t *testing.T) []standardhooks.Request {
	t.Helper()
	text, err := os.ReadFile("../../core/webhook/testdata/standard_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Vectors []standardhooks.Request }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

// probeSecret has the form of Standard Webhooks.
var probeSecret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))

// probeRequests returns the probes of the signed webhook test, for an event of each type.
func probeRequests(now time.Time) (all []standardhooks.Request) {
	for _, typ := range webhook.Types() {
		event, _ := webhook.TestEvent(webhook.Head{ID: "evt_694069ac-4d4e-475f-906b-2f11c5eca7bd",
			CreatedAt: now, PublisherID: "pub_a", IntegrationID: "694069ac-4d4e-475f-906b-2f11c5eca7bd",
			SessionID: "svc_sess_x"}, typ, "L1", 25)
		for _, p := range webhook.Probes(probeSecret, event, now) {
			all = append(all, standardhooks.Request{Name: typ + ", probe " + p.Name, Secret: probeSecret,
				Headers: p.Header, Body: p.Body, Now: now.Unix(), Accepted: p.Want == webhook.WantAccepted})
		}
	}
	return all
}

// allRequests returns the vectors and the probes at a fixed time.
func allRequests(t *testing.T) []standardhooks.Request {
	return append(standardVectors(t), probeRequests(time.Unix(1795212600, 0))...)
}

// sentRequests returns the events of a service, as its receiver got them.
func sentRequests(t *testing.T) (all []standardhooks.Request) {
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
		all = append(all, standardhooks.Request{Name: "sent " + d.Event.Type,
			Secret: h.Publisher.L1.WebhookSecret, Headers: headers, Body: d.Body, Now: d.At.Unix(),
			Accepted: true})
	}
	if len(all) < 6 {
		t.Fatalf("spec, Events: only %d events", len(all))
	}
	return all
}

// contract 51: the libraries of Standard Webhooks accept every event and reject every negative probe.
func TestStandardWebhooks_Go(t *testing.T) {
	standardhooks.CheckGo(t, allRequests(t))
}

func TestStandardWebhooks_Node(t *testing.T) {
	long.Skip(t, "TestStandardWebhooks_Node")
	requests := append(allRequests(t), sentRequests(t)...)
	standardhooks.CheckNode(t, requests)
	standardhooks.CheckGo(t, requests)
}

// documentedCode returns the code in this language of the chapter "Standard Webhooks" of the description.
func documentedCode(t *testing.T, language string) string {
	t.Helper()
	var document struct{ Info struct{ Description string } }
	if err := yaml.Unmarshal([]byte(description(t)), &document); err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(document.Info.Description, "### Standard Webhooks\n")
	_, code, _ := strings.Cut(chapter, "```"+language+"\n")
	code, _, found := strings.Cut(code, "```")
	if !found {
		t.Fatalf("contract 51: the documentation has no code in %s", language)
	}
	return code
}

// contract 51: the documented code with a library accepts every event and rejects every negative probe.
func TestStandardWebhooks_DocumentedCode(t *testing.T) {
	long.Skip(t, "TestStandardWebhooks_DocumentedCode")
	for language, judge := range map[string]func(*testing.T) ([]standardhooks.Request, []byte){
		"js": func(t *testing.T) ([]standardhooks.Request, []byte) {
			requests := allRequests(t)
			return requests, standardhooks.Node(t, `function receive(body, request) {
`+documentedCode(t, "js")+`
}
console.log(JSON.stringify(JSON.parse(require('node:fs').readFileSync(0, 'utf8')).map((r) => {
  process.env.WEBHOOK_SECRET = r.secret;
  Date.now = () => r.now * 1000;
  try {
    receive(Buffer.from(r.body_base64, 'base64').toString('utf8'), { headers: r.headers });
    return true;
  } catch {
    return false;
  }
})));`, requests)
		},
		"go": documentedGo,
	} {
		t.Run(language, func(t *testing.T) {
			requests, out := judge(t)
			var verdicts []bool
			if err := json.Unmarshal(out, &verdicts); err != nil || len(verdicts) != len(requests) {
				t.Fatalf("%d verdicts of %d requests: %v: %s", len(verdicts), len(requests), err, out)
			}
			for n, r := range requests {
				if verdicts[n] != r.Accepted {
					t.Errorf("contract 51: %s: accepted is %v", r.Name, verdicts[n])
				}
			}
		})
	}
}

// documentedGo runs the code in Go. Its library takes the time of the machine, so it gets probes of this
// moment.
func documentedGo(t *testing.T) ([]standardhooks.Request, []byte) {
	file := filepath.Join(t.TempDir(), "main.go")
	write(t, file, `package main

import (
	"encoding/json"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func receive(body []byte, request *http.Request) error {
	`+documentedCode(t, "go")+`
	return err
}

func main() {
	var requests []struct {
		Headers map[string]string
		Body    []byte `+"`json:\"body_base64\"`"+`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&requests); err != nil {
		panic(err)
	}
	verdicts := []bool{}
	for _, r := range requests {
		header := http.Header{}
		for name, value := range r.Headers {
			header.Set(name, value)
		}
		verdicts = append(verdicts, receive(r.Body, &http.Request{Header: header}) == nil)
	}
	json.NewEncoder(os.Stdout).Encode(verdicts)
}
`)
	program := filepath.Join(t.TempDir(), "receive")
	if out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	requests := probeRequests(time.Now())
	input, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.Program(t, program))
	cmd.Env, cmd.Stdin = append(os.Environ(), "WEBHOOK_SECRET="+probeSecret), bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return requests, out
}
