package pages

import (
	"github.com/verge-id/verge/core/internal/troubleshooting"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
)

// askedOf returns the behaviour that a probe tests. Package troubleshooting has the advice.
func askedOf(p operate.ProbeReport) string {
	switch p.Name {
	case webhook.ProbeGood:
		return "Accepts a valid event"
	case webhook.ProbeBadSignature:
		return "Rejects a wrong signature"
	case webhook.ProbeStaleTimestamp:
		return "Rejects an old event"
	case webhook.ProbeDifferingTimestamp:
		return "Rejects two different timestamps"
	case webhook.ProbeAlteredBody:
		return "Rejects an altered body"
	}
	return p.Name
}

// elsewhere returns the advice for a probe that failed for another reason than the receiver's check of
// signatures. "": the check is the likely reason.
func elsewhere(r *operate.TestReport, p operate.ProbeReport) string {
	if p.Status == 0 {
		return causeAdvice(operate.Attempt{Cause: p.Reason})
	}
	good := r.Probes[0] // the others come after it
	text := troubleshooting.Unreached(good.Status)
	switch {
	case text == "" || p.Status != good.Status:
		return ""
	case p.Name == good.Name:
		return text
	}
	return "The same response as for the valid event. Fix this first."
}

// adviceFor returns the advice for a failed probe.
func adviceFor(p operate.ProbeReport) troubleshooting.Advice {
	a, ok := troubleshooting.For(p.Name)
	if !ok {
		a.Text = "The response was not the expected one."
	}
	return a
}
