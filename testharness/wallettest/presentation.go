package wallettest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	_ "crypto/sha512" // crypto.SHA384 and crypto.SHA512
	"encoding/asn1"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"slices"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

// Session is the wallet's view of the request, which it signs.
type Session struct {
	Handover string // OpenID4VP, OpenID4VPOverDCAPI or Annex C

	ClientID    string // of OpenID4VP
	Nonce       string // of OpenID4VP and OpenID4VPOverDCAPI
	ResponseURI string // of OpenID4VP
	Thumbprint  []byte // of the key that encrypts the response; nil for an unencrypted response

	Origin         string // of the page, over the Digital Credentials API
	EncryptionInfo string // of Annex C, as it was sent
}

// Handovers.
const (
	OpenID4VP          = "OpenID4VPHandover"
	OpenID4VPOverDCAPI = "OpenID4VPDCAPIHandover"
	AnnexC             = "dcapi" // of ISO/IEC 18013-7
)

// Transcript returns the CBOR of the SessionTranscript.
func (s Session) Transcript() []byte {
	thumbprint := cbor.Null()
	if s.Thumbprint != nil {
		thumbprint = cbor.Bytes(s.Thumbprint)
	}
	var info cbor.Item
	switch s.Handover {
	case OpenID4VP:
		info = cbor.Array(cbor.Text(s.ClientID), cbor.Text(s.Nonce), thumbprint, cbor.Text(s.ResponseURI))
	case OpenID4VPOverDCAPI:
		info = cbor.Array(cbor.Text(s.Origin), cbor.Text(s.Nonce), thumbprint)
	default:
		info = cbor.Array(cbor.Text(s.EncryptionInfo), cbor.Text(s.Origin))
	}
	hash := sha256.Sum256(info.Raw())
	handover := cbor.Array(cbor.Text(s.Handover), cbor.Bytes(hash[:]))
	return cbor.Array(cbor.Null(), cbor.Null(), handover).Raw()
}

// Element is an element of a document.
type Element struct {
	Namespace string // "": the Presentation's
	Name      string
	Value     cbor.Item
	Random    []byte
	DigestID  uint32
}

// Presentation is the content of a response. Response signs all of it in its final state.
type Presentation struct {
	Session Session

	DocType   string
	Namespace string
	Elements  []Element // that are sent

	Issuer                        *Issuer
	Signed, ValidFrom, ValidUntil time.Time
	DigestAlgorithm               string // SHA-256, SHA-384 or SHA-512

	DeviceKey *ecdsa.PrivateKey // that the issuer binds the document to
	SignWith  *ecdsa.PrivateKey // that the wallet signs with. Nil: DeviceKey

	// Status is the member status that the issuer signs, such as a StatusReference. A zero Item: none.
	Status cbor.Item

	// DeviceNamespaces are elements that the wallet asserts itself, by namespace. A zero Item: none.
	DeviceNamespaces cbor.Item

	// SDJWT is set if the document is in the format dc+sd-jwt. Token writes it then, and not Response.
	SDJWT *SDJWT

	// Edit changes a part before it is hashed, signed or put into the next larger one. It returns the
	// new part. Nil: no changes.
	Edit func(part Part, i cbor.Item) cbor.Item

	random io.Reader // the wallet's; nil: crypto/rand
}

// Part is a part of a DeviceResponse.
type Part string

// The parts, in the order in which they are written.
const (
	PartItem            Part = "item"   // an IssuerSignedItem
	PartSent            Part = "sent"   // the same with its tag, after its digest was taken
	PartMSO             Part = "object" // the mobile security object
	PartIssuerProtected Part = "issuer protected"
	PartIssuerAuth      Part = "issuer auth"
	PartAuthentication  Part = "device authentication" // the input of the wallet's signature
	PartDeviceProtected Part = "device protected"
	PartDeviceAuth      Part = "device auth" // the map with deviceSignature
	PartDocument        Part = "document"
	PartResponse        Part = "response"
)

// With returns a map with a member of another value. A zero Item takes the member away.
func With(i cbor.Item, name string, value cbor.Item) cbor.Item {
	pairs, _ := i.Pairs()
	pairs = slices.DeleteFunc(pairs, func(p cbor.Pair) bool {
		text, ok := p.Key.Text()
		return ok && text == name
	})
	if value.Present() {
		pairs = append(pairs, pair(name, value))
	}
	return cbor.Map(pairs...)
}

// Tags of CBOR.
const (
	tagDateTime = 0
	tagCBOR     = 24
	tagFullDate = 1004
)

// Labels of COSE.
const (
	headerAlgorithm = 1
	headerChain     = 33
)

