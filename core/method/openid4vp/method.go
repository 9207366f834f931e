// Package openid4vp is the kind of method that has a wallet prove an age (contract 39): with OpenID4VP 1.0
// and mobile documents (ISO/IEC 18013-5) or SD-JWT VCs, and with the Digital Credentials API of browsers.
// Packages mdoc and sdjwt verify the documents.
//
// # The walk
//
//  1. The user begins. Act draws a pending request: nonces, and keys for responses. The core opens a pending
//     response.
//  2. The page has the request as a link that opens a wallet on this device, as a code for a wallet on
//     another device, and for the browser's own dialog where it has one: once for each protocol that the
//     browser may choose. All of these have their own nonces and keys. Act has signed those that are
//     signed.
//  3. A wallet posts its response to the response_uri (Receive), or the browser posts it with a form (Act).
//  4. The browser that waits collects the response, and Act decides.
//
// The response_uri is in the request, and the wallet signs it, or a nonce that only this address has. Answers
// for the same device and for another one go to two addresses, so neither counts at the other.
//
// # Decisions
//
//   - The element of the age is true: approved. It is false: rejected.
//   - The element of a higher age is true: approved. It is false: a failed attempt, because the age is still
//     open. A false for a lower age rejects, and a true is a failed attempt.
//   - A date of birth is compared with the date of the check. Neither the date nor the exact age is kept.
//   - The document has none of the elements, or they cannot be read: a failed attempt.
//   - The document or its signer was revoked: a failed attempt. See package revocation, and the setting.
//   - The user rejects in the wallet: cancelled.
//   - The wallet reports that it cannot respond: there is no verdict, and the user may try again.
//   - The document has expired, is of another type, or leads to no trust anchor, and the wallet has signed
//     this session with it: a failed attempt, and the page names the reason.
//   - Any other response that does not verify is rejected, and the wallet may send another. From the browser
//     it is a failed attempt.
//
// The request is for one document in one of the formats, and for one element: the element of the age, or else
// another element of the profile. The first element in the document decides.
//
// # Settings
//
//	profile           which documents: eu-av, mdl, pid or swiyu (profiles.json)
//	formats           of documents: mso_mdoc, dc+sd-jwt (default: the profile's, which are both for pid)
//	trust_anchors     PEM files with the root certificates of those who issue the documents. There is no
//	                  default
//	trust_lists       trusted lists of such certificates, instead of trust_anchors or in addition
//	issuer_keys       files with the keys of issuers of SD-JWTs that have a DID (JWK Sets)
//	vct_values        the types of SD-JWTs that count, for the profile swiyu
//	scheme            the link's beginning: a scheme, or the https address of a wallet (default: the
//	                  profile's)
//	request           value: the request is in the link. signed: the wallet fetches it, signed (default: the
//	                  profile's)
//	encrypted         responses are encrypted: direct_post.jwt and dc_api.jwt (default: the profile's)
//	browser           the protocols by which the browser is asked, too, by the Digital Credentials API:
//	                  org-iso-mdoc, openid4vp-v1-unsigned, openid4vp-v1-signed. true is the profile's list,
//	                  and false is none (default: the profile's)
//	cross_device      wallets on other devices may respond (default: true)
//	revocation        whether documents are looked up in the lists of revoked documents: if_present
//	                  (default), required or off
//	zero_knowledge    whether a zero-knowledge proof counts instead of a document: off (default), accept or
//	                  require
//	circuits          those of proofs: the hash of each, and its url or file
//	private_key_file, certificate_file
//	                  of signed requests: a P-256 key, and the certificates from the key's to one that a
//	                  root has issued
//	client_id_prefix  of signed requests: x509_san_dns, x509_hash or decentralized_identifier (default: the
//	                  profile's)
//	key_id            with decentralized_identifier: the DID URL of the key, instead of certificate_file
//	reader_key_file, reader_certificate_file
//	                  of requests by org-iso-mdoc, which are signed then (readerAuth)
//	verifier_info_file
//	                  attestations of the service by others, in JSON. Requests carry it, except in a link
//	client_metadata_file
//	                  more fields of client_metadata, in JSON. Requests carry them, except in a link
//
// # Limits
//
// Issuers of SD-JWTs are known by certificates or by a DID, and not by the metadata at an address. DIDs are
// not resolved here: the operator configures their keys. Request objects are not encrypted, and
// openid4vp-v1-multisigned is not offered. Identifier lists (ISO/IEC 18013-5, second edition) are not read,
// and lists are not fetched by http.
package openid4vp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// Kind describes it.
var Kind = method.Kind{
	Name:  "openid4vp",
	Level: "L2",
	Keys:  []string{keyName, readerKeyName},
	Files: []string{anchorsName, listsName + ".signers", issuerKeysName, certificateName,
		readerCertificateName, verifierInfoName, metadataName},
	URLs: []string{listsName + ".url", circuitsName + ".url"},
	Check: func(c method.Config) problem.List {
		_, wrong := parse(c)
		return wrong
	},
	Lists:    listsIn,
	Circuits: circuitsIn,
	IsAnchor: isAnchor,
	Oldest:   func(c method.Config) int { return profileIn(c).oldest() },
	Signs: func(method.Config) map[string]string {
		return map[string]string{keyName: algorithm, readerKeyName: algorithm}
	},
	CheckKeys: checkKeys,
	Open: func(c method.Config, h method.Host) (method.Method, error) {
		s, wrong := parse(c)
		if err := wrong.Err(); err != nil {
			return nil, err
		}
		if (s.signer.exists() || s.reader.exists()) && h.Sign == nil {
			return nil, errors.New("openid4vp: requests are signed, and the host has no keys")
		}
		if s.zeroKnowledge != off && h.VerifyProof == nil {
			return nil, errors.New(
				`openid4vp: zero_knowledge: this engine verifies no proofs; set it to "off", or ` +
					"use a native server with `verge serve`",
			)
		}
		return &openID{name: c.Name, settings: s, host: h, lists: newLists()}, nil
	},
}

