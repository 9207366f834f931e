package wallettest

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/verge-id/verge/core/cbor"
)

// Protocols of the Digital Credentials API that the wallet knows.
const (
	iso      = "org-iso-mdoc"
	unsigned = "openid4vp-v1-unsigned"
	signed   = "openid4vp-v1-signed"
)

// Credential answers one of the requests that a page hands to navigator.credentials.get, and returns the data
// of the DigitalCredential that the page gets. origin is the page's. The wallet verifies the signatures of
// requests that have one: of an openid4vp-v1-signed, and the readerAuth of an org-iso-mdoc.
func (w *Wallet) Credential(
	origin, protocol string, data []byte, changes ...func(*Presentation),
) (json.RawMessage, error) {
	switch protocol {
	case iso:
		return w.credentialISO(origin, data, changes)
	case unsigned, signed:
		r, err := w.OpenCredential(origin, protocol, data)
		if err != nil {
			return nil, err
		}
		return w.presentCredential(origin, r, changes)
	}
	return nil, fmt.Errorf("wallettest: the protocol is %q; the wallet knows %s, %s and %s", protocol, iso,
		unsigned, signed)
}

// OpenCredential reads a request by OpenID4VP over the Digital Credentials API. The error names the rule
// that the request breaks.
func (w *Wallet) OpenCredential(origin, protocol string, data []byte) (*Request, error) {
	var p parameters
	var signer *x509.Certificate
	if protocol == signed {
		var object struct{ Request string }
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, fmt.Errorf("wallettest: the request: %w", err)
		}
		var err error
		if p, signer, err = w.verifyObject(object.Request, origin); err != nil {
			return nil, fmt.Errorf("wallettest: the request object: %w", err)
		}
		if !slices.Contains(p.Origins, origin) {
			return nil, fmt.Errorf("wallettest: the page is of %q, and the request expects %q", origin,
				p.Origins)
		}
	} else {
		if err := json.Unmarshal(data, &p); err != nil {
			return nil, fmt.Errorf("wallettest: the request: %w", err)
		}
		if p.ClientID != "" || p.Origins != nil {
			return nil, fmt.Errorf("wallettest: an unsigned request has client_id %q and expected_origins %q",
				p.ClientID, p.Origins)
		}
	}
	if p.ResponseURI != "" || p.State != "" {
		return nil, fmt.Errorf("wallettest: a request to the browser has response_uri %q and state %q",
			p.ResponseURI, p.State)
	}
	r, err := w.read(p, "dc_api")
	if err == nil {
		r.Signer = signer
	}
	return r, err
}

// presentCredential answers a request by OpenID4VP.
func (w *Wallet) presentCredential(origin string, r *Request, changes []func(*Presentation)) (
	json.RawMessage, error) {
	s := Session{Handover: OpenID4VPOverDCAPI, Origin: origin, Nonce: r.Nonce}
	if r.Key != nil {
		s.Thumbprint = r.Thumbprint
	}
	response, err := w.respondTo(r, s, changes)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{"vp_token": map[string]any{r.Query: []string{response}}}
	if r.Key == nil {
		return json.Marshal(answer)
	}
	payload, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	jwe, err := w.seal(r, payload)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"response": jwe})
}

// credentialISO answers a request of ISO/IEC 18013-7, annex C.
func (w *Wallet) credentialISO(origin string, data []byte, changes []func(*Presentation)) (
	json.RawMessage, error) {
	var request struct{ DeviceRequest, EncryptionInfo string }
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, fmt.Errorf("wallettest: the request: %w", err)
	}
	s := Session{Handover: AnnexC, Origin: origin, EncryptionInfo: request.EncryptionInfo}
	asked, err := readDeviceRequest(request.DeviceRequest)
	if err != nil {
		return nil, fmt.Errorf("wallettest: deviceRequest: %w", err)
	}
	if _, err := asked.verifyReader(s); err != nil {
		return nil, fmt.Errorf("wallettest: readerAuth: %w", err)
	}
	if asked.proofRequired && w.Prove == nil {
		return nil, errors.New("wallettest: the request requires a zero-knowledge proof")
	}
	to, err := readEncryptionInfo(request.EncryptionInfo)
	if err != nil {
		return nil, fmt.Errorf("wallettest: encryptionInfo: %w", err)
	}
	response, transcript, err := w.respond(s, asked.docType, asked.namespace, asked.elements, asked.circuits,
		changes)
	if err != nil {
		return nil, err
	}
	sealed, err := SealHPKE(response, to, transcript)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"response": encode(sealed)})
}

