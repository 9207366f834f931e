package trustlist

import (
	"encoding/json"
	"strconv"
	"time"
)

var errLoTEShape = rejected(Malformed, "it does not have the members of a list of trusted entities")

func readTS119602(document []byte, expected Expected, now time.Time) (List, *Error) {
	j, err := readJWS(document)
	if err != nil {
		return List{}, err
	}
	signer, err := j.verify(expected.Signers, now)
	if err != nil {
		return List{}, err
	}
	payload, err := readJSON(j.payload)
	if err != nil {
		return List{}, err
	}
	list, err := readLoTE(payload, expected.ServiceTypes, now)
	list.Signer = signer
	return list, err
}

// readLoTE reads a list from the payload that was verified.
func readLoTE(payload object, types []string, now time.Time) (list List, err *Error) {
	lote, ok := payload.object("LoTE")
	if !ok {
		return list, errLoTEShape
	}
	scheme, ok := lote.object("ListAndSchemeInformation")
	if !ok {
		return list, errLoTEShape
	}
	if list, ok = readJSONScheme(scheme); !ok {
		return list, errLoTEShape
	}
	entities, ok := lote.objects("TrustedEntitiesList")
	if !ok {
		return list, errLoTEShape
	}
	c := newCollector(now)
	for _, entity := range entities {
		if err := c.entity(entity, types); err != nil {
			return list, err
		}
	}
	c.finish(&list)
	return list, nil
}

// readJSONScheme reads ListAndSchemeInformation.
func readJSONScheme(o object) (list List, ok bool) {
	version, _ := o["LoTEVersionIdentifier"].(json.Number)
	number, _ := o["LoTESequenceNumber"].(json.Number)
	sequence, err := strconv.ParseUint(number.String(), 10, 63)
	if version != "1" || err != nil || sequence == 0 {
		return list, false
	}
	issued, okIssued := o.time("ListIssueDateTime")
	next, okNext := o.time("NextUpdate")
	issuer, okName := o.multilingual("SchemeOperatorName")
	list = List{Sequence: sequence, Issued: issued, NextUpdate: next, Issuer: issuer}
	return list, okIssued && okNext && okName
}

// entity adds the certificates of a trusted entity.
func (c *collector) entity(o object, types []string) *Error {
	information, hasInformation := o.object("TrustedEntityInformation")
	services, hasServices := o.objects("TrustedEntityServices")
	if !hasInformation || !hasServices {
		return errLoTEShape
	}
	if _, ok := information.multilingual("TEName"); !ok {
		return errLoTEShape
	}
	for _, s := range services {
		information, ok := s.object("ServiceInformation") // not ServiceHistory
		if !ok {
			return errLoTEShape
		}
		if err := c.jsonService(information, types); err != nil {
			return err
		}
	}
	return nil
}

// jsonService adds the certificates of a ServiceInformation.
func (c *collector) jsonService(o object, types []string) *Error {
	_, okName := o.multilingual("ServiceName")
	kind, okKind := o.optional("ServiceTypeIdentifier") // without one it is of no wanted type
	status, okStatus := o.optional("ServiceStatus")
	identity, okIdentity := o.object("ServiceDigitalIdentity")
	if !okName || !okKind || !okStatus || !okIdentity {
		return errLoTEShape
	}
	s := service{kind: kind, status: status}
	_, hasStatus := o["ServiceStatus"]
	_, hasSince := o["StatusStartingTime"]
	s.statusAbsent = !hasStatus && !hasSince
	if hasSince {
		var ok bool
		if s.since, ok = o.time("StatusStartingTime"); !ok {
			return errLoTEShape
		}
	}
	certificates, ok := identity.objects("X509Certificates")
	if !ok {
		return errLoTEShape
	}
	skip := s.skip(types, c.now)
	for _, certificate := range certificates {
		text, _ := certificate.text("val")
		der, ok := decodeBase64(text)
		if !ok {
			der = nil // it is counted as unreadable
		}
		if err := c.add(der, skip); err != nil {
			return err
		}
	}
	return nil
}

// time returns a member that is a date with a time.
func (o object) time(name string) (t time.Time, ok bool) {
	text, ok := o.text(name)
	if !ok {
		return t, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// optional returns a member that is a string, or "" if it is missing.
func (o object) optional(name string) (text string, ok bool) {
	if _, present := o[name]; !present {
		return "", true
	}
	return o.text(name)
}

// multilingual returns the English text of a member, or the first one.
func (o object) multilingual(name string) (text string, ok bool) {
	texts, ok := o.objects(name)
	if !ok {
		return "", false
	}
	for _, t := range texts {
		value, okValue := t.text("value")
		language, okLanguage := t.text("lang")
		if !okValue || !okLanguage {
			return "", false
		}
		if language == "en" {
			return clip(value), true
		}
		if text == "" {
			text = clip(value)
		}
	}
	return text, true
}
