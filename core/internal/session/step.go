package session

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/core/internal/strictjson"
)

// Step is a step of a method that did not succeed, as operators see it (contract 48). It contains no data of
// the user: its texts are names and constants.
type Step struct {
	At     time.Time
	Method string // its name
	Result string // one of host's Method constants, such as host.MethodUnavailable
	Reason string // a reason of the method or of a fetch, or the Result if there is no other reason

	// Setting is the setting that caused the result, and Detail a name or path in it. Both are "" if no
	// setting did.
	Setting, Detail string
}

// Limits of the steps of a record.
const (
	MaxSteps    = 10  // of one session; the last ones are stored
	maxStepText = 120 // bytes of a text

	// stepPause is the time for which a repeated step is not stored again, so that a page that is posted many
	// times does not cause as many commits.
	stepPause = 10 * time.Second
)

// Steps are steps as the KV stores them, a JSON array. The text form makes Records comparable, and only the
// code that shows steps decodes them. "" means no steps.
type Steps string

// All returns the steps, oldest first.
func (s Steps) All() []Step {
	if s == "" {
		return nil
	}
	o, err := strictjson.Read([]byte(`{"l":` + string(s) + `}`))
	if err != nil {
		panic(err) // stepsOf wrote it
	}
	steps, _ := readSteps(o)
	return steps
}

// With returns the record with one more step. changed is false if the record's last step is the same and
// recent.
func (r Record) With(s Step) (next Record, changed bool) {
	for _, text := range []*string{&s.Method, &s.Result, &s.Reason, &s.Setting, &s.Detail} {
		*text = cut(*text)
	}
	s.At = s.At.UTC().Truncate(time.Millisecond)
	steps := r.Steps.All()
	if n := len(steps); n > 0 {
		last := steps[n-1]
		age := s.At.Sub(last.At)
		last.At = s.At
		if last == s && age >= 0 && age < stepPause {
			return r, false
		}
	}
	steps = append(steps, s)
	r.Steps = stepsOf(steps[max(len(steps)-MaxSteps, 0):]...)
	return r, true
}

// cut shortens a text to at most maxStepText bytes, at a character boundary.
func cut(s string) string {
	if len(s) <= maxStepText {
		return s
	}
	at := maxStepText
	for at > 0 && !utf8.RuneStart(s[at]) {
		at--
	}
	return s[:at]
}

// stepJSON is a step in the KV.
type stepJSON struct {
	At      int64  `json:"t"` // milliseconds since 1970
	Method  string `json:"m"`
	Result  string `json:"e"`
	Reason  string `json:"r,omitempty"` // "": as the result
	Setting string `json:"g,omitempty"`
	Detail  string `json:"d,omitempty"`
}

func stepsOf(steps ...Step) Steps {
	if len(steps) == 0 {
		return ""
	}
	var all []stepJSON
	for _, s := range steps {
		if s.Reason == s.Result {
			s.Reason = ""
		}
		all = append(all, stepJSON{s.At.UnixMilli(), s.Method, s.Result, s.Reason, s.Setting, s.Detail})
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings and integers always marshal
	}
	return Steps(b)
}

// readSteps parses the steps of a record. Records of earlier releases have no steps.
func readSteps(record strictjson.Object) (steps []Step, ok bool) {
	v := record.Value("l")
	if !v.Present() {
		return nil, true
	}
	list, ok := v.List()
	for _, each := range list {
		o, isObject := each.Object()
		at, _, ok1 := o.Integer("t")
		s := Step{At: time.UnixMilli(at).UTC()}
		ok = ok && isObject && ok1
		for name, text := range map[string]*string{"m": &s.Method, "e": &s.Result, "r": &s.Reason,
			"g": &s.Setting, "d": &s.Detail} {
			var isText bool
			*text, _, isText = o.String(name)
			ok = ok && isText
		}
		if s.Reason == "" {
			s.Reason = s.Result
		}
		steps = append(steps, s)
	}
	return steps, ok
}