// Response writes the DeviceResponse.
func (p *Presentation) Response() ([]byte, error) {
	edit := p.Edit
	if edit == nil {
		edit = func(_ Part, i cbor.Item) cbor.Item { return i }
	}
	namespaces, digests := p.items(edit)
	issuerAuth, err := p.issuerAuth(digests, edit)
	if err != nil {
		return nil, err
	}
	deviceNamespaces := embed(cbor.Map())
	if p.DeviceNamespaces.Present() {
		deviceNamespaces = embed(p.DeviceNamespaces)
	}
	deviceAuth, err := p.deviceAuth(deviceNamespaces, edit)
	if err != nil {
		return nil, err
	}
	document := edit(PartDocument, cbor.Map(pair("docType", cbor.Text(p.DocType)),
		pair("issuerSigned", cbor.Map(pair("nameSpaces", namespaces), pair("issuerAuth", issuerAuth))),
		pair("deviceSigned", cbor.Map(pair("nameSpaces", deviceNamespaces), pair("deviceAuth", deviceAuth)))))
	return edit(PartResponse, cbor.Map(pair("version", cbor.Text("1.0")),
		pair("documents", cbor.Array(document)), pair("status", cbor.Integer(0)))).Raw(), nil
}

// items returns the elements as they are sent, and their digests. Both are by namespace.
func (p *Presentation) items(edit func(Part, cbor.Item) cbor.Item) (sent, digests cbor.Item) {
	hash, ok := map[string]crypto.Hash{
		"SHA-256": crypto.SHA256, "SHA-384": crypto.SHA384, "SHA-512": crypto.SHA512,
	}[p.DigestAlgorithm]
	if !ok {
		hash = crypto.SHA256 // for an unknown name
	}
	var names []string
	items, sums := map[string][]cbor.Item{}, map[string][]cbor.Pair{}
	for _, e := range p.Elements {
		if e.Namespace == "" {
			e.Namespace = p.Namespace
		}
		if !slices.Contains(names, e.Namespace) {
			names = append(names, e.Namespace)
		}
		item := embed(edit(PartItem, cbor.Map(pair("digestID", cbor.Integer(int64(e.DigestID))),
			pair("random", cbor.Bytes(e.Random)), pair("elementIdentifier", cbor.Text(e.Name)),
			pair("elementValue", e.Value))))
		h := hash.New()
		h.Write(item.Raw())
		sums[e.Namespace] = append(sums[e.Namespace],
			cbor.Pair{Key: cbor.Integer(int64(e.DigestID)), Value: cbor.Bytes(h.Sum(nil))})
		items[e.Namespace] = append(items[e.Namespace], edit(PartSent, item))
	}
	var sentPairs, digestPairs []cbor.Pair
	for _, name := range names {
		sentPairs = append(sentPairs, pair(name, cbor.Array(items[name]...)))
		digestPairs = append(digestPairs, pair(name, cbor.Map(sums[name]...)))
	}
	return cbor.Map(sentPairs...), cbor.Map(digestPairs...)
}

// issuerAuth writes and signs the mobile security object.
func (p *Presentation) issuerAuth(
	digests cbor.Item, edit func(Part, cbor.Item) cbor.Item,
) (cbor.Item, error) {
	deviceKey, err := coseKey(&p.DeviceKey.PublicKey)
	if err != nil {
		return cbor.Item{}, err
	}
	object := edit(PartMSO, With(cbor.Map(
		pair("version", cbor.Text("1.0")),
		pair("digestAlgorithm", cbor.Text(p.DigestAlgorithm)),
		pair("valueDigests", digests),
		pair("deviceKeyInfo", cbor.Map(pair("deviceKey", deviceKey))),
		pair("docType", cbor.Text(p.DocType)),
		pair("validityInfo", cbor.Map(pair("signed", dateTime(p.Signed)),
			pair("validFrom", dateTime(p.ValidFrom)), pair("validUntil", dateTime(p.ValidUntil)))),
	), "status", p.Status))
	payload := embed(object).Raw()
	protected := edit(PartIssuerProtected, algorithmHeader(p.Issuer.Key)).Raw()
	signature, err := sign1(p.random, p.Issuer.Key, protected, payload)
	if err != nil {
		return cbor.Item{}, err
	}
	chain := cbor.Bytes(p.Issuer.Chain[0])
	if len(p.Issuer.Chain) > 1 {
		var all []cbor.Item
		for _, der := range p.Issuer.Chain {
			all = append(all, cbor.Bytes(der))
		}
		chain = cbor.Array(all...)
	}
	unprotected := cbor.Map(cbor.Pair{Key: cbor.Integer(headerChain), Value: chain})
	return edit(PartIssuerAuth, cbor.Array(
		cbor.Bytes(protected), unprotected, cbor.Bytes(payload), cbor.Bytes(signature))), nil
}

// deviceAuth signs the session. The signed structure is not sent.
func (p *Presentation) deviceAuth(
	namespaces cbor.Item, edit func(Part, cbor.Item) cbor.Item,
) (cbor.Item, error) {
	transcript, err := cbor.Read(p.Session.Transcript(), cbor.Options{})
	if err != nil {
		return cbor.Item{}, err
	}
	key := p.SignWith
	if key == nil {
		key = p.DeviceKey
	}
	authentication := edit(PartAuthentication, cbor.Array(
		cbor.Text("DeviceAuthentication"), transcript, cbor.Text(p.DocType), namespaces))
	protected := edit(PartDeviceProtected, algorithmHeader(key)).Raw()
	signature, err := sign1(p.random, key, protected, embed(authentication).Raw())
	if err != nil {
		return cbor.Item{}, err
	}
	return edit(PartDeviceAuth, cbor.Map(pair("deviceSignature",
		cbor.Array(cbor.Bytes(protected), cbor.Map(), cbor.Null(), cbor.Bytes(signature))))), nil
}

