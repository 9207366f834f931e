package simulation

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
)

// offer is an integration that the base has.
type offer struct {
	id, level string
	age       int
	url       string // of the webhook; "": it is off
	secret    string
	proves    bool // its method is not the sandbox
	estimates bool // its method is the estimator
}

func (o offer) levelNumber() int { return int(o.level[1] - '0') }

// shop is a publisher.
type shop struct {
	w            *world
	publisher    string
	key          string   // that it uses
	keys         []string // that it has
	integrations []offer

	ended   time.Time // when its passkeys were ended: not before
	endedBy time.Time // and not after

	archived []archived
	gone     bool // it is archived, or about to be
}

// populate starts the people of a history.
func (w *world) populate() {
	draw := w.stream("people")
	visitors := []int{1, 1, 1, 2, 2, 3}[draw.pick(6)]
	if w.rate[switchPasskeys] > 0 { // the first one creates a passkey for another
		visitors += 2
	}
	if w.rate[switchLists] > 0 { // a document is shown again, with another list
		visitors++
	}
	for n := range visitors {
		at, pick := draw.pick(2), w.integration(draw)
		w.person(fmt.Sprintf("visitor %d", n+1), func() { w.visit(n, w.shops[at], at, pick) })
	}
	if w.rate[switchOperator] > 0 {
		for n := range 2 {
			w.person(fmt.Sprintf("operator %d", n+1), w.administer)
		}
	}
	if w.rate[switchKeys] > 0 {
		w.person("key operator", w.changeKeys)
	}
	if w.rate[switchTrust] > 0 {
		w.person("trust operator", w.changeTrust)
	}
	if w.rate[switchArchive] > 0 {
		w.person("site operator", w.archive)
	}
	if w.rate[switchMembers] > 0 {
		w.person("member operator", w.admit)
	}
	if w.rate[switchLists] > 0 {
		w.person("issuers", w.publishLists)
		for _, r := range w.registers { // some documents are revoked before
			for person := range w.persons {
				if draw.chance(250) {
					r.revoke(person)
				}
			}
		}
		w.person("list operator", w.loadLists)
	}
	if w.rate[switchRotation] > 0 {
		w.person("ring operator", w.rotate)
	}
}

// integration chooses an integration by its place. Some are more frequent if a switch is about them.
func (w *world) integration(draw *stream) int {
	pick := draw.pick(8)
	sandboxes := 3
	for _, f := range []faultSwitch{switchTrust, switchLists, switchWallets, switchPasskeys} {
		if w.rate[f] > 0 {
			sandboxes--
		}
	}
	switch {
	case pick == 0 && w.rate[switchPasskeys] > 0:
		return 6
	case pick == 7, pick < 3 && pick >= sandboxes:
		return 3
	case pick == 0 && w.rate[switchReceivers] > 0:
		return 4
	}
	return pick
}

