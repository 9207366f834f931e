// Package troubleshooting explains how to fix a webhook receiver whose readiness test failed. For each probe
// of package webhook it has a text and example code. Use [For] for the text and [Languages] for the code.
//
// Each language has one complete receiver, which passes the test. The code for a probe is a section of it, so
// a developer can copy the section or the whole file.
package troubleshooting

import (
	"embed"
	"strings"

	"github.com/verge-id/verge/core/webhook"
)

// Language is a programming language of the example code.
type Language struct {
	ID   string // for addresses and options, such as "node"
	Name string // for people
	file string
}

var languages = []Language{
	{ID: "node", Name: "Node.js", file: "receivers/receiver.js"},
	{ID: "python", Name: "Python", file: "receivers/receiver.py"},
	{ID: "php", Name: "PHP", file: "receivers/receiver.php"},
	{ID: "go", Name: "Go", file: "receivers/receiver.go.txt"},
}

// Languages returns all languages, in the order in which they are shown.
func Languages() []Language { return append([]Language(nil), languages...) }

// Advice is the advice for a failed probe.
type Advice struct {
	Probe string // of package webhook
	Title string // the error, in a few words
	Text  string // the probe, the expected response, and common errors
}

var advice = []Advice{
	{
		Probe: webhook.ProbeGood,
		Title: "The receiver does not accept a valid event",
		Text: "This event was signed like every event, with the secret of this integration, and the " +
			"receiver must return 2xx. Common errors: the receiver has the secret of another integration " +
			"or an old secret, or the secret ends in a line break. The signed text is t, a dot and the raw " +
			"body; t is the text from the header. A library of Standard Webhooks needs the whole secret, " +
			"including whsec_. If the receiver reports that the event is too old, set its clock. Respond " +
			"first and process the event afterwards: a response after more than 10 seconds is too late.",
	},
	{
		Probe: webhook.ProbeBadSignature,
		Title: "The receiver does not check the signature",
		Text: "In this request, the last digit of v1 was wrong, and webhook-signature was wrong if the " +
			"request had one. The receiver must return 401. Compute the HMAC and compare the whole value " +
			"with v1, or with a signature of webhook-signature, in constant time, before you process the " +
			"request. If the response was 400, 403 or 500, change only the status.",
	},
	{
		Probe: webhook.ProbeStaleTimestamp,
		Title: "The receiver accepts old events",
		Text: "The signature of this request was valid but 10 minutes old, and the receiver must return " +
			"401. Without this check, an attacker who has recorded a request can replay it indefinitely. " +
			"Reject a t that differs from your clock by more than 300 seconds, in either direction.",
	},
	{
		Probe: webhook.ProbeDifferingTimestamp,
		Title: "The receiver does not compare the two timestamps",
		Text: "X-Service-Timestamp was not equal to t in this request, and the receiver must return 401, " +
			"although the signature is valid. Use t, because it is signed. If X-Service-Timestamp is " +
			"present, it must be the same text. webhook-signature does not match this request's " +
			"webhook-timestamp, so a library of Standard Webhooks also rejects the request.",
	},
	{
		Probe: webhook.ProbeAlteredBody,
		Title: "The receiver does not check the raw body",
		Text: "A space was inserted before the body of this request after it was signed, and the receiver " +
			"must return 401. A receiver that parses the JSON, writes it again and checks that text does " +
			"not detect the change. Check the raw bytes of the body, then parse them. Often a framework " +
			"parses the body before the receiver gets it.",
	},
}

// For returns the advice for a probe. ok is false if there is no such probe.
func For(probe string) (a Advice, ok bool) {
	for _, a := range advice {
		if a.Probe == probe {
			return a, true
		}
	}
	return Advice{}, false
}

// Unreached returns the advice for a valid event if the status of the response is not from a check of its
// signature. For other statuses it returns "".
func Unreached(status int) string {
	switch status {
	case 301, 302, 303, 307, 308:
		return "Redirects are not followed. Set the webhook URL to the target of the redirect."
	case 404, 405, 410:
		return "No receiver accepts events at this address. Check the path of the webhook URL, and that " +
			"the receiver accepts POST there."
	case 502, 503, 504:
		return "A proxy in front of the receiver has responded instead of it. Check that the receiver is " +
			"running, and where the proxy forwards its requests."
	}
	return ""
}

//go:embed receivers
var receivers embed.FS

// Code returns the lines that a receiver in this language needs for the probe.
func (a Advice) Code(l Language) string {
	lines, _ := l.parts()
	return lines[a.Probe]
}

// Receiver returns a whole receiver in this language. It passes the readiness test.
func (l Language) Receiver() string {
	_, whole := l.parts()
	return whole
}

// end is the mark after a section. The mark before a section has the name of the probe.
const end = "end"

// Check returns the part of the receiver that checks the signature: a function check, and its imports.
func (l Language) Check() string {
	sections, _ := l.parts()
	return strings.TrimSpace(sections[check]) + "\n"
}

// The marks around the result of Check. It may contain sections of probes.
const (
	check    = "check"
	endCheck = "/check"
)

// parts splits a receiver into its sections. Marks are comments on a separate line, with a name in brackets.
func (l Language) parts() (sections map[string]string, whole string) {
	text, err := receivers.ReadFile(l.file)
	if err != nil {
		panic("troubleshooting: no receiver in " + l.Name + ": " + err.Error())
	}
	sections = map[string]string{}
	var all strings.Builder
	probe, inCheck := "", false
	for line := range strings.Lines(string(text)) {
		if name, ok := mark(line); ok {
			switch name {
			case check, endCheck:
				inCheck = name == check
			default:
				probe = strings.TrimSuffix(name, end)
			}
			continue
		}
		all.WriteString(line)
		if probe != "" {
			sections[probe] += line
		}
		if inCheck {
			sections[check] += line
		}
	}
	for name, lines := range sections {
		sections[name] = unindent(lines)
	}
	return sections, all.String()
}

// mark returns the name in a line that is a mark.
func mark(line string) (name string, ok bool) {
	line = strings.TrimLeft(strings.TrimSpace(line), "/# ")
	name, ok = strings.CutPrefix(line, "[")
	if !ok {
		return "", false
	}
	name, ok = strings.CutSuffix(name, "]")
	if _, known := For(name); !known && name != end && name != check && name != endCheck {
		return "", false
	}
	return name, ok
}

// unindent removes the white space of the first line from every line.
func unindent(lines string) string {
	indent := lines[:len(lines)-len(strings.TrimLeft(lines, " \t"))]
	var b strings.Builder
	for line := range strings.Lines(lines) {
		b.WriteString(strings.TrimPrefix(line, indent))
	}
	return b.String()
}
