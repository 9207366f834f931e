package openid4vp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/pemfile"
	"github.com/verge-id/verge/core/problem"
)

// settings is a method's configuration, read and checked.
type settings struct {
	profile profile
	anchors []mdoc.Anchor
	lists   []method.TrustList
	keys    []mdoc.IssuerKey // of issuers' DIDs
	types   []string         // of requested SD-JWTs
	formats []string         // of documents, in the order of requests
	scheme  string           // the beginning of a link, up to the question mark

	encrypted   bool     // direct_post.jwt and dc_api.jwt
	browser     []string // protocols of requests to the Digital Credentials API; empty: no requests
	crossDevice bool     // wallets on other devices may respond

	proofs

	revocation string // ifPresent, required or off
	dev        bool

	byReference bool   // wallets fetch the request, which is signed. Else it is in the link
	signer      signer // of requests by OpenID4VP. Zero: none is signed
	hash        bool   // the client is named by the certificate's hash, and by its host else
	reader      signer // of requests by org-iso-mdoc. Zero: they are not signed

	// These are sent in requests by OpenID4VP, except those in a link, which has no room for them.
	verifierInfo []byte                     // JSON; nil: none
	metadata     map[string]json.RawMessage // more fields of client_metadata
}

// signer is a key of the host, with the certificates that prove whose key it is, or its id. Without a name
// it is none.
type signer struct {
	key   string // for Host.Sign
	chain []*x509.Certificate
	id    string // a DID URL; "": there are certificates
}

func (s signer) exists() bool { return s.key != "" }

// sent returns the certificates that go to wallets, in DER: the key's own, and those above it. Wallets have
// the trust anchor already, and HAIP 1.0 forbids to send it, so a certificate at the end that has issued
// itself stays here.
func (s signer) sent() (ders [][]byte) {
	for n, c := range s.chain {
		if n == 0 || !isSelfIssued(c) {
			ders = append(ders, c.Raw)
		}
	}
	return ders
}

func isSelfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, c.RawIssuer) }

// Names and values of settings.
const (
	profileName           = "profile"
	formatsName           = "formats"
	keyName               = "private_key"
	readerKeyName         = "reader_key"
	anchorsName           = "trust_anchors"
	listsName             = "trust_lists"
	issuerKeysName        = "issuer_keys"
	typesName             = "vct_values"
	keyIDName             = "key_id"
	certificateName       = "certificate"
	readerCertificateName = "reader_certificate"
	browserName           = "browser"
	verifierInfoName      = "verifier_info"
	metadataName          = "client_metadata"
	prefixName            = "client_id_prefix"

	byValue       = "value"
	signedRequest = "signed"

	revocationName = "revocation"
	ifPresent      = "if_present"
	required       = "required"
	off            = "off"

	byHost = "x509_san_dns"
	byHash = "x509_hash"
	byDID  = "decentralized_identifier"
)

// known are the members of the settings.
var known = []string{profileName, formatsName, anchorsName, listsName, issuerKeysName, typesName, "scheme",
	"request", "encrypted", browserName, "cross_device", prefixName, keyIDName, certificateName,
	readerCertificateName, verifierInfoName, metadataName, revocationName, zeroKnowledgeName, circuitsName}

// algorithm is the one by which requests are signed.
const algorithm = "ES256"

// Limits of settings. Common values are far below.
const (
	maxAnchors = 64
	maxTypes   = 16
	maxType    = 256
	maxChain   = 4
	maxLink    = 256

	maxRequestFile  = 16 << 10 // bytes of a file that is a part of each request
	maxAttestations = 16       // in verifier_info
)

// parse reads a method's settings and reports all errors.
func parse(c method.Config) (s settings, wrong problem.List) {
	o, err := strictjson.ReadOptional(c.Settings)
	if err != nil {
		wrong.AddError("settings", err)
		return s, wrong
	}
	r := reader{"", o, &wrong}
	for _, name := range o.Names() {
		if !slices.Contains(known, name) {
			wrong.Add(name, "it is not known here; use only: %s, %s_file and %s_file",
				strings.Join(known, ", "), keyName, readerKeyName)
		}
	}
	name := r.text(profileName)
	var ok bool
	if s.profile, ok = profileOf(name); !ok {
		wrong.Add(profileName, "%q is not known; use one of: %s", name, strings.Join(profileNames(), ", "))
		return s, wrong
	}
	s.readFormats(r)
	s.readProofs(r, c.Dev)
	s.readTypes(r)
	s.readIssuerKeys(r)
	s.readLists(r, c.Dev)
	s.readAnchors(r)
	s.readScheme(r, c.Dev)
	s.encrypted = r.flag("encrypted", s.profile.encrypted)
	s.crossDevice = r.flag("cross_device", true)
	s.revocation, s.dev = r.oneOf(revocationName, ifPresent, ifPresent, required, off), c.Dev
	s.checkRevocation(r)
	request := byValue
	if s.profile.signed {
		request = signedRequest
	}
	s.byReference = r.oneOf("request", request, byValue, signedRequest) == signedRequest
	s.readBrowser(r, slices.Contains(c.Keys, keyName))
	s.readSigning(r, c)
	s.readReader(r, c)
	s.readVerifierInfo(r)
	s.readMetadata(r)
	return s, wrong
}

