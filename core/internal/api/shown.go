package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
)

// Settings contains the operator's settings that appear in the documents.
type Settings struct {
	Limits       web.Limits
	Schedule     webhook.Schedule
	ResponseTime time.Duration // time limit for a webhook receiver's response
	OutcomeLife  time.Duration
	Console      bool // the console is at /console
	BaseURL      string
}

// The files contain the phrases of a service with default settings, so they are complete and tools can read
// them. A phrase is the same in openapi.yaml and on the page: it is on one line, without markup. A test
// checks each of them.
var standardPhrases = Settings{Limits: web.Limits{}.WithDefaults(), ResponseTime: 10 * time.Second,
	OutcomeLife: 30 * 24 * time.Hour, Console: true}.phrases()

// phrases returns every phrase of the documents that depends on s, in a fixed order. None is part of another.
func (s Settings) phrases() []string {
	const address = " per client address"
	console := "The operator of this service gives you both."
	if s.Console {
		console = "The operator of this service gives you both, or invites you to its console at /console."
	}
	return []string{
		rate(s.Limits.PublicPerIP) + address + ", and " + rate(s.Limits.PublicPerKey) + " per key",
		"also " + rate(s.Limits.PublicPerNetwork) + " per /48",
		"also " + rate(s.Limits.StartsPerPublisher) + " per publisher",
		rate(s.Limits.SecretPerIP) + address + ", for all keys together",
		"also " + rate(s.Limits.ReconcilePerKey) + " per key",
		rate(s.Limits.PreflightsPerIP) + address + ", for all origins together",
		rate(s.Limits.PagesPerIP) + address + ", for all pages together",
		"or no response within " + spoken(s.ResponseTime),
		retries(s.Schedule.Waits()) + " it can be resent",
		"Outcomes are kept for " + spoken(s.OutcomeLife) + ".",
		console,
	}
}

// rate returns a limit in words.
func rate(l ratelimit.Limit) string {
	if l.Per == time.Minute {
		return strconv.Itoa(l.Count) + " a minute"
	}
	return strconv.Itoa(l.Count) + " in " + spoken(l.Per)
}

// retries describes the retries of an event.
func retries(waits []time.Duration) string {
	if len(waits) == 0 {
		return "The event is marked as failed;"
	}
	var b strings.Builder
	b.WriteString("The event is retried after ")
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
	b.WriteString(", then marked as failed;")
	return b.String()
}

// spoken returns d as a whole number of its largest possible unit.
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
