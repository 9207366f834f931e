package pages

import (
	"github.com/verge-id/verge/core/internal/troubleshooting"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
)

// asked says what each probe asks of a receiver. What to mend, package mend says.
var asked = map[string]string{
	webhook.ProbeGood:               "Accepts a good event",
	webhook.ProbeBadSignature:       "Refuses a wrong signature",
	webhook.ProbeStaleTimestamp:     "Refuses an old event",
	webhook.ProbeDifferingTimestamp: "Refuses two different timestamps",
	webhook.ProbeAlteredBody:        "Refuses an altered body",
}

func askedOf(p operate.ProbeReport) string {
	if words := asked[p.Name]; words != "" {
		return words
	}
	return p.Name
}

// elsewhere is what to do about a probe that failed for another reason than the receiver's check of
// signatures. "": the check is to blame, as far as one can tell.
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
	return "The same answer as to the good event. Mend that first."
}

// adviceFor is what to do about a probe that failed.
func adviceFor(p operate.ProbeReport) troubleshooting.Advice {
	a, ok := troubleshooting.For(p.Name)
	if !ok {
		a.Text = "The answer was not the one that is wanted."
	}
	return a
}
