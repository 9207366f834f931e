package openid4vp

import (
	"context"
	"crypto/ecdh"
	"crypto/subtle"
	"errors"
	"net/url"
	"slices"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/formdata"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/sdjwt"
	"github.com/verge-id/verge/core/internal/steperror"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
)

// walletErrors are the errors of wallets (OpenID4VP 1.0, 8.5). The user has chosen access_denied, and every
// other one means that the wallet cannot respond.
var walletErrors = []string{"access_denied", "invalid_request", "invalid_scope", "invalid_client",
	"unauthorized_client", "unsupported_response_type", "server_error", "temporarily_unavailable",
	"vp_formats_not_supported", "invalid_request_uri_method", "invalid_transaction_data",
	"wallet_unavailable"}

// formType is the media type of wallets' responses.
const formType = "application/x-www-form-urlencoded"

// responseParams are the parameters of responses. Each response has at least one of them.
var responseParams = []string{"error", "vp_token", "response"}

// Receive implements method.ResponseReceiver: it reads the response of a wallet. It accepts a proof, a
// rejection by its user, and an error, each with the state of this request. It also accepts a document that
// is at fault, if the wallet has signed this session with it: the page shows the reason. After anything else,
// the response is still pending.
func (o *openID) Receive(ctx context.Context, s method.Session, state []byte, c method.Call) ([]byte, error) {
	if web.MediaType(c.ContentType) != formType {
		return nil, steperror.ErrMediaType
	}
	if !c.Same && !o.settings.crossDevice {
		return nil, rejected(acrossDevices)
	}
	q, err := o.readPendingRequest(state, s.MinimumAge)
	if err != nil {
		return nil, err
	}
	form, err := formdata.ReadOAuth(string(c.Body), append([]string{"state"}, responseParams...)...)
	if err != nil {
		return nil, rejected("answer_form")
	}
	channel := linkTo(c.Same)
	var key *ecdh.PrivateKey
	if o.settings.encrypted && !form.Has("error") {
		key = q.key(channel)
	}
	a, err := o.read(form, key)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(a.state), []byte(q.state())) != 1 {
		return nil, rejected("answer_state")
	}
	if a.failure != "" {
		return []byte(a.failure), nil
	}
	document, err := o.presented(a.token)
	if err != nil {
		return nil, err
	}
	client, err := o.client(c.Address)
	if err != nil {
		return nil, err
	}
	var thumbprint []byte
	if key != nil {
		thumbprint = mdoc.Thumbprint(key.PublicKey())
	}
	nonce := encoded(q.nonce(channel))
	kept, err := o.verify(ctx, document, s.MinimumAge, q.age,
		signed{mdoc.OpenID4VPTranscript(client, nonce, thumbprint, c.Address), client, nonce})
	if err != nil {
		return nil, err
	}
	return []byte(kept), nil
}

// acrossDevices is the reason for responses from another device if the setting excludes them.
const acrossDevices = "cross_device"

// rejected returns an error about a response. The reason is for logs and metrics.
func rejected(reason string) error { return &method.Rejection{Reason: reason} }

// rejectedBy returns the rejection for an error of package mdoc.
func rejectedBy(err error) *method.Rejection {
	if rejection, ok := errors.AsType[*mdoc.Rejection](err); ok {
		return &method.Rejection{Reason: rejection.Reason}
	}
	return &method.Rejection{Reason: "unverified"}
}

// posted is an unverified response. It has either a token or the stored name of an error.
type posted struct {
	state   string
	token   strictjson.Object
	failure string
}

// read parses a response: the form, or its encrypted content. An unencrypted response is rejected if an
// encrypted one was requested. An error may be unencrypted, since a wallet may not be able to encrypt.
//
// key decrypts encrypted responses.
func (o *openID) read(form url.Values, key *ecdh.PrivateKey) (a posted, err error) {
	a.state = form.Get("state")
	if form.Has("error") {
		a.failure, err = failureOf(form.Get("error"))
		return a, err
	}
	if !o.settings.encrypted {
		if a.token, err = strictjson.ReadForeign([]byte(form.Get("vp_token"))); err != nil {
			return a, rejected("vp_token")
		}
		return a, nil
	}
	return o.decrypted(form.Get("response"), form.Has("response"), key)
}

// decrypted reads an encrypted response. It is missing if present is false. Only a method that accepts
// proofs, which are large, accepts compressed responses.
func (o *openID) decrypted(text string, present bool, key *ecdh.PrivateKey) (a posted, err error) {
	if !present {
		return a, rejected("not_encrypted")
	}
	payload, err := mdoc.OpenJWE(text, key, keyID, o.settings.zeroKnowledge != off)
	if err != nil {
		return a, rejectedBy(err)
	}
	inside, err := strictjson.ReadForeign(payload)
	if err != nil {
		return a, rejected("jwe_payload")
	}
	return contentOf(inside)
}

// contentOf reads a response that is a JSON object.
func contentOf(o strictjson.Object) (a posted, err error) {
	a.state, _ = o.Value("state").Text()
	if o.Value("error").Present() {
		name, _ := o.Value("error").Text()
		a.failure, err = failureOf(name)
		return a, err
	}
	var ok bool
	if a.token, ok = o.Value("vp_token").Object(); ok {
		return a, nil
	}
	// The Swiss wallet writes the JSON of the object as a text.
	text, _ := o.Value("vp_token").Text()
	if a.token, err = strictjson.ReadForeign([]byte(text)); err != nil {
		return a, rejected("vp_token")
	}
	return a, nil
}

