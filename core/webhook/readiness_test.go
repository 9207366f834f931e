package webhook

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// receiver is a publisher's receiver that lacks one check.
func receiver(without string) func(Probe) int {
	return func(p Probe) int {
		header := map[string][]string{}
		for name, value := range p.Header {
			header[name] = []string{value}
		}
		body, tolerance := p.Body, time.Duration(0)
		switch without {
		case "the comparison":
			if _, err := parseSignature(p.Header[HeaderSignature]); err == nil {
				return 200
			}
		case "the tail of the comparison":
			h := p.Header[HeaderSignature]
			ts, _, _ := strings.Cut(strings.TrimPrefix(h, "t="), ",")
			sec, _ := parseTimestamp(ts)
			if Sign(testSecret, time.Unix(sec, 0), body)[:40] == h[:40] {
				header[HeaderSignature] = []string{Sign(testSecret, time.Unix(sec, 0), body)}
			}
		case "the tolerance":
			tolerance = 24 * time.Hour
		case "the other header":
			delete(header, HeaderTimestamp)
		case "the raw body":
			var v json.RawMessage
			if json.Unmarshal(body, &v) == nil {
				body = v
			}
		}
		err := Verify(testSecret, header, body, testNow, tolerance)
		var rejected *VerifyError
		switch {
		case err == nil:
			return 204
		case errors.As(err, &rejected) && without == "401":
			return 403
		}
		return 401
	}
}

func TestReadiness(t *testing.T) {
	event := ReadinessEvent(testHead)
	if event.Type != TypeStarted || !event.Test {
		t.Fatalf("contract 29: the test's event is %s, test %v", event.Type, event.Test)
	}
	for _, tc := range []struct {
		rule    string
		without string
		failing []string
	}{
		{"contract 29: a receiver with every check is ready", "", nil},
		{
			"contract 29: bad signature",
			"the comparison",
			[]string{ProbeBadSignature, ProbeStaleTimestamp, ProbeDifferingTimestamp, ProbeAlteredBody},
		},
		{
			"contract 29: bad signature, found by its last digit",
			"the tail of the comparison",
			[]string{ProbeBadSignature},
		},
		{"contract 29: stale timestamp", "the tolerance", []string{ProbeStaleTimestamp}},
		{"contract 29: differing X-Service-Timestamp", "the other header", []string{ProbeDifferingTimestamp}},
		{"contract 29: altered body", "the raw body", []string{ProbeAlteredBody}},
		{
			"contract 29: a refusal is 401 and nothing else",
			"401",
			[]string{ProbeBadSignature, ProbeStaleTimestamp, ProbeDifferingTimestamp, ProbeAlteredBody},
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			answer := receiver(tc.without)
			var results []ProbeResult
			for _, p := range Probes(testSecret, event, testNow) {
				results = append(results, ProbeResult{Name: p.Name, Status: answer(p)})
			}
			ready, reasons := Judge(results)
			if ready != (tc.failing == nil) {
				t.Errorf("ready is %v: %q", ready, reasons)
			}
			var failing []string
			for _, r := range reasons {
				name, _, _ := strings.Cut(r, ":")
				failing = append(failing, name)
			}
			if !slices.Equal(failing, tc.failing) {
				t.Errorf("failing are %q, want %q", failing, tc.failing)
			}
		})
	}
}

func TestProbesDoNotShareWhatTheyAlter(t *testing.T) {
	event := ReadinessEvent(testHead)
	before := string(event.Body())
	for _, p := range Probes(testSecret, event, testNow) {
		p.Header["X"] = p.Name
	}
	for _, p := range Probes(testSecret, event, testNow) {
		if p.Header["X"] != "" || (p.Name != ProbeAlteredBody && string(p.Body) != before) {
			t.Errorf("%s was changed by another probe", p.Name)
		}
	}
}

