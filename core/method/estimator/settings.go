package estimator

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// settings are a method's settings, read and checked.
type settings struct {
	profile profile
	url     string
	limits  limits

	token string // of the profile plain

	key    string // of the profile yoti: the name of the key that signs
	sdkID  string
	millis bool // timestamps are in milliseconds, not in seconds
}

// limits are the limits for an estimate, in addition to the challenge age. An integration may make them
// stricter.
type limits struct {
	deviation float64 // maximum standard deviation, in years
	floor     float64 // an estimate below it is a final rejection; 0: no floor
}

// Bounds of the settings.
const (
	defaultDeviation = 6
	maxDeviation     = 20
	maxFloor         = 100
)

// names of the members that each profile has.
var commonMembers = []string{"profile", "url", "deviation", "floor"}

// parse reads a method's settings and reports every problem in them.
func parse(c method.Config) (s settings, wrong problem.List) {
	o, err := strictjson.ReadOptional(c.Settings)
	if err != nil {
		wrong.AddError("settings", err)
		return s, wrong
	}
	name := text(o, "profile", &wrong)
	var known bool
	if s.profile, known = profiles[name]; !known {
		wrong.Add("profile", "%q is not known; use one of: %s", name,
			strings.Join(slices.Sorted(maps.Keys(profiles)), ", "))
		return s, wrong
	}
	rejectOthers(o, slices.Concat(commonMembers, s.profile.members), &wrong)

	if s.url = text(o, "url", &wrong); s.url == "" {
		s.url = s.profile.url
	}
	if s.url == "" {
		wrong.Add("url", "it is missing; set the address that a picture is posted to")
	} else if problem := weburl.CheckEndpoint(s.url, c.Dev); problem != "" {
		wrong.Add("url", "%s", problem)
	}
	s.limits = readLimits(o, limits{deviation: defaultDeviation}, &wrong)
	s.profile.configure(&s, c, o, &wrong)
	return s, wrong
}

// narrow reads an integration's settings, which may only make the method's limits stricter.
func narrow(of limits, integration json.RawMessage) (l limits, wrong problem.List) {
	o, err := strictjson.ReadOptional(integration)
	if err != nil {
		wrong.AddError("settings", err)
		return of, wrong
	}
	var known []string
	for _, each := range of.overrides() {
		known = append(known, each.Name)
	}
	rejectOthers(o, known, &wrong)
	l = readLimits(o, of, &wrong)
	if l.deviation > of.deviation {
		wrong.Add("deviation", "%v is above the method's %v; an integration can only lower it",
			l.deviation, of.deviation)
	}
	if l.floor < of.floor {
		wrong.Add("floor", "%v is below the method's %v; an integration can only raise it", l.floor, of.floor)
	}
	return l, wrong
}

// overrides declares the limits that an integration may make stricter.
func (l limits) overrides() []method.Override {
	number := func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
	floor := "none"
	if l.floor > 0 {
		floor = number(l.floor)
	}
	return []method.Override{
		{Name: "deviation", Label: "Highest deviation", Default: number(l.deviation),
			Hint: "In years. An estimate that is less certain is a failed attempt. Lower is stricter."},
		{Name: "floor", Label: "Lowest estimate", Default: floor,
			Hint: "An estimate below this age ends the session. Higher is stricter."}}
}

// rejectOthers reports unknown fields, so that a mistyped field is not silently ignored.
func rejectOthers(o strictjson.Object, known []string, wrong *problem.List) {
	for _, name := range o.Names() {
		if !slices.Contains(known, name) {
			wrong.Add(name, "it is not known here; use only: %s", strings.Join(known, ", "))
		}
	}
}

// readLimits reads the limits that are present. Missing ones keep the given values.
func readLimits(o strictjson.Object, l limits, wrong *problem.List) limits {
	if n, present, ok := o.Number("deviation"); present {
		if !ok || n <= 0 || n > maxDeviation {
			wrong.Add("deviation", "it must be a number of years above 0 and up to %d", maxDeviation)
		} else {
			l.deviation = n
		}
	}
	if n, present, ok := o.Number("floor"); present {
		if !ok || n < 0 || n > maxFloor {
			wrong.Add("floor", "it must be an age from 0, which switches it off, to %d", maxFloor)
		} else {
			l.floor = n
		}
	}
	return l
}

func text(o strictjson.Object, name string, wrong *problem.List) string {
	value, _, ok := o.String(name)
	if !ok {
		wrong.Add(name, "it must be a text")
	}
	return value
}

// rejectSecrets reports secrets that the profile does not use.
func rejectSecrets(c method.Config, known string, wrong *problem.List) {
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		if name != known {
			wrong.Add(name+"_file", "this profile does not use it; leave it out")
		}
	}
}
