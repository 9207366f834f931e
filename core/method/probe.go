package method

import (
	"context"
	"fmt"
)

// Probe checks the provider of a configured method, for an operator who sets the method up. No user takes
// part. returnURL is the address to which the provider would send browsers back. An error means that the
// method cannot work now; the report then has the findings so far.
type Probe func(ctx context.Context, c Config, h Host, returnURL string) (Report, error)

// Report is the result of a Probe.
type Report struct {
	Facts    []fact    `json:"facts"`
	Findings []Finding `json:"findings"`

	// Unchecked lists questions that no probe can settle. Each completes "cannot check".
	Unchecked []string `json:"unchecked,omitempty"`
}

// fact is a value from the settings or the provider, such as the address of an endpoint.
type fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Finding is the result of one check. Its text is plain English, with the fix if the result is not good.
type Finding struct {
	Good    bool   `json:"good"`
	Warning bool   `json:"warning,omitempty"` // the finding is good, but users may get no result
	Text    string `json:"text"`
}

// Fact adds a fact, unless it has no value.
func (r *Report) Fact(name, value string) {
	if value != "" {
		r.Facts = append(r.Facts, fact{name, value})
	}
}

// Good adds a finding that needs nothing to be done.
func (r *Report) Good(format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Good: true, Text: fmt.Sprintf(format, args...)})
}

// Bad adds a finding with its fix.
func (r *Report) Bad(format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Text: fmt.Sprintf(format, args...)})
}

// Warn adds a finding that is wrong at some counterparts and right at others.
func (r *Report) Warn(format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Good: true, Warning: true, Text: fmt.Sprintf(format, args...)})
}

// CannotCheck adds a question that the probe cannot settle, such as "whether …".
func (r *Report) CannotCheck(format string, args ...any) {
	r.Unchecked = append(r.Unchecked, fmt.Sprintf(format, args...))
}
