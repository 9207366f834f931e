package integration

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// Setting declares a setting of integrations. [Settings] has all of them.
//
// To add a setting, declare it in Settings, and add a field with its JSON name to Integration, to
// SiteIntegration and, as a pointer, to operate.IntegrationInput. Its check, its entry in the audit, the
// operators' API, the configuration and the console's form follow from these.
type Setting struct {
	Name string // in JSON, the configuration file, forms and the audit

	// Required: the zero value is an error. Otherwise it is the default.
	Required bool

	Max     int      // of a number; the minimum is 1
	Options []Option // the values of a text

	// Items is a noun for the values of a list. A form has one value per line. "": a form has names with
	// commas between.
	Items string

	// The console's form has the sections "proof", "access" and "methods". Settings of one Row are next to
	// each other.
	Section                  string
	Row                      int
	Label, Hint, Placeholder string

	Default string // the console's text for a zero value

	initial any                                 // value of a new integration, if not zero
	normal  func(list []string) []string        // nil: lists are stored unchanged
	item    func(value string, dev bool) string // returns the problem of one value of a list

	// check adds the problems that also depend on other settings or on the service.
	check func(i Integration, methods method.Catalog, dev bool, wrong *problem.List)
}

// Option is a value of a setting, with its text for people.
type Option struct{ Value, Text string }

// Settings declares the settings of integrations, in the order of audit entries. The name, the publisher and
// the webhook of an integration are not among them.
var Settings = []Setting{
	{
		Name:     "level",
		Required: true,
		Options:  []Option{{"L1", "L1: an estimate is enough"}, {"L2", "L2: a proof of age"}},
		Section:  "proof", Row: 1, Label: "Level",
		initial: "L1",
	},
	{
		Name:     "challenge_age",
		Required: true,
		Max:      99,
		Section:  "proof", Row: 1, Label: "Challenge age",
		Hint:    "The age that an estimate must reach.",
		initial: 25,
	},
	{
		Name:    "minimum_age",
		Max:     99,
		Section: "proof", Row: 1, Label: "Minimum age",
		Hint: "The age that a proof must prove. Left empty: 18, or the challenge age if that is less.",
	},
	{
		Name:    "attempts",
		Max:     10,
		Section: "proof", Row: 3, Label: "Attempts", Default: "as the service has it",
		Hint: "How many may fail. Left empty: as the service has it.",
	},
	{
		Name:     "methods",
		Required: true,
		Section:  "proof", Row: 2, Label: "Methods",
		check: Integration.checkMethods,
	},
	{
		Name:    "method_settings",
		Section: "methods", Row: 1, Label: "Method settings",
		Hint: "JSON, by the name of the method. They make the service's own settings stricter, never " +
			"looser.",
		check: Integration.checkMethodSettings,
	},
	{
		Name:    "callback_origins",
		Items:   "origins",
		Section: "access", Row: 1, Label: "Callback origins", Default: "none",
		Placeholder: "https://shop.example",
		Hint: "One a line. Users are sent back to these only. Left empty: anywhere, and no public key " +
			"can be made.",
		normal: weburl.Origins,
		item:   originProblem,
	},
	{
		Name:    "browser_origins",
		Items:   "origins",
		Section: "access", Row: 2, Label: "Browser origins", Default: "none",
		Placeholder: "https://shop.example",
		Hint:        "One a line. Pages of these sites may start sessions with a public key.",
		normal:      weburl.Origins,
		item:        originProblem,
		check:       Integration.checkPublicKeys,
	},
	{
		Name: "passkeys",
		Options: []Option{{PasskeysOff, "Off"}, {PasskeysPublisher, "Yes, for sites of this publisher"},
			{PasskeysService, "Yes, for every site of this service"}},
		Section: "proof", Row: 3, Label: "Passkeys of users",
		Hint: "Whether a user who was verified may use a passkey the next time.",
	},
}

// Of returns a pointer to the setting's field in a struct, such as *Integration or *SiteIntegration.
func (s Setting) Of(pointer any) any {
	v := reflect.ValueOf(pointer).Elem()
	for n := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(n).Tag.Get("json"), ","); name == s.Name {
			return v.Field(n).Addr().Interface()
		}
	}
	panic(fmt.Sprintf("integration: %T has no field for the setting %s", pointer, s.Name))
}

// Value returns the value of the setting in i: a string, an int, a []string or a map.
func (s Setting) Value(i *Integration) any {
	if s.Name == "methods" { // records have it in two fields
		return i.Offers()
	}
	return reflect.ValueOf(s.Of(i)).Elem().Interface()
}

// set sets the setting in i to a value of the type that Value returns.
func (s Setting) set(i *Integration, value any) {
	list, isList := value.([]string)
	if isList && s.normal != nil {
		value = s.normal(list)
	}
	if s.Name == "methods" {
		i.SetMethods(list)
		return
	}
	reflect.ValueOf(s.Of(i)).Elem().Set(reflect.ValueOf(value))
}

