package openid4vp

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/strictjson"
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
//	ages                ages that every such document has an element for. For every other age it is asked
//	                    for the date of birth
//	signers             the extended key usages of a document signer's certificate, which must have one of
//	                    them
//	credential          the document's id in the request
//	sd_jwt              the same document in the format dc+sd-jwt, for profiles that have it: its id in
//	                    requests, the types (vct) that are asked for, and the prefix of all that count.
//	                    Without types, they are the setting vct_values. A profile without a doctype has this
//	                    format alone
//	version             the header profile_version of signed requests
//	encryption          the algorithms that encrypt responses (default: A128GCM and A256GCM)
//	scheme, request, encrypted, browser, client_id_prefix
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
	ages               []int
	signers            []string
	credential         string
	sdJWT              sdJWT
	version            string
	encryption         []string

	scheme, prefix    string
	signed, encrypted bool
	browser           []string
}

// sdJWT is a document in the format dc+sd-jwt. Without a credential, the profile has none.
type sdJWT struct {
	credential string
	types      []string
	prefix     string // of other types, which extend one of types
}

// Formats of documents (OpenID4VP 1.0, appendix B).
const (
	mdocFormat  = "mso_mdoc"
	sdJWTFormat = "dc+sd-jwt"
)

// formats returns the formats of the profile's document. An SD-JWT comes first, because it may prove the age
// alone.
func (p profile) formats() []string {
	switch {
	case p.sdJWT.credential == "":
		return []string{mdocFormat}
	case p.doctype == "":
		return []string{sdJWTFormat}
	}
	return []string{sdJWTFormat, mdocFormat}
}

// credentialIn returns the id of the document in requests.
func (p profile) credentialIn(format string) string {
	switch format {
	case sdJWTFormat:
		return p.sdJWT.credential
	case zkFormat:
		return p.credential + "_zk"
	}
	return p.credential
}

// profileNames returns the names of all profiles, in the order of the file.
func profileNames() (names []string) {
	for name := range profiles().All() {
		names = append(names, name)
	}
	return names
}

var profiles = sync.OnceValue(func() strictjson.Object {
	o, err := strictjson.Read(profileFile)
	if err != nil {
		panic("openid4vp: profiles.json: " + err.Error()) // a fault of this release
	}
	return o
})

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
		credential: text("credential"), scheme: text("scheme"), version: text("version"),
		prefix: text(prefixName), signed: text("request") == signedRequest,
		encrypted: encrypted}
	p.always, p.older, p.ages = agesOf(o.Value("always")), agesOf(o.Value("older")), agesOf(o.Value("ages"))
	if p.encryption = textsOf(o.Value("encryption")); p.encryption == nil {
		p.encryption = mdoc.Encryptions
	}
	p.signers, p.browser = textsOf(o.Value("signers")), textsOf(o.Value(browserName))
	if s, ok := o.Value("sd_jwt").Object(); ok {
		p.sdJWT.credential, _ = s.Value("credential").Text()
		p.sdJWT.prefix, _ = s.Value("vct_prefix").Text()
		p.sdJWT.types = textsOf(s.Value("vct_values"))
	}
	return p, true
}

func textsOf(v strictjson.Value) (texts []string) {
	list, _ := v.List()
	for _, v := range list {
		text, _ := v.Text()
		texts = append(texts, text)
	}
	return texts
}

func agesOf(v strictjson.Value) (ages []int) {
	list, _ := v.List()
	for _, v := range list {
		age, _ := v.Integer()
		ages = append(ages, int(age))
	}
	return ages
}

// Names of elements and claims.
const (
	birthDate   = "birth_date"
	birthClaim  = "birthdate"
	ageClaim    = "age_equal_or_over" // with a member for each age
	agePlace    = "NN"
	highestOver = 99 // of age_over_NN, whose name has two digits
)

// oldest returns the highest age that the documents can prove; 0: every age.
func (p profile) oldest() int {
	if p.element == birthDate || p.ages != nil {
		return 0
	}
	return highestOver
}

// element is an element of a request, or a claim if the document is an SD-JWT. It is true if the person is of
// that age, unless it is a date of birth.
type element struct {
	name   string
	path   []string // of it in the document
	age    int
	isDate bool
}

// elements returns the elements that can prove an age. The first element that a document has decides.
func (p profile) elements(format string, age int) []element {
	if p.ages != nil {
		if !slices.Contains(p.ages, age) {
			return []element{{birthDate, []string{birthDate}, age, true}}
		}
		name := strings.Replace(p.element, agePlace, strconv.Itoa(age), 1)
		return []element{{name, []string{name}, age, false}}
	}
	if format == sdJWTFormat {
		years := strconv.Itoa(age)
		return []element{{ageClaim + "." + years, []string{ageClaim, years}, age, false},
			{birthClaim, []string{birthClaim}, age, true}}
	}
	if p.element == birthDate {
		return []element{{birthDate, []string{p.namespace, birthDate}, age, true}}
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
		name := strings.Replace(p.element, agePlace, fmt.Sprintf("%02d", a), 1)
		all = append(all, element{name, []string{p.namespace, name}, a, false})
	}
	return all
}

// names returns the names of the elements of mobile documents that are asked for.
func (p profile) names(age int) []string { return namesOf(p.elements(mdocFormat, age)) }

func namesOf(elements []element) (names []string) {
	for _, e := range elements {
		names = append(names, e.name)
	}
	return names
}