// profileIn returns the profile of settings that are good.
func profileIn(c method.Config) profile {
	o, _ := strictjson.Read(c.Settings)
	name, _ := o.Value(profileName).Text()
	p, _ := profileOf(name)
	return p
}

// reader reads the fields of an object of the settings and collects the errors in them.
type reader struct {
	prefix string // of the fields' names in errors
	o      strictjson.Object
	wrong  *problem.List
}

func (r reader) add(name, format string, args ...any) { r.wrong.Add(r.prefix+name, format, args...) }

func (r reader) text(name string) string {
	v := r.o.Value(name)
	s, ok := v.Text()
	if v.Present() && !ok {
		r.add(name, "it must be a text")
	}
	return s
}

func (r reader) flag(name string, otherwise bool) bool {
	v := r.o.Value(name)
	if !v.Present() {
		return otherwise
	}
	b, ok := v.Bool()
	if !ok {
		r.wrong.Add(name, "it must be true or false")
	}
	return b
}

func (r reader) oneOf(name, otherwise string, all ...string) string {
	if !r.o.Value(name).Present() {
		return otherwise
	}
	s := r.text(name)
	if !slices.Contains(all, s) {
		r.wrong.Add(name, "%q is not known; use one of: %s", s, strings.Join(all, ", "))
	}
	return s
}

// readAnchors reads the trust anchors. Without a trust anchor the method would accept no document, or worse,
// all documents, so an empty list is an error.
func (s *settings) readAnchors(r reader) {
	list, ok := r.o.Value(anchorsName).List()
	if r.o.Value(anchorsName).Present() && !ok {
		r.wrong.Add(anchorsName, `it must be a list of PEM files, such as ["issuers.pem"]`)
		return
	}
	for _, v := range list {
		text, ok := v.Text()
		if !ok {
			r.wrong.Add(anchorsName, `it must be a list of PEM files, such as ["issuers.pem"]`)
			return
		}
		anchors, err := mdoc.ParseAnchors([]byte(text))
		if err != nil {
			r.wrong.Add(anchorsName, "%v", err)
			return
		}
		s.anchors = append(s.anchors, anchors...)
	}
	switch {
	case s.profile.doctype == "":
		if r.o.Value(anchorsName).Present() || r.o.Value(listsName).Present() {
			r.wrong.Add(anchorsName, "issuers of this profile are known by DIDs and not by certificates; "+
				"leave out %s and %s, and use %s", anchorsName, listsName, issuerKeysName)
		}
	case len(s.anchors) == 0 && len(s.keys) == 0 && !r.o.Value(listsName).Present():
		r.wrong.Add(anchorsName, "there is no trust anchor, so no document could be believed; name "+
			"the PEM files of the issuers' root certificates, %s = [\"issuers.pem\"], or a trusted list of "+
			"them in %s", anchorsName, listsName)
	case len(s.anchors) > maxAnchors:
		r.wrong.Add(anchorsName, "there are %d certificates; at most %d are allowed", len(s.anchors),
			maxAnchors)
	}
}

