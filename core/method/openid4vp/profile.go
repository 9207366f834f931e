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
//	element             the name of the element that says whether somebody is NN or older
//	older               ages above the one that is asked for whose elements count, too, where issuers of
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
	older              []int
	signers            []string
	credential         string

	scheme             string
	signed             bool
	encrypted, browser bool
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
	flag := func(member string) bool {
		b, _ := o.Value(member).Bool()
		return b
	}
	p = profile{name: name, doctype: text("doctype"), namespace: text("namespace"), element: text("element"),
		credential: text("credential"), scheme: text("scheme"), signed: text("request") == signedRequest,
		encrypted: flag("encrypted"), browser: flag("browser")}
	list, _ := o.Value("older").List()
	for _, v := range list {
		age, _ := v.Integer()
		p.older = append(p.older, int(age))
	}
	list, _ = o.Value("signers").List()
	for _, v := range list {
		oid, _ := v.Text()
		p.signers = append(p.signers, oid)
	}
	return p, true
}

// maxAge is the highest age that has an element: its name has two digits.
const maxAge = 99

// elementOf returns the name of the element that says whether somebody is of an age.
func (p profile) elementOf(age int) string {
	return strings.Replace(p.element, "NN", fmt.Sprintf("%02d", age), 1)
}

// elements returns the names of the elements of which one has to prove an age. The first one is that of the
// age itself. A true one of a higher age proves it as well, and a false one says nothing about it.
func (p profile) elements(age int) []string {
	names := []string{p.elementOf(age)}
	for _, older := range p.older {
		if older > age {
			names = append(names, p.elementOf(older))
		}
	}
	return names
}
