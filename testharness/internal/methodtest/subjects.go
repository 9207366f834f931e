package methodtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/courier"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/oidctest"
)

// Sandbox is the kind that asks the user.
var Sandbox = Subject{Kind: otherMethod, Level: "L1", Unbound: true,
	Open: func(testing.TB, func() time.Time) Side {
		return Side{Walk: func(page *testharness.Page, want Mode) Step {
			outcome := map[Mode]string{Yes: "approve", No: "fail_attempt"}[want]
			return Step{Form: page.Form(outcome)}
		}}
	}}

// OIDC is the kind that has an OpenID provider decide. Its client authenticates with a private key.
var OIDC = Subject{Kind: "oidc", Level: "L2", Open: openOIDC}

// Estimator is the kind that estimates an age.
var Estimator = Subject{Kind: "estimator", Level: "L1", Hands: true, Open: openEstimator}

// Courier is a kind whose response comes from another device than the browser.
var Courier = Subject{Kind: courier.Kind.Name, Level: "L2", Hands: true, Test: &courier.Kind,
	Open: openCourier}

// Private data of a run, in addition to the provider's.
const (
	privateSubject = "canary-subject-53a1"
	privateClaim   = "canary-claim-90be"
	privateSecret  = "canary-secret-6c27"
)

// secrets collects private data as it appears.
type secrets struct {
	mu  sync.Mutex
	all map[string]string
}

func newSecrets(first map[string]string) *secrets { return &secrets{all: first} }

func (s *secrets) add(what, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[fmt.Sprintf("%s (number %d)", what, len(s.all))] = text
}

func (s *secrets) list() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}

func openOIDC(t testing.TB, now func() time.Time) Side {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	p := oidctest.Start(t, oidctest.Config{Now: now, Clients: []oidctest.Client{
		{ID: "verge", Auth: "private_key_jwt", Key: &key.PublicKey}}})
	private := newSecrets(map[string]string{"the subject": privateSubject, "a claim": privateClaim})
	p.Rewrite(func(token string) string {
		private.add("an ID token", token)
		return token
	})
	side := Side{
		Config: method.Config{
			Settings: settings(t, map[string]any{"issuer": p.URL, "client_id": "verge",
				"proof": oidctest.AgeProof(18)}),
			Keys: []string{"private_key"}},
		Keys: map[string][]byte{"oidc_private_key": pem.EncodeToMemory(
			&pem.Block{Type: "PRIVATE KEY", Bytes: der})},
		Set: func(m Mode) { setProvider(p.Provider, m) },
		// Serving the provider's documents is no decision.
		Asked: func() int { return p.Count(oidctest.TokenPath) },
		Private: func() map[string]string {
			for _, r := range p.Requests() {
				for what, name := range map[string]string{"a client assertion": "client_assertion",
					"a PKCE verifier": "code_verifier"} {
					if text := r.Form.Get(name); text != "" {
						private.add(what, text)
					}
				}
			}
			return private.list()
		},
	}
	side.Walk = func(page *testharness.Page, _ Mode) Step {
		leaving := page.Submit("begin")
		private.add("a nonce", queryOf(t, leaving.Hop, "nonce"))
		step := Step{Address: leaving.ReturnURL()}
		private.add("a code", queryOf(t, step.Address, "code"))
		private.add("the handle of a pending request", queryOf(t, step.Address, "state"))
		return step
	}
	return side
}

func setProvider(p *oidctest.Provider, m Mode) {
	age := 40
	if m == No {
		age = 17
	}
	claims := oidctest.AgeClaims(age)
	claims["name"] = privateClaim
	p.Heal()
	p.Answer(oidctest.Answer{Subject: privateSubject, Claims: claims})
	switch m {
	case Fails:
		for _, path := range []string{oidctest.DiscoveryPath, oidctest.KeysPath, oidctest.TokenPath} {
			p.Fault(path, oidctest.Fault{Status: 500, Body: privateClaim})
		}
	case Hangs:
		p.Fault(oidctest.TokenPath, oidctest.Fault{Hang: true})
	case Rubbish:
		p.Fault(oidctest.TokenPath, oidctest.Fault{Body: `{"id_token":"` + privateClaim})
	}
}

func openEstimator(t testing.TB, now func() time.Time) Side {
	t.Helper()
	e, base := estimatortest.Serve(t, estimatortest.Config{Now: now, Token: privateSecret})
	picture := estimatortest.Picture()
	private := map[string]string{"the token": privateSecret,
		"the picture": string(picture[len(picture)/2:][:48]),
		"the age":     "41.8317", "the deviation": "1.9173", "an estimator's other data": privateClaim}
	return Side{
		Config: method.Config{
			Settings: settings(t, map[string]any{"profile": "plain", "url": base + estimatortest.PlainPath}),
			Secrets:  map[string]string{"token": privateSecret}},
		Set: func(m Mode) {
			e.Answer(map[Mode]estimatortest.Answer{
				Yes:     {Age: 41.8317, Deviation: 1.9173},
				No:      {Age: 11.8317, Deviation: 1.9173},
				Fails:   {Status: 500, Body: privateClaim},
				Hangs:   {Hang: true},
				Rubbish: {Body: `{"age":"` + privateClaim},
			}[m])
		},
		Asked: func() int { return len(e.Requests()) },
		Walk: func(page *testharness.Page, _ Mode) Step {
			return Step{Form: page.StepForm("camera", picture)}
		},
		Private: func() map[string]string { return private },
	}
}

func openCourier(testing.TB, func() time.Time) Side {
	var mode atomic.Int32
	private := newSecrets(map[string]string{"a response's other data": privateClaim})
	return Side{
		Set: func(m Mode) { mode.Store(int32(m)) },
		Walk: func(page *testharness.Page, _ Mode) Step {
			waiting := page.Submit("begin")
			to, nonce := Ask(waiting.Code)
			private.add("a nonce", nonce)
			return Step{Address: waiting.URL, First: func() {
				switch Mode(mode.Load()) {
				case Yes:
					Answer(waiting, to, Approve, to, nonce)
				case No:
					Answer(waiting, to, Fail, to, nonce)
				case Fails:
					Answer(waiting, to, Later, to, nonce)
				case Rubbish:
					Answer(waiting, to, privateClaim, to, nonce)
				}
			}}
		},
		Private: private.list,
	}
}

// Ask returns the parts of a courier's request: the response address and the nonce.
func Ask(ask string) (to, nonce string) {
	u, err := url.Parse(ask)
	if err != nil {
		return "", ""
	}
	return u.Query().Get("to"), u.Query().Get("nonce")
}

// Answer posts a response to an address. made is the address for which it was created.
func Answer(page *testharness.Page, address, answer, made, nonce string) *testharness.Response {
	body, err := json.Marshal(map[string]string{"answer": answer, "to": made, "nonce": nonce,
		"note": privateClaim})
	if err != nil {
		panic(err) // strings always marshal
	}
	return page.AsAnother("POST", address, testharness.Headers("Content-Type", "application/json"), body)
}

func settings(t testing.TB, members map[string]any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(members)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
