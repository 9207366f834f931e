package oidc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/verge-id/verge/core/internal/birthdate"
	"github.com/verge-id/verge/core/internal/jwe"
	"github.com/verge-id/verge/core/internal/strictjson"
	"github.com/verge-id/verge/core/internal/weburl"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/problem"
)

// Names of the secret and of the key, and of the ways to authenticate as OpenID Connect names them.
const (
	secretName = "client_secret"
	keyName    = "private_key"
	acrName    = "acr_values" // the setting that an integration may narrow

	userinfoEncryption = "userinfo_encryption"

	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authKey   = "private_key_jwt"
)

// settings is a method's configuration, read and checked. In a configuration file each field is a member of
// the method's table.
type settings struct {
	dev bool

	issuer   string // as the provider's tokens and its discovery document spell it
	clientID string

	auth     string // client_auth; default: by the given credentials
	secret   string
	key      string // of Host.Sign and Host.Decrypt
	keyAlg   string // key_alg; default ES256
	keyID    string // key_id: the provider's name for the key; "" is not sent
	audience string // key_audience: issuer (default) or token_endpoint, for providers that insist on it

	scope      []string    // always with openid
	acrValues  []string    // the ID token must have one of them
	claims     string      // the claims parameter, a JSON object; "" is not sent
	parameters [][2]string // more of the authorization request, sorted by name
	maxAge     int         // max_age: seconds since the sign-in at the provider; -1 is not sent
	prompt     []string    // such as login
	pushes     bool        // pushed: false does not push a request, even if the provider takes pushed ones
	userinfo   bool        // the claims come from the userinfo endpoint, else from the ID token

	encryptsIDToken, encryptsUserinfo bool // the provider encrypts them for the key

	credential *credential // the claims are in a signed claim
	proofs     []proof
}

// credential is a claim that is itself a signed token, of an issuer that publishes its keys as did:web.
type credential struct {
	claim  []string
	issuer string
	did    string
}

// Limits of texts. Providers use far shorter ones.
const (
	maxText     = 256
	maxSecret   = 1024
	maxElements = 16
	maxClaims   = 2048

	maxSignInAge = 366 * 24 * 60 * 60 // seconds
)

// reader reads the members of a settings object and collects their errors.
type reader struct {
	prefix string // of the members' names
	o      strictjson.Object
	wrong  *problem.List
	known  []string
}

func (r *reader) value(name string) strictjson.Value {
	r.known = append(r.known, name)
	return r.o.Value(name)
}

func (r *reader) add(name, format string, args ...any) { r.wrong.Add(r.prefix+name, format, args...) }

// text reads a string of visible ASCII.
func (r *reader) text(name string) string {
	v := r.value(name)
	s, ok := v.Text()
	if v.Present() && (!ok || s == "" || !isVisible(s, maxText)) {
		r.add(name, "it must be a text of 1 to %d visible ASCII characters", maxText)
		return ""
	}
	return s
}

// required reports a text that is missing or invalid, unless text has reported it.
func (r *reader) required(name, value string, good bool, problem string) {
	if !r.o.Value(name).Present() || value != "" && !good {
		r.add(name, "%s", problem)
	}
}

// oneOf reads a string that must be one of those; the first is the default.
func (r *reader) oneOf(name string, all ...string) string {
	if !r.value(name).Present() {
		return all[0]
	}
	s := r.text(name)
	if s != "" && !slices.Contains(all, s) {
		r.add(name, "%q is not known; use one of %s", s, strings.Join(all, ", "))
	}
	return s
}

func (r *reader) boolean(name string) bool {
	v := r.value(name)
	b, ok := v.Bool()
	if v.Present() && !ok {
		r.add(name, "it must be true or false")
	}
	return b
}

