package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
)

var at0 = time.Date(2026, 11, 20, 22, 10, 0, 0, time.UTC)

func TestTimesForPeople(t *testing.T) {
	for want, d := range map[string]time.Duration{"now": -900 * time.Millisecond, "just now": 4 * time.Second,
		"59 s ago":  59 * time.Second,
		"1 min ago": time.Minute, "59 min ago": 59*time.Minute + 59*time.Second, "47 h ago": 47 * time.Hour,
		"2 days ago": 48 * time.Hour, "in 1 min": -90 * time.Second, "in 2 h": -2 * time.Hour} {
		if got := ago(at0, at0.Add(-d)); got != want {
			t.Errorf("%v before: %q, want %q", d, got, want)
		}
	}
	for want, ms := range map[string]int64{"0 ms": 0, "9999 ms": 9999, "10.0 s": 10000} {
		if got := took(ms); got != want {
			t.Errorf("%d ms: %q, want %q", ms, got, want)
		}
	}
}

func TestNumbersForPeople(t *testing.T) {
	for want, n := range map[string]int{"0": 0, "999": 999, "1,000": 1000, "1,234,567": 1234567} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := count(1, "event", "events") + ", " + count(2000, "event",
		"events"); got != "1 event, 2,000 events" {
		t.Errorf("got %q", got)
	}
}

// The challenge age is not a proven age: a session of L2 does not show it.
func TestSession_Required(t *testing.T) {
	for want, i := range map[string]integration.Integration{
		"L1: an estimate of at least 25, or a proof of 18 or older": {Level: "L1", ChallengeAge: 25},
		"L2: a proof of 18 or older":                                {Level: "L2", ChallengeAge: 25},
		"L2: a proof of 21 or older": {Level: "L2", ChallengeAge: 25,
			MinimumAge: 21},
	} {
		if got := proves(operate.Integration{Integration: i}); got != want {
			t.Errorf("%+v: %q, want %q", i, got, want)
		}
	}
	for want, s := range map[string]operate.Session{
		"L1: an estimate of at least 25, or a proof of the integration's minimum age": {Level: "L1",
			ChallengeAge: 25},
		"L2: a proof of the integration's minimum age": {Level: "L2", ChallengeAge: 25},
	} {
		if got := proved(s); got != want {
			t.Errorf("%s, challenge age %d: %q, want %q", s.Level, s.ChallengeAge, got, want)
		}
	}
}

// A tick at the last step means that the step is done, not that a user was verified.
func TestSteps_Methods(t *testing.T) {
	for sandbox, want := range map[bool]string{true: "Choose a method that verifies people",
		false: "Offer a method that verifies people"} {
		got := wordsOf(OverviewData{Sandbox: sandbox}, operate.Step{Name: operate.StepMethod})
		if got.title != want {
			t.Errorf("sandbox %t: %q, want %q", sandbox, got.title, want)
		}
	}
}

// Contract 41: in development no method verifies people, so the step stays open and has the reason.
func TestStepOfMethods_Dev(t *testing.T) {
	for _, sandbox := range []bool{true, false} {
		got := wordsOf(OverviewData{Sandbox: sandbox, Dev: true}, operate.Step{Name: operate.StepMethod})
		if !strings.Contains(got.text, "for development") || got.act != "" {
			t.Errorf("sandbox %t, in development: %+v", sandbox, got)
		}
	}
}

// The step of sessions links to the form that starts a session, which is not the first form of its page.
func TestSteps_SessionLink(t *testing.T) {
	f := &Frame{Publisher: &operate.Publisher{}}
	f.Publisher.ID = "pub_a"
	got := stepPath(f, operate.Step{Name: operate.StepSession, Integration: "i"})
	if want := "/console/p/pub_a/test?integration=i#walk"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The audit records only that a secret has changed, so the old and the new value are the same word.
func TestAudit_ChangedSecret(t *testing.T) {
	var out strings.Builder
	list := []operate.AuditChange{{Field: "webhook.secret", From: "(secret)", To: "(secret)"},
		{Field: "name", From: "Old", To: "New"}}
	if err := changes(list).Render(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "<del>(secret)") ||
		!strings.Contains(got, "<ins>(secret)") || !strings.Contains(got, "<del>Old") {
		t.Errorf("%s", got)
	}
}

// Every cause has a text for the result and an advice.
func TestCauses_Advice(t *testing.T) {
	for _, cause := range []string{host.FetchBlocked, host.FetchTimeout, host.FetchDNS, host.FetchRefused,
		host.FetchTLS, host.FetchStatusLine, host.FetchHeaderLine, host.FetchHeaderSize, host.FetchCut,
		host.FetchMalformed} {
		if causeAdvice(operate.Attempt{Cause: cause}) == "" || response(0, cause) == "No response: "+cause {
			t.Errorf("nothing is said about %s", cause)
		}
	}
	for _, status := range []int{302, 400, 401, 403, 404, 410, 422, 500, 503} {
		if causeAdvice(operate.Attempt{Status: status}) == "" {
			t.Errorf("nothing is said about %d", status)
		}
	}
	if causeAdvice(operate.Attempt{Status: 204}) != "" || responseTone(204) != Good ||
		responseTone(302) != Bad {
		t.Error("2xx needs no advice, and nothing else is good")
	}
}

// Every reason of package outbox has a text.
func TestReasons_Words(t *testing.T) {
	for _, reason := range []string{"refused", "exhausted", "no_target", "test", "no_secret", "key_awaited",
		"unreadable"} {
		if reasonWord(reason) == reason {
			t.Errorf("nothing is said about %s", reason)
		}
	}
	if got := reasonWord("one of a later release"); got != "one of a later release" {
		t.Errorf("got %q", got)
	}
}

// If no request reached the receiver's code, no advice is about that code.
func TestProbe_UnreachableReceiver(t *testing.T) {
	report := func(statuses ...int) *operate.TestReport {
		r := &operate.TestReport{}
		for n, name := range []string{webhook.ProbeGood, webhook.ProbeBadSignature,
			webhook.ProbeStaleTimestamp}[:len(statuses)] {
			r.Probes = append(r.Probes, operate.ProbeReport{Name: name, Status: statuses[n]})
		}
		return r
	}
	for name, c := range map[string]struct {
		report *operate.TestReport
		want   []string // the beginning of the advice for each probe; "": advice about the check
	}{
		"nothing runs behind a proxy": {report(502, 502, 502), []string{"A proxy in front",
			"The same response", "The same response"}},
		"the path is wrong": {report(404, 404, 401), []string{"No receiver accepts events",
			"The same response", ""}},
		"there is a redirect": {report(301, 301, 301), []string{"Redirects", "The same response",
			"The same response"}},
		"the secret is another":          {report(401, 401, 401), []string{"", "", ""}},
		"the receiver fails at bad ones": {report(204, 502, 500), []string{"", "", ""}},
	} {
		for n, p := range c.report.Probes {
			got := elsewhere(c.report, p)
			if !strings.HasPrefix(got, c.want[n]) || c.want[n] == "" && got != "" {
				t.Errorf("%s, %s: %q, want %q", name, p.Name, got, c.want[n])
			}
		}
	}
}

func TestPathsAndQueries(t *testing.T) {
	if got := PublisherPath("pub_a/b", "keys"); got != "/console/p/pub_a%2Fb/keys" {
		t.Errorf("got %s", got)
	}
	if got := nextOf(with("/console/x", "a", "1", "b", ""), "c&d"); got != "/console/x?a=1&after=c%26d" {
		t.Errorf("got %s", got)
	}
}