// visit is a visitor of a shop: the shop starts a session, and the visitor's browser goes through it.
func (w *world) visit(n int, s *shop, at, pick int) {
	act := w.current.act
	within := 120
	if w.rate[switchPasskeys] > 0 {
		within = 600 // a passkey is used after it was created
	}
	w.sleep(time.Duration(5+act.pick(within)) * time.Second) // instances take a moment to start
	i := s.integrations[pick]
	v := &session{
		shop:   at,
		offer:  i,
		person: w.persons[act.pick(len(w.persons))*act.pick(2)], // the first one more often
		state:  fmt.Sprintf("canary-state-%d", n),
		user:   fmt.Sprintf("canary-user-%d", n),
		asked:  w.now,
	}
	body := map[string]any{"integration_id": i.id, "callback_url": callback, "state": v.state,
		"external_user_id": v.user}
	idempotent := ""
	if act.chance(500) {
		idempotent = fmt.Sprintf("visit-%d", n)
	}
	key := s.key // a repetition with another key is another request
	start := func() answer {
		req := request("POST", web.StartPath, key, body)
		if idempotent != "" {
			req.Header["Idempotency-Key"] = []string{idempotent}
		}
		asked := w.now
		a := w.ask(false, req)
		w.judge.startAnswered(i, a, idempotent != "")
		w.judge.keyUsed(s, key, asked, a)
		w.judge.startUsed(i, asked, a)
		return a
	}
	var first answer
	for range 4 {
		if first = start(); first.known() {
			break
		}
		w.sleep(time.Duration(1+act.pick(10)) * time.Second)
	}
	if first.status != 200 {
		if idempotent != "" && first.status != 502 {
			w.judge.unknown["int_"+i.id]++
		}
		w.tell("shop", "has no session: %d %s", first.status, first.text("code"))
		return
	}
	v.id, v.link, v.answered = first.text("session_id"), first.text("redirect_url"), w.now
	w.judge.started(v, first)
	if idempotent != "" && act.chance(w.rate[switchRetries]) {
		again := start()
		if again.status == 200 && string(again.body) != string(first.body) {
			w.judge.startedAgain(i, first, again)
		}
	}
	b := &browser{w: w, cookies: map[string]string{}, address: byte(n + 1)}
	w.person(fmt.Sprintf("user %d", n+1), func() { w.browse(v, b) })
	if act.chance(w.rate[switchTabs]) {
		w.met(switchTabs)
		w.person(fmt.Sprintf("user %d, second tab", n+1), func() { w.browse(v, b) })
	}
	if act.chance(w.rate[switchAttackers]) {
		w.met(switchAttackers)
		w.person(fmt.Sprintf("attacker %d", n+1), func() { w.attack(v, byte(n+100)) })
	}
	for range act.pick(4) {
		w.sleep(time.Duration(act.pick(200)) * time.Second)
		s.reconcile(v)
	}
	if act.chance(300) { // the shop asks when the session must have ended
		w.sleep(max(0, v.answered.Add(10*time.Minute).Sub(w.now)))
		for range 1 + act.pick(3) {
			w.sleep(time.Duration(1+act.pick(5000)) * time.Millisecond)
			s.reconcile(v)
		}
	}
}

// reconcile asks for the session's state.
func (s *shop) reconcile(v *session) answer {
	asked, key := s.w.now, s.key
	a := s.w.ask(false, request("GET", web.SessionsPath+v.id, key, nil))
	s.w.judge.keyUsed(s, key, asked, a)
	s.w.judge.reconciled(v, asked, a)
	return a
}

// reconcileFinally asks until it gets the state.
func (s *shop) reconcileFinally(v *session) {
	for range 20 {
		if a := s.reconcile(v); a.status == 200 {
			v.final = a
			return
		}
		s.w.sleep(3 * time.Second)
	}
	if s.w.judge.forgot {
		return // it may have forgotten the shop's key
	}
	s.w.judge.fail("I10: session %s cannot be reconciled after all faults have ended", v.id)
}

// browse is a user with one tab of a browser.
func (w *world) browse(v *session, b *browser) {
	act := w.current.act
	w.sleep(time.Duration(1+act.pick(20)) * time.Second)
	p := b.get(v.link)
	fails := act.chance(150) // each attempt of this user
	ends := v.answered.Add(11 * time.Minute)
	for range 30 {
		if w.over || w.now.After(ends) {
			return
		}
		w.judge.saw(v, b, p)
		switch {
		case p.unclear():
			w.sleep(time.Duration(2+act.pick(20)) * time.Second)
			p = b.get(v.link)
			continue
		case strings.HasPrefix(p.hop, bankURL+"/"):
			p = w.atBank(v, b, p)
			continue
		case p.hop != "":
			if p = w.enrol(v, b, p); w.over {
				return
			}
			w.goBack(v, p.hop)
			if !act.chance(w.rate[switchRetries]) {
				return
			}
			w.sleep(time.Duration(act.pick(150)) * time.Second)
			p = b.get(v.link) // the back button
			continue
		case len(p.forms) == 0:
			return
		}
		w.think(v)
		if v.offer.proves {
			p = w.prove(v, b, p)
			continue
		}
		f := choose(act, p.forms, fails)
		switch {
		case act.chance(60): // the user walks away
			return
		case act.chance(w.rate[switchTabs]):
			g := f
			if act.chance(500) {
				g = choose(act, p.forms, fails)
			}
			w.judge.acted(v, g)
			w.person("second click of "+w.current.name, func() { w.judge.saw(v, b, b.post(g)) })
		}
		w.judge.acted(v, f)
		p = b.post(f)
	}
}

