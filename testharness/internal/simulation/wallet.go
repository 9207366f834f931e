package simulation

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness/passkeytest"
	"github.com/verge-id/verge/testharness/wallettest"
)

// person is a user who may visit more than one shop with the same device.
type person struct {
	number int
	device *passkeytest.Authenticator
	held   []heldPasskey
}

// heldPasskey is a passkey of the device, and its proofs.
type heldPasskey struct {
	id        string
	publisher string
	proofs    []*shownProof // it stands for one of them
	made      time.Time
}

// shownProof is a response that a wallet has sent, and that the service may have accepted.
type shownProof struct {
	browser *browser
	issuer  string
	age     int // that was asked for, and that the person has
	at      time.Time
	level   int // the highest that the session can have

	// worthless means that it can complete nothing: the document was revoked by a list that the instance
	// had, or the bank has not confirmed the sign-in.
	worthless bool
}

func maxLevel(s *session) int { return slices.Max(s.levels) }

func newPerson(number int, seed uint64) *person {
	device := passkeytest.New(baseURL)
	device.Algorithm, device.Random = passkeytest.EdDSA, &random{seed}
	return &person{number: number, device: device}
}

// document is a response that a wallet is about to send.
type document struct {
	issuer  string
	request *wallettest.Request
	message wallettest.Message
	age     int // that it is asked for
	kind    documentKind
}

// documentKind is the state of a document, or of the response with it.
type documentKind int

const (
	goodDocument documentKind = iota
	ofChild
	ofStranger // of an issuer that no instance trusts
	expiredDocument
	ofOtherDevice  // the wallet has not the device's key
	ofOtherRequest // the response is to another request
	declined       // the user declines
	inTheClear     // the response to a signed request is not encrypted
)

func (k documentKind) String() string {
	return [...]string{"a good document", "a child's document", "an untrusted document",
		"an expired document", "a stolen document", "a response to another request", "a refusal",
		"an unencrypted document"}[k]
}

// rejected reports whether the service rejects the response: it must not change any state.
func (k documentKind) rejected() bool {
	return k == ofOtherDevice || k == ofOtherRequest || k == inTheClear
}

// otherNonce is the nonce of another request.
const otherNonce = "AAAAAAAAAAAAAAAAAAAAAA"

// open opens a link as a wallet does. It returns false if the wallet does not accept the link.
func (w *world) open(v *session, link, issuer string, kind documentKind) (d document, ok bool) {
	act := w.current.act
	wallet := theWallets()[kind == ofChild]
	wallet.Issuer, wallet.Now = &issuers()[issuer].Issuer, func() time.Time { return w.now }
	if kind == ofStranger {
		wallet.Issuer = &impostors()[issuer].Issuer
	}
	wallet.Random = &random{act.next()}
	if strings.Contains(link, "sd-jwt") && act.chance(500) {
		wallet.Format = "dc+sd-jwt"
	}
	way := &wayOfWallet{w: w}
	wallet.Client = &http.Client{Transport: way}
	r, err := wallet.Open(context.Background(), link)
	if way.failed {
		return d, false
	}
	if err != nil {
		w.judge.fail("contract 39: a wallet does not accept the request: %v", err)
		return d, false
	}
	d = document{issuer: issuer, request: r, kind: kind, age: w.judge.askedAge(v, r)}
	if kind == inTheClear {
		r.ResponseMode = "direct_post"
	}
	if kind == declined {
		d.message = wallettest.Message{URL: r.ResponseURI,
			Form: url.Values{"error": {"access_denied"}, "state": {r.State}}}
		return d, true
	}
	d.message, err = wallet.Present(r, func(p *wallettest.Presentation) {
		p.Status = wallettest.StatusReference(statusURL(issuer), int64(v.person.number))
		switch kind {
		case expiredDocument:
			p.ValidUntil = w.now.Add(-time.Hour)
		case ofOtherDevice:
			p.SignWith = keyOf("another device")
		case ofOtherRequest:
			if p.Session.Nonce = otherNonce; p.SDJWT != nil {
				p.SDJWT.Nonce = otherNonce
			}
		}
	})
	must(err)
	return d, true
}

// wayOfWallet is the way of a wallet to the service, which it uses to fetch a signed request.
type wayOfWallet struct {
	w      *world
	failed bool // there was no request
}

var errNoRequest = errors.New("simulation: the wallet got no request")

