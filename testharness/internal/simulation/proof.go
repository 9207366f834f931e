package simulation

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/oidc"
	"github.com/verge-id/verge/core/method/sandbox"
)

// proofKind is a kind of method like openid4vp: a wallet responds to a question about an age, and the
// response counts only if its issuer is a trust anchor. Its responses have no signatures, because those of
// wallets are never the same twice. So the people of a history are honest about the issuer of their wallets;
// attackers have one of an untrusted issuer.
var proofKind = method.Kind{Name: "proof", Level: "L2",
	Open: func(c method.Config, h method.Host) (method.Method, error) {
		p := &proof{random: h.Random}
		return p, json.Unmarshal(c.Settings, &p.settings)
	}}

type proof struct {
	random   io.Reader
	settings proofSettings
}

// proofSettings are the settings of the method.
type proofSettings struct {
	Anchors []string `json:"anchors"` // names of issuers
	Profile string   `json:"profile"` // what the fingerprint covers
}

var (
	_ method.ResponseReceiver = (*proof)(nil)
	_ method.Truster          = (*proof)(nil)
	_ method.Fingerprinter    = (*proof)(nil)
)

// proofState is the question: a nonce and the age.
type proofState []byte

const nonceSize = 16

func (s proofState) age() int { return int(binary.BigEndian.Uint16(s[nonceSize:])) }

func (s proofState) nonce() string { return base64.RawURLEncoding.EncodeToString(s[:nonceSize]) }

// proofResponse is the body that the wallet posts.
type proofResponse struct {
	To     string `json:"to"`
	Nonce  string `json:"nonce"`
	Issuer string `json:"issuer"`
	Old    bool   `json:"old"` // whether the person has the age that was asked for
}

// Begin implements method.Method.
func (*proof) Begin(context.Context, method.Session) error { return nil }

// Show implements method.Method.
func (*proof) Show(s method.Session, state []byte) method.View {
	if s.ResponseURI == "" {
		return method.View{Choices: []string{"begin"}}
	}
	ask := func(to string) string {
		q := proofState(state)
		return "proof://?" + url.Values{"to": {to}, "nonce": {q.nonce()},
			"age": {strconv.Itoa(q.age())}}.Encode()
	}
	return method.View{Choices: []string{"cancel"}, Open: ask(s.ResponseURI + method.SameDevice),
		Code: ask(s.ResponseURI)}
}

// Act implements method.Method.
func (p *proof) Act(_ context.Context, s method.Session, step method.Step) (method.Decision, error) {
	if step.Response != nil {
		var r proofResponse
		if len(step.State) < nonceSize+2 || json.Unmarshal(step.Response, &r) != nil {
			return method.Decision{}, method.ErrStep
		}
		d := method.Decision{Verdict: method.AttemptFailed, Trust: r.Issuer}
		if r.Old {
			d.Verdict, d.Age = method.Approved, proofState(step.State).age()
		}
		return d, nil
	}
	switch step.Form.Get(method.OutcomeField) {
	case "begin":
		state := make([]byte, nonceSize)
		if _, err := io.ReadFull(p.random, state); err != nil {
			return method.Decision{}, err
		}
		state = binary.BigEndian.AppendUint16(state, uint16(s.MinimumAge))
		return method.Decision{Verdict: method.Pending, State: state, Await: true}, nil
	case "cancel":
		return method.Decision{Verdict: method.Cancelled}, nil
	}
	return method.Decision{}, method.ErrStep
}

// Receive implements method.ResponseReceiver.
func (p *proof) Receive(
	_ context.Context,
	_ method.Session,
	state []byte,
	c method.Call,
) ([]byte, error) {
	var r proofResponse
	if json.Unmarshal(c.Body, &r) != nil {
		return nil, fmt.Errorf("%w: no JSON", method.ErrStep)
	}
	switch {
	case r.To != c.Address || strings.HasSuffix(r.To, method.SameDevice) != c.Same:
		return nil, &method.Refusal{Reason: "another_address"}
	case r.Nonce != proofState(state).nonce():
		return nil, &method.Refusal{Reason: "another_nonce"}
	case !slices.Contains(p.settings.Anchors, r.Issuer):
		return nil, &method.Refusal{Reason: "untrusted"}
	}
	return c.Body, nil
}

// Trusts implements method.Truster.
func (p *proof) Trusts(_ context.Context, trust string) (bool, error) {
	return slices.Contains(p.settings.Anchors, trust), nil
}

// Fingerprint implements method.Fingerprinter.
func (p *proof) Fingerprint() string { return p.settings.Profile }

// configOf is the service's configuration with that trust.
func configOf(c core.Config, trust proofSettings) core.Config {
	settings, err := json.Marshal(trust)
	must(err)
	c.Methods = []method.Config{{Name: proofKind.Name, Kind: proofKind.Name, Settings: settings},
		{Name: bankMethod, Kind: oidc.Kind.Name, Settings: bankSettings(),
			Secrets: map[string]string{"client_secret": "secret of the simulation"}}}
	c.Kinds = []method.Kind{sandbox.Kind, oidc.Kind, proofKind}
	return c
}

// question has the facts that a wallet reads from a link.
type question struct {
	to, nonce string
	age       int
}

func readQuestion(link string) (question, bool) {
	u, err := url.Parse(link)
	if err != nil {
		return question{}, false
	}
	age, err := strconv.Atoi(u.Query().Get("age"))
	return question{u.Query().Get("to"), u.Query().Get("nonce"), age}, err == nil
}
