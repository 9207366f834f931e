package mdoc

import (
	"bytes"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/signature"
)

// securityObject is a MobileSecurityObject (ISO/IEC 18013-5, 9.1.2.4), which the issuer signs.
type securityObject struct {
	docType                       string
	hash                          func([]byte) []byte
	digests                       cbor.Item // by namespace, maps from the id of a digest to it
	signed, validFrom, validUntil time.Time

	deviceKey       signature.Key
	deviceAlgorithm int64 // the algorithm of the device's key; 0 if not specified

	status Status
}

// readSecurityObject reads the payload of the issuer's signature, which is CBOR inside of CBOR.
func readSecurityObject(payload []byte) (o securityObject, err error) {
	outer, err := cbor.Read(payload, options)
	if err != nil {
		return o, rejected(badMSO)
	}
	inner, ok := embedded(outer)
	if !ok {
		return o, rejected(badMSO)
	}
	if v, _ := inner.Member("version").Text(); v != version {
		return o, rejected(msoVersion)
	}
	if o.docType, ok = inner.Member("docType").Text(); !ok {
		return o, rejected(badMSO)
	}
	switch name, _ := inner.Member("digestAlgorithm").Text(); name {
	case "SHA-256":
		o.hash = sum256
	case "SHA-384":
		o.hash = sum384
	case "SHA-512":
		o.hash = sum512
	default:
		return o, rejected(msoDigests)
	}
	if o.digests = inner.Member("valueDigests"); !isMap(o.digests) {
		return o, rejected(badMSO)
	}
	validity := inner.Member("validityInfo")
	var okSigned, okFrom, okUntil bool
	o.signed, okSigned = dateTime(validity.Member("signed"))
	o.validFrom, okFrom = dateTime(validity.Member("validFrom"))
	o.validUntil, okUntil = dateTime(validity.Member("validUntil"))
	if !okSigned || !okFrom || !okUntil {
		return o, rejected(badValidity)
	}
	if o.deviceKey, o.deviceAlgorithm, ok = readKey(inner.Member("deviceKeyInfo").Member("deviceKey")); !ok {
		return o, rejected(badDeviceKey)
	}
	o.status = readStatus(inner.Member("status"))
	return o, nil
}

// dateTime reads a tdate: a text as of RFC 3339, with its tag.
func dateTime(i cbor.Item) (at time.Time, ok bool) {
	number, content, ok := i.Tag()
	text, okText := content.Text()
	if !ok || !okText || number != tagDateTime {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// readItem returns the name and the value of an IssuerSignedItem (ISO/IEC 18013-5, 8.3.2.1.2.2) whose digest
// is in the object. The digest is computed over the item as it was sent. An undefined value is returned as
// absent.
func (o securityObject) readItem(namespace string, i cbor.Item) (element string, value cbor.Item, err error) {
	item, ok := embedded(i)
	if !ok {
		return "", cbor.Item{}, rejected(badItem)
	}
	id, okID := item.Member("digestID").Integer()
	random, okRandom := item.Member("random").Bytes()
	element, okElement := item.Member("elementIdentifier").Text()
	value = item.Member("elementValue")
	if !okID || id < 0 || !okRandom || !okElement {
		return "", cbor.Item{}, rejected(badItem)
	}
	if len(random) < minRandom {
		return "", cbor.Item{}, rejected(shortRandom)
	}
	digest, ok := o.digests.Member(namespace).Label(id).Bytes()
	if !ok {
		return "", cbor.Item{}, rejected(digestMissing)
	}
	if !bytes.Equal(digest, o.hash(i.Raw())) {
		return "", cbor.Item{}, rejected(digestMismatch)
	}
	return element, value, nil
}