// readIssuerKeys reads the keys of issuers that have a DID.
func (s *settings) readIssuerKeys(r reader) {
	const how = `it must be a list of files with JWK Sets, such as ["issuers.json"]`
	v := r.o.Value(issuerKeysName)
	list, ok := v.List()
	switch {
	case !v.Present() && s.profile.doctype == "":
		r.wrong.Add(issuerKeysName, "there is no key of an issuer, so no document could be believed; %s", how)
		return
	case !v.Present():
		return
	case !ok || len(list) == 0:
		r.wrong.Add(issuerKeysName, how)
		return
	case len(s.formats) > 0 && !slices.Contains(s.formats, sdJWTFormat):
		r.wrong.Add(issuerKeysName, "only documents of the format %s are signed by keys of DIDs; add it to "+
			"%s, or leave out %s", sdJWTFormat, formatsName, issuerKeysName)
		return
	}
	seen := map[string]bool{}
	for _, v := range list {
		text, ok := v.Text()
		if !ok {
			r.wrong.Add(issuerKeysName, how)
			return
		}
		keys, err := mdoc.ParseIssuerKeys([]byte(text))
		if err != nil {
			r.wrong.Add(issuerKeysName, "%v", err)
			return
		}
		for _, k := range keys {
			if seen[k.ID] {
				r.wrong.Add(issuerKeysName, "%s occurs twice", k.ID)
				return
			}
			seen[k.ID] = true
		}
		s.keys = append(s.keys, keys...)
	}
	if len(s.keys) > maxAnchors {
		r.wrong.Add(issuerKeysName, "there are %d keys; at most %d are allowed", len(s.keys), maxAnchors)
	}
}

// readTypes reads the types of SD-JWTs, for profiles that have none of their own.
func (s *settings) readTypes(r reader) {
	s.types = s.profile.sdJWT.types
	v := r.o.Value(typesName)
	own := s.types == nil && s.profile.sdJWT.credential != ""
	if !own {
		if v.Present() {
			r.wrong.Add(typesName, "the types of documents of this profile are fixed; leave it out")
		}
		return
	}
	list, _ := v.List()
	for _, v := range list {
		text, _ := v.Text()
		if text == "" || len(text) > maxType || strings.HasSuffix(text, ":") ||
			slices.Contains(s.types, text) {
			r.wrong.Add(typesName, "%q is no type of documents, or occurs twice", text)
			return
		}
		s.types = append(s.types, text)
	}
	if len(s.types) == 0 || len(s.types) > maxTypes {
		r.wrong.Add(typesName, "it must be a list of 1 to %d types (vct) of documents that count", maxTypes)
	}
}

// readScheme reads the prefix of a link to a wallet: a scheme such as openid4vp, or the https address that a
// wallet's app has registered.
func (s *settings) readScheme(r reader, dev bool) {
	scheme := r.text("scheme")
	if scheme == "" {
		scheme = s.profile.scheme
	}
	s.scheme = scheme
	isAddress := strings.Contains(scheme, "://")
	if !isAddress {
		s.scheme += "://"
	}
	switch {
	case len(s.scheme) > maxLink || strings.ContainsAny(s.scheme, "?#") || !weburl.IsApp(s.scheme+"?a=b"):
		r.wrong.Add("scheme", "%q is no scheme; use a name such as openid4vp, or the https "+
			"address of a wallet",
			scheme)
	case isAddress && !weburl.IsLeave(s.scheme, dev):
		r.wrong.Add("scheme", "%q is no https address; use one, or the name of a scheme such as openid4vp",
			scheme)
	}
}

// readBrowser reads by which protocols the browser is asked. true is the profile's list, as far as there is a
// key for it.
func (s *settings) readBrowser(r reader, hasKey bool) {
	v := r.o.Value(browserName)
	if on, ok := v.Bool(); ok && !on {
		return
	} else if ok || !v.Present() {
		for _, protocol := range s.profile.browser {
			hasSigner := protocol != signedProtocol || hasKey || s.byReference
			if hasSigner && s.carries(protocol) {
				s.browser = append(s.browser, protocol)
			}
		}
		return
	}
	list, ok := v.List()
	if !ok {
		r.wrong.Add(browserName, "it must be true, false, or a list of protocols: %s",
			strings.Join(protocols, ", "))
		return
	}
	for _, v := range list {
		protocol, _ := v.Text()
		switch {
		case !slices.Contains(protocols, protocol):
			r.wrong.Add(browserName, "%q is not known; use some of: %s", protocol,
				strings.Join(protocols, ", "))
			return
		case slices.Contains(s.browser, protocol):
			r.wrong.Add(browserName, "%q occurs twice", protocol)
			return
		case !s.carries(protocol):
			r.wrong.Add(browserName, "%s carries documents of the format %s only; leave it out, or add the "+
				"format to %s", protocol, mdocFormat, formatsName)
			return
		}
		s.browser = append(s.browser, protocol)
	}
}

// carries reports whether a protocol of the browser can carry one of the formats.
func (s *settings) carries(protocol string) bool {
	return protocol != isoProtocol || slices.ContainsFunc(s.formats, isMobile)
}