// prove is a step of a user whose session needs a proof of age.
func (w *world) prove(v *session, b *browser, p page) page {
	act := w.current.act
	if p.code != "" || p.app != "" {
		switch {
		case act.chance(w.rate[switchPhones]):
			return w.continueOnPhone(v, b, p)
		case act.chance(100):
			return w.poll(b, p) // no one responds
		}
		return w.respond(v, b, p)
	}
	if act.chance(w.rate[switchPasskeys]) {
		if next, ok := w.usePasskey(v, b, p); ok {
			return next
		}
	}
	if f, ok := p.find(func(f form) bool { return f.step == "camera" }); ok {
		return w.pose(v, b, f)
	}
	f, ok := p.find(func(f form) bool { return f.outcome != "" })
	if !ok {
		return b.get(v.link)
	}
	return b.post(f)
}

// think lets time pass before a user acts: seconds, or up to about the end of the session.
func (w *world) think(v *session) {
	act := w.current.act
	if !act.chance(25) {
		w.sleep(time.Duration(1+act.pick(30)) * time.Second)
		return
	}
	end := v.answered.Add(10*time.Minute - 3*time.Second + time.Duration(act.pick(6000))*time.Millisecond)
	if end.After(w.now) {
		w.sleep(end.Sub(w.now))
	}
}

// choose returns one of the forms. Approval, the quiet choice, is the most frequent one.
func choose(act *stream, forms []form, fails bool) form {
	wanted := [...]string{"approve", "approve", "approve", "approve", "fail_attempt", "fail_attempt",
		"fail_attempt", "reject", "withdraw", "cancel", "unknown"}[act.pick(11)]
	if fails {
		wanted = "fail_attempt"
	}
	for _, f := range forms {
		if f.outcome == wanted {
			return f
		}
	}
	return forms[0]
}

// goBack is the browser's request to the callback: the shop exchanges the result token.
func (w *world) goBack(v *session, hop string) {
	u, err := url.Parse(hop)
	if err != nil {
		w.judge.fail("the way back of %s is no address: %s", v.id, hop)
		return
	}
	q := u.Query()
	result := q.Get("result_token")
	w.judge.returned(v, hop, q)
	name := fmt.Sprintf("callback of %s", w.current.name)
	w.person(name, func() { w.shops[v.shop].validate(v, result) })
	if w.current.act.chance(w.rate[switchRetries]) {
		w.person(name+", again", func() { w.shops[v.shop].validate(v, result) })
	}
}

// validate exchanges a result token as a publisher does: at most a few times, until the result is known.
func (s *shop) validate(v *session, result string) {
	w, act := s.w, s.w.current.act
	v.callers++
	owner := fmt.Sprint(v.callers)
	w.sleep([]time.Duration{0, time.Second, 20 * time.Second, 4*time.Minute + 58*time.Second,
		5*time.Minute + 1*time.Second}[act.pick(5)])
	named := act.chance(500)
	for n := range 5 {
		asked, key := w.now, s.key
		req := request("POST", web.ValidatePath, key, map[string]string{"result_token": result})
		caller := fmt.Sprintf("call %s.%d", owner, n)
		if named {
			caller = "key " + owner
			req.Header["Idempotency-Key"] = []string{"validate-" + owner}
		}
		end := w.judge.validating(v, caller)
		a := w.ask(false, req)
		end(a)
		w.judge.keyUsed(s, key, asked, a)
		if a.known() && !act.chance(w.rate[switchRetries]) {
			return
		}
		w.sleep(time.Duration(1+act.pick(20)) * time.Second)
	}
}

