package conformance_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

// Contract 42: an operator serves a new publisher with nothing but the operators' API, from the publisher to
// the usage of its first session.
func TestOperators(t *testing.T) {
	h := newHarness(t, nil)
	ok := func(method, path string, b any, pairs ...string) map[string]any {
		t.Helper()
		r := h.Admin(method, "/admin/v1/"+path, b, pairs...)
		if r.Status != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, r.Status, r.Body)
		}
		return r.JSON()
	}
	publisher := ok("POST", "publishers", body{"name": "New"})
	shop := ok("POST", "integrations", body{"publisher_id": publisher["id"], "name": "Shop",
		"callback_origins": []string{"https://shop.example"}, "webhook_url": h.Publisher.L1.WebhookURL,
		"webhook_secret": h.Publisher.L1.WebhookSecret})
	at := fmt.Sprintf("integrations/%s", shop["id"])

	// Two operators change it. The second one has read an older version.
	first := `"` + fmt.Sprint(shop["version"]) + `"`
	if changed := ok("PATCH", at, body{"name": "First"}, "If-Match", first); changed["name"] != "First" {
		t.Errorf("contract 42: changed to %v", changed)
	}
	late := h.Admin("PATCH", "/admin/v1/"+at, body{"name": "Second"}, "If-Match", first)
	wantError(t, late, 412, "PRECONDITION_FAILED")
	wantError(t, h.Admin("PATCH", "/admin/v1/"+at, body{"name": "Second"}), 400, "INVALID_REQUEST")

	if report := ok("POST", at+"/test", nil); report["ready"] != true {
		t.Errorf("contract 29: %v", report)
	}
	key := fmt.Sprint(ok("POST", "keys", body{"publisher_id": publisher["id"]})["key"])
	started := h.Do("POST", web.StartPath, testharness.Bearer(key), fmt.Appendf(nil,
		`{"integration_id":%q,"callback_url":%q}`, shop["id"], testharness.Callback))
	wantStatus(t, started, 200)
	id := fmt.Sprint(started.JSON()["session_id"])
	h.Open(fmt.Sprint(started.JSON()["redirect_url"])).Submit("approve")
	h.Settle()
	record(t, h)

	session := ok("GET", "sessions/"+id, nil)
	if events, _ := session["events"].([]any); session["status"] != "COMPLETED" || len(events) != 2 {
		t.Errorf("contract 44: %v", session)
	}
	deliveries := h.Admin("GET",
		fmt.Sprintf("/admin/v1/deliveries?integration_id=%s&state=delivered&limit=1", shop["id"]), nil)
	if shown := list(t, deliveries, "deliveries"); len(shown) != 1 || shown[0]["session_id"] != id {
		t.Errorf("contract 27: %s", deliveries.Body)
	}
	for outcome, want := range map[string]int{"completed": 1, "cancelled": 0} {
		finished := list(t, h.Admin("GET", fmt.Sprintf("/admin/v1/sessions?publisher_id=%s&outcome=%s",
			publisher["id"], outcome), nil), "sessions")
		if len(finished) != want || want > 0 && (finished[0]["session_id"] != id ||
			finished[0]["outcome"] != outcome || finished[0]["method"] != "sandbox") {
			t.Errorf("contract 44: finished sessions that are %s: %v", outcome, finished)
		}
	}
	for name, of := range map[string]any{"integration_id": shop["id"], "publisher_id": publisher["id"]} {
		days := list(t, h.Admin("GET", fmt.Sprintf("/admin/v1/usage?%s=%s", name, of), nil), "days")
		today := days[len(days)-1]
		counts, _ := today["counts"].(map[string]any)
		if today["day"] != host.DayOf(h.Now()).String() || counts["started"] != 1.0 ||
			counts["completed"] != 1.0 {
			t.Errorf("contract 44: %s: %v", name, today)
		}
	}
	overview := ok("GET", fmt.Sprintf("publishers/%s/overview", publisher["id"]), nil)
	for _, each := range overview["steps"].([]any) {
		step := each.(map[string]any)
		if want := step["name"] != operate.StepMethod; step["done"] != want { // the sandbox verifies no user
			t.Errorf("contract 44: done must be %v: %v", want, step)
		}
	}
	audit := h.Admin("GET", fmt.Sprintf("/admin/v1/audit?publisher_id=%s", publisher["id"]), nil)
	if len(list(t, audit, "audit")) < 4 {
		t.Errorf("contract 42: the audit has %s", audit.Body)
	}
	ok("POST", at+"/archive", nil, "If-Match", "*")
	wantError(t, h.Do("POST", web.StartPath, testharness.Bearer(key), fmt.Appendf(nil,
		`{"integration_id":%q,"callback_url":%q}`, shop["id"], testharness.Callback)), 404, "NOT_FOUND")
}