// readFormats reads the requested formats of documents. The default is all of the profile's.
func (s *settings) readFormats(r reader) {
	all := s.profile.formats()
	v := r.o.Value(formatsName)
	list, ok := v.List()
	if v.Present() && (!ok || len(list) == 0) {
		r.wrong.Add(formatsName, "it must be a list of formats: %s", strings.Join(all, ", "))
		return
	}
	var set []string
	for _, v := range list {
		format, _ := v.Text()
		if !slices.Contains(all, format) || slices.Contains(set, format) {
			r.wrong.Add(formatsName, "%q is not a format of this profile, or occurs twice; use some of: %s",
				format, strings.Join(all, ", "))
			return
		}
		set = append(set, format)
	}
	for _, format := range all {
		if set == nil || slices.Contains(set, format) {
			s.formats = append(s.formats, format)
		}
	}
}

// asksBySigned reports whether any request by OpenID4VP is signed.
func (s *settings) asksBySigned() bool {
	return s.byReference || slices.Contains(s.browser, signedProtocol)
}

// readSigning reads key and certificate of signed requests, and rejects them where no request is signed.
func (s *settings) readSigning(r reader, c method.Config) {
	usual := s.profile.prefix
	if usual == "" {
		usual = byHost
	}
	prefix := r.oneOf(prefixName, usual, byHost, byHash, byDID)
	if !s.asksBySigned() {
		if slices.Contains(c.Keys, keyName) || r.text(certificateName) != "" ||
			r.o.Value(prefixName).Present() || r.o.Value(keyIDName).Present() {
			r.wrong.Add("request", "a request that is sent by value is not signed; set request = "+
				"%q, add %s to %s, or leave out %s_file, %s_file, %s and %s", signedRequest, signedProtocol,
				browserName, keyName, certificateName, prefixName, keyIDName)
		}
		return
	}
	if prefix == byDID {
		s.signer = r.keyOfDID(c)
		return
	}
	if r.o.Value(keyIDName).Present() {
		r.wrong.Add(keyIDName, "it is for %s = %q only", prefixName, byDID)
	}
	s.hash = prefix == byHash
	s.signer = r.signer(c, keyName, certificateName)
	if chain := s.signer.chain; !s.hash && len(chain) > 0 && len(chain[0].DNSNames) == 0 {
		r.wrong.Add(certificateName+"_file", "the first certificate names no host to identify the service "+
			"to wallets; use a certificate that does, or %s = %q", prefixName, byHash)
	}
}

// keyOfDID reads the key of a service that wallets know by a DID.
func (r reader) keyOfDID(c method.Config) signer {
	if !slices.Contains(c.Keys, keyName) {
		r.wrong.Add(keyName+"_file",
			"it is missing; name the PEM file of the P-256 key that signs the requests")
	}
	if r.text(certificateName) != "" {
		r.wrong.Add(certificateName+"_file", "wallets know the service by its DID; leave it out, or set "+
			"another %s", prefixName)
	}
	id := r.text(keyIDName)
	if !mdoc.IsKeyID(id) {
		r.wrong.Add(keyIDName, "%q is no key of a DID; use the id of the key in the DID's document, such as "+
			"did:webvh:…#key-1", id)
	}
	return signer{key: c.KeyName(keyName), id: id}
}

// readReader reads the key and the certificate of readerAuth. They go together.
func (s *settings) readReader(r reader, c method.Config) {
	if !slices.Contains(c.Keys, readerKeyName) && r.text(readerCertificateName) == "" {
		return
	}
	if !slices.Contains(s.browser, isoProtocol) {
		r.wrong.Add(browserName, "%s_file signs requests by %s, which are not sent; add it to %s, or leave "+
			"out %s_file and %s_file", readerKeyName, isoProtocol, browserName, readerKeyName,
			readerCertificateName)
		return
	}
	s.reader = r.signer(c, readerKeyName, readerCertificateName)
}

// signer reads a key and the certificates for it.
func (r reader) signer(c method.Config, keyName, certificateName string) (s signer) {
	s.key = c.KeyName(keyName)
	if !slices.Contains(c.Keys, keyName) {
		r.wrong.Add(keyName+"_file",
			"it is missing; name the PEM file of the P-256 key that signs the requests")
	}
	text := r.text(certificateName)
	if text == "" {
		r.wrong.Add(certificateName+"_file",
			"it is missing; name the PEM file of the certificate for that key")
		return s
	}
	s.chain = r.chain(certificateName+"_file", text)
	return s
}