type openID struct {
	name     string
	settings settings
	host     method.Host
	issued   mdoc.Issued
	lists    *lists      // of revoked documents and certificates
	trusted  parsedLists // of issuers
}

var _ method.Requester = (*openID)(nil)

// Begin implements method.Method. It returns the errors for which every wallet would reject the request. A
// request to the browser whose certificate is not valid is left out instead, because wallets have other ways.
func (o *openID) Begin(ctx context.Context, s method.Session) error {
	if err := o.hasAnchors(ctx); err != nil {
		return err
	}
	if !o.settings.signer.exists() {
		return nil
	}
	if _, err := o.certified(s.ReturnURL); err != nil || !o.settings.byReference {
		return err
	}
	return o.settings.signer.expired(o.host.Now())
}

// expired returns an error if the certificate of signed requests is not valid at a time.
func (s signer) expired(now time.Time) error {
	if len(s.chain) == 0 {
		return nil
	}
	leaf := s.chain[0]
	if now.Before(leaf.NotBefore) || now.After(leaf.NotAfter) {
		return &method.SettingError{Reason: "certificate_validity", Setting: certificateName + "_file",
			Err: fmt.Errorf("openid4vp: the certificate that signs requests is valid from %s to %s only; "+
				"get another one", leaf.NotBefore.UTC().Format(time.DateOnly),
				leaf.NotAfter.UTC().Format(time.DateOnly))}
	}
	return nil
}

// Outcomes of the page's forms.
const (
	begin  = "begin"
	cancel = "cancel"
)

// Show implements method.Method.
func (o *openID) Show(s method.Session, state []byte) method.View {
	v := method.View{Choices: []string{begin}, Here: !o.settings.crossDevice}
	if s.ResponseURI == "" {
		return v
	}
	v.Choices = []string{cancel}
	q, err := o.readPendingRequest(state, s.MinimumAge)
	if err != nil {
		v.Outdated = true
		return v
	}
	if v.Open = o.link(s, q, true); !v.Here {
		v.Code = o.link(s, q, false)
	}
	v.Credentials = o.credentials(s, q)
	return v
}

// Act implements method.Method.
func (o *openID) Act(ctx context.Context, s method.Session, step method.Step) (method.Decision, error) {
	if step.Response != nil {
		if !step.Back && !o.settings.crossDevice { // it was kept before the setting changed
			return method.Decision{}, outdated("cross_device")
		}
		asked := s.MinimumAge
		if q, err := o.readPendingRequest(step.State, 0); err == nil {
			asked = q.age
		}
		return o.decide(asked, string(step.Response))
	}
	if step.Form.Has(method.CredentialField) {
		if len(step.State) == 0 { // the page has no such form before a pending request is drawn
			return method.Decision{}, method.ErrStep
		}
		q, err := o.readPendingRequest(step.State, s.MinimumAge)
		if err != nil {
			return method.Decision{}, err
		}
		return o.fromBrowser(ctx, s, q, step.Form.Get(method.CredentialField))
	}
	switch step.Form.Get("outcome") {
	case begin:
		q, err := o.newPendingRequest(o.host.Random, s.MinimumAge)
		if err == nil {
			err = o.signForBrowser(ctx, s, &q)
		}
		if err != nil {
			return method.Decision{}, err
		}
		return method.Decision{Verdict: method.Pending, State: q.bytes(), Await: true}, nil
	case cancel:
		return method.Decision{Verdict: method.Cancelled}, nil
	}
	return method.Decision{}, method.ErrStep
}
