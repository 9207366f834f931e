package operate

import (
	"context"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/session"
	"github.com/verge-id/verge/core/webhook"
)

// Statuses of a TestReport.
const (
	statusReady    = "READY"
	statusNotReady = "NOT_READY"
)

// maxShownBody is the maximum number of bytes of a receiver's response in a ProbeReport. A test event shows
// more, because the console keeps the whole report in one item until its page is shown.
const maxShownBody = 1024

// TestWebhook sends the probes of the signed webhook test like events, and records the result (contract 29).
// A staged webhook that is Ready replaces the current one (contract 25).
func (o *Operations) TestWebhook(ctx context.Context, who Actor, id string, staged bool) (TestReport, error) {
	i, err := o.triable(ctx, who, webhookTest, id)
	if err != nil {
		return TestReport{}, err
	}
	hook := &i.Value.Webhook
	open := o.Directory.WebhookSecret
	if staged {
		if i.Value.Staged == nil || hook.Off {
			return TestReport{}, errConflict("Nothing is staged: stage another address or secret first.")
		}
		hook, open = i.Value.Staged, o.Directory.StagedSecret
	}
	if !hook.Sends() {
		return TestReport{}, errConflict("The integration has no webhook to test: set a URL first.")
	}
	secret, err := open(&i.Value)
	if err != nil {
		o.Log.Warn("webhook not tested", "integration", id, "publisher", i.Value.PublisherID,
			"error", err.Error())
		return TestReport{}, errConflict(noSecret)
	}
	report, err := o.probe(ctx, &i.Value, hook.URL, secret)
	if err != nil {
		return TestReport{}, err
	}
	switch {
	case !staged:
		err = o.recordReadiness(ctx, who, i, secret, report)
	case report.Ready:
		err = o.promote(ctx, who, i, secret)
		report.Promoted = err == nil
	}
	if err != nil {
		return TestReport{}, o.apiError(err)
	}
	o.Log.Info("webhook test", "integration", id, "publisher", i.Value.PublisherID, "staged", staged,
		"ready", report.Ready, "reasons", strings.Join(report.Reasons, "; "))
	return report, nil
}

// recordReadiness stores the result of the test of the current webhook.
func (o *Operations) recordReadiness(ctx context.Context, who Actor, i stored, secret string,
	report TestReport) error {
	entry, err := o.auditEntry(who, webhookTest, i.Value.PublisherID, i.Value.ID,
		change{Field: "readiness", To: report.Status})
	if err != nil {
		return err
	}
	return o.Directory.RecordReadiness(ctx, &i.Value, secret, report.Ready, entry...)
}

// promote replaces the current webhook with the staged one, whose secret is given, after its test was Ready.
func (o *Operations) promote(ctx context.Context, who Actor, i stored, secret string) error {
	is := i.Value
	is.Webhook, is.Staged = *is.Staged, nil
	var secrets integration.Secrets
	if active, err := o.Directory.WebhookSecret(&i.Value); err != nil || active != secret {
		secrets.Set = &secret
	}
	entry, err := o.auditEntry(who, webhookChange, is.PublisherID, is.ID, is.Changes(i.Value, secrets)...)
	if err != nil {
		return err
	}
	_, err = o.Directory.Promote(ctx, i, entry...)
	return err
}

func (o *Operations) probe(ctx context.Context, i *integration.Integration, url, secret string) (
	TestReport, error) {
	event, err := o.testEvent(i)
	if err != nil {
		return TestReport{}, err
	}
	report := TestReport{URL: url}
	var results []webhook.ProbeResult
	for _, p := range webhook.Probes(secret, event, o.Now()) {
		x, err := o.Outbox.Exchange(ctx, url, p.Header, p.Body)
		if err != nil {
			return TestReport{}, err
		}
		result := webhook.ProbeResult{Name: p.Name, Status: x.Status, Reason: x.Cause}
		if cause := host.FetchCause(x.Cause); cause != "" {
			result.Reason += ": " + cause
		}
		if x.Fault != "" {
			result.Reason += "; " + x.Fault
		}
		results = append(results, result)
		probed := ProbeReport{Name: p.Name, Want: string(p.Want), RequestHeader: p.Header,
			RequestBody: string(p.Body), Status: x.Status, Reason: x.Cause, Body: x.ResponseBody, Cut: x.Cut,
			Passed: result.Passed(p.Want), TookMS: x.Took.Milliseconds()}
		if len(probed.Body) > maxShownBody {
			probed.Body, probed.Cut = strings.ToValidUTF8(probed.Body[:maxShownBody], ""), true
		}
		report.Probes = append(report.Probes, probed)
		if p.Name == webhook.ProbeGood && result.NoResponse() {
			break // the other probes would wait as long and get no response either
		}
	}
	report.Ready, report.Reasons = webhook.Judge(results)
	report.Status = statusNotReady
	if report.Ready {
		report.Status = statusReady
	}
	return report, nil
}

// testEvent is the event of the signed test. Its session id is authentic, and there is no such session.
func (o *Operations) testEvent(i *integration.Integration) (webhook.Event, error) {
	_, text, err := session.NewTest(o.Random, o.Sealer, i.ID, i.Level, i.ChallengeAge, o.Now())
	if err != nil {
		return webhook.Event{}, err
	}
	return webhook.ReadinessEvent(webhook.Head{ID: webhook.NewID(o.Random), CreatedAt: o.Now(),
		PublisherID: i.PublisherID, IntegrationID: i.ID, SessionID: text}), nil
}
