package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/reply"
	"github.com/verge-id/verge/core/session"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// Statuses of a TestReport.
const (
	Ready    = "READY"
	NotReady = "NOT_READY"
)

// TestReport is the result of a signed webhook test (contract 29).
type TestReport struct {
	Status  string        `json:"status"` // READY or NOT_READY
	Ready   bool          `json:"ready"`
	Probes  []ProbeReport `json:"probes"`            // the probes that were sent
	Reasons []string      `json:"reasons,omitempty"` // why probes failed, see webhook.Judge
}

// ProbeReport is the result of one probe.
type ProbeReport struct {
	Name   string `json:"name"`
	Want   string `json:"want"`
	Status int    `json:"status,omitempty"` // 0: there was no answer
	Reason string `json:"reason,omitempty"` // why there was none, one of host's Fetch constants
}

// test sends the probes in the way in which events are sent, and records the result.
func (a *Admin) test(ctx context.Context, req request) (*web.Response, error) {
	i, err := a.Directory.Integration(ctx, req.id)
	if errors.Is(err, integration.ErrNotFound) {
		return nil, &reply.Error{Code: reply.NotFound, Message: "There is no such integration."}
	}
	if err != nil {
		return nil, err
	}
	if !i.Webhook.Sends() {
		return nil, &reply.Error{Code: reply.InvalidRequest,
			Message: "The integration has no webhook to test: set a URL first."}
	}
	secret, err := a.Directory.WebhookSecret(i)
	if err != nil {
		a.Log.Warn("webhook cannot be tested", "integration", i.ID, "error", err.Error())
		return nil, &reply.Error{Code: reply.InvalidRequest,
			Message: "The integration has no webhook secret, or one that this key ring does not open: set it again."}
	}
	report, err := a.probe(ctx, i, secret)
	if err != nil {
		return nil, err
	}
	err = a.Directory.RecordReadiness(ctx, i, secret, report.Ready)
	if errors.Is(err, integration.ErrStale) {
		return nil, &reply.Error{Code: reply.InvalidRequest,
			Message: "The integration's webhook changed while it was tested. Test it again."}
	}
	if err != nil {
		return nil, err
	}
	a.Log.Info("webhook test", "integration", i.ID, "ready", report.Ready,
		"reasons", strings.Join(report.Reasons, "; "))
	return reply.JSON(200, report), nil
}

func (a *Admin) probe(ctx context.Context, i *integration.Integration, secret string) (TestReport, error) {
	level, err := session.ParseLevel(i.Level)
	if err != nil {
		return TestReport{}, err
	}
	sid, err := session.NewID(a.Random, i.ID, level, i.ChallengeAge, a.Now(), 0)
	if err != nil {
		return TestReport{}, err
	}
	text, err := sid.FormatTest(a.Sealer)
	if err != nil {
		return TestReport{}, err
	}
	event := webhook.ReadinessEvent(webhook.Head{ID: webhook.NewID(a.Random), CreatedAt: a.Now(),
		PublisherID: i.PublisherID, IntegrationID: i.ID, SessionID: text})
	var report TestReport
	var results []webhook.ProbeResult
	for _, p := range webhook.Probes(secret, event.Body(), a.Now()) {
		status, err := a.Outbox.Post(ctx, i.Webhook.URL, p.Header, p.Body)
		result := webhook.ProbeResult{Name: p.Name, Status: status}
		var fetch *host.FetchError
		switch {
		case errors.As(err, &fetch):
			result.Reason = fetch.Reason
			if cause := host.FetchCause(fetch.Reason); cause != "" {
				result.Reason += ": " + cause
			}
		case err != nil:
			return TestReport{}, err
		}
		results = append(results, result)
		shown := ProbeReport{Name: p.Name, Want: string(p.Want), Status: result.Status}
		if fetch != nil {
			shown.Reason = fetch.Reason
		}
		report.Probes = append(report.Probes, shown)
		if p.Name == webhook.ProbeGood && result.Unanswered() {
			break // the other probes would wait as long and get no answer either
		}
	}
	report.Ready, report.Reasons = webhook.Judge(results)
	report.Status = NotReady
	if report.Ready {
		report.Status = Ready
	}
	return report, nil
}
