package trustlist

import (
	"strconv"
	"time"
)

// namespaceList is the namespace of TS 119 612.
const namespaceList = "http://uri.etsi.org/02231/v2#"

var errListShape = rejected(Malformed, "it does not have the elements of a trusted list")

func readTS119612(document []byte, expected Expected, now time.Time) (List, *Error) {
	root, err := readXML(document)
	if err != nil {
		return List{}, err
	}
	if !root.is(namespaceList, "TrustServiceStatusList") {
		return List{}, errListShape
	}
	verified, signer, err := verifyXML(root, expected, now)
	if err != nil {
		return List{}, err
	}
	list, err := readXMLList(verified, expected.ServiceTypes, now)
	list.Signer = signer
	return list, err
}

// readXMLList reads a list from the root that was verified.
func readXMLList(root *element, types []string, now time.Time) (list List, err *Error) {
	if !root.is(namespaceList, "TrustServiceStatusList") {
		return list, errListShape
	}
	scheme, ok := root.one(namespaceList, "SchemeInformation")
	if !ok {
		return list, errListShape
	}
	if list, ok = readScheme(scheme); !ok {
		return list, errListShape
	}
	c := newCollector(now)
	if providers, ok := root.one(namespaceList, "TrustServiceProviderList"); ok {
		for provider := range providers.each(namespaceList, "TrustServiceProvider") {
			if err := c.provider(provider, types); err != nil {
				return list, err
			}
		}
	} else if root.has(namespaceList, "TrustServiceProviderList") {
		return list, errListShape
	}
	c.finish(&list)
	return list, nil
}

// readScheme reads SchemeInformation.
func readScheme(e *element) (list List, ok bool) {
	if version, _ := e.text("TSLVersionIdentifier"); version != "5" && version != "6" {
		return list, false
	}
	number, _ := e.text("TSLSequenceNumber")
	sequence, err := strconv.ParseUint(number, 10, 63)
	if err != nil || sequence == 0 {
		return list, false
	}
	issued, _ := e.text("ListIssueDateTime")
	at, err := time.Parse(time.RFC3339, issued)
	if err != nil {
		return list, false
	}
	next, ok := e.one(namespaceList, "NextUpdate")
	if !ok {
		return list, false
	}
	date, _ := next.text("dateTime") // it is missing in a list that was closed
	until, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return list, false
	}
	issuer := e.multilingual("SchemeOperatorName")
	return List{Sequence: sequence, Issued: at, NextUpdate: until, Issuer: issuer}, true
}

// provider adds the certificates of a TrustServiceProvider.
func (c *collector) provider(e *element, types []string) *Error {
	_, hasInformation := e.one(namespaceList, "TSPInformation")
	services, hasServices := e.one(namespaceList, "TSPServices")
	if !hasInformation || !hasServices {
		return errListShape
	}
	for s := range services.each(namespaceList, "TSPService") {
		information, ok := s.one(namespaceList, "ServiceInformation") // not ServiceHistory
		if !ok {
			return errListShape
		}
		if err := c.service(information, types); err != nil {
			return err
		}
	}
	return nil
}

// service adds the certificates of a ServiceInformation.
func (c *collector) service(e *element, types []string) *Error {
	kind, hasKind := e.text("ServiceTypeIdentifier")
	status, hasStatus := e.text("ServiceStatus")
	starting, _ := e.text("StatusStartingTime")
	since, err := time.Parse(time.RFC3339, starting)
	identity, hasIdentity := e.one(namespaceList, "ServiceDigitalIdentity")
	if !hasKind || !hasStatus || err != nil || !hasIdentity {
		return errListShape
	}
	skip := service{kind: kind, status: status, since: since}.skip(types, c.now)
	for id := range identity.each(namespaceList, "DigitalId") {
		for certificate := range id.each(namespaceList, "X509Certificate") {
			der, ok := decoded(certificate)
			if !ok {
				der = nil // it is counted as unreadable
			}
			if err := c.add(der, skip); err != nil {
				return err
			}
		}
	}
	return nil
}

// each yields the child elements with a name.
func (e *element) each(space, name string) func(yield func(*element) bool) {
	return func(yield func(*element) bool) {
		for _, n := range e.children {
			if n.element != nil && n.element.is(space, name) && !yield(n.element) {
				return
			}
		}
	}
}

// first returns the first child element with a name.
func (e *element) first(space, name string) (first *element, ok bool) {
	for child := range e.each(space, name) {
		return child, true
	}
	return nil, false
}

func (e *element) has(space, name string) bool {
	_, ok := e.first(space, name)
	return ok
}

// one returns the child element with a name. It is not ok if it is missing or occurs several times.
func (e *element) one(space, name string) (child *element, ok bool) {
	for c := range e.each(space, name) {
		if child != nil {
			return nil, false
		}
		child = c
	}
	return child, child != nil
}

// text returns the text of the one child element of a list with a name.
func (e *element) text(name string) (text string, ok bool) {
	child, ok := e.one(namespaceList, name)
	if !ok {
		return "", false
	}
	return child.content()
}

// multilingual returns the English name in a child element, or the first one. It is for people, so a list
// without one is not rejected.
func (e *element) multilingual(element string) (name string) {
	names, ok := e.one(namespaceList, element)
	if !ok {
		return ""
	}
	for n := range names.each(namespaceList, "Name") {
		text, _ := n.content()
		for _, a := range n.attributes {
			if a.is(namespaceXML, "lang") && a.value == "en" {
				return clip(text)
			}
		}
		if name == "" {
			name = clip(text)
		}
	}
	return name
}

func (a attribute) is(space, name string) bool { return a.space == space && a.name == name }