// Reader returns the certificate whose key has signed a request by org-iso-mdoc for pages of an origin. It is
// nil if the request is not signed.
func (w *Wallet) Reader(origin string, data []byte) (*x509.Certificate, error) {
	var request struct{ DeviceRequest, EncryptionInfo string }
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, fmt.Errorf("wallettest: the request: %w", err)
	}
	asked, err := readDeviceRequest(request.DeviceRequest)
	if err != nil {
		return nil, fmt.Errorf("wallettest: deviceRequest: %w", err)
	}
	return asked.verifyReader(Session{Handover: AnnexC, Origin: origin,
		EncryptionInfo: request.EncryptionInfo})
}

var errRequest = errors.New("it does not conform to ISO/IEC 18013-7, Annex C")

// deviceRequest is a request for elements of one namespace of one document.
type deviceRequest struct {
	docType, namespace string
	elements           []string
	circuits           []Circuit // for a proof
	proofRequired      bool
	items              cbor.Item // ItemsRequestBytes
	reader             cbor.Item // readerAuth
}

// readDeviceRequest reads one.
func readDeviceRequest(text string) (d deviceRequest, err error) {
	request, err := readBase64(text)
	if err != nil {
		return d, err
	}
	version, _ := request.Member("version").Text()
	documents, _ := request.Member("docRequests").List()
	if version != "1.0" || len(documents) != 1 {
		return d, errRequest
	}
	d.items, d.reader = documents[0].Member("itemsRequest"), documents[0].Member("readerAuth")
	_, content, _ := d.items.Tag()
	inner, _ := content.Bytes()
	items, err := cbor.Read(inner, cbor.Options{})
	if err != nil {
		return d, err
	}
	var okType bool
	d.docType, okType = items.Member("docType").Text()
	namespaces, _ := items.Member("nameSpaces").Pairs()
	if !okType || len(namespaces) != 1 {
		return d, errRequest
	}
	d.namespace, _ = namespaces[0].Key.Text()
	asked, _ := namespaces[0].Value.Pairs()
	for _, e := range asked {
		name, ok := e.Key.Text()
		if _, isBool := e.Value.Bool(); !ok || !isBool {
			return d, errRequest
		}
		d.elements = append(d.elements, name)
	}
	d.circuits, d.proofRequired = zkOffered(items)
	return d, nil
}

// verifyReader verifies the signature of the reader (ISO/IEC 18013-5, 9.1.4), if there is one.
func (d deviceRequest) verifyReader(s Session) (*x509.Certificate, error) {
	if !d.reader.Present() {
		return nil, nil
	}
	parts, _ := d.reader.List()
	if len(parts) != 4 || !parts[2].Null() {
		return nil, errors.New("it is no COSE_Sign1 with a detached payload")
	}
	protected, _ := parts[0].Bytes()
	header, err := cbor.Read(protected, cbor.Options{})
	if err != nil {
		return nil, err
	}
	if number, _ := header.Label(headerAlgorithm).Integer(); number != -7 {
		return nil, fmt.Errorf("the algorithm is %d, want -7", number)
	}
	chain := parts[1].Label(headerChain)
	if list, ok := chain.List(); ok && len(list) > 1 {
		chain = list[0]
	}
	der, _ := chain.Bytes()
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	key, ok := leaf.PublicKey.(*ecdsa.PublicKey)
	signature, _ := parts[3].Bytes()
	if !ok || len(signature) != 64 {
		return nil, errors.New("it is not signed by ES256")
	}
	session, err := cbor.Read(s.Transcript(), cbor.Options{})
	if err != nil {
		return nil, err
	}
	authentication := embed(cbor.Array(cbor.Text("ReaderAuthentication"), session, d.items))
	hash := sha256.Sum256(cbor.Array(cbor.Text("Signature1"), cbor.Bytes(protected), cbor.Bytes(nil),
		cbor.Bytes(authentication.Raw())).Raw())
	if !ecdsa.Verify(key, hash[:], new(big.Int).SetBytes(signature[:32]),
		new(big.Int).SetBytes(signature[32:])) {
		return nil, errors.New("the signature is not the certificate's")
	}
	return leaf, nil
}

// readEncryptionInfo returns the key that encrypts the response.
func readEncryptionInfo(text string) (*ecdh.PublicKey, error) {
	info, err := readBase64(text)
	if err != nil {
		return nil, err
	}
	parts, _ := info.List()
	if len(parts) != 2 {
		return nil, errRequest
	}
	name, _ := parts[0].Text()
	nonce, _ := parts[1].Member("nonce").Bytes()
	key := parts[1].Member("recipientPublicKey")
	kind, _ := key.Label(1).Integer()
	curve, _ := key.Label(-1).Integer()
	x, _ := key.Label(-2).Bytes()
	y, _ := key.Label(-3).Bytes()
	if name != AnnexC || len(nonce) < 16 || kind != 2 || curve != 1 {
		return nil, errRequest
	}
	return ecdh.P256().NewPublicKey(slices.Concat([]byte{4}, x, y))
}

func readBase64(text string) (cbor.Item, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return cbor.Item{}, err
	}
	return cbor.Read(b, cbor.Options{Any: true})
}