func TestJudgeSaysWhatCameBack(t *testing.T) {
	all := func(change func(name string, r *ProbeResult)) []ProbeResult {
		var rs []ProbeResult
		for _, rule := range probeRules {
			r := ProbeResult{Name: rule.name, Status: 401}
			if rule.want == WantAccepted {
				r.Status = 200
			}
			change(rule.name, &r)
			rs = append(rs, r)
		}
		return rs
	}
	on := func(name string, set func(*ProbeResult)) []ProbeResult {
		return all(func(n string, r *ProbeResult) {
			if n == name {
				set(r)
			}
		})
	}
	for _, tc := range []struct {
		rule    string
		results []ProbeResult
		want    string // in the only reason; empty: ready
	}{
		{"all as wanted", all(func(string, *ProbeResult) {}), ""},
		{
			"the status is named",
			on(ProbeGood, func(r *ProbeResult) { r.Status = 500 }),
			"good: expected 2xx, but the response was 500",
		},
		{"a redirect is reported", on(ProbeGood, func(r *ProbeResult) { r.Status = 302 }), "redirect (302)"},
		{"a missing response is reported", on(ProbeStaleTimestamp, func(r *ProbeResult) {
			r.Status, r.Reason = 0, "timeout"
		}), "stale_timestamp: expected 401, but there was no response (timeout)"},
		{"no answer outweighs a status", on(ProbeAlteredBody, func(r *ProbeResult) {
			r.Reason = "network_error"
		}), "altered_body"},
		{"the same reason for missing responses is reported once, without a hint",
			all(func(name string, r *ProbeResult) {
				if name != ProbeGood {
					r.Status, r.Reason = 0, "timeout"
				}
			}), "bad_signature, stale_timestamp, differing_timestamp, altered_body: " +
				"expected 401, but there was no response (timeout)"},
		{"a 401 to all probes is not the same wrong response",
			all(func(_ string, r *ProbeResult) { r.Status = 401 }),
			"good: expected 2xx, but the response was 401"},
		{"if the good probe had no answer, the others are not missed",
			[]ProbeResult{{Name: ProbeGood, Reason: "dns_error"}},
			"good: expected 2xx, but there was no response (dns_error)"},
		{
			"a probe that was not sent has failed",
			all(func(string, *ProbeResult) {})[:4],
			"altered_body: expected 401, but it was not sent",
		},
		{
			"one wrong result of two counts, first",
			append([]ProbeResult{{Name: ProbeGood, Status: 401}}, all(func(string, *ProbeResult) {})...),
			"good",
		},
		{
			"one wrong result of two counts, last",
			append(all(func(string, *ProbeResult) {}), ProbeResult{Name: ProbeGood, Status: 401}),
			"good",
		},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			ready, reasons := Judge(tc.results)
			if tc.want == "" {
				if !ready || len(reasons) != 0 {
					t.Errorf("%v %q, want ready", ready, reasons)
				}
				return
			}
			if ready || len(reasons) != 1 || !strings.Contains(reasons[0], tc.want) {
				t.Errorf("%v %q, want one reason with %q", ready, reasons, tc.want)
			}
			if len(reasons) == 1 && strings.Contains(reasons[0], "no answer") &&
				!strings.HasSuffix(reasons[0], ")") {
				t.Errorf("%q has a hint for a receiver that may never have been reached", reasons)
			}
		})
	}
	if ready, reasons := Judge(nil); ready || len(reasons) != 5 {
		t.Errorf("nothing was sent: %v %q", ready, reasons)
	}
}

func TestJudgeGivesOneAdviceForOneAnswer(t *testing.T) {
	for _, status := range []int{403, 308} {
		var results []ProbeResult
		for _, rule := range probeRules {
			results = append(results, ProbeResult{Name: rule.name, Status: status})
		}
		ready, reasons := Judge(results)
		if ready || len(reasons) != len(probeRules) {
			t.Fatalf("contract 29: %v, %q: want a reason for each probe", ready, reasons)
		}
		for n, reason := range reasons {
			if !strings.HasPrefix(reason, probeRules[n].name+": wanted "+string(probeRules[n].want)) ||
				!strings.Contains(reason, strconv.Itoa(status)) ||
				strings.Contains(reason, "all five") != (n == 0) {
				t.Errorf("contract 29: %q", reason)
			}
		}
	}
}
