package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/digitalcredentials"
	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wallettest"
)

// credentialStep is the form that asks the browser's wallets.
const credentialStep = `form[data-step="credential"]`

// TestProofInChromium: the binary's page asks Chromium for a zero-knowledge proof by navigator.credentials.
// Chromium's virtual wallet responds with a fresh proof of Google's prover (contract 56). A proof for another
// site and a false statement fail the attempt.
func TestProofInChromium(t *testing.T) {
	long.Skip(t, "TestProofInChromium")
	program := os.Getenv("VERGE_LONGFELLOW_PROVER")
	if program == "" {
		t.Skip("SKIP: VERGE_LONGFELLOW_PROVER is not set to a program that proves by google/longfellow-zk")
	}
	t.Parallel()
	file := circuitFile(t)
	s := newTrust(t, "")
	protocols := []string{"openid4vp-v1-unsigned", "org-iso-mdoc"}
	browser, err := json.Marshal(protocols)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(strings.Replace(s.provenWallet("require", file), "zero_knowledge",
		"browser = "+string(browser)+"\nzero_knowledge", 1))
	front := &production{site: s.site, in: s.in}
	front.stand(t)
	p := &proofPage{t: t, s: s, ctx: front.chromium(t),
		prove: wallettest.ExternalProver(program, filepath.Dir(file))}
	for _, protocol := range protocols {
		p.begins()
		p.picture("proof-asked-" + protocol)
		p.responds(protocol, productionURL, nil)
		p.completes("contract 56: a proof by " + protocol)
		p.picture("proof-completed-" + protocol)
	}
	for _, protocol := range protocols {
		p.begins()
		p.responds(protocol, "https://other.example", nil)
		p.fails("contract 56: a proof for another site by " + protocol)
	}
	p.begins()
	p.responds("org-iso-mdoc", productionURL, func(z *wallettest.ZKResponse) {
		var shown wallettest.Presentation
		shown.Set("age_over_18", false)
		z.Elements = shown.Elements
	})
	p.fails("contract 56: another value than the proof's")
	p.picture("proof-rejected")
}

// proofPage is a tab of Chromium with a wallet.
type proofPage struct {
	t     *testing.T
	s     *trust
	ctx   context.Context
	prove func(wallettest.ProofTask) ([]byte, error)
	id    string // of the session
	of    *publisher
}

func (p *proofPage) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		text, _ := chromedp.Run(p.ctx, chromedp.Text("body"))
		p.t.Fatalf("%v; the page: %s; the log: %s", err, text, p.s.in.logs)
	}
}

// begins begins a session and ends on the page that asks for a wallet.
func (p *proofPage) begins() {
	p.t.Helper()
	p.of = newPublisher(readyFile{BaseURL: productionURL, seeds: seeds{SecretKey: p.s.first.key}})
	p.of.http = p.s.client()
	id, redirect, err := p.of.start(p.s.first.integration)
	if err != nil {
		p.t.Fatal(err)
	}
	p.id = id
	p.do(chromedp.Navigate(redirect), chromedp.Click(`form[data-outcome="begin"] button`),
		chromedp.WaitVisible(credentialStep))
}

// responds lets the virtual wallet respond to the request of a protocol, as if the page of an origin had
// asked, and clicks the button. The proof is of a document of a user over 18; edit changes the response.
func (p *proofPage) responds(protocol, origin string, edit func(*wallettest.ZKResponse)) {
	p.t.Helper()
	attribute := func(name string) string {
		v, err := chromedp.Run(p.ctx, chromedp.AttributeValue(credentialStep, name))
		if err != nil {
			p.t.Fatal(err)
		}
		return v.Value
	}
	type request struct {
		Protocol string
		Data     json.RawMessage
	}
	var all []request
	if err := json.Unmarshal([]byte(attribute("data-more")), &all); err != nil {
		p.t.Fatal(err)
	}
	all = append(all, request{attribute("data-protocol"), json.RawMessage(attribute("data-request"))})
	at := slices.IndexFunc(all, func(r request) bool { return r.Protocol == protocol })
	if at < 0 {
		p.t.Fatalf("the page does not ask by %s", protocol)
	}
	wallet := wallettest.New(p.s.issuer)
	wallet.Prove, wallet.EditProof = p.prove, edit
	data, err := wallet.Credential(origin, protocol, all[at].Data)
	if err != nil {
		p.t.Fatal(err)
	}
	respond := digitalcredentials.SetVirtualWalletBehaviorParams{Protocol: protocol,
		Action: digitalcredentials.VirtualWalletActionRespond, Response: jsonv2.Value(data)}
	p.do(devtools(digitalcredentials.SetVirtualWalletBehavior, respond),
		chromedp.Click(credentialStep+" button"))
}

// completes waits until the browser is at the shop, and validates its token.
func (p *proofPage) completes(rule string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Minute)
	defer cancel()
	at := location(ctx, func(at string) bool { return strings.HasPrefix(at, productionShop+"/callback?") })
	back, err := url.Parse(at)
	if err != nil || ctx.Err() != nil {
		p.picture("proof-failure")
		p.t.Fatalf("%s: the browser ends at %q: %v; the log: %s", rule, at, err, p.s.in.logs)
	}
	if valid, status, body := p.of.validate(back.Query().Get("result_token")); !valid {
		p.t.Fatalf("%s: validate: %d %s", rule, status, body)
	}
}

// fails waits for the notice of a failed attempt. The session continues.
func (p *proofPage) fails(rule string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.WaitVisible(`.notice`)); err != nil {
		p.picture("proof-failure")
		p.t.Fatalf("%s: no notice: %v; the log: %s", rule, err, p.s.in.logs)
	}
	code, _, body, err := p.of.api("GET", "/api/v1/verify/sessions/"+p.id, nil)
	if err != nil || code != http.StatusOK || !strings.Contains(string(body), `"status":"PENDING"`) {
		p.t.Fatalf("%s: %d %v %s; the log: %s", rule, code, err, body, p.s.in.logs)
	}
}

// picture writes a screenshot to the folder that VERGE_PICTURES names, for a reviewer.
func (p *proofPage) picture(name string) {
	u := &consoleUser{t: p.t, ctx: p.ctx}
	u.picture(name)
}
