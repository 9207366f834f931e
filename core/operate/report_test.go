package operate

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/internal/report"
	"github.com/verge-id/verge/core/internal/router"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/web"
)

// reporter is an operator whose name must not be in a report.
var reporter = Actor{Kind: KindOperator, ID: "op_canary", Name: "Canary Person", Role: RoleOperator}

// verifies reports whether the report's key has signed a text, by crypto/ecdsa.
func verifies(t *testing.T, r signedReport, text, signature string) bool {
	t.Helper()
	block, rest := pem.Decode([]byte(r.PublicKey))
	if block == nil || len(rest) > 0 || block.Type != "PUBLIC KEY" {
		t.Fatalf("it is no PEM: %s", r.PublicKey)
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	coretest.Must(t, err)
	der, err := base64.StdEncoding.DecodeString(signature)
	coretest.Must(t, err)
	digest := sha256.Sum256([]byte(text))
	return ecdsa.VerifyASN1(public.(*ecdsa.PublicKey), digest[:], der)
}

// TestReport_Content has a month with 1,000 sessions, changes of settings and names of persons.
func TestReport_Content(t *testing.T) {
	w := newFixture(t)
	today := host.DayOf(w.Clock.Now())
	coretest.Must(t, w.Counted.Record(ctx, host.Totals{Days: []host.DayTotal{
		{Integration: intA, Instance: "one", Day: today - 2, Counts: host.Counts{600, 500, 60, 30, 5, 3, 2}},
		{Integration: intA, Instance: "two", Day: today, Counts: host.Counts{400, 390, 1, 2, 3, 4}},
		{Integration: intB, Instance: "one", Day: today, Counts: host.Counts{7, 7}},
		{Integration: intA, Instance: "one", Day: today - 60, Counts: host.Counts{9, 9}},
	}}))
	age, name := 30, "Canary Shop Owner"
	alert, back := "https://alerts.example/canary?token=1", []string{"https://shop.example/canary"}
	_, err := w.ChangeIntegration(ctx, reporter, intA, "", IntegrationInput{ChallengeAge: &age,
		AlertURL: &alert, RedirectURIs: &back})
	coretest.Must(t, err)
	_, err = w.ChangePublisher(ctx, reporter, pubA, "", PublisherInput{Name: &name})
	coretest.Must(t, err)
	name = pubA
	_, err = w.ChangePublisher(ctx, reporter, pubA, "", PublisherInput{Name: &name})
	coretest.Must(t, err)
	_, err = w.Invite(ctx, reporter, pubA, "Canary Member", RoleViewer)
	coretest.Must(t, err)
	_, err = w.CreateOperatorToken(ctx, reporter, "Canary Token", RoleViewer, nil)
	coretest.Must(t, err)

	r, err := w.Report(ctx, reporter, ReportQuery{Publisher: pubA})
	coretest.Must(t, err)
	if !verifies(t, r, r.Document, r.DocumentSignature) || !verifies(t, r, r.Page, r.PageSignature) {
		t.Error("contract 57: a signature is not that of the key")
	}
	if verifies(t, r, r.Document+" ", r.DocumentSignature) {
		t.Error("contract 57: the signature is good for another document")
	}
	for _, text := range []string{r.Document, r.Page} {
		for _, canary := range []string{"anary", "op_canary", "mem_", "token=", secret, pubB, intB} {
			if strings.Contains(text, canary) {
				t.Errorf("contract 57: the report has %q", canary)
			}
		}
	}
	var d report.Document
	coretest.Must(t, json.Unmarshal([]byte(r.Document), &d))
	if d.Outcomes[host.OutcomeStarted] != 1000 || d.Outcomes[host.OutcomeRejected] != 61 ||
		d.Outcomes[host.OutcomeCompleted] != 890 {
		t.Errorf("outcomes: %v", d.Outcomes)
	}
	if len(d.Publishers) != 1 || len(d.Publishers[0].Integrations) != 1 ||
		len(d.Publishers[0].Integrations[0].Days) != 2 {
		t.Errorf("publishers: %+v", d.Publishers)
	}
	var found bool
	for n, c := range d.Changes {
		if n > 0 && c.At.Before(d.Changes[n-1].At) {
			t.Error("a change is before an older one")
		}
		for _, f := range c.Fields {
			found = found || f == report.Field{Name: "challenge_age", From: "25", To: "30"}
		}
	}
	if !found || d.Omitted == 0 {
		t.Errorf("%d omitted, changes: %+v", d.Omitted, d.Changes)
	}
	for _, want := range []string{"Verification report", "<td>1000</td>", "challenge_age: 25 to 30", "61"} {
		if !strings.Contains(r.Page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	whole, err := w.Report(ctx, reporter, ReportQuery{})
	coretest.Must(t, err)
	if !strings.Contains(whole.Document, pubB) || strings.Contains(whole.Document, "anary") {
		t.Errorf("the report of all publishers: %s", whole.Document)
	}
}

// TestReport_Period reports a change in the period alone.
func TestReport_Period(t *testing.T) {
	w := newFixture(t)
	age := 30
	_, err := w.ChangeIntegration(ctx, reporter, intA, "", IntegrationInput{ChallengeAge: &age})
	coretest.Must(t, err)
	changed := host.DayOf(w.Clock.Now())
	w.Clock.Advance(72 * time.Hour)
	for _, c := range []struct {
		name     string
		from, to host.Day
		want     bool
	}{
		{"before", changed - 3, changed - 1, false},
		{"to the day", changed - 3, changed, true},
		{"the day", changed, changed, true},
		{"from the day", changed, changed + 3, true},
		{"after", changed + 1, changed + 3, false},
	} {
		r, err := w.Report(ctx, reporter, ReportQuery{pubA, c.from.String(), c.to.String()})
		coretest.Must(t, err)
		if got := strings.Contains(r.Document, `"from": "25"`); got != c.want {
			t.Errorf("contract 57, %s: the change is in the report: %t", c.name, got)
		}
	}
}

// TestReport_Rejected has requests that get no report.
func TestReport_Rejected(t *testing.T) {
	w := newFixture(t)
	today := host.DayOf(w.Clock.Now())
	admin := Actor{Kind: KindMember, ID: "mem_1", Publisher: pubA, Role: RoleAdmin}
	for _, c := range []struct {
		name string
		who  Actor
		in   ReportQuery
		code web.Code
	}{
		{"another publisher", admin, ReportQuery{Publisher: pubB}, web.NotFound},
		{"no such publisher", reporter, ReportQuery{Publisher: "pub_none"}, web.NotFound},
		{"a developer", Actor{Kind: KindMember, Publisher: pubA, Role: RoleDeveloper}, ReportQuery{},
			web.Forbidden},
		{"no day", reporter, ReportQuery{From: "yesterday"}, web.InvalidRequest},
		{"from after to", reporter, ReportQuery{"", today.String(), (today - 1).String()},
			web.InvalidRequest},
		{"the future", reporter, ReportQuery{"", "", (today + 1).String()}, web.InvalidRequest},
		{"before the audit", reporter, ReportQuery{"", (today - 366).String(), today.String()},
			web.InvalidRequest},
	} {
		r, err := w.Report(ctx, c.who, c.in)
		if router.AsError(err).Code != c.code || r != (signedReport{}) {
			t.Errorf("contract 57, %s: %v, %v", c.name, err, r)
		}
	}
	own, err := w.Report(ctx, admin, ReportQuery{})
	if err != nil || !strings.Contains(own.Document, pubA) || strings.Contains(own.Document, pubB) {
		t.Errorf("contract 57: the admin's own report: %v", err)
	}
	w.Reports.Key = nil
	if _, err := w.Report(ctx, reporter, ReportQuery{}); router.AsError(err).Code != web.InvalidRequest {
		t.Errorf("without a key: %v", err)
	}
}

// TestReport_Limits has reports at their limits, and those that are larger by one.
func TestReport_Limits(t *testing.T) {
	w := newFixture(t)
	rejected := func(what string, want bool) {
		t.Helper()
		for _, publisher := range []string{"", pubB} {
			_, err := w.Report(ctx, reporter, ReportQuery{Publisher: publisher})
			if got := router.AsError(err).Code == web.InvalidRequest; err != nil && !got ||
				got != (want && publisher == "") {
				t.Errorf("contract 57: %s, publisher %q: %v", what, publisher, err)
			}
		}
	}
	all, err := w.Publishers(ctx, reporter, Search{Cursor: Cursor{Limit: MaxLimit}})
	coretest.Must(t, err)
	for n := len(all.Items); n <= maxReportIntegrations; n++ {
		if n == maxReportIntegrations {
			rejected("250 publishers", false)
		}
		coretest.Must(t, w.Directory.PutPublisher(ctx, integration.Publisher{ID: fmt.Sprintf("pub_x%d", n)}))
	}
	rejected("251 publishers", true)

	w = newFixture(t)
	of, err := w.Integrations(ctx, reporter, "", Search{Cursor: Cursor{Limit: MaxLimit}})
	coretest.Must(t, err)
	for n := len(of.Items); n <= maxReportIntegrations; n++ {
		if n == maxReportIntegrations {
			rejected("250 integrations", false)
		}
		coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{
			ID: fmt.Sprintf("22222222-0000-4000-8000-%012d", n), PublisherID: pubA, Level: "L1",
			ChallengeAge: 25, Method: "sandbox", Webhook: integration.Webhook{Off: true}}, ""))
	}
	rejected("251 integrations", true)

	w = newFixture(t)
	h := w.Operations.Host
	before, _, err := audit.List(ctx, h.KV, h.Sealer, "", "", MaxLimit)
	coretest.Must(t, err)
	for n := len(before); n <= maxReportEntries; n++ {
		if n == maxReportEntries {
			rejected("5,000 entries of the audit", false)
		}
		entry := audit.Entry{Actor: audit.Actor{Kind: KindOperator}, Operation: string(memberInvite)}
		puts, err := entry.Puts(h.Sealer, h.Random, w.Clock.Now())
		coretest.Must(t, err)
		coretest.Must(t, h.KV.Commit(ctx, kv.Tx{ID: fmt.Sprint("entry", n), Partition: integration.Partition,
			Puts: puts}))
	}
	rejected("5,001 entries of the audit", true)
}

// The error names the day that has to change.
func TestReportDays_Errors(t *testing.T) {
	w := newFixture(t)
	today := host.DayOf(w.Clock.Now())
	for name, c := range map[string]struct {
		from, to host.Day
		want     string
	}{
		"after today": {today - 1, today + 1, "to: It must not be after today, which is " + today.String()},
		"reversed":    {today, today - 1, "from: From must be on or before to."},
		"too early":   {today - 366, today, "from: It must be " + (today - 365).String() + " or later"},
		"the limits":  {today - 365, today, ""},
	} {
		_, _, err := w.reportDays(ReportQuery{From: c.from.String(), To: c.to.String()})
		var rejected *web.Error
		got := ""
		if errors.As(err, &rejected) {
			for _, d := range rejected.Details {
				got += d.Field + ": " + d.Message
			}
		}
		if !strings.HasPrefix(got, c.want) || (c.want == "") != (err == nil) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}
