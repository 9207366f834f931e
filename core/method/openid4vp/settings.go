package openid4vp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/pemfile"
	"github.com/verge-id/verge/core/problem"
	"github.com/verge-id/verge/core/web"
)

// settings is a method's configuration, read and checked.
type settings struct {
	profile profile
	anchors []mdoc.Anchor
	scheme  string // what a link begins with, up to the question mark

	encrypted   bool // direct_post.jwt
	browser     bool // the Digital Credentials API is offered
	crossDevice bool // wallets on other devices may answer

	// Of a signed request. Without a key it travels by value.
	key   string // of Host.Sign
	chain []*x509.Certificate
	hash  bool // the client is named by the certificate's hash, and by its host else
}

// Names and values of settings.
const (
	profileName     = "profile"
	keyName         = "private_key"
	anchorsName     = "trust_anchors"
	certificateName = "certificate"

	byValue       = "value"
	signedRequest = "signed"

	byHost = "x509_san_dns"
	byHash = "x509_hash"
)

// known are the members of the settings.
var known = []string{profileName, anchorsName, "scheme", "request", "encrypted", "browser", "cross_device",
	"client_id_prefix", certificateName}

// algorithm is the one by which requests are signed.
const algorithm = "ES256"

// Limits of settings. They are far above what is in use.
const (
	maxAnchors = 64
	maxChain   = 4
	maxLink    = 256
)

// parse reads a method's settings and reports everything that is wrong with them.
func parse(c method.Config) (s settings, wrong problem.List) {
	o := web.Object{}
	if len(c.Settings) > 0 {
		var err error
		if o, err = web.ReadObject(c.Settings); err != nil {
			wrong.AddError("settings", err)
			return s, wrong
		}
	}
	r := reader{o, &wrong}
	for _, name := range o.Names() {
		if !slices.Contains(known, name) {
			wrong.Add(name, "it is not known here; use only: %s, and %s_file", strings.Join(known, ", "),
				keyName)
		}
	}
	name := r.text(profileName)
	var ok bool
	if s.profile, ok = profileOf(name); !ok {
		wrong.Add(profileName, "%q is not known; use one of: %s", name, strings.Join(Profiles(), ", "))
		return s, wrong
	}
	s.readAnchors(r)
	s.readScheme(r, c.Dev)
	s.encrypted = r.flag("encrypted", s.profile.encrypted)
	s.browser = r.flag("browser", s.profile.browser)
	s.crossDevice = r.flag("cross_device", true)
	request := r.oneOf("request", map[bool]string{false: byValue, true: signedRequest}[s.profile.signed],
		byValue, signedRequest)
	s.readSigning(r, c, request == signedRequest)
	return s, wrong
}

// profileIn returns the profile of settings that are good.
func profileIn(c method.Config) profile {
	o, _ := web.ReadObject(c.Settings)
	name, _ := o.Value(profileName).Text()
	p, _ := profileOf(name)
	return p
}

// reader reads members of the settings and collects what is wrong.
type reader struct {
	o     web.Object
	wrong *problem.List
}

func (r reader) text(name string) string {
	v := r.o.Value(name)
	s, ok := v.Text()
	if v.Present() && !ok {
		r.wrong.Add(name, "it must be a text")
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

// readAnchors reads whose documents count. Without a trust anchor the method would believe nobody, or, worse,
// everybody: so it does not start.
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
	case len(s.anchors) == 0:
		r.wrong.Add(anchorsName, "there is no trust anchor, so no document could be believed; name "+
			"the PEM files of "+
			`the issuers' root certificates: %s = ["issuers.pem"]`, anchorsName)
	case len(s.anchors) > maxAnchors:
		r.wrong.Add(anchorsName, "there are %d certificates; at most %d are allowed", len(s.anchors),
			maxAnchors)
	}
}

// readScheme reads what a link to a wallet begins with: a scheme such as openid4vp, or the https address that
// a wallet's app has claimed.
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

// readSigning reads what a signed request needs, and refuses it where the request is not signed.
func (s *settings) readSigning(r reader, c method.Config, signed bool) {
	hasKey := slices.Contains(c.Keys, keyName)
	text := r.text(certificateName)
	prefix := r.oneOf("client_id_prefix", byHost, byHost, byHash)
	if !signed {
		if hasKey || text != "" || r.o.Value("client_id_prefix").Present() {
			r.wrong.Add("request", "a request that is sent by value is not signed; set request = "+
				"%q, or leave out %s_file, %s_file and client_id_prefix", signedRequest, keyName,
				certificateName)
		}
		return
	}
	s.hash = prefix == byHash
	s.key = c.KeyName(keyName)
	if !hasKey {
		r.wrong.Add(keyName+"_file",
			"it is missing; name the PEM file of the P-256 key that signs the requests")
	}
	if text == "" {
		r.wrong.Add(certificateName+"_file",
			"it is missing; name the PEM file of the certificate for that key")
		return
	}
	s.readChain(r, text)
}

// readChain reads the certificate for the key, and those between it and a root.
func (s *settings) readChain(r reader, text string) {
	const name = certificateName + "_file"
	var err error
	if s.chain, err = pemfile.Certificates([]byte(text)); err != nil {
		r.wrong.AddError(name, err)
		return
	}
	if len(s.chain) > maxChain {
		r.wrong.Add(name, "there are %d certificates in it; at most %d are allowed", len(s.chain), maxChain)
	}
	key, ok := s.chain[0].PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		r.wrong.Add(name, "the first certificate is not for a P-256 key, by which requests are signed")
	}
	if !s.hash && len(s.chain[0].DNSNames) == 0 {
		r.wrong.Add(name, "the first certificate names no host, by which wallets would know the "+
			"service; use one that does, or client_id_prefix = %q", byHash)
	}
}