// words reads a list of strings, or one string of words with spaces between them.
func (r *reader) words(name string) []string {
	v := r.value(name)
	if !v.Present() {
		return nil
	}
	words := texts(v)
	if s, ok := v.Text(); ok {
		words = strings.Fields(s)
	} else if list, _ := v.List(); len(words) != len(list) {
		words = nil
	}
	bad := func(s string) bool { return s == "" || !isVisible(s, maxText) || strings.ContainsAny(s, `"\`) }
	if len(words) == 0 || len(words) > maxElements || slices.ContainsFunc(words, bad) {
		r.add(name, "it must be a list of 1 to %d texts of visible ASCII characters without \" and \\",
			maxElements)
		return nil
	}
	return words
}

// path reads a list of names that lead to a claim.
func (r *reader) path(name string) []string {
	v := r.value(name)
	path := texts(v)
	list, _ := v.List()
	if len(path) == 0 || len(path) != len(list) || len(path) > maxElements || slices.Contains(path, "") {
		r.add(name, "it must be a list of 1 to %d names that lead to the claim, such as [\"is_over_18\"]",
			maxElements)
		return nil
	}
	return path
}

// unknown reports members that nothing has read.
func (r *reader) unknown() {
	for name := range r.o.All() {
		if !slices.Contains(r.known, name) {
			known := slices.Compact(slices.Sorted(slices.Values(r.known)))
			r.add(name, "there is no such setting; these are: %s", strings.Join(known, ", "))
		}
	}
}

// readSettings reads a method's configuration and reports every problem in it.
func readSettings(c method.Config) (s settings, wrong problem.List) {
	o, err := strictjson.ReadOptional(c.Settings)
	if err != nil {
		wrong.Add("settings", "they are not one JSON object: %v", err)
		return s, wrong
	}
	o, known, err := withPreset(o)
	if list, ok := err.(problem.List); ok {
		return s, list
	}
	r := &reader{o: o, wrong: &wrong, known: known}
	s.dev = c.Dev
	s.issuer = r.text("issuer")
	wrongURL := ""
	if s.issuer != "" {
		wrongURL = weburl.CheckEndpoint(s.issuer, c.Dev)
	}
	r.required("issuer", s.issuer, wrongURL == "" && !strings.Contains(s.issuer, "?"),
		cmp.Or(wrongURL, "it must be the https address of the provider without a query, as the "+
			"provider's documents spell it"))
	if issuer, is := strings.CutSuffix(s.issuer, wellKnown); is {
		r.add("issuer", "this is the address of the provider's document; the issuer is probably %s", issuer)
	}
	s.clientID = r.text("client_id")
	r.required("client_id", s.clientID, true, "the name of this client at the provider is missing")
	s.readAuth(r, c)
	s.encryptsIDToken = s.readEncryption(r, "id_token_encryption")
	s.userinfo = r.boolean("userinfo")
	s.encryptsUserinfo = s.readEncryption(r, userinfoEncryption)
	if s.encryptsUserinfo && !s.userinfo {
		r.add(userinfoEncryption, "it needs userinfo = true: the claims come from the userinfo endpoint")
	}
	s.scope = r.words("scope")
	if !slices.Contains(s.scope, "openid") {
		s.scope = slices.Insert(s.scope, 0, "openid")
	}
	s.acrValues = r.words("acr_values")
	s.readSignIn(r)
	s.pushes = r.oneOf("pushed", "auto", "off") != "off"
	s.readClaims(r)
	s.readParameters(r)
	s.readCredential(r)
	s.readProofs(r)
	r.unknown()
	return s, wrong
}

// readAuth chooses the way to authenticate and checks that its secret or key is present. No problem repeats
// the secret.
func (s *settings) readAuth(r *reader, c method.Config) {
	s.secret = c.Secrets[secretName]
	for name := range c.Secrets {
		if name != secretName {
			r.add(name, "there is no such secret; the only one is %s", secretName)
		}
	}
	if len(s.secret) > maxSecret || strings.ContainsFunc(s.secret, unicode.IsControl) {
		r.add(secretName, "it must have at most %d bytes and no control characters, such as a line break",
			maxSecret)
	}
	for _, name := range c.Keys {
		if name != keyName {
			r.add(name, "there is no such key; the only one is %s", keyName)
			continue
		}
		s.key = c.KeyName(name)
	}

	s.keyAlg = r.oneOf("key_alg", "ES256", "RS256", "PS256", "EdDSA")
	s.keyID = r.text("key_id")
	s.audience = r.oneOf("key_audience", "issuer", "token_endpoint")
	byDefault := authBasic
	if s.secret == "" && s.key != "" {
		byDefault = authKey
	}
	s.auth = byDefault
	if r.value("client_auth").Present() {
		s.auth = r.oneOf("client_auth", authBasic, authPost, authKey)
	}
	switch {
	case s.secret == "" && s.key == "":
		r.add("client_auth", "the provider must know the client; give client_secret_file or private_key_file")
	case s.secret != "" && s.key != "" && !r.o.Has("client_auth"):
		r.add("client_auth", "there is a secret and a private key; name the way that the provider expects: "+
			"%s, %s or %s", authBasic, authPost, authKey)
	case s.auth == authKey && s.key == "":
		r.add("client_auth", "%s needs private_key_file", authKey)
	case s.auth != authKey && s.secret == "":
		r.add("client_auth", "%s needs client_secret_file", s.auth)
	}
}

// decrypts maps key_alg to the host's algorithm for decryption with a key of this type.
var decrypts = map[string]string{"ES256": jwe.ECDH, "RS256": jwe.RSA, "PS256": jwe.RSA}

// encryptions returns the values of alg that a provider may use to encrypt for the key.
func (s *settings) encryptions() []string {
	if alg := decrypts[s.keyAlg]; alg != jwe.ECDH {
		return []string{alg}
	}
	return []string{jwe.ECDH, jwe.ECDHA128, jwe.ECDHA192, jwe.ECDHA256}
}

// readEncryption reads whether the provider encrypts a kind of token, and checks that the key can decrypt it.
func (s *settings) readEncryption(r *reader, name string) bool {
	encrypted := r.boolean(name)
	switch {
	case !encrypted:
	case s.key == "":
		r.add(name, "it needs private_key_file, the key for which the provider encrypts")
	case s.keyAlg == "EdDSA":
		r.add(name, "no token can be encrypted for a key of EdDSA; use a P-256 or RSA key, and its key_alg")
	}
	return encrypted
}

// readSignIn reads the required sign-in at the provider.
func (s *settings) readSignIn(r *reader) {
	s.maxAge = -1
	if v := r.value("max_age"); v.Present() {
		n, ok := v.Integer()
		if !ok || n < 0 || n > maxSignInAge {
			r.add("max_age", "it must be a number of seconds from 0 to %d", maxSignInAge)
		} else {
			s.maxAge = int(n)
		}
	}
	s.prompt = r.words("prompt")
	r.rejectNone("prompt", s.prompt)
}

// rejectNone reports a prompt, from the setting or from parameters, that lets no user sign in.
func (r *reader) rejectNone(name string, prompt []string) {
	if slices.Contains(prompt, "none") {
		r.add(name, "with none, the provider lets no user sign in; use login, select_account or consent")
	}
}

// readClaims reads the claims parameter (OpenID Connect Core, 5.5) as an object.
func (s *settings) readClaims(r *reader) {
	v := r.value("claims")
	if !v.Present() {
		return
	}
	var short bytes.Buffer
	_, ok := v.Object()
	if err := json.Compact(&short, []byte(v.JSON())); err != nil || !ok || short.Len() > maxClaims {
		r.add("claims", "it must be a table of at most %d bytes, such as {\"id_token\":{\"birthdate\":null}}",
			maxClaims)
		return
	}
	s.claims = short.String()
}

// ownParameters are those that Verge sets for the safety of a request.
var ownParameters = []string{"response_type", "response_mode", "client_id", "redirect_uri", "state",
	"nonce", "code_challenge", "code_challenge_method", "ui_locales", "request", "request_uri",
	"client_secret", "client_assertion", "client_assertion_type"}

// settingParameters are those that a request has by other settings. A max_age that is only sent is
// not enough: the ID token must be checked for it.
var settingParameters = []string{"scope", "claims", "max_age"}

// readParameters reads further parameters of the authorization request, such as login_hint. acr_values is
// allowed for providers that choose a login by it and do not return acr.
func (s *settings) readParameters(r *reader) {
	v := r.value("parameters")
	if !v.Present() {
		return
	}
	all, ok := v.Object()
	if !ok {
		r.add("parameters", "it must be a table of texts")
		return
	}
	for name, v := range all.All() {
		text, ok := v.Text()
		switch {
		case slices.Contains(settingParameters, name), name == "acr_values" && len(s.acrValues) > 0,
			name == "prompt" && len(s.prompt) > 0:
			r.add("parameters."+name, "use the setting %s of this method instead", name)
		case slices.Contains(ownParameters, name):
			r.add("parameters."+name, "Verge sets it itself; leave it out")
		case name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "":
			r.add("parameters", "%q is no name of a parameter", name)
		case !ok || len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl):
			r.add("parameters."+name, "it must be a text of at most %d bytes", maxText)
		case name == "prompt":
			r.rejectNone("parameters.prompt", strings.Fields(text))
		}
		s.parameters = append(s.parameters, [2]string{name, text})
	}
	slices.SortFunc(s.parameters, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
}

func (s *settings) readCredential(r *reader) {
	v := r.value("credential")
	if !v.Present() {
		return
	}
	o, ok := v.Object()
	if !ok {
		r.add("credential", "it must be a table with claim, issuer and did")
		return
	}
	inner := &reader{prefix: r.prefix + "credential.", o: o, wrong: r.wrong}
	s.credential = &credential{inner.path("claim"), inner.text("issuer"), inner.text("did")}
	inner.required("issuer", s.credential.issuer, true, "who signs the claim is missing")
	_, ok = didDocument(s.credential.did, s.dev)
	inner.required("did", s.credential.did, ok,
		"it must be did:web: and a host, such as did:web:identity.example")
	inner.unknown()
}

func (s *settings) readProofs(r *reader) {
	v := r.value("proof")
	list, ok := v.List()
	if !ok && v.Present() {
		list = []strictjson.Value{v}
	}
	if len(list) == 0 || len(list) > maxElements {
		r.add("proof", "it must map claims to ages: a table, or a list of 1 to %d", maxElements)
		return
	}
	for i, v := range list {
		prefix := r.prefix + "proof."
		if ok {
			prefix = fmt.Sprintf("%sproof[%d].", r.prefix, i)
		}
		o, isObject := v.Object()
		if !isObject {
			r.add(strings.TrimSuffix(prefix, "."), "it must be a table")
			continue
		}
		s.proofs = append(s.proofs, readProof(&reader{prefix: prefix, o: o, wrong: r.wrong}))
	}
}

func readProof(r *reader) (p proof) {
	p.setting = r.prefix + "claim"
	p.claim = r.path("claim")
	p.birthdate = r.boolean("birthdate")
	if r.value("scope").Present() {
		p.scope = r.words("scope")
	}
	age := r.value("age")
	n, isAge := age.Integer()
	equals := r.value("equals")
	switch {
	case p.birthdate:
		if equals.Present() || age.Present() {
			r.add("birthdate", "a date of birth proves every age; leave out equals and age")
		}
	case !isAge || n < 1 || n > birthdate.MaxAge:
		r.add("age", "it must be the age, from 1 to %d, that the claim proves", birthdate.MaxAge)
	default:
		p.age = int(n)
	}
	if !p.birthdate {
		p.equals = readWanted(r, equals)
	}
	if v := r.value("require"); v.Present() {
		list, ok := v.List()
		if !ok || len(list) > maxElements {
			r.add("require", "it must be a list of at most %d tables with claim and equals", maxElements)
		}
		for i, v := range list {
			o, ok := v.Object()
			inner := &reader{prefix: fmt.Sprintf("%srequire[%d].", r.prefix, i), o: o, wrong: r.wrong}
			if !ok {
				inner.add("claim", "the condition must be a table with claim and equals")
				continue
			}
			p.require = append(p.require, condition{setting: inner.prefix + "claim",
				claim: inner.path("claim"), equals: readWanted(inner, inner.value("equals"))})
			inner.unknown()
		}
	}
	r.unknown()
	return p
}

// readWanted reads the value that a claim must have.
func readWanted(r *reader, v strictjson.Value) strictjson.Value {
	text, isText := v.Text()
	_, isBool := v.Bool()
	_, isInteger := v.Integer()
	if !isText && !isBool && !isInteger {
		r.add("equals", "it must be the exact value of the claim that says yes: true, a text "+
			"or a whole number")
	}
	if isText && text == "" {
		r.add("equals", "an empty claim counts as absent, so no claim could equal it; "+
			"use the value that says yes")
	}
	return v
}

// narrow returns the errors of an integration's settings. They may leave out acr_values of the method's.
func narrow(c method.Config, integration json.RawMessage) (wrong problem.List) {
	o, err := strictjson.ReadOptional(integration)
	if err != nil {
		wrong.Add("settings", "they are not one JSON object: %v", err)
		return wrong
	}
	s, wrongMethod := readSettings(c)
	if len(wrongMethod) > 0 {
		return nil // the method's own Check reports these
	}
	r := &reader{o: o, wrong: &wrong}
	for _, acr := range r.words(acrName) {
		if !slices.Contains(s.acrValues, acr) {
			r.add(acrName, "%q is not one of the method's, which are: %s", acr,
				strings.Join(s.acrValues, ", "))
		}
	}
	for name := range o.All() {
		if name != acrName {
			r.add(name, "an integration cannot set it; it can only choose some of the method's acr_values")
		}
	}
	return wrong
}

// acrFor returns the acr values for a session: the method's, or those of them that the integration accepts.
func (c *client) acrFor(s method.Session) ([]string, error) {
	o, err := strictjson.ReadOptional(s.Settings)
	if err != nil {
		return nil, unfit(err)
	}
	if !o.Value(acrName).Present() {
		return c.acrValues, nil
	}
	var wrong problem.List
	accepted := (&reader{o: o, wrong: &wrong}).words(acrName)
	for _, acr := range accepted {
		if !slices.Contains(c.acrValues, acr) {
			return nil, unfit(errors.New("it accepts an acr value that the method does not have"))
		}
	}
	if len(wrong) > 0 {
		return nil, unfit(wrong)
	}
	return accepted, nil
}

// unfit returns the error of an integration's settings that no longer fit the method's.
func unfit(err error) error {
	return &method.SettingError{Reason: "integration_settings", Setting: acrName,
		Err: fmt.Errorf("oidc: the integration's settings: %w", err)}
}