// attack is an attacker who has the link of a session, and another publisher's key.
func (w *world) attack(v *session, address byte) {
	act := w.current.act
	other := w.shops[1-v.shop]
	b := &browser{w: w, cookies: map[string]string{}, address: address}
	for range 1 + act.pick(5) {
		w.sleep(time.Duration(1+act.pick(150)) * time.Second)
		switch act.pick(7) {
		case 6: // the way back from the bank of a browser, in another browser
			if w.bank.last != "" {
				w.judge.saw(v, b, b.get(w.bank.last))
			}
		case 0: // GET and HEAD have no effect that the judge could count
			b.send("HEAD", v.link, nil)
			b.get(v.link)
		case 1:
			a := w.ask(false, request("GET", web.SessionsPath+v.id, other.key, nil))
			w.judge.denied("another publisher reconciles", a, 404)
		case 2:
			a := w.ask(false, request("POST", web.ValidatePath, other.key,
				map[string]string{"result_token": w.judge.aToken(v, act)}))
			w.judge.denied("another publisher validates", a, 400)
		case 3:
			a := w.ask(false, request("POST", web.ValidatePath, w.shops[v.shop].key,
				map[string]string{"result_token": w.forge(v)}))
			w.judge.denied("a forged result token", a, 400)
		case 4: // anyone with the link of an active session can use it
			p := b.get(v.link)
			w.judge.saw(v, b, p)
			if v.offer.proves {
				if p, ok := p.find(func(f form) bool { return f.outcome == "begin" }); ok {
					if next := b.post(p); next.code != "" {
						w.tryProofs(v, b, next.code)
					}
				}
			} else if len(p.forms) > 0 {
				f := choose(act, p.forms, false)
				w.judge.acted(v, f)
				w.judge.saw(v, b, b.post(f))
			}
		case 5:
			id := []byte(v.id)
			at := len("svc_sess_") + act.pick(len(id)-len("svc_sess_")-1)
			id[at] ^= 1
			a := w.ask(false, request("GET", web.SessionsPath+url.PathEscape(string(id)),
				w.shops[v.shop].key, nil))
			w.judge.denied("an altered session id", a, 404, 400)
		}
	}
}

// forge returns a result token for the session by another service's key ring (I13).
func (w *world) forge(v *session) string {
	own := &random{7}
	keys, err := keyring.Generate(own, epoch.Add(-time.Hour))
	must(err)
	ring, err := keys.Ring(hostName, own, func() time.Time { return w.now })
	must(err)
	text, err := sessiontest.Forger{Sealer: ring}.Result(v.id, w.now, "")
	must(err)
	return text
}

// administer is an operator who changes settings.
func (w *world) administer() {
	act := w.current.act
	for range 1 + act.pick(4) {
		w.sleep(time.Duration(5+act.pick(200)) * time.Second)
		if !act.chance(w.rate[switchOperator]) {
			continue
		}
		w.met(switchOperator)
		s := w.shops[act.pick(2)]
		i := s.integrations[act.pick(7)]
		if w.rate[switchPasskeys] > 0 && act.chance(500) {
			i = s.integrations[3]
		}
		switch what := act.pick(3); {
		case i.estimates && what < 2:
			w.set(i, "challenge_age", 20+act.pick(20))
		case i.proves && what == 0:
			w.set(i, "minimum_age", []int{16, 18, 21}[act.pick(3)])
		case i.proves && what == 1:
			w.set(i, "level", 1+act.pick(2))
		case what == 1 && act.chance(300): // a colleague does so, too
			w.person("colleague of "+w.current.name, func() { w.set(i, "attempts", 1+w.current.act.pick(5)) })
			w.set(i, "attempts", 1+act.pick(5))
		case i.proves:
			w.endPasskeys(s)
		case what == 0:
			w.set(i, "challenge_age", 18+act.pick(60))
		case what == 1:
			w.set(i, "attempts", 1+act.pick(5))
		default:
			w.rotateSecret(i)
		}
	}
}