// New returns an integration with the values that a new one begins with.
func New(id, publisherID string) Integration {
	i := Integration{ID: id, PublisherID: publisherID}
	for _, s := range Settings {
		if s.initial != nil {
			s.set(&i, s.initial)
		}
	}
	return i
}

// Apply sets the settings that given has. given points to a struct with a pointer for each setting, such as
// *operate.IntegrationInput; nil keeps a value.
func (i *Integration) Apply(given any) {
	for _, s := range Settings {
		if v := reflect.ValueOf(s.Of(given)).Elem(); !v.IsNil() {
			s.set(i, v.Elem().Interface())
		}
	}
}

// text returns a value of a setting as the audit has it.
func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case int:
		if v != 0 {
			return strconv.Itoa(v)
		}
	case []string:
		return strings.Join(v, ", ")
	case map[string]json.RawMessage:
		if len(v) == 0 {
			return ""
		}
		b, err := json.Marshal(v) // sorts the names
		if err != nil {
			return "not readable"
		}
		return string(b)
	}
	return ""
}

// addProblems adds the problems of the setting in i.
func (s Setting) addProblems(i Integration, methods method.Catalog, dev bool, wrong *problem.List) {
	switch v := s.Value(&i).(type) {
	case int:
		if v < 0 || v > s.Max || v == 0 && s.Required {
			wrong.Add(s.Name, "%s is %d; it must be from 1 to %d", s.Name, v, s.Max)
		}
	case string:
		isOption := slices.ContainsFunc(s.Options, func(o Option) bool { return o.Value == v })
		if len(s.Options) > 0 && !isOption && (v != "" || s.Required) {
			wrong.Add(s.Name, "%s is %q; it must be %s", s.Name, v, s.choices())
		}
	case []string:
		for _, value := range v {
			if s.item == nil {
				break
			}
			if bad := s.item(value, dev); bad != "" {
				wrong.Add(s.Name, "%s has %q; %s", s.Name, value, bad)
			}
		}
	}
	if s.check != nil {
		s.check(i, methods, dev, wrong)
	}
}

// choices lists the options, such as "off, publisher or service".
func (s Setting) choices() string {
	var values []string
	for _, o := range s.Options {
		values = append(values, o.Value)
	}
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}

func originProblem(value string, dev bool) string {
	_, bad := weburl.ParseOrigin(value, dev)
	return bad
}

// checkPublicKeys adds a problem if pages may use a public key that the integration cannot have.
func (i Integration) checkPublicKeys(_ method.Catalog, dev bool, wrong *problem.List) {
	if len(i.BrowserOrigins) > 0 && !i.AllowsPublicKeys(dev) {
		wrong.Add("callback_origins", "browser_origins are for public keys, and a public key needs "+
			"callback_origins too; list the origins that users may return to")
	}
}

// checkMethods adds the problems of the methods that i names.
func (i Integration) checkMethods(methods method.Catalog, _ bool, wrong *problem.List) {
	offers := i.Offers()
	for n, name := range offers {
		e, known := methods.Find(name)
		switch {
		case !known:
			wrong.Add("methods", "method is %q; this service has: %s", name,
				strings.Join(methods.Names(), ", "))
		case slices.Contains(offers[:n], name):
			wrong.Add("methods", "methods has %q twice", name)
		case !e.Reaches(i.Level):
			wrong.Add("methods", "methods has %q, which proves %s; the integration needs %s",
				name, e.Level, i.Level)
		case e.Of.Estimates && i.MinimumAge > i.ChallengeAge:
			wrong.Add("minimum_age",
				"minimum_age is %d and challenge_age is %d; an estimate by %q would let "+
					"people pass who are too young; raise challenge_age", i.MinimumAge, i.ChallengeAge, name)
		case e.Of.Oldest != nil:
			if oldest := e.Of.Oldest(e.Config); oldest > 0 && oldest < i.Minimum() {
				wrong.Add("minimum_age",
					"minimum_age is %d, and %q proves no age above %d; lower minimum_age, "+
						"or give the method a proof of that age", i.Minimum(), name, oldest)
			}
		}
	}
}

// checkMethodSettings adds the problems of the settings for single methods.
func (i Integration) checkMethodSettings(methods method.Catalog, _ bool, wrong *problem.List) {
	for name, settings := range i.MethodSettings {
		e, known := methods.Find(name)
		switch {
		case !known || !slices.Contains(i.Offers(), name):
			wrong.Add("method_settings", "method_settings has %q, which is none of its methods", name)
		case e.Of.Narrow == nil:
			wrong.Add("method_settings", "method_settings has %q, which has nothing to set", name)
		default:
			for _, p := range e.Of.Narrow(e.Config, settings) {
				wrong.Add("method_settings", "method_settings.%s.%s: %s", name, p.Member, p.Text)
			}
		}
	}
}