// chain reads the certificate for a key, and those between it and a root.
func (r reader) chain(name, text string) []*x509.Certificate {
	chain, err := pemfile.Certificates([]byte(text))
	if err != nil {
		r.wrong.AddError(name, err)
		return nil
	}
	if len(chain) > maxChain {
		r.wrong.Add(name, "there are %d certificates in it; at most %d are allowed", len(chain), maxChain)
	}
	key, ok := chain[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		r.wrong.Add(name, "the first certificate is not for a P-256 key, by which requests are signed")
	}
	return chain
}

// readVerifierInfo reads attestations about the service, such as its registration certificate (OpenID4VP
// 1.0, 5.1). Verge does not understand it: wallets do.
func (s *settings) readVerifierInfo(r reader) {
	text := s.requestFile(r, verifierInfoName)
	if text == "" {
		return
	}
	if why := s.checkVerifierInfo(text); why != "" {
		r.wrong.Add(verifierInfoName+"_file", "%s; it is a JSON array such as "+
			`[{"format": "registration_cert", "data": "eyJ…"}]`, why)
		return
	}
	s.verifierInfo = []byte(text)
}

// requestFile returns the content of a file that is a part of requests by OpenID4VP, or "" if no file is set
// or no request can carry it.
func (s *settings) requestFile(r reader, setting string) string {
	text := r.text(setting)
	switch {
	case text == "":
	case len(text) > maxRequestFile:
		r.wrong.Add(setting+"_file", "it has %d bytes; at most %d are allowed", len(text), maxRequestFile)
		return ""
	case !s.asksBySigned() && !slices.Contains(s.browser, unsignedProtocol):
		r.wrong.Add(setting+"_file",
			"no request can carry it: a link has no room for it; set request = %q, or "+
				"add %s or %s to %s", signedRequest, signedProtocol, unsignedProtocol, browserName)
		return ""
	}
	return text
}

// ownMetadata are the fields of client_metadata that depend on the request.
var ownMetadata = []string{"vp_formats_supported", "jwks", "encrypted_response_enc_values_supported"}

// readMetadata reads more fields of client_metadata, such as gw_rp_metadata_bytes, which Google Wallet
// demands.
func (s *settings) readMetadata(r reader) {
	text := s.requestFile(r, metadataName)
	if text == "" {
		return
	}
	const name = metadataName + "_file"
	o, err := strictjson.Read([]byte(text))
	if err != nil {
		r.wrong.Add(name, `it is no JSON object; write one, such as {"client_name": "My shop"}`)
		return
	}
	s.metadata = map[string]json.RawMessage{}
	for field, v := range o.All() {
		if slices.Contains(ownMetadata, field) {
			r.wrong.Add(name, "%s depends on the request, so Verge writes it; leave it out", field)
			return
		}
		s.metadata[field] = json.RawMessage(v.JSON())
	}
}

// checkVerifierInfo returns why a text is no verifier_info, or "".
func (s *settings) checkVerifierInfo(text string) (why string) {
	// Only an object is read as a whole text, so the array is put into one.
	o, err := strictjson.Read([]byte(`{"` + verifierInfoName + `":` + text + `}`))
	list, ok := o.Value(verifierInfoName).List()
	if err != nil || len(o.Names()) != 1 || !ok || len(list) == 0 || len(list) > maxAttestations {
		return fmt.Sprintf("it is no array of 1 to %d attestations", maxAttestations)
	}
	for n, v := range list {
		attestation, isObject := v.Object()
		format, _ := attestation.Value("format").Text()
		data := attestation.Value("data")
		_, isText := data.Text()
		if _, isJSON := data.Object(); !isObject || format == "" || !isText && !isJSON {
			return fmt.Sprintf("attestation %d lacks a format that is a text, or data that is a text or an "+
				"object", n+1)
		}
		ids, isList := attestation.Value("credential_ids").List()
		if attestation.Value("credential_ids").Present() && (!isList || !s.hasCredentials(ids)) {
			return fmt.Sprintf("attestation %d has credential_ids other than %q, the ids of credentials in "+
				"requests of this method", n+1, s.credentials())
		}
	}
	return ""
}

// credentials returns the ids of the credentials in requests.
func (s *settings) credentials() (ids []string) {
	for _, format := range s.formats {
		ids = append(ids, s.profile.credentialIn(format))
	}
	return ids
}

// hasCredentials reports whether all texts are ids of credentials in requests, and there is one.
func (s *settings) hasCredentials(ids []strictjson.Value) bool {
	unknown := func(v strictjson.Value) bool {
		text, _ := v.Text()
		return !slices.Contains(s.credentials(), text)
	}
	return len(ids) > 0 && !slices.ContainsFunc(ids, unknown)
}
