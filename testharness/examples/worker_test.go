package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
)

const workerConfig = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .publisher),
    (name = "internet", network = (allow = ["public", "private", "local"])),
  ],
  sockets = [(name = "http", address = "%s", http = (), service = "main")],
);
const publisher :Workerd.Worker = (
  compatibilityDate = "2026-01-01",
  modules = [
    (name = "worker.mjs", esModule = embed "worker.mjs"),
    (name = "@verge-id/sdk", esModule = embed "index.js"),
  ],
  bindings = [%s],
);
`

// A publisher on workerd starts a session, validates and reconciles it, and verifies an event.
func TestSDK_Workerd(t *testing.T) {
	long.Skip(t, "TestSDK_Workerd")
	workerd := testenv.Program(t, "workerd")
	sdk := nodeSDK(t)
	h := testharness.New(t, nil)
	address := fmt.Sprintf("127.0.0.1:%d", stores.FreePort(t))
	dir := t.TempDir()
	bindings := ""
	for name, value := range map[string]string{
		"VERGE_URL": h.BaseURL, "VERGE_SECRET_KEY": h.Publisher.SecretKey,
		"VERGE_INTEGRATION": h.Publisher.L1.ID, "CALLBACK_URL": "http://localhost/return",
		"WEBHOOK_SECRET": h.Publisher.L1.WebhookSecret,
	} {
		bindings += fmt.Sprintf("(name = %q, text = %q), ", name, value)
	}
	write(t, filepath.Join(dir, "config.capnp"), fmt.Sprintf(workerConfig, address, bindings))
	for from, name := range map[string]string{
		"testdata/worker.mjs":               "worker.mjs",
		filepath.Join(sdk, "dist/index.js"): "index.js",
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	var failed bytes.Buffer
	cmd := exec.Command(workerd, "serve", "config.capnp")
	cmd.Dir, cmd.Stderr = dir, &failed
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("workerd: %s", &failed)
		}
	})
	listens(t, address)
	ask := func(path string, header map[string]string, body []byte) (status int, said map[string]any) {
		t.Helper()
		method := "GET"
		if body != nil {
			method = "POST"
		}
		req, err := http.NewRequest(method, "http://"+address+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range header {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_ = json.NewDecoder(resp.Body).Decode(&said)
		return resp.StatusCode, said
	}
	_, started := ask("/start", nil, nil)
	redirect, _ := started["redirect_url"].(string)
	if redirect == "" {
		t.Fatalf("spec, Start: %v", started)
	}
	back := h.Open(redirect).Submit("approve").Callback
	_, result := ask("/return?result_token="+url.QueryEscape(back.ResultToken), nil, nil)
	if result["verified"] != true || result["session_id"] != started["session_id"] {
		t.Errorf("spec, Validate: %v", result)
	}
	_, session := ask("/session?session_id="+url.QueryEscape(back.SessionID), nil, nil)
	if session["status"] != "COMPLETED" {
		t.Errorf("spec, Reconcile: %v", session)
	}
	event := webhook.ReadinessEvent(webhook.Head{ID: "evt_694069ac-4d4e-475f-906b-2f11c5eca7bd",
		CreatedAt: time.Now(), PublisherID: "pub_a", IntegrationID: h.Publisher.L1.ID,
		SessionID: "svc_sess_x"})
	for _, p := range webhook.Probes(h.Publisher.L1.WebhookSecret, event, time.Now()) {
		status, said := ask("/hook", p.Header, p.Body)
		if p.Want == webhook.WantAccepted && (status != 200 || said["id"] != event.ID) ||
			p.Want == webhook.WantRejected && status != 401 {
			t.Errorf("contract 29: %s: %d %v", p.Name, status, said)
		}
	}
}

// listens waits until a server accepts connections at the address.
func listens(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no server listens at %s", address)
		}
	}
}
