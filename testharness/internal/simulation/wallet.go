package simulation

import (
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/passkeytest"
)

// person is a user who may visit more than one shop with the same device.
type person struct {
	device *passkeytest.Authenticator
	held   []heldPasskey
}

// heldPasskey is a passkey of the device, and its proofs.
type heldPasskey struct {
	id        string
	publisher string
	proofs    []shownProof // it stands for one of them
	made      time.Time
}

// shownProof is a response that a wallet has sent, and that the service may have accepted.
type shownProof struct {
	browser *browser
	issuer  string
	age     int // that was asked for, and that the person has
	at      time.Time
	level   int // the highest that the session can have
}

func maxLevel(s *session) int { return slices.Max(s.levels) }

func newPerson(seed uint64) *person {
	device := passkeytest.New(baseURL)
	device.Algorithm, device.Random = passkeytest.EdDSA, &random{seed}
	return &person{device: device}
}

// respond is a user whose wallet responds to the question of a page. It returns the page that the browser
// then shows.
func (w *world) respond(v *session, b *browser, p page) page {
	act := w.current.act
	same := act.chance(300) && p.app != ""
	link := p.code
	if same {
		link = p.app
	}
	q, ok := readQuestion(link)
	if !ok {
		w.judge.fail("contract 34: a page that waits has no question: %s", link)
		return p
	}
	w.sleep(time.Duration(1+act.pick(40)) * time.Second)
	issuer := []string{"red", "blue"}[act.pick(2)]
	old := !act.chance(150)
	w.judge.showing(v, shownProof{b, issuer, q.age, w.now, maxLevel(v)}, old)
	a := w.postProof(q, proofResponse{To: q.to, Nonce: q.nonce, Issuer: issuer, Old: old})
	w.judge.plain("a response of a wallet", a)
	if to := a.text("redirect_uri"); same && a.status == 200 && to != "" {
		return b.get(to)
	}
	return w.poll(b, p)
}

// postProof posts a wallet's response.
func (w *world) postProof(q question, r proofResponse) answer {
	a := w.ask(false, request("POST", strings.TrimPrefix(q.to, baseURL), "", r))
	w.tell(w.current.name, "a wallet by %s shows %v for age %d: %d", r.Issuer, r.Old, q.age, a.status)
	return a
}

// poll loads a page that waits until it shows something else, a few times at most.
func (w *world) poll(b *browser, p page) page {
	for range 6 {
		w.sleep(3 * time.Second)
		if next := b.get(p.at); !next.unclear() && next.code == "" && next.number == "" {
			return next
		} else if !next.unclear() {
			p = next
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
	w.met(switchPasskeys)
	at := slices.IndexFunc(v.person.held, func(h heldPasskey) bool { return h.id == string(used.ID) })
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
func (s *session) basis() []shownProof { return slices.Clone(s.proofs) }

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
	w.sleep(time.Duration(5+w.current.act.pick(60)) * time.Second)
	return w.poll(b, waits)
}

// onPhone does a step on a phone.
func (w *world) onPhone(v *session, phone *browser, link string) {
	act := w.current.act
	p := phone.get(link)
	for range 5 {
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

// tryProofs is an attacker with an untrusted wallet, at the address of a page that waits.
func (w *world) tryProofs(q question) {
	a := w.postProof(q, proofResponse{To: q.to, Nonce: q.nonce, Issuer: "green", Old: true})
	w.judge.denied("a wallet of an untrusted issuer", a, 400, 404, 410)
}
