package webhook

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Names of the readiness probes (contract 29).
const (
	ProbeGood               = "good"
	ProbeBadSignature       = "bad_signature"
	ProbeStaleTimestamp     = "stale_timestamp"
	ProbeDifferingTimestamp = "differing_timestamp"
	ProbeAlteredBody        = "altered_body"
)

// Want is the answer that a probe must get.
type Want string

// What probes want. A refusal is 401 and nothing else (step 7 of Verify).
const (
	WantAccepted Want = "2xx"
	WantRefused  Want = "401"
)

// Probe is one request of the readiness test.
type Probe struct {
	Name   string
	Header map[string]string
	Body   []byte
	Want   Want
}

// ProbeResult is what came back: a status or, where there was no answer, why.
type ProbeResult struct {
	Name   string
	Status int
	Reason string // why there is no answer, e.g. "timeout"; empty if there is one
}

// probeStale is how old the stale probe is: twice the tolerance.
const probeStale = 10 * time.Minute

// probeRules lists the probes in the order they are sent. The good one comes
// first: a receiver that deduplicates before it verifies has then seen the
// event's key, and gives itself away on the next.
var probeRules = []struct {
	name string
	want Want
	hint string
}{
	{ProbeGood, WantAccepted, "a correctly signed event was not accepted; check the webhook secret, the clock and that the raw body is verified"},
	{ProbeBadSignature, WantRefused, "v1 was not the HMAC of this request; compare all of it, before anything else"},
	{ProbeStaleTimestamp, WantRefused, "the signature was right but t was 10 minutes old; refuse more than 300 seconds"},
	{ProbeDifferingTimestamp, WantRefused, HeaderTimestamp + " differed from t; refuse that although the signature is right"},
	{ProbeAlteredBody, WantRefused, "white space was added to the body after signing; verify the raw bytes, not JSON that was parsed and written again"},
}

// ReadinessEvent is the event to probe with: a started one with test set. Its
// session does not exist.
func ReadinessEvent(h Head) Event {
	h.Test = true
	return Started(h, h.CreatedAt.Add(10*time.Minute))
}

// Probes returns the requests that find out whether a receiver verifies. body
// is ReadinessEvent(…).Body(). Each negative probe has exactly one thing
// wrong, and everything else right, so that only a receiver that does that
// one check refuses it.
func Probes(secret string, body []byte, now time.Time) []Probe {
	probes := make([]Probe, 0, len(probeRules))
	for _, rule := range probeRules {
		p := Probe{Name: rule.name, Header: Headers(secret, now, body), Body: body, Want: rule.want}
		switch rule.name {
		case ProbeBadSignature:
			// Only the last digit is wrong: a receiver that compares a prefix
			// is found too.
			s := p.Header[HeaderSignature]
			last := byte('0')
			if strings.HasSuffix(s, "0") {
				last = '1'
			}
			p.Header[HeaderSignature] = s[:len(s)-1] + string(last)
		case ProbeStaleTimestamp:
			p.Header = Headers(secret, now.Add(-probeStale), body)
		case ProbeDifferingTimestamp:
			p.Header[HeaderTimestamp] = strconv.FormatInt(now.Unix()-1, 10)
		case ProbeAlteredBody:
			// The JSON means the same, so a receiver that verifies what it
			// wrote again itself is found too.
			p.Body = append([]byte{' '}, body...)
		}
		probes = append(probes, p)
	}
	return probes
}

// Judge returns whether the receiver is ready and, if it is not, one sentence
// for each probe that failed: its name, what came back, and what to mend. A
// probe without a result has failed; so has one with any wrong result.
func Judge(results []ProbeResult) (ready bool, reasons []string) {
	for _, rule := range probeRules {
		got := "it was not sent"
		passed := false
		for _, r := range results {
			if r.Name != rule.name {
				continue
			}
			if passed = r.satisfies(rule.want); !passed {
				got = r.describe()
				break
			}
		}
		if !passed {
			reasons = append(reasons, fmt.Sprintf("%s: wanted %s, but %s: %s", rule.name, rule.want, got, rule.hint))
		}
	}
	return len(reasons) == 0, reasons
}

func (r ProbeResult) satisfies(want Want) bool {
	if r.Reason != "" {
		return false
	}
	if want == WantRefused {
		return r.Status == 401
	}
	return Classify(r.Status, nil) == Delivered
}

func (r ProbeResult) describe() string {
	switch {
	case r.Reason != "":
		return "there was no answer (" + r.Reason + ")"
	case r.Status >= 300 && r.Status < 400:
		return fmt.Sprintf("the answer was a redirect (%d), which is never followed", r.Status)
	}
	return fmt.Sprintf("the answer was %d", r.Status)
}
