package oidc_test

import (
	"fmt"
	"maps"
	"strings"
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
		{"true", boolean, []any{true, method.Approved, false, method.Rejected, "true", method.AttemptFailed,
			1, method.AttemptFailed, nil, method.AttemptFailed, "", method.AttemptFailed,
			map[string]any{}, method.AttemptFailed, []any{}, method.AttemptFailed,
			[]any{true}, method.Approved, []any{true, false}, method.Rejected, []any{true, nil},
			method.AttemptFailed,
			[]any{false, nil}, method.Rejected, []any{"true", true}, method.AttemptFailed}},
		{"18:true", text, []any{"18:true", method.Approved, "17:true", method.Rejected, "18:true ",
			method.Rejected,
			"18:TRUE", method.Rejected, "18:false", method.Rejected, "18", method.Rejected, true,
			method.AttemptFailed, "", method.AttemptFailed,
			nil, method.AttemptFailed}},
		{"18", number, []any{18, method.Approved, 19, method.Rejected, "18", method.AttemptFailed, true,
			method.AttemptFailed, 18.5, method.Rejected, nil, method.AttemptFailed}},
	} {
		w := newWalk(t, oidctest.Config{}, settings{"proof": proof.settings})
		for i := 0; i < len(proof.cases); i += 2 {
			v, want := proof.cases[i], proof.cases[i+1].(method.Verdict)
			w.provider.Answer(oidctest.Answer{Claims: map[string]any{"v": v}})
			d, err := w.login()
			wantVerdict(t, fmt.Sprintf("contract 36: %s asked, %#v claimed", proof.name, v), d, err, want)
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
		{"one name short", in(in2("b", true)), method.AttemptFailed},
		{"the path is absent", map[string]any{"b": true}, method.AttemptFailed},
		{"its end is absent", in(in2("b", map[string]any{"d": true})), method.AttemptFailed},
		{"the names joined", map[string]any{"a.b.c": true}, method.AttemptFailed},
		{"over 21 does not answer over 18", map[string]any{"is_over_21": true}, method.AttemptFailed},
		{"a list on the way, all say yes", in([]any{in2("b", in2("c", true)), in2("b", in2("c", true))}),
			method.Approved},
		{"a list on the way, one says no", in([]any{in2("b", in2("c", true)), in2("b", in2("c", false))}),
			method.Rejected},
		{"a list on the path, one without the claim", in([]any{in2("b", in2("c", true)), in2("b", 0)}),
			method.AttemptFailed},
		{"an empty list on the way", in([]any{}), method.AttemptFailed},
	} {
		w.provider.Answer(oidctest.Answer{Claims: c.claims})
		d, err := w.login()
		wantVerdict(t, "contract 36: "+c.rule, d, err, c.want)
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
		{"tomorrow", "2026-11-20T12:00:00Z", "2026-11-21", 1, method.AttemptFailed},
		{"the year 9999", "2026-11-20T12:00:00Z", "9999-01-01", 18, method.AttemptFailed},
		{"the year 1800", "2026-11-20T12:00:00Z", "1800-01-01", 18, method.AttemptFailed},
		{"older than anybody by a day", "2026-11-20T12:00:00Z", "1905-11-20", 18, method.AttemptFailed},
		{"120 years", "2026-11-20T12:00:00Z", "1906-11-20", 18, method.Approved},
		{"30 February", "2026-11-20T12:00:00Z", "2000-02-30", 18, method.AttemptFailed},
		{"29 February of a common year", "2026-11-20T12:00:00Z", "2001-02-29", 18, method.AttemptFailed},
		{"a date without its year", "2026-11-20T12:00:00Z", "0000-11-20", 18, method.AttemptFailed},
		{"a year alone", "2026-11-20T12:00:00Z", "1975", 18, method.Approved},
		{"a year alone counts as its last day", "2026-12-30T23:59:59Z", "2008", 18, method.Rejected},
		{"a year alone, on its last day", "2026-12-31T00:00:00Z", "2008", 18, method.Approved},
		{"the year 0000 alone", "2026-11-20T12:00:00Z", "0000", 18, method.AttemptFailed},
		{"an unknown day", "2026-11-20T12:00:00Z", "1992-11-00", 18, method.Approved},
		{"an unknown day and month", "2026-12-30T23:59:59Z", "2008-00-00", 18, method.Rejected},
		{"a year and a month", "2026-11-20T12:00:00Z", "1975-06", 18, method.AttemptFailed},
		{"a date with slashes", "2026-11-20T12:00:00Z", "02/01/1980", 18, method.AttemptFailed},
		{"a word", "2026-11-20T12:00:00Z", "unknown", 18, method.AttemptFailed},
		{"an object", "2026-11-20T12:00:00Z", in2("value", "1975-01-01"), 18, method.AttemptFailed},
		{"day before month", "2026-11-20T12:00:00Z", "20-11-1970", 18, method.AttemptFailed},
		{"a time behind it", "2026-11-20T12:00:00Z", "1970-01-01T00:00:00Z", 18, method.AttemptFailed},
		{"a space in front", "2026-11-20T12:00:00Z", " 1970-01-01", 18, method.AttemptFailed},
		{"a number", "2026-11-20T12:00:00Z", 19700101, 18, method.AttemptFailed},
		{"empty", "2026-11-20T12:00:00Z", "", 18, method.AttemptFailed},
		{"null", "2026-11-20T12:00:00Z", nil, 18, method.AttemptFailed},
		{"two dates, both old enough", "2026-11-20T12:00:00Z", []any{"1970-01-01", "1971-01-01"}, 18,
			method.Approved},
		{"two dates, one unreadable", "2026-11-20T12:00:00Z", []any{"1970-01-01", "?"}, 18,
			method.AttemptFailed},
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
		wantVerdict(t, "contract 36: "+c.rule, d, err, c.want)
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

// TestProof_Unconfirmed: contract 33, 36: a claim that is absent or unreadable is a failed attempt. It names
// the setting and the path of the claim, and no data of the user.
func TestProof_Unconfirmed(t *testing.T) {
	one := settings{"claim": []string{"a", "b"}, "equals": true, "age": 18, "require": []settings{
		{"claim": []string{"country"}, "equals": "DK"},
		{"claim": []string{"tree", "framework"}, "equals": "canary"}}}
	list := []settings{{"claim": []string{"is_over_21"}, "equals": true, "age": 21}, one}
	good := map[string]any{"a": in2("b", true), "country": "DK", "tree": in2("framework", "canary")}
	with := func(name string, v any) map[string]any {
		claims := maps.Clone(good)
		claims[name] = v
		return claims
	}
	for _, c := range []struct {
		rule            string
		proof           any
		claims          map[string]any
		want            method.Verdict
		setting, detail string
	}{
		{"all is well", one, good, method.Approved, "", ""},
		{"the proof is absent", one, with("a", in2("c", true)), method.AttemptFailed, "proof.claim", "a.b"},
		{"the proof is null", one, with("a", in2("b", nil)), method.AttemptFailed, "proof.claim", "a.b"},
		{"the proof is a text", one, with("a", in2("b", "canary")), method.AttemptFailed, "proof.claim",
			"a.b"},
		{"the proof says no", one, with("a", in2("b", false)), method.Rejected, "proof.claim", "a.b"},
		{"a condition is absent", one, with("country", nil), method.AttemptFailed, "proof.require[0].claim",
			"country"},
		{"a condition is of another type", one, with("tree", in2("framework", 1)), method.AttemptFailed,
			"proof.require[1].claim", "tree.framework"},
		{"a condition has another value", one, with("tree", in2("framework", "other")), method.Rejected,
			"proof.require[1].claim", "tree.framework"},
		{"a no counts more than an absent claim", one, map[string]any{"country": "SE"}, method.Rejected,
			"proof.require[0].claim", "country"},
		{"a proof of a list", list, map[string]any{}, method.AttemptFailed, "proof[1].claim", "a.b"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			w := newWalk(t, oidctest.Config{}, settings{"proof": c.proof})
			w.provider.Answer(oidctest.Answer{Claims: c.claims})
			d, err := w.login()
			wantVerdict(t, c.rule, d, err, c.want)
			if d.Setting != c.setting || d.Detail != c.detail || d.Rejection != nil {
				t.Errorf("the cause is %q, %q, %v; want %q, %q", d.Setting, d.Detail, d.Rejection, c.setting,
					c.detail)
			}
			var reason method.Reason
			if c.want == method.AttemptFailed {
				reason = method.Unconfirmed
			}
			if d.Reason != reason {
				t.Errorf("the reason is %q, want %q", d.Reason, reason)
			}
			cause := ""
			if c.want == method.AttemptFailed {
				cause = "claim_absent"
				if strings.HasSuffix(c.rule, "a text") || strings.HasSuffix(c.rule, "another type") {
					cause = "claim_unreadable"
				}
			}
			if d.Cause != cause {
				t.Errorf("contract 48: the cause is %q, want %q", d.Cause, cause)
			}
		})
	}
}

// TestProof_HigherAge: contract 36: a no for a higher age leaves the requested age open, as with wallets.
func TestProof_HigherAge(t *testing.T) {
	for _, c := range []struct {
		minimum int
		claims  map[string]any
		want    method.Verdict
		cause   string
	}{
		{18, map[string]any{"is_over_18": false, "country": "DK"}, method.Rejected, ""},
		{16, map[string]any{"is_over_18": true, "country": "DK"}, method.Approved, ""},
		{16, map[string]any{"is_over_18": false, "country": "DK"}, method.AttemptFailed, "other_age"},
		{16, map[string]any{"is_over_18": []bool{true, false}, "country": "DK"}, method.AttemptFailed,
			"other_age"},
		{16, map[string]any{"is_over_18": false}, method.AttemptFailed, "other_age"},
		{16, map[string]any{"is_over_18": false, "country": "SE"}, method.Rejected, ""},
	} {
		w := newWalk(t, oidctest.Config{}, settings{"proof": settings{"claim": []string{"is_over_18"},
			"equals": true, "age": 18,
			"require": []settings{{"claim": []string{"country"}, "equals": "DK"}}}})
		w.session.MinimumAge = c.minimum
		w.provider.Answer(oidctest.Answer{Claims: c.claims})
		d, err := w.login()
		wantVerdict(t, fmt.Sprintf("contract 36: at least %d, %v", c.minimum, c.claims), d, err, c.want)
		if d.Cause != c.cause {
			t.Errorf("contract 48: at least %d, %v: cause %q, want %q", c.minimum, c.claims, d.Cause,
				c.cause)
		}
	}
}

// TestProof_Age: an approved session knows which age was proved, and not how old the user is.
func TestProof_Age(t *testing.T) {
	yes := settings{"claim": []string{"is_over_21"}, "equals": true, "age": 21}
	born := settings{"claim": []string{"birthdate"}, "birthdate": true}
	for want, proof := range map[int]settings{21: yes, 18: born} {
		w := newWalk(t, oidctest.Config{}, settings{"proof": proof})
		w.provider.Answer(oidctest.Answer{
			Claims: map[string]any{"is_over_21": true, "birthdate": "1950-01-01"}})
		d, err := w.login()
		wantVerdict(t, "an adult", d, err, method.Approved)
		if d.Age != want {
			t.Errorf("the age is %d, want %d", d.Age, want)
		}
	}
}
