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

// Want is the expected response to a probe.
type Want string

// The expected responses. A rejection must be 401 (step 7 of Verify).
const (
	WantAccepted Want = "2xx"
	WantRejected Want = "401"
)

// Probe is one request of the readiness test.
type Probe struct {
	Name   string
	Header map[string]string
	Body   []byte
	Want   Want
}

// ProbeResult is the result of a probe: a status or, if there was no response, the reason.
type ProbeResult struct {
	Name   string
	Status int
	Reason string // why there is no response, in words, e.g. "timeout"; empty if there is one
}

// NoResponse reports whether there was no response. If the good probe had no response, the others need not
// be sent: they would get none either.
func (r ProbeResult) NoResponse() bool { return r.Reason != "" }

// probeStale is how old the stale probe is: twice the tolerance.
const probeStale = 10 * time.Minute

// probeRules lists the probes in the order in which they are sent. The good one is first. A receiver
// that deduplicates before it verifies has then seen the event's key, so the next probe finds that
// mistake.
var probeRules = []struct {
	name string
	want Want
	hint string
}{
	{
		ProbeGood,
		WantAccepted,
		"a correctly signed event was not accepted; check the webhook secret, " +
			"the clock and that the raw body is verified",
	},
	{
		ProbeBadSignature,
		WantRejected,
		"v1 was not the HMAC of this request; compare the whole value, before any other step",
	},
	{
		ProbeStaleTimestamp,
		WantRejected,
		"the signature was valid but t was 10 minutes old; reject more than 300 seconds",
	},
	{
		ProbeDifferingTimestamp,
		WantRejected,
		HeaderTimestamp + " differed from t; reject it although the signature is valid",
	},
	{
		ProbeAlteredBody,
		WantRejected,
		"white space was added to the body after signing; verify the raw bytes, " +
			"not JSON that was parsed and written again",
	},
}

// ReadinessEvent returns the event for the probes: a started event with test set. Its session does not exist,
// as its data states.
func ReadinessEvent(h Head) Event {
	e, _ := TestEvent(h, TypeStarted, "", 0)
	return e
}

// Probes returns the requests that find out whether a receiver verifies. event is a ReadinessEvent. Each
// negative probe has exactly one mistake, so that only a receiver with the matching check rejects it.
// The headers of Standard Webhooks, if there are any, have the same mistake: a receiver may check by them
// alone.
func Probes(secret string, event Event, now time.Time) []Probe {
	body := event.Body()
	probes := make([]Probe, 0, len(probeRules))
	for _, rule := range probeRules {
		p := Probe{Name: rule.name, Header: Headers(event.ID, now, body, secret), Body: body, Want: rule.want}
		switch rule.name {
		case ProbeBadSignature:
			alterSignatures(p.Header)
		case ProbeStaleTimestamp:
			p.Header = Headers(event.ID, now.Add(-probeStale), body, secret)
		case ProbeDifferingTimestamp:
			other := strconv.FormatInt(now.Unix()-1, 10)
			p.Header[HeaderTimestamp] = other
			if p.Header[headerStandardTimestamp] != "" {
				p.Header[headerStandardTimestamp] = other
			}
		case ProbeAlteredBody:
			// The JSON means the same, to find a receiver that parses the body, writes it again and
			// verifies that.
			p.Body = append([]byte{' '}, body...)
		}
		probes = append(probes, p)
	}
	return probes
}

// alterSignatures changes the last digit of each signature, to find a receiver that compares only a prefix.
func alterSignatures(header map[string]string) {
	header[HeaderSignature] = alterEnd(header[HeaderSignature], "0", "1")
	if s, ok := strings.CutSuffix(header[headerStandardSignature], "="); ok {
		// The last digit of 32 bytes in base64 has four bits. A and E differ in one of them.
		header[headerStandardSignature] = alterEnd(s, "A", "E") + "="
	}
}

// alterEnd replaces the last digit of s by a, or by b if it is a.
func alterEnd(s, a, b string) string {
	digit := a
	if strings.HasSuffix(s, a) {
		digit = b
	}
	return s[:len(s)-1] + digit
}

// Judge returns whether the receiver is ready. If it is not, it also returns one sentence for each probe that
// failed: its name, the result, and the fix. A probe fails if it has no result or any wrong one.
//
// If several probes had no response for the same reason, one sentence lists them all. It has no advice for
// the receiver, which may never have received them. If the good probe had no response, the probes that were
// therefore not sent are not listed.
//
// If all probes had the same response, and it is wrong for all of them, only the first sentence has advice:
// the response is not caused by the receiver's checks.
func Judge(results []ProbeResult) (ready bool, reasons []string) {
	if alike(results) {
		for n, rule := range probeRules {
			r, _ := worst(results, rule.name, rule.want)
			reasons = append(reasons, fmt.Sprintf("%s: wanted %s, but %s", rule.name, rule.want,
				r.describe()))
			if n == 0 {
				reasons[0] += ": " + hintAlike
			}
		}
		return false, reasons
	}
	var said []string            // the mistakes, in order
	names := map[string]string{} // of the probes that found each mistake
	say := func(name, wrong string) {
		if names[wrong] == "" {
			said, names[wrong] = append(said, wrong), name
			return
		}
		names[wrong] += ", " + name
	}
	ready = true
	unreached := false // the good probe had no response
	for _, rule := range probeRules {
		r, sent := worst(results, rule.name, rule.want)
		if sent && r.Passed(rule.want) {
			continue
		}
		ready = false
		switch {
		case !sent && unreached:
		case !sent:
			say(rule.name, fmt.Sprintf("expected %s, but it was not sent: %s", rule.want, rule.hint))
		case r.NoResponse():
			say(rule.name, fmt.Sprintf("expected %s, but there was no response (%s)", rule.want, r.Reason))
			unreached = unreached || rule.name == ProbeGood
		default:
			say(rule.name, fmt.Sprintf("expected %s, but %s: %s", rule.want, r.describe(), rule.hint))
		}
	}
	for _, wrong := range said {
		reasons = append(reasons, names[wrong]+": "+wrong)
	}
	return ready, reasons
}

// hintAlike is the advice if all probes had the same wrong response.
const hintAlike = "all five had the same response, so the receiver, or a proxy in front of it, responds " +
	"before it checks the signature; check the URL, and allow these requests in your login, firewall " +
	"or bot filter"

// alike reports whether all probes had the same response, and it is wrong for all of them.
func alike(results []ProbeResult) bool {
	var first ProbeResult
	for n, rule := range probeRules {
		r, sent := worst(results, rule.name, rule.want)
		if n == 0 {
			first = r
		}
		if !sent || r.NoResponse() || r.Status != first.Status || r.Passed(rule.want) {
			return false
		}
	}
	return true
}

// worst returns the first wrong result of a probe, or its last result if no result is wrong. sent reports
// whether the probe has a result.
func worst(results []ProbeResult, name string, want Want) (r ProbeResult, sent bool) {
	for _, each := range results {
		if each.Name != name {
			continue
		}
		r, sent = each, true
		if !r.Passed(want) {
			break
		}
	}
	return r, sent
}

// Passed reports whether the response is the expected one.
func (r ProbeResult) Passed(want Want) bool {
	if r.NoResponse() {
		return false
	}
	if want == WantRejected {
		return r.Status == 401
	}
	return r.Status >= 200 && r.Status < 300
}

func (r ProbeResult) describe() string {
	if r.Status >= 300 && r.Status < 400 {
		return fmt.Sprintf("the response was a redirect (%d), which is never followed", r.Status)
	}
	return fmt.Sprintf("the response was %d", r.Status)
}