// RoundTrip implements http.RoundTripper.
func (t *wayOfWallet) RoundTrip(r *http.Request) (*http.Response, error) {
	req := request(r.Method, strings.TrimPrefix(r.URL.String(), baseURL), "", nil)
	req.Header = web.Header(r.Header)
	var err error
	if req.Body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	a := t.w.ask(false, req)
	t.w.tell(t.w.current.name, "a wallet fetches the request: %d", a.status)
	switch a.status {
	case 200:
		t.w.met(switchSigned)
		t.w.judge.reach("signed request")
	default:
		t.w.judge.plain("a request object", a)
		fallthrough
	case 0, 503: // lost, or a fault of the store
		t.failed = true
		return nil, errNoRequest
	}
	return &http.Response{StatusCode: a.status, Header: http.Header(a.header), Request: r,
		Body: io.NopCloser(bytes.NewReader(a.body))}, nil
}

// theWallets are the wallets of adults, and of children (true). They are copied.
func theWallets() map[bool]wallettest.Wallet { return wallets() }

var wallets = sync.OnceValue(func() map[bool]wallettest.Wallet {
	all := map[bool]wallettest.Wallet{}
	for _, child := range []bool{false, true} {
		born := "1986-02-28"
		if child {
			born = "2016-02-28"
		}
		all[child] = wallettest.Wallet{Key: keyOf("device"), Elements: map[string]any{
			"age_over_16": !child, "age_over_18": !child, "age_over_21": !child,
			"birth_date": wallettest.BirthDate(born)},
			Claims: map[string]any{"birthdate": born,
				"age_equal_or_over": map[string]any{"16": !child, "18": !child, "21": !child}}}
	}
	return all
})

// respond is a user whose wallet responds to the request of a page. It returns the page that the browser
// then shows.
func (w *world) respond(v *session, b *browser, p page) page {
	act := w.current.act
	same := act.chance(300) && p.app != ""
	link := p.code
	if same {
		link = p.app
	}
	w.sleep(time.Duration(1+act.pick(40)) * time.Second)
	issuer := []string{"red", "blue"}[act.pick(2)]
	if w.rate[switchLists] > 0 {
		if act.chance(500) {
			issuer = listedIssuer
		}
		if act.chance(200) { // until an instance asks for the next list
			w.sleep(time.Duration(50+act.pick(60)) * time.Second)
		}
	}
	kind := goodDocument
	if act.chance(100) {
		kind = ofChild
	}
	if act.chance(w.rate[switchWallets]) {
		w.met(switchWallets)
		kinds := 6
		if w.rate[switchSigned] > 0 {
			kinds++
		}
		kind = documentKind(1 + act.pick(kinds))
	}
	d, ok := w.open(v, link, issuer, kind)
	if !ok {
		return p
	}
	if act.chance(w.rate[switchWallets] / 2) { // the user leaves it open
		w.sleep(time.Duration(1+act.pick(700)) * time.Second)
	}
	a := w.present(v, b, d)
	if act.chance(w.rate[switchWallets]) {
		w.present(v, b, d)
	}
	if a.status == 200 {
		w.between(v, d)
	}
	if to := a.text("redirect_uri"); same && a.status == 200 && to != "" {
		return b.get(to)
	}
	return w.poll(b, p)
}

// present sends a document to an instance.
func (w *world) present(v *session, b *browser, d document) answer {
	in := w.anyInstance()
	if d.kind == inTheClear && !in.trust.signed { // this instance asks for no encryption
		d.kind = goodDocument
	}
	end := w.judge.showing(v, b, d, in)
	req := request("POST", strings.TrimPrefix(d.message.URL, baseURL), "", nil)
	req.Header["Content-Type"] = []string{"application/x-www-form-urlencoded"}
	req.Body = []byte(d.message.Form.Encode())
	a := w.askOf(in, false, req)
	end(a)
	w.tell(w.current.name, "a wallet shows %s by %s for age %d: %d", d.kind, d.issuer, d.age, a.status)
	if a.status != 503 { // a list of revoked documents may be missing
		w.judge.plain("a response of a wallet", a)
	}
	if d.kind.rejected() {
		w.judge.denied(d.kind.String(), a, 400, 404, 409, 410, 503)
	}
	return a
}

// between runs the changes by operators after a wallet's response was stored and before the browser collects
// it. The response must not count any longer (contract 34).
func (w *world) between(v *session, d document) {
	act := w.current.act
	switch {
	case w.rate[switchLists] > 0 && d.issuer == listedIssuer && act.chance(500):
		w.meanwhile("list operator", func() { w.unlist() })
	case act.chance(w.rate[switchTrust] / 2):
		w.meanwhile("trust operator", func() { w.distrust(d.issuer) })
	case act.chance(w.rate[switchOperator] / 2):
		w.meanwhile("operator", func() { w.set(v.offer, "minimum_age", 21) })
	case act.chance(w.rate[switchTrust]): // the page is loaded when trust may have changed
		w.sleep(time.Duration(10+act.pick(240)) * time.Second)
	}
}

