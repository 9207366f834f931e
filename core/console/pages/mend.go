package pages

import (
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/core/webhook/mend"
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

// adviceFor is what to do about a probe that failed.
func adviceFor(p operate.ProbeReport) mend.Advice {
	a, ok := mend.For(p.Name)
	if !ok {
		a.Text = "The answer was not the one that is wanted."
	}
	return a
}
