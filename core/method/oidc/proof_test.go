package oidc_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/oidctest"
)

func oidctestConfig() oidctest.Config { return oidctest.Config{} }

func answerWithACR(acr string) oidctest.Answer {
	return oidctest.Answer{Claims: oidctest.AgeClaims(40), ACR: acr}
}

// TestClaimThatSaysSo has the rows of values that look like a yes.
func TestClaimThatSaysSo(t *testing.T) {
	boolean := settings{"claim": []string{"v"}, "equals": true, "age": 18}
	text := settings{"claim": []string{"v"}, "equals": "18:true", "age": 18}
	number := settings{"claim": []string{"v"}, "equals": 18, "age": 18}
	deep := settings{"claim": []string{"a", "b", "c"}, "equals": true, "age": 18}
	for _, proof := range []struct {
		name     string
		settings settings
		cases    []any // value, verdict
	}{
		{"true", boolean, []any{true, method.Approved, false, method.Rejected, "true", method.Rejected,
			1, method.Rejected, nil, method.Unclassified, "", method.Rejected,
			map[string]any{}, method.Rejected, []any{}, method.Unclassified,
			[]any{true}, method.Approved, []any{true, false}, method.Rejected, []any{true, nil},
			method.Unclassified,
			[]any{false, nil}, method.Rejected, []any{"true", true}, method.Rejected}},
		{"18:true", text, []any{"18:true", method.Approved, "17:true", method.Rejected, "18:true ",
			method.Rejected,
			"18:TRUE", method.Rejected, "18:false", method.Rejected, "18", method.Rejected, true,
			method.Rejected,
			nil, method.Unclassified}},
		{"18", number, []any{18, method.Approved, 19, method.Rejected, "18", method.Rejected, true,
			method.Rejected, 18.5, method.Rejected, nil, method.Unclassified}},
	} {
		w := newWalk(t, oidctest.Config{}, settings{"proof": proof.settings})
		for i := 0; i < len(proof.cases); i += 2 {
			v, want := proof.cases[i], proof.cases[i+1].(method.Verdict)
			w.provider.Answer(oidctest.Answer{Claims: map[string]any{"v": v}})
			d, err := w.login()
			wantVerdict(t, fmt.Sprintf("%s asked, %#v claimed", proof.name, v), d, err, want)
		}
	}

	w := newWalk(t, oidctest.Config{}, settings{"proof": deep})
	in := func(v any) map[string]any { return map[string]any{"a": v} }
	for _, c := range []struct {
		rule   string
		claims map[string]any
		want   method.Verdict
	}{
		{"at the end of the path", in(in2("b", in2("c", true))), method.Approved},
		{"one name short", in(in2("b", true)), method.Rejected},
		{"the path is absent", map[string]any{"b": true}, method.Unclassified},
		{"its end is absent", in(in2("b", map[string]any{"d": true})), method.Unclassified},
		{"the names joined", map[string]any{"a.b.c": true}, method.Unclassified},
		{"over 21 does not answer over 18", map[string]any{"is_over_21": true}, method.Unclassified},
		{"a list on the way, all say yes", in([]any{in2("b", in2("c", true)), in2("b", in2("c", true))}),
			method.Approved},
		{"a list on the way, one says no", in([]any{in2("b", in2("c", true)), in2("b", in2("c", false))}),
			method.Rejected},
		{"a list on the way, one says nothing", in([]any{in2("b", in2("c", true)), in2("b", 0)}),
			method.Rejected},
		{"an empty list on the way", in([]any{}), method.Unclassified},
	} {
		w.provider.Answer(oidctest.Answer{Claims: c.claims})
		d, err := w.login()
		wantVerdict(t, c.rule, d, err, c.want)
	}
}

func in2(name string, v any) map[string]any { return map[string]any{name: v} }