// meanwhile runs the program of another person while the current one waits.
func (w *world) meanwhile(name string, program func()) {
	done := &signal{}
	w.person(name+" during the wait of "+w.current.name, func() {
		program()
		done.set = true
	})
	w.wait(done, 10*time.Minute)
}

// poll loads a page that waits until it shows something else, a few times at most.
func (w *world) poll(b *browser, p page) page {
	for tries, left := 0, 4; left > 0 && tries < 20; tries++ {
		w.sleep(4 * time.Second)
		if next := b.get(p.at); !next.unclear() && next.code == "" && next.number == "" {
			return next
		} else if !next.unclear() {
			p = next
			left--
		}
	}
	return p
}

// enrol creates a passkey on the page after a success, and returns the page that follows.
func (w *world) enrol(v *session, b *browser, p page) page {
	f, ok := p.find(func(f form) bool { return f.step == "enrol" && f.options != "" })
	if !ok || !w.current.act.chance(w.rate[switchPasskeys]) {
		return p
	}
	w.met(switchPasskeys)
	made, err := v.person.device.Create([]byte(f.options))
	if err != nil {
		return p // the device has one already
	}
	f.fields.Set(method.CredentialField, string(made.JSON()))
	next := b.post(f)
	w.judge.reach("passkey created")
	v.person.held = append(v.person.held, heldPasskey{string(made.ID), w.shops[v.shop].publisher,
		v.basis(), w.now})
	if next.hop == "" {
		return p
	}
	return next
}

// usePasskey uses a passkey on a page that offers it. ok is false if the page or the person has none.
func (w *world) usePasskey(v *session, b *browser, p page) (next page, ok bool) {
	f, ok := p.find(func(f form) bool { return f.step == "passkey" && f.options != "" })
	if !ok || len(v.person.held) == 0 {
		return p, false
	}
	used, err := v.person.device.Get([]byte(f.options))
	if err != nil {
		return p, false
	}
	at := slices.IndexFunc(v.person.held, func(h heldPasskey) bool { return h.id == string(used.ID) })
	if at < 0 { // another tab is creating it
		return p, false
	}
	w.met(switchPasskeys)
	v.passkeys = append(v.passkeys, shownPasskey{v.person.held[at], b, w.now})
	v.acts["approve"] = true
	f.fields.Set(method.CredentialField, string(used.JSON()))
	w.tell(w.current.name, "uses a passkey")
	return b.post(f), true
}

// shownPasskey is a passkey that a browser has used in a session.
type shownPasskey struct {
	heldPasskey
	browser *browser
	at      time.Time
}

// basis returns the proofs that may have completed the session. A session that a passkey completed gives
// none: the judge then compares it with other proofs.
func (s *session) basis() []*shownProof { return slices.Clone(s.proofs) }

// continueOnPhone opens a hand-off and does the step on a phone. It returns the page of the first browser.
func (w *world) continueOnPhone(v *session, b *browser, p page) page {
	f, ok := p.find(func(f form) bool { return f.hand })
	if !ok {
		return p
	}
	w.met(switchPhones)
	waits := b.post(f)
	if waits.unclear() || waits.code == "" {
		return waits
	}
	phone := &browser{w: w, cookies: map[string]string{}, address: b.address + 50, of: b}
	w.person("phone of "+w.current.name, func() { w.onPhone(v, phone, waits.code) })
	for range 4 { // the phone takes its time
		w.sleep(time.Duration(5+w.current.act.pick(60)) * time.Second)
		if next := w.poll(b, waits); next.number == "" && next.code == "" {
			return next
		}
	}
	return waits
}

// onPhone does a step on a phone.
func (w *world) onPhone(v *session, phone *browser, link string) {
	act := w.current.act
	p := phone.get(link)
	for range 12 {
		w.sleep(time.Duration(1+act.pick(5)) * time.Second)
		switch {
		case p.unclear():
			p = phone.get(link)
		case strings.HasPrefix(p.hop, bankURL+"/"):
			p = w.atBank(v, phone, p)
		case p.hop != "":
			w.judge.fail("contract 40: the phone's page leads to the site: %s", p.hop)
			return
		case p.code != "" || p.app != "":
			p = w.respond(v, phone, p)
		case len(p.forms) > 0:
			f := p.forms[0]
			w.tell(w.current.name, "posts the form %q", f.outcome)
			p = phone.post(f)
		default:
			return
		}
	}
}

// tryProofs is an attacker with a document of another device, at the address of a page that waits.
func (w *world) tryProofs(v *session, b *browser, link string) {
	kind := ofOtherDevice + documentKind(w.current.act.pick(2))
	if d, ok := w.open(v, link, "red", kind); ok {
		w.present(v, b, d)
	}
}
