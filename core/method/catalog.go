package method

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/metric"
	"github.com/verge-id/verge/core/internal/verdict"
	"github.com/verge-id/verge/core/problem"
)

// Entry is a configured method with its kind.
type Entry struct {
	Config
	Of Kind
}

// Lists returns the trusted lists of the method.
func (e Entry) Lists() []TrustList {
	if e.Of.Lists == nil {
		return nil
	}
	return e.Of.Lists(e.Config)
}

// Reaches reports whether the method can prove a level.
func (e Entry) Reaches(level string) bool { return level <= e.Level }

// Catalog is the methods of a service, in the order of the configuration.
type Catalog []Entry

// NewCatalog combines methods and kinds, and reports every problem. The problems name fields as in the
// configuration file: methods.bankid.oidc.issuer.
func NewCatalog(kinds []Kind, methods []Config, dev bool) (Catalog, problem.List) {
	var catalog Catalog
	var wrong problem.List
	for _, c := range methods {
		member := "methods." + c.Name
		if !isName(c.Name) {
			wrong.Add("methods", "%q is no name; use 1 to 32 lower case letters, digits and -", c.Name)
			continue
		}
		if c.Name == Passkey {
			wrong.Add("methods", "%q is the name of the passkeys that users make, which "+
				"integrations switch on; give the method another name", c.Name)
			continue
		}
		if _, twice := catalog.Find(c.Name); twice {
			wrong.Add(member, "it occurs twice")
			continue
		}
		at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == c.Kind })
		if at < 0 {
			wrong.Add(member+".kind", "%q is not known; this release has: %s", c.Kind, kindNames(kinds))
			continue
		}
		e := Entry{Config: c, Of: kinds[at]}
		e.Dev = dev
		switch {
		case c.Level == "":
			e.Level = e.Of.Level
		case c.Level != "L1" && c.Level != "L2":
			wrong.Add(member+".level", "%q must be L1 or L2", c.Level)
		case c.Level > e.Of.Level:
			wrong.Add(member+".level", "%s is too high; %s proves at most %s", c.Level, c.Kind, e.Of.Level)
		}
		checkTitles(member+".title", c, &wrong)
		if e.Of.Check != nil {
			wrong.AddWithin(member+"."+c.Kind+".", e.Of.Check(e.Config))
		}
		catalog = append(catalog, e)
	}
	return catalog, wrong
}

// checkTitles reports errors in a method's titles.
func checkTitles(member string, c Config, wrong *problem.List) {
	check := func(member, title string) {
		if len(title) > maxTitle {
			wrong.Add(member, "it has %d bytes; at most %d are allowed", len(title), maxTitle)
		}
		if !utf8.ValidString(title) || strings.ContainsFunc(title, unicode.IsControl) {
			wrong.Add(member, "it must be text without control characters")
		}
	}
	check(member, c.Title)
	for _, lang := range slices.Sorted(maps.Keys(c.Titles)) {
		if check(member+"."+lang, c.Titles[lang]); c.Titles[lang] == "" {
			wrong.Add(member+"."+lang, "it is empty; leave it out for the English title")
		}
	}
}

// Passkey is the name of users' passkeys next to the methods. No method has this name.
const Passkey = "passkey"

// maxTitle is the maximum length in bytes of a method's title, which is shown on a button.
const maxTitle = 60