// set changes a setting, in the version that the operator sees.
func (w *world) set(i offer, field string, to int) {
	path := "/admin/v1/integrations/" + i.id
	seen := w.ask(true, request("GET", path, operatorToken, nil))
	if seen.status != 200 {
		return
	}
	w.sleep(time.Duration(w.current.act.pick(3)) * time.Second)
	c := w.judge.changing(i, field, to, seen.text("version"))
	value := any(to)
	if field == "level" {
		value = fmt.Sprintf("L%d", to)
	}
	req := request("PATCH", path, operatorToken, map[string]any{field: value})
	req.Header["If-Match"] = []string{seen.header.Get("Etag")}
	a := w.ask(true, req)
	w.tell(w.current.name, "sets %s of %s to %d: %d", field, i.id[32:], to, a.status)
	c.answered(a)
}

// endPasskeys ends all passkeys of a publisher.
func (w *world) endPasskeys(s *shop) {
	a := w.ask(true, request("POST", "/admin/v1/passkeys/end", operatorToken,
		map[string]string{"publisher_id": s.publisher}))
	w.tell(w.current.name, "ends the passkeys of %s: %d", s.publisher, a.status)
	if a.status == 200 {
		s.ended, s.endedBy = a.asked, w.now
		w.judge.reach("passkeys ended")
	}
}

// changeTrust is an operator who changes the trust anchors in the configuration, and restarts one instance
// after the other. One may be forgotten.
func (w *world) changeTrust() {
	act := w.current.act
	for range 1 + act.pick(3) {
		w.sleep(time.Duration(20+act.pick(150)) * time.Second)
		if !act.chance(w.rate[switchTrust]) {
			continue
		}
		revocation := w.past[0].trust.revocation
		next := []proofSettings{
			{anchors: []string{"blue"}, profile: proofOfAge, revocation: revocation},
			{anchors: []string{"red", "blue"}, profile: proofOfAge, revocation: revocation},
			{anchors: []string{"red"}, profile: proofOfAge, revocation: "required"},
			{anchors: []string{"red", "blue"}, profile: identity, revocation: revocation},
		}[act.pick(4)]
		next.signed = w.signs()
		if r := w.rate[switchSigned]; r > 0 && act.chance(r) {
			next.signed = !next.signed
		}
		w.restart(next, 90)
	}
}

// signs reports whether the latest configuration signs requests.
func (w *world) signs() bool { return w.past[len(w.past)-1].trust.signed }

// restart restarts one instance after the other with other trust, so many seconds apart at most.
func (w *world) restart(next proofSettings, apart int) {
	act := w.current.act
	w.past = append(w.past, files{w.past[len(w.past)-1].ring, next})
	for n := range w.running {
		if act.chance(150) {
			continue
		}
		w.met(switchTrust)
		in := w.running[n]
		w.trusts[n], in.dead = next, true
		w.tell(w.current.name, "restarts %s, which trusts %v by profile %s", in.name, next.anchors,
			next.profile)
		w.sleep(time.Duration(act.pick(apart)) * time.Second)
	}
}

// distrust is an operator who removes the trust in an issuer.
func (w *world) distrust(issuer string) {
	next := w.past[len(w.past)-1].trust
	is := func(name string) bool { return name == issuer }
	next.anchors = slices.DeleteFunc(slices.Clone(next.anchors), is)
	w.restart(next, 5)
}