// TestBirthdate: years by the calendar, in UTC.
func TestBirthdate(t *testing.T) {
	w := newWalk(t, oidctest.Config{},
		settings{"proof": settings{"claim": []string{"birthdate"}, "birthdate": true}})
	for _, c := range []struct {
		rule, now string
		born      any
		age       int
		want      method.Verdict
	}{
		{"on the birthday", "2026-11-20T00:00:00Z", "2008-11-20", 18, method.Approved},
		{"one second before it", "2026-11-19T23:59:59Z", "2008-11-20", 18, method.Rejected},
		{"one day short of the age", "2026-11-20T12:00:00Z", "2008-11-21", 18, method.Rejected},
		{"the day has come east of Greenwich, not in UTC", "2026-11-20T01:00:00+14:00", "2008-11-20", 18,
			method.Rejected},
		{"an earlier month", "2026-11-20T12:00:00Z", "2008-10-31", 18, method.Approved},
		{"a later month", "2026-11-20T12:00:00Z", "2008-12-01", 18, method.Rejected},
		{"born on 29 February, on 28 February", "2026-02-28T23:59:59Z", "2008-02-29", 18, method.Rejected},
		{"born on 29 February, on 1 March", "2026-03-01T00:00:00Z", "2008-02-29", 18, method.Approved},
		{"born on 29 February, in a leap year", "2028-02-29T00:00:00Z", "2008-02-29", 20, method.Approved},
		{"another age", "2026-11-20T12:00:00Z", "2008-11-20", 21, method.Rejected},
		{"tomorrow", "2026-11-20T12:00:00Z", "2026-11-21", 1, method.Rejected},
		{"the year 9999", "2026-11-20T12:00:00Z", "9999-01-01", 18, method.Rejected},
		{"the year 1800", "2026-11-20T12:00:00Z", "1800-01-01", 18, method.Rejected},
		{"older than anybody by a day", "2026-11-20T12:00:00Z", "1905-11-20", 18, method.Rejected},
		{"120 years", "2026-11-20T12:00:00Z", "1906-11-20", 18, method.Approved},
		{"30 February", "2026-11-20T12:00:00Z", "2000-02-30", 18, method.Rejected},
		{"29 February of a common year", "2026-11-20T12:00:00Z", "2001-02-29", 18, method.Rejected},
		{"a date without its year", "2026-11-20T12:00:00Z", "0000-11-20", 18, method.Rejected},
		{"a year alone", "2026-11-20T12:00:00Z", "1970", 18, method.Rejected},
		{"day before month", "2026-11-20T12:00:00Z", "20-11-1970", 18, method.Rejected},
		{"a time behind it", "2026-11-20T12:00:00Z", "1970-01-01T00:00:00Z", 18, method.Rejected},
		{"a space in front", "2026-11-20T12:00:00Z", " 1970-01-01", 18, method.Rejected},
		{"a number", "2026-11-20T12:00:00Z", 19700101, 18, method.Rejected},
		{"empty", "2026-11-20T12:00:00Z", "", 18, method.Rejected},
		{"null", "2026-11-20T12:00:00Z", nil, 18, method.Unclassified},
		{"two dates, both old enough", "2026-11-20T12:00:00Z", []any{"1970-01-01", "1971-01-01"}, 18,
			method.Approved},
		{"two dates, one too young", "2026-11-20T12:00:00Z", []any{"1970-01-01", "2015-01-01"}, 18,
			method.Rejected},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		w.advance(now.Sub(w.clock()))
		w.session.MinimumAge = c.age
		w.provider.Answer(oidctest.Answer{Claims: map[string]any{"birthdate": c.born}})
		d, err := w.login()
		wantVerdict(t, c.rule, d, err, c.want)
	}
}

// TestYesBeforeBirthdate: a date of birth is used only where no yes or no is for the age.
func TestYesBeforeBirthdate(t *testing.T) {
	w := newWalk(t, oidctest.Config{}, settings{"proof": []settings{
		{"claim": []string{"birthdate"}, "birthdate": true, "scope": "birthdate"},
		{"claim": []string{"is_over_18"}, "equals": true, "age": 18, "scope": "is_over_18"},
	}})
	claims := oidctest.AgeClaims(40)
	maps.Copy(claims, map[string]any{"birthdate": "2015-01-01"})
	w.provider.Answer(oidctest.Answer{Claims: claims})
	d, err := w.login()
	wantVerdict(t, "18 by a yes", d, err, method.Approved)
	w.session.MinimumAge = 19
	d, err = w.login()
	wantVerdict(t, "19 by the date of birth", d, err, method.Rejected)
}
