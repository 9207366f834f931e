package openid4vp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
)

// Protocols of the Digital Credentials API.
const (
	isoProtocol      = "org-iso-mdoc"          // ISO/IEC 18013-7, annex C
	unsignedProtocol = "openid4vp-v1-unsigned" // OpenID4VP 1.0, appendix A
	signedProtocol   = "openid4vp-v1-signed"
)

var protocols = []string{isoProtocol, unsignedProtocol, signedProtocol}

// signForBrowser signs the requests of the page that waits, when its pending request is drawn. The page is
// shown often while it waits, and shows the signatures that the pending request has.
func (o *openID) signForBrowser(ctx context.Context, s method.Session, q *pendingRequest) error {
	for _, protocol := range o.protocols() {
		key, message, err := o.signedBy(s, *q, protocol)
		if err == nil && key != "" {
			err = q.sign(ctx, o.host, key, message)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// protocols returns the protocols of the requests that the browser receives now. Protocols whose certificate
// is not valid are left out.
func (o *openID) protocols() (names []string) {
	now := o.host.Now()
	for _, name := range o.settings.browser {
		var by signer
		switch name {
		case signedProtocol:
			by = o.settings.signer
		case isoProtocol:
			by = o.settings.reader
		}
		if by.expired(now) == nil {
			names = append(names, name)
		}
	}
	return names
}

// signedBy returns the signed part of a request by a protocol, and the key. The key is "" if the request is
// not signed.
func (o *openID) signedBy(s method.Session, q pendingRequest, protocol string) (key string, message []byte,
	err error) {
	switch {
	case protocol == signedProtocol:
		message, err = o.requestToBrowser(s, q)
		return o.settings.signer.key, message, err
	case protocol == isoProtocol && o.settings.reader.exists():
		from, err := origin(s)
		if err != nil {
			return "", nil, err
		}
		transcript := mdoc.DCAPITranscript(q.encryptionInfo(), from)
		return o.settings.reader.key, mdoc.ReaderAuthentication(o.items(q), transcript), nil
	}
	return "", nil, nil
}

// credentials returns the requests to the browser, one for each protocol. The browser chooses. A request
// whose signature no longer fits, because a setting has changed since, is left out.
func (o *openID) credentials(s method.Session, q pendingRequest) (all []method.Credential) {
	for _, protocol := range o.protocols() {
		key, message, err := o.signedBy(s, q, protocol)
		if err != nil {
			continue
		}
		var signature []byte
		if key != "" {
			var ok bool
			if signature, ok = q.signatureOf(message); !ok {
				continue
			}
		}
		all = append(all, method.Credential{Protocol: protocol,
			Data: o.credential(s, q, protocol, message, signature)})
	}
	return all
}

// credential returns the data of a request by a protocol.
func (o *openID) credential(s method.Session, q pendingRequest, protocol string, message,
	signature []byte) []byte {
	switch protocol {
	case isoProtocol:
		var reader *mdoc.ReaderSignature
		if signature != nil {
			reader = &mdoc.ReaderSignature{Chain: o.settings.reader.sent(), Signature: signature}
		}
		return asJSON(map[string]string{"encryptionInfo": q.encryptionInfo(),
			"deviceRequest": encoded(mdoc.DeviceRequest(o.items(q), reader))})
	case signedProtocol:
		return asJSON(map[string]string{"request": string(compact(message, signature))})
	}
	data := map[string]any{"response_mode": o.browserMode()}
	for _, p := range o.asked(q, unsignedProtocol) {
		if data[p.name] = p.text; p.json != nil {
			data[p.name] = json.RawMessage(p.json)
		}
	}
	if o.settings.verifierInfo != nil {
		data[verifierInfoName] = json.RawMessage(o.settings.verifierInfo)
	}
	return asJSON(data)
}

// items returns the elements that org-iso-mdoc asks for. That protocol has no alternatives, so the wallet is
// asked for each element that can decide, and sends those that the document has.
func (o *openID) items(q pendingRequest) mdoc.Items {
	p := o.settings.profile
	names := o.settings.provable(p, q.age)
	return mdoc.Items{DocType: p.doctype, Namespace: p.namespace, Elements: names,
		Circuits: o.settings.offered(len(names)), ProofRequired: o.settings.zeroKnowledge == require}
}

// encryptionInfo returns the nonce and key for a wallet that responds by org-iso-mdoc.
func (q pendingRequest) encryptionInfo() string {
	return encoded(mdoc.EncryptionInfo(q.nonce(isoProtocol), q.key(isoProtocol).PublicKey()))
}

// requestToBrowser returns the signing input of a request by openid4vp-v1-signed. It names the origins that
// may send it, so a page of another site cannot send it on.
func (o *openID) requestToBrowser(s method.Session, q pendingRequest) ([]byte, error) {
	from, err := origin(s)
	if err != nil {
		return nil, err
	}
	client, err := o.certified(from)
	if err != nil {
		return nil, err
	}
	return o.toSign(append(o.asked(q, signedProtocol),
		parameter{name: "response_mode", text: o.browserMode()},
		parameter{name: "client_id", text: client},
		parameter{name: "expected_origins", json: asJSON([]string{from})})), nil
}

// browserMode returns the response mode of OpenID4VP over the Digital Credentials API.
func (o *openID) browserMode() string {
	if o.settings.encrypted {
		return "dc_api.jwt"
	}
	return "dc_api"
}

// errNoHost means that the address of the service is not known.
var errNoHost error = &method.SettingError{Reason: "no_address", Setting: "base_url",
	Err: errors.New("openid4vp: the session has no address of the service")}

// origin returns the origin of the service's pages, as browsers write it.
func origin(s method.Session) (string, error) {
	u, err := url.Parse(s.ReturnURL)
	if err != nil || u.Host == "" {
		return "", errNoHost
	}
	host := u.Host
	if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" {
		host = host[:len(host)-len(":"+port)]
	}
	return u.Scheme + "://" + host, nil
}

var errForeign = fmt.Errorf("openid4vp: a response to another request: %w, %w", method.ErrStep,
	rejected("answer_protocol"))

// fromBrowser decides by a wallet's response that comes through the browser: {"protocol", "data"}. A response
// that does not verify fails the attempt, since the user's own browser has sent it. method.ErrStep with a
// *method.Rejection means that the response is for another request than the page's.
func (o *openID) fromBrowser(
	ctx context.Context, s method.Session, q pendingRequest, text string,
) (method.Decision, error) {
	response, err := strictjson.ReadForeign([]byte(text))
	if err != nil {
		return method.Decision{}, errForeign
	}
	protocol, _ := response.Value("protocol").Text()
	if !slices.Contains(o.settings.browser, protocol) {
		return method.Decision{}, errForeign
	}
	from, err := origin(s)
	if err != nil {
		return method.Decision{}, err
	}
	data, _ := response.Value("data").Object()
	open := o.readVPToken
	if protocol == isoProtocol {
		open = o.readISO
	}
	kept, err := open(ctx, s, q, protocol, data, from)
	if rejection, ok := errors.AsType[*method.Rejection](err); ok {
		return method.Decision{Verdict: method.AttemptFailed, Reason: method.Unproven,
			Rejection: rejection}, nil
	}
	if err != nil {
		return method.Decision{}, err
	}
	return o.decide(q.age, kept)
}

// readISO decrypts a response by org-iso-mdoc and verifies its content. It returns the kept form.
func (o *openID) readISO(
	ctx context.Context, s method.Session, q pendingRequest, _ string, data strictjson.Object, from string,
) (string, error) {
	text, _ := data.Value("response").Text()
	encrypted, ok := decoded(text)
	if !ok {
		return "", rejected("response_encoding")
	}
	transcript := mdoc.DCAPITranscript(q.encryptionInfo(), from)
	response, err := mdoc.OpenHPKE(encrypted, q.key(isoProtocol), transcript)
	if err != nil {
		return "", rejectedBy(err)
	}
	format, err := o.formatOf(response)
	if err != nil {
		return "", err
	}
	return o.verify(ctx, presentation{format, response}, s.MinimumAge, q.age, signed{transcript: transcript})
}

// readVPToken reads a response by OpenID4VP, and verifies its content. It returns the kept form.
func (o *openID) readVPToken(
	ctx context.Context, s method.Session, q pendingRequest, protocol string, data strictjson.Object,
	from string,
) (string, error) {
	var a posted
	var err error
	var thumbprint []byte
	switch {
	case !o.settings.encrypted || data.Value("error").Present(): // no error has documents
		a, err = contentOf(data)
	default:
		key := q.key(protocol)
		thumbprint = mdoc.Thumbprint(key.PublicKey())
		text, _ := data.Value("response").Text()
		a, err = o.decrypted(text, data.Value("response").Present(), key)
	}
	if err != nil {
		return "", err
	}
	if a.failure != "" {
		return a.failure, nil
	}
	document, err := o.presented(a.token)
	if err != nil {
		return "", err
	}
	nonce := encoded(q.nonce(protocol))
	return o.verify(ctx, document, s.MinimumAge, q.age,
		signed{mdoc.OpenID4VPDCAPITranscript(from, nonce, thumbprint), "origin:" + from, nonce})
}