// rotateSecret rotates a webhook secret in the way that loses no event: staged, tested, and then in use.
func (w *world) rotateSecret(i offer) {
	if i.url == "" {
		return
	}
	path := "/admin/v1/integrations/" + i.id
	a := w.ask(true, request("POST", path+"/rotate", operatorToken, map[string]bool{"staged": true}))
	if a.status != 200 {
		return
	}
	w.secrets[i.url] = append(w.secrets[i.url], a.text("secret"))
	for range 3 {
		if a = w.ask(true, request("POST", path+"/test?staged=true", operatorToken, nil)); a.known() {
			return
		}
		w.sleep(10 * time.Second)
	}
}

// changeKeys is an operator who gives a shop another key, and revokes the old one.
func (w *world) changeKeys() {
	act := w.current.act
	for range 1 + act.pick(2) {
		w.sleep(time.Duration(5+act.pick(200)) * time.Second)
		w.met(switchKeys)
		s := w.shops[act.pick(2)]
		a := w.ask(true, request("POST", "/admin/v1/keys", operatorToken,
			map[string]string{"publisher_id": s.publisher}))
		if a.status != 200 {
			continue
		}
		old := s.key
		s.key = a.text("key")
		s.keys = append(s.keys, s.key)
		w.sleep(patience + time.Second) // its last requests with the old key end
		id := w.keyID(s, old)
		if id == "" {
			continue
		}
		var revoked time.Time
		for n := range act.pick(4) { // while it is revoked
			w.person(fmt.Sprintf("finder %d of an old key", n+1), func() { w.useRevoked(s, old, &revoked) })
		}
		a = w.ask(true, request("POST", "/admin/v1/keys/"+id+"/revoke", operatorToken, nil))
		if a.status != 200 {
			continue
		}
		revoked = w.now
		w.sleep(time.Duration(act.pick(12)) * time.Second)
		w.useRevoked(s, old, &revoked)
	}
}

// useRevoked uses a key during its revocation, as a finder of the key does, a few times.
func (w *world) useRevoked(s *shop, key string, revoked *time.Time) {
	for range 1 + w.current.act.pick(3) {
		asked := w.now
		a := w.ask(false, request("POST", web.StartPath, key, map[string]string{
			"integration_id": s.integrations[0].id, "callback_url": callback}))
		after := time.Duration(0)
		if !revoked.IsZero() {
			after = asked.Sub(*revoked)
		}
		w.judge.revokedUsed(s, after, a)
		w.sleep(cacheLife + time.Duration(100+w.current.act.pick(10_000))*time.Millisecond)
	}
}

// keyID returns the id of a key, or "".
func (w *world) keyID(s *shop, key string) string {
	a := w.ask(true, request("GET", "/admin/v1/keys?publisher_id="+s.publisher, operatorToken, nil))
	var list struct {
		Keys []struct {
			ID    string `json:"id"`
			Last4 string `json:"last4"`
		} `json:"keys"`
	}
	_ = json.Unmarshal(a.body, &list)
	for _, k := range list.Keys {
		if k.Last4 == key[len(key)-4:] {
			return k.ID
		}
	}
	return ""
}

// rotate is an operator who rotates the key ring, and copies it to one machine after the other.
func (w *world) rotate() {
	act := w.current.act
	w.sleep(time.Duration(act.pick(300)) * time.Second)
	next := w.rings[0]
	must(next.Rotate(&random{mix(w.seed)}, w.now, time.Minute))
	w.met(switchRotation)
	w.rotating.set, w.rotated = true, w.now
	w.past = append(w.past, files{next, w.past[len(w.past)-1].trust})
	for n := range w.rings {
		w.sleep(time.Duration(act.pick(15)) * time.Second)
		w.rings[n] = next
		w.tell(w.current.name, "copies the new key ring to instance %d", n+1)
	}
}