func kindNames(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func isName(s string) bool {
	return len(s) > 0 && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Find returns the method of that name.
func (c Catalog) Find(name string) (Entry, bool) {
	at := slices.IndexFunc(c, func(e Entry) bool { return e.Name == name })
	if at < 0 {
		return Entry{}, false
	}
	return c[at], true
}

// Names returns the names of all methods.
func (c Catalog) Names() []string {
	names := make([]string, len(c))
	for n, e := range c {
		names[n] = e.Name
	}
	return names
}

// Opened has an opened method. Its functions measure their calls, unless it is a sandbox: measurements of a
// sandbox have no meaning, and each has a cost in a guest.
type Opened struct {
	Entry
	method  Method
	measure func(host.Measurement) // never nil
}

// Begin is Method.Begin.
func (o Opened) Begin(ctx context.Context, s Session) error {
	if o.Of.Sandbox {
		return o.method.Begin(ctx, s)
	}
	ctx, _ = begin(ctx, nil)
	err := o.method.Begin(ctx, s)
	if err != nil {
		o.tell(metric.MethodUnavailable, ReasonOf(err))
		return err
	}
	o.tell(metric.MethodBegun, "")
	return nil
}

// Show is Method.Show.
func (o Opened) Show(s Session, state []byte) View { return o.method.Show(s, state) }

// Act is Method.Act. claim is called before the first request that the attempt sends once, so that no other
// request sends the same form. If it returns an error, no request is sent, and Act returns that error; with
// ErrTooMany, the attempt fails. ErrOutdated: a stored response no longer counts.
func (o Opened) Act(ctx context.Context, s Session, step Step, claim func(context.Context) error) (
	Decision, error) {

	if o.Of.Sandbox { // it sends no request
		return o.judge(ctx, s, step)
	}
	if step.Back || step.Response != nil {
		o.tell(metric.MethodReturned, "")
	}
	ctx, run := begin(ctx, claim)
	d, err := o.judge(ctx, s, step)
	switch {
	case errors.Is(run.err, ErrTooMany):
		d, err = Decision{Verdict: AttemptFailed, Reason: tooMany, Basis: o.basis(s)}, nil
		o.tell(d.Verdict.event(), string(d.Reason))
	case run.err != nil:
		return Decision{}, run.err
	case err != nil:
		o.tellFailed(err)
	case d.Leave != nil:
		o.tell(metric.MethodLeft, "")
	default:
		if d.Rejection != nil {
			o.tell(metric.MethodResponseRejected, d.Rejection.Reason)
		}
		if event := d.Verdict.event(); event != "" {
			o.tell(event, string(d.Reason))
		}
	}
	return d, err
}

// Receive is ResponseReceiver.Receive. It also returns the basis of the response, for Step.Basis.
func (o Opened) Receive(ctx context.Context, s Session, state []byte, c Call) (
	kept []byte, by verdict.Basis, err error) {
	a, ok := o.method.(ResponseReceiver)
	if !ok {
		return nil, by, ErrStep
	}
	ctx, _ = begin(ctx, nil)
	kept, err = a.Receive(ctx, s, state, c)
	if err == nil && len(kept) > MaxKept {
		err = fmt.Errorf("method: %s keeps %d bytes of a response; at most %d fit",
			o.Name, len(kept), MaxKept)
	}
	if err != nil {
		o.tellFailed(err)
		return nil, by, err
	}
	return kept, o.basis(s), nil
}

// Receives reports whether the method is a ResponseReceiver.
func (o Opened) Receives() bool {
	_, ok := o.method.(ResponseReceiver)
	return ok
}

// Fetches is Requester.Fetches. It is false if the method is no Requester.
func (o Opened) Fetches(c Call) bool {
	r, ok := o.method.(Requester)
	return ok && r.Fetches(c)
}

// Request is Requester.Request. Its error is ErrStep if the method is no Requester.
func (o Opened) Request(ctx context.Context, s Session, state []byte, c Call) (RequestObject, error) {
	r, ok := o.method.(Requester)
	if !ok {
		return RequestObject{}, ErrStep
	}
	ctx, _ = begin(ctx, nil)
	q, err := r.Request(ctx, s, state, c)
	if err != nil {
		o.tellFailed(err)
	}
	return q, err
}

// tellFailed measures a response that is missing or was rejected.
func (o Opened) tellFailed(err error) {
	if !errors.Is(err, ErrStep) {
		o.tell(resultOf(err), ReasonOf(err))
	}
}

// resultOf returns the event as which an error of a method counts after its first step: its other side is
// unavailable, or has sent something that must not be believed, or the step has failed for another cause.
func resultOf(err error) string {
	var rejection *Rejection
	var fetch *host.FetchError
	switch {
	case errors.As(err, &rejection):
		return metric.MethodResponseRejected
	case errors.As(err, &fetch):
		return metric.MethodUnavailable
	}
	return metric.MethodFailed
}

func (o Opened) tell(event, reason string) {
	o.measure(host.Measurement{Method: o.Name, Event: event, Reason: reason})
}

// ReasonOf returns the constant text that an error of a method has for metrics and logs, or "".
func ReasonOf(err error) string {
	var setting *SettingError
	var rejection *Rejection
	var fetch *host.FetchError
	switch {
	case errors.As(err, &setting) && setting.Reason != "":
		return setting.Reason
	case errors.As(err, &rejection):
		return rejection.Reason
	case errors.As(err, &fetch):
		return fetch.Reason
	}
	return ""
}

// WhyOf returns resultOf and ReasonOf of an error, for logs and records. An error without a reason has its
// result as one.
func WhyOf(err error) (result, reason string) {
	result = resultOf(err)
	return result, cmp.Or(ReasonOf(err), result)
}

// Result returns the event as which a decision counts, and its most exact reason. Pending is no result: "".
func (d Decision) Result() (result, reason string) {
	result = d.Verdict.event()
	if d.Rejection != nil {
		return result, d.Rejection.Reason
	}
	return result, cmp.Or(d.Cause, string(d.Reason), result)
}

// event returns the counter name of a verdict. Pending is no verdict yet: "".
func (v Verdict) event() string {
	switch v {
	case Unclassified:
		return metric.MethodUnclassified
	case Approved:
		return metric.MethodApproved
	case Rejected:
		return metric.MethodRejected
	case AttemptFailed:
		return metric.MethodAttemptFailed
	case Withdrawn:
		return metric.MethodWithdrawn
	case Cancelled:
		return metric.MethodCancelled
	}
	return ""
}

// Open opens all methods. They share h, except that each one's requests carry its name.
func (c Catalog) Open(h Host) (map[string]Opened, error) {
	all := make(map[string]Opened, len(c))
	h = h.withDefaults()
	for _, e := range c {
		m, err := e.Of.Open(e.Config, h.For(e.Name))
		if err != nil {
			return nil, fmt.Errorf("method %s: %w", e.Name, err)
		}
		all[e.Name] = Opened{e, m, h.Measure}
	}
	return all, nil
}

// For returns the host of the method of that name: the edge knows by it where the method's requests may go.
func (h Host) For(name string) Host {
	h = h.withDefaults()
	h.name = name
	h.Fetch = fetchFor{h.Fetch, name, h.Now}
	h.Sign, h.Decrypt = keysOf(name, "not_signed", h.Sign), keysOf(name, "not_decrypted", h.Decrypt)
	measure := h.Measure
	h.Measure = func(m host.Measurement) {
		m.Method = name
		measure(m)
	}
	return h
}

// useKey is Host.Sign or Host.Decrypt.
type useKey func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error)

// keysOf returns use with the setting of the key in its errors. It is nil if use is.
func keysOf(name, reason string, use useKey) useKey {
	if use == nil {
		return nil
	}
	return func(ctx context.Context, key, algorithm string, message []byte) ([]byte, error) {
		result, err := use(ctx, key, algorithm, message)
		if err != nil {
			setting := strings.TrimPrefix(key, name+"_") + "_file"
			err = &SettingError{Reason: reason, Setting: setting, Err: err}
		}
		return result, err
	}
}

func (h Host) withDefaults() Host {
	if h.Measure == nil {
		h.Measure = func(host.Measurement) {}
	}
	if h.Log == nil {
		h.Log = slog.New(slog.DiscardHandler)
	}
	return h
}
