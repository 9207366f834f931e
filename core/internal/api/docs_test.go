package api

import (
	"bytes"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/internal/snippet"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

func TestDocsPageNamesWhatItLoads(t *testing.T) {
	page := string(docsPage)
	for _, mark := range []string{checksMark, standardMark} {
		if strings.Count(page, mark) != 1 {
			t.Errorf("the page does not have the mark %q once", mark)
		}
	}
	for _, path := range []string{`href="` + DocsCSSPath + `"`, `href="` + web.OpenAPIPath + `"`, `href="` + ExamplesPath + `"`} {
		if !strings.Contains(page, path) {
			t.Errorf("the page has no %s", path)
		}
	}
	for _, id := range []string{"startVerification", "validateResult", "getSession", "quick-start",
		"verify-a-webhook", "errors", "webhooks", "answer-NotFound"} {
		if !strings.Contains(page, ` id="`+id+`"`) {
			t.Errorf("the page has no anchor %s", id)
		}
	}
	if !strings.Contains(string(openAPI), "\n  "+web.OpenAPIPath+":\n") {
		t.Errorf("the description does not have its own path %s", web.OpenAPIPath)
	}
}

func TestDocsCSSLoadsNothing(t *testing.T) {
	for _, word := range []string{"@import", "url(", "http"} {
		if strings.Contains(string(docsCSS), word) {
			t.Errorf("the style sheet has %s", word)
		}
	}
}

// served returns a document of a service with the settings s.
func served(t *testing.T, s Settings, path string) string {
	t.Helper()
	resp := NewDocuments(s).Document(path)
	if resp == nil || resp.Status != 200 {
		t.Fatalf("%s: %+v", path, resp)
	}
	return string(resp.Body)
}

// standard contains the default settings.
var standard = Settings{Limits: web.Limits{}.WithDefaults(), ResponseTime: 10 * time.Second,
	OutcomeLife: 30 * 24 * time.Hour, Console: true}

func TestDocuments_ConfiguredValues(t *testing.T) {
	other := Settings{
		Limits: web.Limits{
			PublicPerIP: ratelimit.PerMinute(61), PublicPerKey: ratelimit.PerMinute(601),
			PublicPerNetwork: ratelimit.PerMinute(241), StartsPerPublisher: ratelimit.PerMinute(10_001),
			SecretPerIP: ratelimit.PerMinute(602), ReconcilePerKey: ratelimit.PerMinute(121),
			PreflightsPerIP: ratelimit.PerMinute(603), PagesPerIP: ratelimit.Limit{Count: 7, Per: time.Hour},
		},
		Schedule:     webhook.Schedule{Delays: []time.Duration{90 * time.Second, time.Hour}},
		ResponseTime: 7 * time.Second, OutcomeLife: 36 * time.Hour,
	}
	want := []string{
		"61 a minute per client address, and 601 a minute per key",
		"also 241 a minute per /48",
		"also 10001 a minute per publisher",
		"602 a minute per client address, for all keys together",
		"also 121 a minute per key",
		"603 a minute per client address, for all origins together",
		"7 in 1 h per client address, for all pages together",
		"or no response within 7 s",
		"The event is retried after 90 s and 1 h, then marked as failed; it can be resent",
		"Outcomes are kept for 36 h.",
		"The operator of this service gives you both.",
	}
	for _, path := range []string{DocsPath, web.OpenAPIPath} {
		as, changed := served(t, standard, path), served(t, other, path)
		for i, phrase := range standardPhrases {
			if n := strings.Count(as, phrase); n != 1 {
				t.Errorf("%s has %q %d times, want once", path, phrase, n)
			}
			if strings.Contains(changed, phrase) {
				t.Errorf("spec, Limits: %s has %q although something else is set", path, phrase)
			}
			if n := strings.Count(changed, want[i]); n != 1 {
				t.Errorf("spec, Limits: %s has %q %d times, want once", path, want[i], n)
			}
		}
		if strings.Contains(strings.ToLower(as), "dashboard") {
			t.Errorf("contract 43: %s mentions a dashboard; it is the console, and may be off", path)
		}
		if strings.Contains(changed, "onsole") {
			t.Errorf("contract 43: %s mentions a console although it is off", path)
		}
	}
	if !bytes.Equal(NewDocuments(standard).Document(web.OpenAPIPath).Body, openAPI) {
		t.Error("the description of a service with default settings differs from the file")
	}
}

// Contract 30: requests for documents have no rate limit, so they must cost no more than sending the
// response.
func TestDocumentsAreMadeOnce(t *testing.T) {
	d := NewDocuments(Settings{Limits: standard.Limits, ResponseTime: time.Second,
		OutcomeLife: standard.OutcomeLife})
	for _, path := range []string{DocsPath, web.OpenAPIPath, DocsCSSPath, ExamplesPath} {
		first := d.Document(path).Body
		if again := d.Document(path).Body; len(first) == 0 || &first[0] != &again[0] {
			t.Errorf("%s is created again for each request", path)
		}
		if n := testing.AllocsPerRun(10, func() { d.Document(path) }); n > 20 {
			t.Errorf("%s takes %v allocations a request", path, n)
		}
	}
}

func TestTimesInWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Second: "5 s", 90 * time.Second: "90 s", 2 * time.Minute: "2 min", time.Hour: "1 h",
		24 * time.Hour: "24 h", 48 * time.Hour: "2 days", 36 * time.Hour: "36 h",
		1500 * time.Millisecond: "1.5s",
		0:                       "0s",
	} {
		if got := spoken(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for _, c := range []struct {
		waits []time.Duration
		want  string
	}{
		{nil, "The event is marked as failed;"},
		{[]time.Duration{time.Minute}, "The event is retried after 1 min, then marked as failed;"},
		{[]time.Duration{1e9, 2e9, 3e9},
			"The event is retried after 1 s, 2 s and 3 s, then marked as failed;"},
	} {
		if got := retries(c.waits); got != c.want {
			t.Errorf("%v: %q, want %q", c.waits, got, c.want)
		}
	}
}

func TestDocsPage_WebhookChecks(t *testing.T) {
	page := served(t, standard, DocsPath)
	if strings.Contains(page, "<!--") {
		t.Error("the page has a mark left")
	}
	for _, s := range snippet.All() {
		if strings.Count(page, `aria-label="Code: `+s.Name+`"`) != 2 {
			t.Errorf("contract 51: the page does not have two checks in %s", s.Name)
		}
		for rule, code := range map[string]string{"spec, Signature": s.Code, "contract 51": s.Standard} {
			if !strings.Contains(page, "<code>"+html.EscapeString(code)+"</code>") {
				t.Errorf("%s: the page has no check in %s", rule, s.Name)
			}
		}
	}
}
