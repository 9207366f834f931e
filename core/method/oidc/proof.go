package oidc

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/birthdate"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
)

// proof is how a claim proves an age: by being one exact value, or by being a date of birth.
type proof struct {
	condition
	age       int // that equals proves
	birthdate bool
	scope     []string    // asked for with this proof
	require   []condition // that must hold as well
}

// condition is a claim that must have one exact value, such as the trust framework of a date of birth.
type condition struct {
	setting string   // the claim's name in the settings, such as proof.claim
	claim   []string // names that lead to it
	equals  strictjson.Value
}

// proofFor returns the proof for a session: the lowest age that is high enough. A date of birth tells more
// about a person, so it is asked for only where no yes or no is enough.
func (s *settings) proofFor(minimumAge int) (proof, error) {
	var best proof
	found := false
	for _, p := range s.proofs {
		switch {
		case p.birthdate:
			if !found {
				best, found = p, true
			}
		case p.age >= minimumAge && (!found || best.birthdate || p.age < best.age):
			best, found = p, true
		}
	}
	if !found {
		return proof{}, &method.SettingError{Reason: "no_proof", Setting: "proof",
			Err: fmt.Errorf("oidc: no proof is for the age of %d; add one, or lower minimum_age to %d",
				minimumAge, s.oldest())}
	}
	return best, nil
}

// oldest returns the highest age that a proof is for; 0: a date of birth proves every age.
func (s *settings) oldest() int {
	age := 0
	for _, p := range s.proofs {
		if p.birthdate {
			return 0
		}
		age = max(age, p.age)
	}
	return age
}

// judge decides by the claims. Approved: every claim says yes. Rejected: a claim says something else. The
// attempt has failed if a claim is absent or cannot be read, because then the provider has not said no. A no
// for a higher age than the requested one is a failed attempt as well: it does not show whether the user is
// old enough.
//
// A value of another type, such as the text "true" for true, cannot be read. Where a path leads through a
// list, each element must say yes: a list of dates of birth means that the provider does not know which one
// is right, and of two statements the better one must not be picked.
func (p proof) judge(claims strictjson.Object, minimumAge int, now time.Time) method.Decision {
	d := method.Decision{Verdict: method.Approved, Age: p.age}
	says := p.says
	if p.birthdate {
		d.Age = minimumAge // no one needs the exact age
		says = func(v strictjson.Value) method.Verdict { return bornBy(v, minimumAge, now) }
	}
	apply := func(c condition, says func(strictjson.Value) method.Verdict) {
		if verdict := follow(claims, c.claim, says); worse(d.Verdict, verdict) != d.Verdict {
			d = denied(verdict, c.setting, c.claim)
			d.Cause = c.cause(claims, verdict)
		}
	}
	apply(p.condition, says)
	if d.Verdict == method.Rejected && p.age > minimumAge {
		d = denied(method.AttemptFailed, p.setting, p.claim)
		d.Cause = otherAge
	}
	for _, c := range p.require {
		apply(c, c.says)
	}
	return d
}

// cause returns the reason, for logs, why a claim is no proof.
func (c condition) cause(claims strictjson.Object, verdict method.Verdict) string {
	if verdict != method.AttemptFailed {
		return ""
	}
	present := func(v strictjson.Value) method.Verdict {
		if v.JSON() != "null" {
			return method.Approved
		}
		return method.AttemptFailed
	}
	if follow(claims, c.claim, present) == method.Approved {
		return claimUnreadable
	}
	return claimAbsent
}

// Causes of a failed attempt.
const (
	claimAbsent     = "claim_absent" // or null, or a part of the path to it is missing
	claimUnreadable = "claim_unreadable"
	otherAge        = string(method.Other)
)

// denied returns the decision by a claim that does not approve. It has the claim's path and not its value.
func denied(verdict method.Verdict, setting string, claim []string) method.Decision {
	d := method.Decision{Verdict: verdict, Setting: setting, Detail: strings.Join(claim, ".")}
	if verdict == method.AttemptFailed {
		d.Reason = method.Unconfirmed
	}
	return d
}

// names returns the claims of the proof.
func (p proof) names() []string {
	names := []string{p.claim[0]}
	for _, c := range p.require {
		names = append(names, c.claim[0])
	}
	return names
}

// worse returns the verdict that says less: a no before nothing, nothing before a yes.
func worse(a, b method.Verdict) method.Verdict {
	switch {
	case a == method.Rejected || b == method.Rejected:
		return method.Rejected
	case a == method.Approved && b == method.Approved:
		return method.Approved
	}
	return method.AttemptFailed
}

// follow reads the value at the end of a path and returns its verdict.
func follow(o strictjson.Object, path []string, says func(strictjson.Value) method.Verdict) method.Verdict {
	return followValue(o.Value(path[0]), path[1:], says)
}

func followValue(v strictjson.Value, path []string,
	says func(strictjson.Value) method.Verdict) method.Verdict {
	if list, ok := v.List(); ok && len(list) > 0 {
		verdict := method.Approved
		for _, element := range list {
			verdict = worse(verdict, followValue(element, path, says))
		}
		return verdict
	}
	if len(path) == 0 {
		return says(v)
	}
	o, ok := v.Object()
	if !ok {
		return method.AttemptFailed
	}
	return follow(o, path, says)
}

// says judges a claim that must be equals: true or false, a text, or an integer. 1 is not true and "1" is not
// 1, and neither rejects. An empty text counts as absent.
func (c condition) says(v strictjson.Value) method.Verdict {
	var same, read bool
	if want, ok := c.equals.Text(); ok {
		text, _ := v.Text()
		same, read = text == want, text != ""
	} else if want, ok := c.equals.Bool(); ok {
		var b bool
		b, read = v.Bool()
		same = b == want
	} else {
		want, _ := c.equals.Integer()
		n, whole := v.Integer()
		_, read = v.Number()
		same = whole && n == want
	}
	switch {
	case !read:
		return method.AttemptFailed
	case same:
		return method.Approved
	}
	return method.Rejected
}

// bornBy judges a date of birth: whether someone born then has had the birthday of that age. An implausible
// date is a placeholder and not a no.
func bornBy(v strictjson.Value, age int, now time.Time) method.Verdict {
	text, _ := v.Text()
	born, ok := birthdate.Parse(text)
	years, plausible := birthdate.Age(born, now)
	switch {
	case !ok || !plausible:
		return method.AttemptFailed
	case years >= age:
		return method.Approved
	}
	return method.Rejected
}
