package openid4vp

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/birthdate"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/sdjwt"
	"github.com/verge-id/verge/core/method"
)

// Stored results of a wallet's response. errorKept is before the name of an error, and faultKept before
// the fault of a document and the reason of the rejection.
const (
	approvedKept    = "approved"
	rejectedKept    = "rejected"
	otherKept       = "other_age"
	unconfirmedKept = "unconfirmed"
	cancelledKept   = "cancelled"
	errorKept       = "error:"
	faultKept       = "fault:"

	documentRevokedKept = string(method.DocumentRevoked)
	signerRevokedKept   = string(method.SignerRevoked)
)

// kept is the part of a document that the service stores: the result, the age that it proves, and the trust
// anchor that it led to.
type kept struct {
	result string
	age    int
	anchor string
}

func (k kept) String() string { return k.result + ":" + strconv.Itoa(k.age) + ":" + k.anchor }

// value is the value of an element in a document of either format.
type value interface {
	Bool() (is, ok bool)
	Date() (date time.Time, ok bool)
}

// claimOf is the value of a claim in an SD-JWT.
type claimOf struct{ sdjwt.Value }

// Date returns a date of birth.
func (c claimOf) Date() (date time.Time, ok bool) {
	text, _ := c.Text()
	return birthdate.Parse(text)
}

// judge decides by the elements of a document. The first element that the document has, and that can be read,
// decides, so two contradictory ones cannot be played off against each other. A date of birth is compared
// here and goes no further. The elements may be those of a higher age than the minimum age.
func judge(elements []element, values []value, minimumAge int, now time.Time) kept {
	k := kept{result: unconfirmedKept}
	for i, e := range elements {
		old, ok := values[i].Bool()
		if e.isDate {
			e.age = minimumAge
			old, ok = bornBy(values[i], minimumAge, now)
		}
		if !ok {
			continue
		}
		switch {
		case old && e.age >= minimumAge:
			k.result, k.age = approvedKept, e.age
		case !old && e.age <= minimumAge:
			k.result = rejectedKept
		default: // over a lower age, or under a higher one
			k.result = otherKept
		}
		break
	}
	return k
}

// bornBy reports whether someone with this date of birth is of an age. It is not ok if the date cannot be
// read or is not plausible.
func bornBy(v value, age int, now time.Time) (old, ok bool) {
	born, ok := v.Date()
	if !ok {
		return false, false
	}
	years, ok := birthdate.Age(born, now)
	return years >= age, ok
}

// asksFor returns the names of the elements and claims that are asked for.
func (o *openID) asksFor(age int) (names []string) {
	for _, format := range o.settings.formats {
		for _, name := range namesOf(o.settings.profile.elements(format, age)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// decide returns the decision about a stored response. asked is the age of the request, for logs. The error
// is a *method.Rejection for a wallet that cannot respond: nothing is decided, and the user may try again.
func (o *openID) decide(asked int, text string) (method.Decision, error) {
	if name, ok := strings.CutPrefix(text, errorKept); ok {
		return method.Decision{}, rejected("wallet_error_" + name)
	}
	if text, ok := strings.CutPrefix(text, faultKept); ok {
		return o.faulty(text)
	}
	result, rest, _ := strings.Cut(text, ":")
	number, anchor, _ := strings.Cut(rest, ":")
	age, _ := strconv.Atoi(number)
	d := method.Decision{Trust: anchor}
	failed := func(reason method.Reason) {
		d.Verdict, d.Reason = method.AttemptFailed, reason
		d.Setting, d.Detail = profileName, strings.Join(o.asksFor(asked), ",")
	}
	switch result {
	case approvedKept:
		d.Verdict, d.Age = method.Approved, age
	case rejectedKept:
		d.Verdict = method.Rejected
	case otherKept:
		failed(method.Other)
	case unconfirmedKept:
		failed(method.Unconfirmed)
	case documentRevokedKept, signerRevokedKept:
		d.Verdict, d.Reason = method.AttemptFailed, method.Reason(result)
		d.Setting, d.Detail = revocationName, o.settings.revocation
	case cancelledKept:
		d.Verdict = method.Cancelled
	default:
		return method.Decision{}, method.ErrOutdated
	}
	return d, nil
}

// faults are the reasons for users by the fault of a document, and the setting that decides about it.
var faults = map[mdoc.Fault]struct {
	reason  method.Reason
	setting string
}{
	mdoc.NotValid:  {method.Expired, ""},
	mdoc.Untrusted: {method.Untrusted, anchorsName},
	mdoc.OtherType: {method.OtherDocument, profileName},
	noStatus:       {method.Unconfirmed, revocationName},
}

// noStatus is the fault of a document that cannot be looked up in a list, although it must be.
const noStatus mdoc.Fault = "status"

// faulty returns the decision about a document that is at fault: a failed attempt. Logs have the reason of
// the rejection, and the page has words for the fault.
func (o *openID) faulty(text string) (method.Decision, error) {
	fault, reason, _ := strings.Cut(text, ":")
	f, ok := faults[mdoc.Fault(fault)]
	if !ok {
		return method.Decision{}, method.ErrOutdated
	}
	if f.setting == anchorsName && len(o.settings.anchors) == 0 {
		if f.setting = listsName; len(o.settings.lists) == 0 {
			f.setting = issuerKeysName
		}
	}
	return method.Decision{Verdict: method.AttemptFailed, Reason: f.reason, Setting: f.setting,
		Rejection: &method.Rejection{Reason: reason}}, nil
}