func pair(name string, value cbor.Item) cbor.Pair {
	return cbor.Pair{Key: cbor.Text(name), Value: value}
}

// embed puts an item into a byte string with tag 24.
func embed(i cbor.Item) cbor.Item { return cbor.Tagged(tagCBOR, cbor.Bytes(i.Raw())) }

func dateTime(at time.Time) cbor.Item {
	return cbor.Tagged(tagDateTime, cbor.Text(at.UTC().Format("2006-01-02T15:04:05Z")))
}

// curves are the COSE parameters of each curve: its number, and its algorithm.
var curves = map[elliptic.Curve]struct {
	number, algorithm int64
	hash              crypto.Hash
}{
	elliptic.P256(): {1, -7, crypto.SHA256},
	elliptic.P384(): {2, -35, crypto.SHA384},
	elliptic.P521(): {3, -36, crypto.SHA512},
}

func coseKey(public *ecdsa.PublicKey) (cbor.Item, error) {
	point, err := public.Bytes()
	if err != nil {
		return cbor.Item{}, fmt.Errorf("wallettest: the device's key: %w", err)
	}
	x, y := point[1:1+len(point)/2], point[1+len(point)/2:]
	return cbor.Map(cbor.Pair{Key: cbor.Integer(1), Value: cbor.Integer(2)},
		cbor.Pair{Key: cbor.Integer(-1), Value: cbor.Integer(curves[public.Curve].number)},
		cbor.Pair{Key: cbor.Integer(-2), Value: cbor.Bytes(x)},
		cbor.Pair{Key: cbor.Integer(-3), Value: cbor.Bytes(y)}), nil
}

func algorithmHeader(key *ecdsa.PrivateKey) cbor.Item {
	return cbor.Map(cbor.Pair{
		Key: cbor.Integer(headerAlgorithm), Value: cbor.Integer(curves[key.Curve].algorithm),
	})
}

// sign1 returns the signature of a COSE_Sign1.
func sign1(random io.Reader, key *ecdsa.PrivateKey, protected, payload []byte) ([]byte, error) {
	return signBy(random, key, cbor.Array(
		cbor.Text("Signature1"), cbor.Bytes(protected), cbor.Bytes(nil), cbor.Bytes(payload)).Raw())
}

// Sign signs as COSE does, by the algorithm for the key's curve: the signature is r and s, each at full
// length.
func Sign(key *ecdsa.PrivateKey, message []byte) ([]byte, error) { return signBy(nil, key, message) }

// signBy is Sign. With a wallet's own randomness, the same message has the same signature (RFC 6979).
func signBy(random io.Reader, key *ecdsa.PrivateKey, message []byte) ([]byte, error) {
	hash := curves[key.Curve].hash.New()
	hash.Write(message)
	nonces := rand.Reader
	if random != nil {
		nonces = nil
	}
	der, err := key.Sign(nonces, hash.Sum(nil), curves[key.Curve].hash)
	if err != nil {
		return nil, fmt.Errorf("wallettest: signing: %w", err)
	}
	var numbers struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &numbers); err != nil {
		return nil, fmt.Errorf("wallettest: signing: %w", err)
	}
	size := (key.Curve.Params().BitSize + 7) / 8
	signature := make([]byte, 2*size)
	numbers.R.FillBytes(signature[:size])
	numbers.S.FillBytes(signature[size:])
	return signature, nil
}

// fresh returns an element of a wallet's document.
func fresh(random io.Reader, name string, value any) (Element, error) {
	e := Element{Name: name, Random: make([]byte, 32)}
	var id [4]byte
	read(random, e.Random)
	read(random, id[:])
	e.DigestID = binary.BigEndian.Uint32(id[:])
	switch v := value.(type) {
	case bool:
		e.Value = cbor.Bool(v)
	case int:
		e.Value = cbor.Integer(int64(v))
	case string:
		e.Value = cbor.Text(v)
	case cbor.Item:
		e.Value = v
	default:
		return Element{}, fmt.Errorf(
			"wallettest: %s is a %T; an element is a bool, int, string or cbor.Item", name, value)
	}
	return e, nil
}

// read fills b with randomness.
func read(random io.Reader, b []byte) {
	if random == nil {
		random = rand.Reader
	}
	if _, err := io.ReadFull(random, b); err != nil {
		panic(err) // a reader of a test that has ended
	}
}

// randomText returns a text that no one can guess.
func randomText(random io.Reader) string {
	var b [16]byte
	read(random, b[:])
	return encode(b[:])
}
