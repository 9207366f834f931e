package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// Settings is what an operator can set and the documents show.
type Settings struct {
	Limits      web.Limits
	Schedule    webhook.Schedule
	AnswerTime  time.Duration // how long a receiver of webhooks has to answer
	OutcomeLife time.Duration
	Console     bool // it is at /console, beside the documents
	BaseURL     string
}

// The files have the phrases of a service for which nothing is set, so they are whole as they are, and tools
// can read them. A phrase is the same in openapi.yaml and on the page: it stands on one line, and has no
// markup. A test looks for each of them.
var standardPhrases = Settings{Limits: web.Limits{}.WithDefaults(), AnswerTime: 10 * time.Second,
	OutcomeLife: 30 * 24 * time.Hour, Console: true}.phrases()

// phrases returns every phrase of the documents that depends on s, in a fixed order. None is part of another.
func (s Settings) phrases() []string {
	const address = " per client address"
	console := "The operator of this service gives you both."
	if s.Console {
		console = "The operator of this service gives you both, or invites you to its console, which " +
			"is at /console."
	}
	return []string{
		rate(s.Limits.PublicPerIP) + address + ", and " + rate(s.Limits.PublicPerKey) + " per key",
		"also " + rate(s.Limits.PublicPerNetwork) + " per /48",
		"also " + rate(s.Limits.StartsPerPublisher) + " per publisher",
		rate(s.Limits.SecretPerIP) + address + ", for all keys together",
		"also " + rate(s.Limits.ReconcilePerKey) + " per key",
		rate(s.Limits.PreflightsPerIP) + address + ", for all origins together",
		rate(s.Limits.PagesPerIP) + address + ", for all pages together",
		"or nothing within " + spoken(s.AnswerTime),
		retries(s.Schedule.Waits()) + " it can be sent again",
		"Outcomes are kept for " + spoken(s.OutcomeLife) + ".",
		console,
	}
}

// rate is a limit in words.
func rate(l ratelimit.Limit) string {
	if l.Per == time.Minute {
		return strconv.Itoa(l.Count) + " a minute"
	}
	return strconv.Itoa(l.Count) + " in " + spoken(l.Per)
}

// retries says when an event is sent again.
func retries(waits []time.Duration) string {
	if len(waits) == 0 {
		return "The event is given up;"
	}
	var b strings.Builder
	b.WriteString("The event is sent again after ")
	for i, w := range waits {
		switch {
		case i == 0:
		case i == len(waits)-1:
			b.WriteString(" and ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(spoken(w))
	}
	b.WriteString(", then it is given up;")
	return b.String()
}

// spoken is a time in the largest unit of which it is a whole number.
func spoken(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, " days"}, {time.Hour, " h"}, {time.Minute, " min"}, {time.Second, " s"}} {
		if n := d / u.unit; n > 0 && d%u.unit == 0 && (n > 1 || u.unit != 24*time.Hour) {
			return strconv.Itoa(int(n)) + u.name
		}
	}
	return d.String()
}
