package console_test

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/operate"
)

// Contract 44: the list of finished sessions has filters, and no data about a user.
func TestSessions_List(t *testing.T) {
	w := newFixture(t)
	completed, _ := w.real(sessionID, "")
	all := string(w.ask("GET", mine+"/sessions", "viewer", "").Body)
	if !strings.Contains(all, " UTC</time>") {
		t.Errorf("a time without its zone:\n%s", all)
	}
	for query, has := range map[string]bool{"": true, "?outcome=" + host.OutcomeCompleted: true,
		"?outcome=" + host.OutcomeExpired: false, "?integration=" + shopID: true,
		"?integration=" + kioskID: false,
		"?from=2020-01-01":        true, "?to=2020-01-01": false, "?method=palm": false} {
		body := string(w.ask("GET", mine+"/sessions"+query, "viewer", "").Body)
		if got := strings.Contains(body, mine+"/sessions/"+completed); got != has {
			t.Errorf("%s lists the completed session: %t, want %t", query, got, has)
		}
		if theirs, _ := w.real(theirsID, ""); strings.Contains(body, theirs) {
			t.Errorf("%s lists another publisher's session", query)
		}
	}
	for query, text := range map[string]string{"?from=tomorrow": "It must be a day, such as 2026-11-20.",
		"?from=2026-11-20&to=2026-11-19": "From must be on or before to.",
		"?outcome=lost":                  "no such outcome"} {
		resp := w.ask("GET", mine+"/sessions"+query, "viewer", "")
		if resp.Status != 400 || !strings.Contains(string(resp.Body), text) {
			t.Errorf("%s: %d without %q", query, resp.Status, text)
		}
	}
}

// The filter shows its integration even if that is not in the first part of the list.
func TestSessions_FilterBeyondChoices(t *testing.T) {
	w := newLargeFixture(t, operate.MaxLimit+1)
	chosen := largeIntegration(operate.MaxLimit).ID
	body := string(w.ask("GET", mine+"/sessions?integration="+chosen, "viewer", "").Body)
	if !strings.Contains(body, `value="`+chosen+`" selected`) {
		t.Errorf("the filter does not show its integration:\n%s", body)
	}
}

// Contract 44: the overview has a trend, the completion rate, the outcomes by method and the last sessions.
func TestOverview_Trend(t *testing.T) {
	w := newFixture(t)
	body := string(w.ask("GET", mine, "viewer", "").Body)
	for _, want := range []string{"Sessions of the last 30 days", "<svg viewBox=\"0 0 300 100\"",
		"The same as a table", "finished sessions completed", "Outcome by method", "Last sessions"} {
		if !strings.Contains(body, want) {
			t.Errorf("the overview does not contain %q", want)
		}
	}
}

// Contract 44: usage is of all integrations of a publisher, or of one.
func TestUsage_Publisher(t *testing.T) {
	w := newFixture(t)
	all := string(w.ask("GET", mine+"/usage.csv", "viewer", "").Body)
	one := string(w.ask("GET", mine+"/usage.csv?integration="+shopID, "viewer", "").Body)
	none := string(w.ask("GET", mine+"/usage.csv?integration="+kioskID, "viewer", "").Body)
	ids := strings.NewReplacer("publisher_id", "integration_id", mineID, shopID)
	if ids.Replace(all) != one || all == one || none == one {
		t.Errorf("all:\n%s\none:\n%s\nnone:\n%s", all, one, none)
	}
}