// failureOf returns the stored name of a wallet's error. All unknown errors have one name.
func failureOf(name string) (string, error) {
	if name == "access_denied" {
		return cancelledKept, nil
	}
	if slices.Contains(walletErrors, name) {
		return errorKept + name, nil
	}
	return errorKept + "unknown", nil
}

// presentation is a document as a wallet has sent it: a DeviceResponse, or an SD-JWT with key binding.
type presentation struct {
	format string
	bytes  []byte
}

// presented returns the one presentation of a vp_token.
func (o *openID) presented(token strictjson.Object) (d presentation, err error) {
	p, names := o.settings.profile, token.Names()
	if len(names) != 1 {
		return d, rejected("vp_token_credential")
	}
	at := slices.IndexFunc(o.settings.formats, func(f string) bool { return p.credentialIn(f) == names[0] })
	if at < 0 {
		return d, rejected("vp_token_credential")
	}
	d.format = o.settings.formats[at]
	list, ok := token.Value(names[0]).List()
	if !ok || len(list) != 1 {
		return d, rejected("vp_token_presentations")
	}
	text, ok := list[0].Text()
	if !ok {
		return d, rejected("vp_token_presentations")
	}
	if d.format == sdJWTFormat {
		d.bytes = []byte(text)
		return d, nil
	}
	if d.bytes, ok = decoded(text); !ok {
		return d, rejected("vp_token_encoding")
	}
	return d, nil
}

// signed contains the values that a wallet signs for one request: a transcript with the key of a mobile
// document, an audience and a nonce with the key of an SD-JWT.
type signed struct {
	transcript      []byte
	audience, nonce string
}

// verify returns the kept form of a document. The error is a *method.Rejection, or the host's, which could
// not check a signature, or a *host.FetchError for a list that is not available, or the store's: then
// nothing is known. A fault of a document that this session's wallet has sent is no error: it is kept.
// asked is the age of the request, which is at least the minimum age.
func (o *openID) verify(
	ctx context.Context, document presentation, minimumAge, asked int, by signed,
) (text string, err error) {
	p, now := o.settings.profile, o.host.Now()
	anchors, err := o.anchors(ctx)
	if err == nil && len(anchors)+len(o.settings.keys) == 0 {
		// The grace of the last list has ended while the user was waiting.
		err = &host.FetchError{Reason: host.FetchUnavailable, Err: errNoAnchor}
	}
	if err != nil {
		return "", err
	}
	ask := mdoc.Ask{DocType: p.doctype, Namespace: p.namespace, Elements: p.names(asked), EKU: p.signers,
		Anchors: anchors, Keys: o.settings.keys, Transcript: by.transcript, Now: now,
		Verify: o.host.Verify, Issued: &o.issued}
	elements := p.elements(document.format, asked)
	types := o.settings.types
	if p.sdJWT.prefix != "" {
		types = []string{p.sdJWT.prefix}
	}
	proof, values, circuit, err := o.verifyDocument(ctx, document, ask, types, elements, by)
	var rejection *mdoc.Rejection
	switch {
	case errors.As(err, &rejection) && rejection.Document != "":
		return faultKept + string(rejection.Document) + ":" + rejection.Reason, nil
	case rejection != nil:
		return "", rejectedBy(err)
	case err != nil:
		return "", err
	}
	revoked, err := o.revoked(ctx, ask, proof)
	var missing *method.Rejection
	switch {
	case errors.As(err, &missing):
		return faultKept + string(noStatus) + ":" + missing.Reason, nil
	case err != nil:
		return "", err
	}
	k := judge(elements, values, minimumAge, now)
	k.anchor = trustOf(proof, circuit)
	if revoked != "" {
		k.result, k.age = revoked, 0
	}
	return k.String(), nil
}

// verifyDocument returns the proof of a document, the values of its elements, and the circuit if it is a
// zero-knowledge proof. The error is a *mdoc.Rejection, or the host's.
func (o *openID) verifyDocument(ctx context.Context, document presentation, ask mdoc.Ask, types []string,
	elements []element, by signed) (proof mdoc.Proof, values []value, circuit string, err error) {
	if document.format == sdJWTFormat {
		wanted := sdjwt.Ask{Types: types, Audience: by.audience, Nonce: by.nonce, Issuers: ask,
			TextBools: ask.DocType == ""} // Swiss issuers write them so
		for _, e := range elements {
			wanted.Claims = append(wanted.Claims, e.path)
		}
		p, err := sdjwt.Verify(ctx, string(document.bytes), wanted)
		for _, v := range p.Claims {
			values = append(values, claimOf{v})
		}
		return p.Issuer, values, "", err
	}
	if document.format == zkFormat {
		proof, circuit, err = o.verifyProof(ctx, document.bytes, ask)
	} else {
		proof, err = mdoc.Verify(ctx, document.bytes, ask)
	}
	for _, e := range elements {
		values = append(values, proof.Elements[e.name])
	}
	return proof, values, circuit, err
}
