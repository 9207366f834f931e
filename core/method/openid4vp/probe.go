package openid4vp

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-id/verge/core/internal/birthdate"
	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// soon is before which a certificate's end is worth a finding.
const soon = 30 * 24 * time.Hour

// Probe is the method.Probe of the kind. It sends no request, since wallets have no server. It checks the
// certificates, and whether the key matches the certificate.
func Probe(ctx context.Context, c method.Config, h method.Host, returnURL string) (r method.Report,
	err error) {
	s, wrong := parse(c)
	if err := wrong.Err(); err != nil {
		return r, err
	}
	o := &openID{settings: s, host: h.For(c.Name)}
	o.describe(&r, returnURL)
	now := h.Now()
	for _, a := range s.anchors {
		look(&r, a.Certificate, "the trust anchor "+nameOf(a.Certificate), now)
	}
	for _, k := range s.keys {
		r.Fact("issuer's key", k.ID)
	}
	if s.signer.exists() {
		o.probeSigner(ctx, &r, s.signer, keyName, certificateName)
		if client, err := o.certified(returnURL); err != nil {
			r.Bad("%v", err)
		} else {
			r.Good("wallets know this service as %s", client)
		}
	}
	if s.reader.exists() {
		o.probeSigner(ctx, &r, s.reader, readerKeyName, readerCertificateName)
	}
	return r, nil
}

// describe adds the settings to a report, and an error if the link is too long for a code.
func (o *openID) describe(r *method.Report, returnURL string) {
	s, p := o.settings, o.settings.profile
	r.Fact("profile", p.name)
	document := p.doctype
	if document == "" {
		document = strings.Join(s.types, ", or ")
	}
	r.Fact("document", document)
	r.Fact("format", strings.Join(s.formats, ", or "))
	r.Fact("element", strings.Join(o.asksFor(18), ", or ")+" for an age of 18")
	r.Fact("links begin with", s.scheme)
	r.Fact("request", map[bool]string{false: "in the link",
		true: "signed, and fetched by the wallet"}[s.byReference])
	r.Fact("responses", map[bool]string{false: "in the clear, over https", true: "encrypted"}[s.encrypted])
	r.Fact("browser's own wallets", map[bool]string{false: "not asked",
		true: "asked by " + strings.Join(s.browser, ", ")}[len(s.browser) > 0])
	if s.reader.exists() {
		r.Fact("requests by "+isoProtocol, "signed")
	}
	if s.verifierInfo != nil {
		r.Fact(verifierInfoName, "sent in requests by OpenID4VP")
	}
	r.Fact("wallets on other devices", map[bool]string{false: "excluded", true: "may respond"}[s.crossDevice])

	if n := o.longestCode(returnURL); s.crossDevice && n > method.MaxCode {
		r.Bad("the request has up to %d bytes, and a QR code holds %d, so the page shows no code for wallets"+
			" on other devices; set request = %q, ask for fewer types or circuits, or set "+
			"cross_device = false", n, method.MaxCode, signedRequest)
	}

	r.Fact("revocation", map[string]string{ifPresent: "checked where a list is available",
		required: "checked always", off: "not checked"}[s.revocation])

	r.Fact("zero-knowledge proofs", map[string]string{off: "not accepted",
		accept: "accepted", require: "required"}[s.zeroKnowledge])
}

// longestCode returns the length of the longest link for another device. It depends on the age.
func (o *openID) longestCode(returnURL string) (longest int) {
	base, _, _ := strings.Cut(returnURL, web.ReturnPath)
	q := pendingRequest{secret: make([]byte, secretSize)}
	const handle = 24 // characters
	s := method.Session{ResponseURI: base + web.PendingPath + strings.Repeat("a", handle)}
	for q.age = range birthdate.MaxAge + 1 {
		longest = max(longest, len(o.link(s, q, false)))
	}
	return longest
}

// probeSigner checks a certificate of requests, and whether the host has its key.
func (o *openID) probeSigner(ctx context.Context, r *method.Report, s signer, keyName,
	certificateName string) {
	var leaf *x509.Certificate
	if s.id == "" {
		leaf = s.chain[0]
		look(r, leaf, "the certificate of requests, "+nameOf(leaf)+",", o.host.Now())
		if isSelfIssued(leaf) {
			r.Fact(certificateName, "self-signed, so wallets that follow HAIP 1.0 reject it")
		}
	}
	fits, err := o.isKeyOf(ctx, s.key, leaf)
	switch {
	case errors.As(err, new(*method.SettingError)):
		r.Bad("%s_file does not sign: %v", keyName, err)
	case err != nil:
		r.CannotCheck("whether %s_file and %s_file belong together: %v", keyName, certificateName, err)
	case leaf == nil:
		r.Good("%s_file signs; compare its public key with the key %s of the DID's document", keyName, s.id)
	case !fits:
		r.Bad("%s_file: %s", keyName, otherKey(certificateName))
	default:
		r.Good("%s_file is the key of the first certificate in %s_file", keyName, certificateName)
	}
}

// otherKey returns the text about a key that does not belong to its certificate.
func otherKey(certificateName string) string {
	return "it is not the key of the first certificate in " + certificateName +
		"_file, so wallets would reject every request; use the key for which the certificate was made"
}

// checkKeys reports a key that does not belong to its certificate, because wallets would reject every
// request, and a certificate that is not for the host of returnURL.
func checkKeys(ctx context.Context, c method.Config, h method.Host, returnURL string) (wrong problem.List) {
	s, _ := parse(c)
	o := &openID{settings: s, host: h.For(c.Name)}
	check := func(by signer, keyName, certificateName string) {
		if h.Sign == nil || len(by.chain) == 0 {
			return
		}
		if fits, err := o.isKeyOf(ctx, by.key, by.chain[0]); err == nil && !fits {
			wrong.Add(keyName+"_file", "%s", otherKey(certificateName))
		}
	}
	check(s.signer, keyName, certificateName)
	check(s.reader, readerKeyName, readerCertificateName)
	if s.signer.exists() && returnURL != "" {
		_, err := o.certified(returnURL)
		wrong.AddError(certificateName+"_file", err)
	}
	return wrong
}

// look reports whether a certificate is valid now.
func look(r *method.Report, c *x509.Certificate, what string, now time.Time) {
	from, until := c.NotBefore.UTC().Format(time.DateOnly), c.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case now.Before(c.NotBefore):
		r.Bad("%s is valid only from %s; check this machine's clock, or get another one", what, from)
	case now.After(c.NotAfter):
		r.Bad("%s has expired on %s; get a new one", what, until)
	case now.Add(soon).After(c.NotAfter):
		r.Bad("%s expires on %s; get a new one before", what, until)
	default:
		r.Good("%s is valid until %s", what, until)
	}
}

// nameOf returns the name of a certificate for people.
func nameOf(c *x509.Certificate) string {
	if name := c.Subject.String(); name != "" {
		return fmt.Sprintf("%q", name)
	}
	return "number " + c.SerialNumber.String()
}

// isKeyOf signs with a key, and reports whether it is the key of a certificate. Without a certificate it is
// not. The error is a *method.SettingError if the key does not sign.
func (o *openID) isKeyOf(ctx context.Context, name string, c *x509.Certificate) (bool, error) {
	message := []byte("a request")
	signed, err := o.host.Sign(ctx, name, algorithm, message)
	if err != nil || c == nil {
		return false, err
	}
	public, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return false, nil
	}
	key, _ := signature.OfECDSA(public)
	return key.Verify(ctx, o.host.Verify, algorithm, message, signed)
}
