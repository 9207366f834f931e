package oidc

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// proof is how a claim proves an age: by being one exact value, or by being a date of birth.
type proof struct {
	claim     []string // names that lead to it
	equals    web.Value
	age       int // that equals proves
	birthdate bool
	scope     []string    // asked for with this proof
	require   []condition // that must hold as well
}

// condition is a claim that must have one exact value, such as the trust framework beside a date of birth.
type condition struct {
	claim  []string
	equals web.Value
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
		return proof{}, fmt.Errorf("oidc: no proof is for the age of %d; add one, or lower minimum_age to %d",
			minimumAge, s.oldest())
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

// judge decides by the claims. Approved: everything is there and says yes. Rejected: something is there and
// does not say yes. Unclassified: something is absent.
//
// A value of another type, such as the text "true" for true, does not say yes. Where a path leads through a
// list, each element must say yes: a list of dates of birth means that the provider does not know which one
// is right, and of two statements the better one must not be picked.
func (p proof) judge(claims web.Object, minimumAge int, now time.Time) method.Verdict {
	says := func(v web.Value) bool { return sameValue(v, p.equals) }
	if p.birthdate {
		says = func(v web.Value) bool { return bornBy(v, minimumAge, now) }
	}
	verdict := follow(claims, p.claim, says)
	for _, c := range p.require {
		verdict = worse(verdict, follow(claims, c.claim,
			func(v web.Value) bool { return sameValue(v, c.equals) }))
	}
	return verdict
}

// worse returns the verdict that says less: a no before nothing, nothing before a yes.
func worse(a, b method.Verdict) method.Verdict {
	switch {
	case a == method.Rejected || b == method.Rejected:
		return method.Rejected
	case a == method.Approved && b == method.Approved:
		return method.Approved
	}
	return method.Unclassified
}

// follow goes along a path and judges what is at its end.
func follow(o web.Object, path []string, says func(web.Value) bool) method.Verdict {
	return followValue(o.Value(path[0]), path[1:], says)
}

func followValue(v web.Value, path []string, says func(web.Value) bool) method.Verdict {
	if !v.Present() {
		return method.Unclassified
	}
	if list, ok := v.List(); ok {
		if len(list) == 0 {
			return method.Unclassified
		}
		verdict := method.Approved
		for _, element := range list {
			verdict = worse(verdict, followValue(element, path, says))
		}
		return verdict
	}
	if len(path) > 0 {
		o, ok := v.Object()
		if !ok {
			return method.Rejected
		}
		return follow(o, path, says)
	}
	if says(v) {
		return method.Approved
	}
	return method.Rejected
}

// sameValue compares two values that are true or false, texts, or integers. 1 is not true and "1" is not 1.
func sameValue(a, b web.Value) bool {
	if x, ok := a.Text(); ok {
		y, ok := b.Text()
		return ok && x == y
	}
	if x, ok := a.Bool(); ok {
		y, ok := b.Bool()
		return ok && x == y
	}
	x, okX := a.Integer()
	y, okY := b.Integer()
	return okX && okY && x == y
}

// bornBy reports whether a claim is a plausible date of birth of somebody who has had the birthday of that
// age. The calendar is UTC's. Who was born on 29 February has the birthday on 1 March in other years. A date
// without its year, which OpenID Connect allows, proves nothing.
func bornBy(v web.Value, age int, now time.Time) bool {
	text, _ := v.Text()
	born, err := time.Parse(time.DateOnly, text)
	if err != nil || strings.HasPrefix(text, "0000") {
		return false
	}
	today := now.UTC()
	years := today.Year() - born.Year()
	if today.Month() < born.Month() || today.Month() == born.Month() && today.Day() < born.Day() {
		years--
	}
	return years >= age && years >= 0 && years <= maxAge
}
