package simulation

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
)

const (
	bankURL    = "https://bank.example"
	bankMethod = "bank"
)

// bank is an OpenID provider. It signs by EdDSA, whose signatures are the same for the same seed.
type bank struct {
	w      *world
	key    ed25519.PrivateKey
	logins map[string]*login // by code
	last   string            // the last return of a browser, for an attacker
}

// login is one sign-in of a user at the bank.
type login struct {
	query url.Values // of the authorization request
	used  bool       // its code has been presented
	proof *shownProof
}

func newBank(w *world) *bank {
	seed := sha256.Sum256([]byte(bankURL))
	return &bank{w: w, key: ed25519.NewKeyFromSeed(seed[:]), logins: map[string]*login{}}
}

// bankSettings are the settings of the method.
func bankSettings() json.RawMessage {
	var proofs []any
	for _, age := range []int{16, 18, 21} {
		proofs = append(proofs, map[string]any{"claim": []string{fmt.Sprint("over_", age)}, "equals": true,
			"age": age})
	}
	b, err := json.Marshal(map[string]any{"issuer": bankURL, "client_id": "verge", "proof": proofs})
	must(err)
	return b
}

// signIn is a user at the bank's page. It returns the address to which the bank sends the browser back.
func (b *bank) signIn(address string, p *shownProof) string {
	u, err := url.Parse(address)
	if err != nil || u.Query().Get("client_id") != "verge" ||
		u.Query().Get("code_challenge_method") != "S256" {
		b.w.judge.fail("contract 36: a browser is sent to %s", address)
		return ""
	}
	code := fmt.Sprintf("code-%d", len(b.logins)+1)
	b.logins[code] = &login{query: u.Query(), proof: p}
	back := url.Values{"code": {code}, "state": {u.Query().Get("state")}}
	b.last = u.Query().Get("redirect_uri") + "?" + back.Encode()
	return b.last
}

// fetch is a request of the service.
func (b *bank) fetch(req host.FetchRequest) (host.FetchResponse, error) {
	w := b.w
	took, fault := 50*time.Millisecond, 0
	if w.current != nil && !w.healed && w.current.act.chance(w.rate[switchReceivers]) {
		w.met(switchReceivers)
		fault = 1 + w.current.act.pick(4)
	}
	failed := &host.FetchError{Reason: host.FetchTimeout, Err: errFault}
	if fault == 1 { // the request is lost
		w.sleep(5 * time.Second)
		return host.FetchResponse{}, failed
	}
	status, body := b.respond(req, fault)
	switch fault {
	case 2: // the response is lost
		took = 5 * time.Second
	case 3:
		status, body = 500, map[string]any{}
	}
	w.tell("bank", "%s: %d", strings.TrimPrefix(req.URL, bankURL), status)
	w.sleep(took)
	if fault == 2 {
		return host.FetchResponse{}, failed
	}
	text, err := json.Marshal(body)
	must(err)
	return host.FetchResponse{Status: status, Header: map[string]string{"Content-Type": "application/json"},
		Body: text}, nil
}

func (b *bank) respond(req host.FetchRequest, fault int) (int, map[string]any) {
	switch strings.TrimPrefix(req.URL, bankURL) {
	case "/.well-known/openid-configuration":
		return 200, map[string]any{"issuer": bankURL, "authorization_endpoint": bankURL + "/authorize",
			"token_endpoint": bankURL + "/token", "jwks_uri": bankURL + "/keys",
			"response_types_supported":              []string{"code"},
			"subject_types_supported":               []string{"public"},
			"code_challenge_methods_supported":      []string{"S256"},
			"id_token_signing_alg_values_supported": []string{"EdDSA"}}
	case "/keys":
		return 200, map[string]any{"keys": []any{map[string]any{"kty": "OKP", "crv": "Ed25519", "kid": "1",
			"use": "sig", "alg": "EdDSA", "x": encoded(b.key.Public().(ed25519.PublicKey))}}}
	case "/token":
		return b.token(req, fault)
	}
	return 404, map[string]any{}
}

// token exchanges a code.
func (b *bank) token(req host.FetchRequest, fault int) (int, map[string]any) {
	form, err := url.ParseQuery(string(req.Body))
	l := b.logins[form.Get("code")]
	if err != nil || l == nil {
		return 400, map[string]any{"error": "invalid_grant"}
	}
	if l.used {
		b.w.judge.fail("contract 37: %s is presented twice", form.Get("code"))
	}
	l.used = true
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	if encoded(sum[:]) != l.query.Get("code_challenge") ||
		form.Get("redirect_uri") != l.query.Get("redirect_uri") {
		return 400, map[string]any{"error": "invalid_grant"}
	}
	claims := map[string]any{"iss": bankURL, "aud": "verge", "sub": "somebody", "iat": b.w.now.Unix(),
		"exp": b.w.now.Add(time.Minute).Unix(), "nonce": l.query.Get("nonce")}
	for _, age := range []int{16, 18, 21} {
		claims[fmt.Sprint("over_", age)] = l.proof.age >= age
	}
	if fault == 4 { // the ID token of another login
		claims["nonce"] = "another"
		for _, age := range []int{16, 18, 21} {
			claims[fmt.Sprint("over_", age)] = true
		}
	} else {
		l.proof.worthless = false
	}
	return 200, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": b.sign(claims)}
}

func (b *bank) sign(claims map[string]any) string {
	text, err := json.Marshal(claims)
	must(err)
	signed := encoded([]byte(`{"alg":"EdDSA","kid":"1","typ":"JWT"}`)) + "." + encoded(text)
	return signed + "." + encoded(ed25519.Sign(b.key, []byte(signed)))
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// atBank is a user whose browser is sent to the bank. It returns the page after the way back.
func (w *world) atBank(v *session, b *browser, p page) page {
	act := w.current.act
	w.sleep(time.Duration(1+act.pick(60)) * time.Second)
	age := []int{40, 19, 17, 12}[act.pick(4)]
	proof := &shownProof{browser: b, issuer: bankMethod, age: age, at: w.now, level: maxLevel(v),
		worthless: true}
	back := w.bank.signIn(p.hop, proof)
	if back == "" {
		return p
	}
	w.tell(w.current.name, "signs in at the bank, which knows the age %d", age)
	w.judge.signedIn(v, proof)
	if age < 21 { // for an integration that asks for more, it is a no
		v.acts["reject"] = true
	}
	if act.chance(w.rate[switchTabs]) {
		w.person("second load of "+w.current.name, func() { w.judge.saw(v, b, b.get(back)) })
	}
	return b.get(back)
}
