package openid4vp

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/verge-id/verge/core/web"
)

// profileFile has the profiles by their names. A profile is a kind of document, with the defaults of the
// wallets that hold it:
//
//	doctype, namespace  of the document, as ISO 18013-5 names them
//	element             the name of the element that proves an age: age_over_NN says whether the person is
//	                    NN or older, and birth_date is a date
//	always              ages that every such document has an element for. It is asked for in addition to the
//	                    one of the age itself, whether it is higher or lower
//	older               ages whose elements are asked for, too, where they are higher, because issuers of
//	                    such documents put in a few ages only
//	signers             what the certificate of a document's signer must be for (extended key usages); one
//	                    of them must be there
//	credential          what the request calls the document
//	scheme, request, encrypted, browser
//	                    defaults of the settings of these names
//
//go:embed profiles.json
var profileFile []byte

// profile is one of them.
type profile struct {
	name               string
	doctype, namespace string
	element            string
	always, older      []int
	signers            []string
	credential         string

	scheme            string
	signed, encrypted bool
	browser           []string
}

// Profiles returns the names of all profiles, in the order of the file.
func Profiles() (names []string) {
	for name := range profiles().All() {
		names = append(names, name)
	}
	return names
}

func profiles() web.Object {
	o, err := web.ReadObject(profileFile)
	if err != nil {
		panic("openid4vp: profiles.json: " + err.Error()) // a fault of this release
	}
	return o
}

// profileOf returns the profile of that name.
func profileOf(name string) (p profile, ok bool) {
	o, ok := profiles().Value(name).Object()
	if !ok {
		return p, false
	}
	text := func(member string) string {
		s, _ := o.Value(member).Text()
		return s
	}
	encrypted, _ := o.Value("encrypted").Bool()
	p = profile{name: name, doctype: text("doctype"), namespace: text("namespace"), element: text("element"),
		credential: text("credential"), scheme: text("scheme"), signed: text("request") == signedRequest,
		encrypted: encrypted}
	p.always, p.older = agesOf(o.Value("always")), agesOf(o.Value("older"))
	p.signers, p.browser = textsOf(o.Value("signers")), textsOf(o.Value(browserName))
	return p, true
}

func textsOf(v web.Value) (texts []string) {
	list, _ := v.List()
	for _, v := range list {
		text, _ := v.Text()
		texts = append(texts, text)
	}
	return texts
}

func agesOf(v web.Value) (ages []int) {
	list, _ := v.List()
	for _, v := range list {
		age, _ := v.Integer()
		ages = append(ages, int(age))
	}
	return ages
}

// Names of elements.
const (
	birthDate   = "birth_date"
	agePlace    = "NN"
	highestOver = 99 // of age_over_NN, whose name has two digits
)

// oldest returns the highest age that the documents can prove; 0: every age.
func (p profile) oldest() int {
	if p.element == birthDate {
		return 0
	}
	return highestOver
}

// element is an element of a request. It is true if the person is of that age, unless it is a date of birth.
type element struct {
	name string
	age  int
}

// elements returns the elements that can prove an age. The first element that a document has decides.
func (p profile) elements(age int) []element {
	if p.element == birthDate {
		return []element{{birthDate, age}}
	}
	ages := []int{age}
	for _, other := range p.always {
		if other != age {
			ages = append(ages, other)
		}
	}
	for _, other := range p.older {
		if other > age {
			ages = append(ages, other)
		}
	}
	var all []element
	for _, a := range ages {
		all = append(all, element{strings.Replace(p.element, agePlace, fmt.Sprintf("%02d", a), 1), a})
	}
	return all
}

// names returns the names of the elements that are asked for.
func (p profile) names(age int) (names []string) {
	for _, e := range p.elements(age) {
		names = append(names, e.name)
	}
	return names
}
