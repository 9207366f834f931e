package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/core/webhook"
)

// TestDeliveryResend_Unknown names events that the integration does not have. Each has its result.
func TestDeliveryResend_Unknown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"deliveries":[]}`)
	}))
	defer server.Close()
	p, _, _ := testProgram()
	p.Getenv = func(name string) (string, bool) { return testToken, name == config.OperatorTokenVariable }
	code, out := asOperator(p, serving{Admin: server.Listener.Addr().String()}, "delivery", "resend", "evt_a",
		"evt_b", "--integration", testIntegration)
	for _, id := range []string{"evt_a", "evt_b"} {
		if !strings.Contains(out, testIntegration+" has no event "+id+" of the last 7 days (NOT_FOUND)\n") {
			t.Errorf("no result of %s: %s", id, out)
		}
	}
	if code != exitFailed {
		t.Errorf("exit code %d", code)
	}
}

func TestEventType(t *testing.T) {
	for given, want := range map[string]string{"": "", "completed": webhook.TypeCompleted,
		webhook.TypeCompleted: webhook.TypeCompleted, webhook.TypeFailing: webhook.TypeFailing} {
		if got := eventType(given); got != want {
			t.Errorf("%q is the type %q, want %q", given, got, want)
		}
	}
}
