package integration

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"code.dny.dev/ssrf"

	"github.com/verge-id/verge/core/internal/audit"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

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

// Text returns the value of the setting in i as text. A zero value is "".
func (s Setting) Text(i *Integration) string {
	switch v := s.Value(i).(type) {
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

// Audited returns the same for audits and reports: of addresses that can hold a secret, only the origins.
func (s Setting) Audited(i *Integration) string {
	if !s.hidesPath {
		return s.Text(i)
	}
	addresses, isList := s.Value(i).([]string)
	if address := s.Text(i); !isList && address != "" {
		addresses = []string{address}
	}
	var origins []string
	for _, address := range addresses {
		origins = append(origins, audit.Origin(address))
	}
	return strings.Join(origins, ", ")
}

// addProblems adds the problems of the setting in i.
func (s Setting) addProblems(i Integration, methods method.Catalog, dev bool, wrong *problem.List) {
	switch v := s.Value(&i).(type) {
	case int:
		if v < 0 || v > s.Max || v == 0 && s.Required {
			wrong.Add(s.Name, "%s is %d; it must be from 1 to %d", s.Name, v, s.Max)
		}
	case string:
		isOption := slices.ContainsFunc(s.Options, func(o option) bool { return o.Value == v })
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

// maxRedirects is the maximum number of redirect URIs of an integration. A record must fit into the store.
const maxRedirects = 20

// checkRedirects adds a problem if there are too many redirect URIs.
func (i Integration) checkRedirects(_ method.Catalog, _ bool, wrong *problem.List) {
	if n := len(i.RedirectURIs); n > maxRedirects {
		wrong.Add("redirect_uris", "redirect_uris has %d addresses; at most %d are allowed", n, maxRedirects)
	}
}

// checkAlert adds a problem if no alert can be sent.
func (i Integration) checkAlert(_ method.Catalog, dev bool, wrong *problem.List) {
	if i.AlertURL == "" {
		return
	}
	if bad := checkReceiver(i.AlertURL, dev); bad != "" {
		wrong.Add("alert_url", "alert_url: %s", bad)
	}
}

// public accepts the addresses that the guard of package egress accepts: public ones, without the address of
// Azure's host agent.
var public = ssrf.New(ssrf.WithDeniedV4Prefixes(netip.MustParsePrefix("168.63.129.16/32")))

// checkReceiver returns the fault of an address for events, or "". An address that the guard would reject is
// one, except loopback in dev. A name is checked when a connection is made (contract 28).
func checkReceiver(raw string, dev bool) string {
	if bad := weburl.CheckWebhook(raw, dev); bad != "" {
		return bad
	}
	u, err := url.Parse(raw)
	if err != nil {
		return err.Error()
	}
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := weburl.IsLoopback(raw)
	switch {
	case loopback && !dev || !loopback && err == nil && public.SafeAddr(addr) != nil:
		return "The URL's host must be public; events cannot reach private, loopback and reserved addresses."
	case !loopback && err == nil && u.Scheme == "http":
		return "The URL must use https, or http to a loopback host."
	}
	return ""
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
		case !wrong.Has("level") && !e.Reaches(i.Level):
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
				member := "method_settings." + name + "." + p.Member
				wrong.Add(member, "%s: %s", member, p.Text)
			}
		}
	}
}
