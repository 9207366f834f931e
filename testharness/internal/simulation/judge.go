package simulation

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/internal/history"
	"github.com/verge-id/verge/testharness/wallettest"
)

// judge compares observations from outside with the promises. The letters are from package
// invariants.
type judge struct {
	w       *world
	broke   []string
	breakAt string // see Runner
	forgot  bool   // the store has lost acknowledged writes: nothing is promised about those

	sessions map[string]*session // by id
	order    []*session
	unknown  map[string]int // starts without a known result, by integration: sessions without a known id
	offers   map[string]offer
	changes  map[string][]*change // by integration
	versions map[string]*change   // acknowledged, by the version that was changed
	events   map[string]*event    // by id
	arrivals []*event             // whose session was not known when they arrived
	last     map[string]bool      // sessions about whose end an event was posted
}

// session has the known facts of a session.
type session struct {
	shop            int
	offer           offer
	id, link        string
	state, user     string
	asked, answered time.Time // the start that was answered, and its first try
	acts            map[string]bool
	failing         map[string]bool // attempts with a form that failed
	tokens          []string
	completed       time.Time       // the first token was returned at this time, or before
	callers         int             // programs that exchange its result
	calls           int             // that they make
	photos          int             // that the estimator got
	estimated       map[string]bool // forms whose photos it got
	exchanges       history.Recorder
	person          *person
	levels          []int         // that it can have
	proofs          []*shownProof // that can have counted
	passkeys        []shownPasskey
	provenBy        *browser // the browser that got the way back
	validated       string   // the caller whose call was valid
	validatedBody   string
	ended           string // the first final status that was seen
	endedBody       string // of reconcile
	final           answer
	types           map[string]string // ids of events, by type
}

// event is an event, as its receiver has seen it.
type event struct {
	webhook.Event
	body      string
	tries     int // POSTs, whether or not they arrived
	accepted  bool
	rejected  bool
	firstTry  time.Time
	delivered time.Time
}

// post is one POST that has arrived.
type post struct {
	j        *judge
	event    *event
	verified bool
}

// change is an operator's change of a setting.
type change struct {
	w         *world
	offer     offer
	field     string
	to        int
	version   string // that the change names
	asked     time.Time
	responded time.Time // zero: the outcome is unknown
	rejected  bool
}

func newJudge(w *world) *judge {
	return &judge{
		w:        w,
		sessions: map[string]*session{},
		unknown:  map[string]int{},
		offers:   map[string]offer{},
		changes:  map[string][]*change{},
		versions: map[string]*change{},
		events:   map[string]*event{},
		last:     map[string]bool{},
	}
}

// fail records a broken promise.
func (j *judge) fail(format string, args ...any) {
	if j.w.over {
		return
	}
	text := fmt.Sprintf(format, args...)
	j.w.tell("judge", "%s", text)
	j.broke = append(j.broke, text)
}

// calm reports whether no fault has occurred that can delay, repeat or deny a request.
func (j *judge) calm() bool {
	for f, seen := range j.w.seen {
		if seen && faultSwitch(f).isFault() {
			return false
		}
	}
	return j.w.rate[switchSlow] == 0
}

// disturbed reports whether a user may try again: a provider, an instance or the store may have failed.
func (j *judge) disturbed() bool { return !j.calm() || j.w.rate[switchReceivers] > 0 }

// undisturbed reports whether no fault has occurred since the event's first POST that can repeat it.
func (j *judge) undisturbed(e *event) bool {
	return j.w.lastFault.Before(e.firstTry) && j.w.rate[switchClocks]+j.w.rate[switchFailover] == 0
}

// tolerance is the difference of clocks in this history.
func (j *judge) tolerance() time.Duration {
	if j.w.rate[switchClocks] > 0 {
		return 2*skew + time.Second
	}
	return 10 * time.Millisecond
}

// plain fails on a response that the service never gives, and on a missing one although there was no fault.
func (j *judge) plain(what string, a answer) {
	switch {
	case a.status == 500:
		j.fail("contract 5: %s returns 500 %s", what, a.body)
	case !a.known() && a.status != 502 && j.calm():
		promise := "contract 5"
		if j.w.seen[switchRotation] {
			promise = "I12"
		}
		j.fail("%s: %s returns %d without any fault: %s", promise, what, a.status, a.body)
	}
}

// logged looks for values in a line of the log that no log may hold (contract 13).
func (j *judge) logged(who, text string) {
	for _, secret := range []string{"canary-", "svc_sk_", "svc_rt_", "whsec_"} {
		if strings.Contains(text, secret) {
			j.fail("contract 13: the log of %s has %s: %s", who, secret, text)
		}
	}
}

func (j *judge) offered(i offer) { j.offers["int_"+i.id] = i }

// startAnswered is a response to a start. Without one there may be a session without a known id.
func (j *judge) startAnswered(i offer, a answer, repeatable bool) {
	j.plain("start", a)
	if !a.known() && !repeatable || a.status == 502 {
		j.unknown["int_"+i.id]++
	}
	if a.status == 409 {
		j.fail("contract 29: an integration that is ready does not start: %s", a.body)
	}
}

// startedAgain is another response to a repeated start. Only a failover that loses the first one explains it.
func (j *judge) startedAgain(i offer, first, again answer) {
	if !j.forgot {
		j.fail("contract 11: the same start returned another session: %s, then %s", first.body, again.body)
	}
	j.unknown["int_"+i.id]++
}

func (j *judge) started(s *session, a answer) {
	s.levels = j.possible(s.offer, "level", s.offer.levelNumber(), s.asked, s.answered, cacheLife)
	s.acts, s.failing, s.types = map[string]bool{}, map[string]bool{}, map[string]string{}
	s.estimated = map[string]bool{}
	if j.sessions[s.id] != nil {
		j.fail("contract 14: two starts have the session %s", short(s.id))
	}
	j.sessions[s.id] = s
	j.order = append(j.order, s)
	j.reach("started")
	for _, e := range j.arrivals {
		if e.SessionID == s.id {
			j.about(s, e.Event) // it came before the response to the start
		}
	}
	expires, err := time.Parse(time.RFC3339, a.text("expires_at"))
	if d := expires.Sub(s.asked) - 10*time.Minute; err != nil || d < -j.tolerance() ||
		d > s.answered.Sub(s.asked)+j.tolerance() {
		j.fail("spec, Session: %s expires at %s; it was asked for at %s", short(s.id), expires, s.asked)
	}
}

// acted is a form that is about to be posted.
func (j *judge) acted(s *session, f form) {
	s.acts[f.outcome] = true
	if f.outcome == "fail_attempt" {
		s.failing[f.fields.Get("attempt")] = true
	}
}

// saw is a page of the session in a browser.
func (j *judge) saw(s *session, b *browser, p page) {
	if p.status != 0 && !(p.status == 503 && s.offer.proves && j.w.seen[switchReceivers]) {
		j.plain("a page", p.answer) // a page is 503 if the bank does not respond
	}
	if p.hop == "" || strings.HasPrefix(p.hop, bankURL+"/") {
		return
	}
	if !strings.Contains(p.hop, s.id) {
		j.fail("threats: a browser gets the result of another session: %s", p.hop)
	}
	if s.offer.proves && !j.forgot {
		j.proven(s, b, p)
	}
	j.ended(s, "COMPLETED", "a page")
}

// askedAge is the age that a request asks for: an element of the document, or the date of birth alone. Then
// it is the highest age that the integration can have asked for.
func (j *judge) askedAge(s *session, r *wallettest.Request) int {
	asked := append(slices.Clone(r.Elements), "")
	for _, path := range r.Claims {
		asked = append(asked, path[len(path)-1])
	}
	for _, name := range asked {
		if age, err := strconv.Atoi(strings.TrimPrefix(name, "age_over_")); err == nil {
			return age
		}
	}
	return slices.Max(j.possible(s.offer, "minimum_age", 18, s.asked, j.w.now, cacheLife))
}

// signedIn is a sign-in at the bank that is about to be returned.
func (j *judge) signedIn(s *session, p *shownProof) {
	s.acts["approve"] = true
	s.proofs = append(s.proofs, p)
}

// showing is a wallet's response that is about to be sent to an instance. The returned function ends it.
func (j *judge) showing(s *session, b *browser, d document, to *instance) (end func(answer)) {
	end = func(answer) {}
	switch d.kind {
	case goodDocument:
		s.acts["approve"] = true
		proof := &shownProof{browser: b, issuer: d.issuer, age: d.age, at: j.w.now, level: maxLevel(s)}
		s.proofs = append(s.proofs, proof)
		end = j.w.registerOf(statusURL(d.issuer)).checks(to, s.person.number, proof)
	case ofChild:
		s.acts["reject"] = true
	}
	if !d.kind.rejected() && d.kind != declined { // even a good one, if its issuer is no longer trusted
		s.acts["fail_attempt"] = true
		s.failing[fmt.Sprint("document ", len(s.failing))] = true
	}
	return end
}

// proven checks the first way back of a session with a proof: a wallet has responded to this browser, or it
// has used a passkey, and the proof met the integration's requirement and the instance's trust.
func (j *judge) proven(s *session, b *browser, p page) {
	if s.provenBy != nil {
		if s.provenBy != b {
			j.fail("contract 34: two browsers get the result of session %s", short(s.id))
		}
		return
	}
	s.provenBy = b
	var why []string
	for _, proof := range s.proofs {
		by := proof.browser == b || proof.browser.of == b
		if by && j.enough(s, proof, proof.at, b) {
			j.reach("proof counted")
			return
		}
		why = append(why, fmt.Sprintf("%s for %d, by this browser: %v", proof.issuer, proof.age, by))
	}
	for _, used := range s.passkeys {
		if why = append(why, j.passkey(s, used, b)); why[len(why)-1] == "" {
			j.reach("passkey counted")
			return
		}
	}
	j.fail("I16: session %s is completed at %s; shown was %q", short(s.id), p.by.name, why)
}

// passkey returns why a passkey must not count, or "".
func (j *judge) passkey(s *session, used shownPasskey, b *browser) string {
	if used.browser != b {
		return "a passkey of another browser"
	}
	for _, other := range j.w.shops {
		if other.publisher == used.publisher && used.made.Before(other.ended) &&
			used.at.After(other.endedBy) {
			return "a passkey that was ended"
		}
		ends := func(by served) bool {
			return by.until.Before(used.at) || j.surelyArchived(other, by.asked, by.until)
		}
		if other.publisher == used.publisher && !slices.ContainsFunc(b.served, func(by served) bool {
			return !ends(by)
		}) {
			return "a passkey of an archived publisher"
		}
	}
	for _, proof := range used.proofs {
		if j.enough(s, proof, used.at, b) {
			return ""
		}
	}
	why := "a passkey of"
	for _, proof := range used.proofs {
		why += fmt.Sprintf(" %s for %d and L%d", proof.issuer, proof.age, proof.level)
	}
	return why
}

// enough reports whether a proof that was shown at a time can complete a session in a browser. The service
// judges a proof again when the browser collects the response (contract 34). So the proof must count by the
// settings and the trust during some request of the browser since then.
func (j *judge) enough(s *session, proof *shownProof, at time.Time, b *browser) bool {
	if proof.worthless || proof.level < slices.Min(s.levels) {
		return false
	}
	return slices.ContainsFunc(b.served, func(by served) bool {
		if by.until.Before(at) {
			return false
		}
		if by.asked.Before(at) {
			by.asked = at
		}
		return j.old(s, proof, by) && j.trusts(proof, by)
	})
}

// old reports whether a proof is enough for the age that the integration can have required during a request.
func (j *judge) old(s *session, proof *shownProof, by served) bool {
	if proof.issuer == estimateMethod {
		return proof.age >= slices.Min(j.possible(s.offer, "challenge_age", s.offer.age, s.asked, s.answered,
			cacheLife))
	}
	stale := time.Duration(0)
	if proof.issuer == bankMethod { // the request that reaches the verdict uses it
		stale = cacheLife
	}
	return proof.age >= slices.Min(j.possible(s.offer, "minimum_age", 18, by.asked, by.until, stale))
}

// trusts reports whether the instance of a request can have trusted the issuer of a proof.
func (j *judge) trusts(proof *shownProof, by served) bool {
	switch proof.issuer {
	case bankMethod, estimateMethod:
		return true
	case listedIssuer:
		return j.listed(by)
	}
	return slices.Contains(by.trust.anchors, proof.issuer)
}

// ended is a final status that was seen.
func (j *judge) ended(s *session, status, by string) {
	if status == "PENDING" || j.forgot {
		return
	}
	if s.ended != "" && s.ended != status {
		j.fail("I6: session %s was %s, and is %s by %s", short(s.id), s.ended, status, by)
	}
	s.ended = status
	if status == "COMPLETED" && !s.acts["approve"] {
		j.fail("I2: session %s is completed without an approval", short(s.id))
	}
}

// returned is the way back of a browser.
func (j *judge) returned(s *session, hop string, q url.Values) {
	token := q.Get("result_token")
	if s.tokens = append(s.tokens, token); s.completed.IsZero() {
		s.completed = j.w.now
	}
	if !strings.HasPrefix(hop, callback+"?") || q.Get("session_id") != s.id ||
		q.Get("state") != s.state ||
		!strings.HasPrefix(token, "svc_rt_") {
		j.fail("spec, Callback redirect: the way back of session %s is %s", short(s.id), hop)
	}
}

// aToken returns a result token of the session, or a text that is none.
func (j *judge) aToken(s *session, act *stream) string {
	if len(s.tokens) == 0 {
		return "svc_rt_none"
	}
	return s.tokens[act.pick(len(s.tokens))]
}

// validating is a call of validate. The returned function ends it.
func (j *judge) validating(s *session, caller string) func(answer) {
	asked := j.w.now
	s.calls++
	end := s.exchanges.Call(s.calls, caller)
	return func(a answer) {
		j.plain("validate", a)
		switch {
		case a.status == 200 || a.status == 409 || !a.known():
			end(a.status)
		case a.status == 400 && !j.forgot:
			j.fail("contract 17: a good result token of %s is rejected: %s", short(s.id), a.body)
		case a.status == 410 && j.w.now.Sub(s.answered) < 5*time.Minute-j.tolerance():
			j.fail("contract 17: a result token of %s is too old after less than 5 minutes", short(s.id))
		}
		if a.status == 409 || a.status == 410 {
			j.reach("validate " + a.text("code"))
		}
		if a.status != 200 {
			return
		}
		j.reach("validated")
		if s.validated != "" && s.validated != caller && !j.forgot {
			j.fail("I1: session %s is valid for %s and for %s", short(s.id), s.validated, caller)
		}
		if s.validated == caller && s.validatedBody != string(a.body) && !j.forgot {
			j.fail("contract 11: a repeated validate returns %s, and before %s", a.body, s.validatedBody)
		}
		s.validated, s.validatedBody = caller, string(a.body)
		j.ended(s, "COMPLETED", "validate")
		j.facts(s, "validate", a)
		if since := asked.Sub(s.completed); since > 5*time.Minute+j.tolerance() && !j.forgot {
			j.fail("contract 17: a result token of %s is valid after %s", short(s.id), since)
		}
	}
}

// facts compares the facts of a response with the settings at start.
func (j *judge) facts(s *session, by string, a answer) {
	var got struct {
		Session     string `json:"session_id"`
		Integration string `json:"integration_id"`
		Level       string `json:"level"`
		Age         int    `json:"challenge_age"`
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		j.fail("%s returns no JSON: %s", by, a.body)
	}
	if got.Session != s.id || by == "validate" && got.Integration != s.offer.id {
		j.fail("%s of session %s is about another: %s", by, short(s.id), a.body)
	}
	j.verdict(s, by, got.Level, got.Age)
}

// verdict checks that a result stands for the level and the age that were set at start.
func (j *judge) verdict(s *session, by, level string, age int) {
	ages := j.possible(s.offer, "challenge_age", s.offer.age, s.asked, s.answered, cacheLife)
	known := len(level) == 2 && slices.Contains(s.levels, int(level[1]-'0'))
	if (!known || !slices.Contains(ages, age)) && !j.forgot {
		j.fail("I16: %s of session %s says %s and %d; at start it was one of L%d and one of %d", by,
			short(s.id), level, age, s.levels, ages)
	}
}

// cacheLife is how long an instance may use settings that it has read (contract 12).
const cacheLife = 5 * time.Second

// possible returns the values that a setting can have had in a request between two times.
// stale is how old a setting can be that the service uses.
func (j *judge) possible(i offer, field string, first int, from, to time.Time, stale time.Duration) []int {
	values := []int{first}
	for _, c := range j.changes[i.id] {
		switch {
		case c.field != field || c.rejected || c.asked.After(to):
		case !c.responded.IsZero() && c.responded.Add(stale+j.tolerance()).Before(from):
			values = []int{
				c.to,
			} // all earlier values are past, except those of changes that are still unknown
			for _, d := range j.changes[i.id] {
				if d.field == field && !d.rejected && d.responded.IsZero() && !d.asked.After(to) {
					values = append(values, d.to)
				}
			}
		default:
			values = append(values, c.to)
		}
	}
	return values
}

// changing is a change of a setting that is about to be sent.
func (j *judge) changing(i offer, field string, to int, version string) *change {
	c := &change{w: j.w, offer: i, field: field, to: to, version: i.id + " " + version, asked: j.w.now}
	j.changes[i.id] = append(j.changes[i.id], c)
	return c
}

func (c *change) answered(a answer) {
	j := c.w.judge
	j.plain("a change of a setting", a)
	switch {
	case a.status == 200:
		c.responded = c.w.now
		if c.offer.id+" "+a.text("version") == c.version {
			return // the setting had this value already, and nothing was changed
		}
		j.reach("setting changed")
		if other := j.versions[c.version]; other != nil && !j.forgot && other.to != c.to {
			j.fail("contract 42: two changes of the same version of integration %s were made", c.offer.id)
		}
		j.versions[c.version] = c
	case a.known():
		c.rejected = true
		if a.status == 412 {
			j.reach("setting changed meanwhile")
		}
	}
}

// reconciled is a response of reconcile to the session's publisher.
func (j *judge) reconciled(s *session, asked time.Time, a answer) {
	j.plain("reconcile", a)
	if a.status == 404 && !j.forgot {
		j.fail("contract 6: session %s is not found", short(s.id))
	}
	if a.status != 200 {
		return
	}
	j.facts(s, "reconcile", a)
	status := a.text("status")
	early := s.asked.Add(10*time.Minute - j.tolerance())
	switch {
	case status == "EXPIRED" && j.w.now.Before(early):
		j.fail("I7: session %s is expired after %s", short(s.id), j.w.now.Sub(s.asked))
	case status == "PENDING" && asked.After(s.answered.Add(10*time.Minute+j.tolerance())):
		j.fail("contract 20: session %s is pending after %s", short(s.id), asked.Sub(s.asked))
	case status == "PENDING" && s.ended != "" && s.endedBody != "" && !j.forgot:
		j.fail("I6: session %s was %s, and is pending", short(s.id), s.ended)
	case status == "PENDING":
		return
	}
	j.failure(s, a.text("failure_code"))
	j.ended(s, status, "reconcile")
	if s.endedBody != "" && s.endedBody != string(a.body) && !j.forgot {
		j.fail("I6: session %s was %s, and is %s", short(s.id), s.endedBody, a.body)
	}
	s.endedBody = string(a.body)
	j.reach("reconciled " + status)
}

// failure checks that a session has failed for a reason that a person or program has caused.
func (j *judge) failure(s *session, code string) {
	needs := map[string]string{webhook.FailureProviderRejected: "reject",
		webhook.FailureUserCancelled: "withdraw", webhook.FailureUnknown: "unknown",
		webhook.FailureMaxAttempts: "fail_attempt"}[code]
	if needs != "" && !s.acts[needs] {
		j.fail("contract 18: session %s has failed with %s without a cause", short(s.id), code)
	}
	if code == webhook.FailureMaxAttempts {
		most := slices.Min(j.possible(s.offer, "attempts", 3, s.asked, j.w.now, cacheLife))
		if len(s.failing) < most {
			j.fail("contract 23: session %s has failed with MAX_ATTEMPTS after %d attempts of %d",
				short(s.id), len(s.failing), most)
		}
	}
}

// denied is a response to an attacker.
func (j *judge) denied(what string, a answer, want ...int) {
	if a.status == 500 || a.status >= 200 && a.status < 300 ||
		a.known() && a.status != 429 && !slices.Contains(want, a.status) && a.status != 401 {
		j.fail("threats: %s and gets %d %s", what, a.status, a.body)
	}
	j.reach("attacker denied")
}

// revokedUsed is the use of a key that long after its revocation was acknowledged.
func (j *judge) revokedUsed(s *shop, after time.Duration, a answer) {
	if a.status == 200 || !a.known() {
		j.unknown["int_"+s.integrations[0].id]++
	}
	if after > cacheLife+j.tolerance() && a.known() && a.status != 401 && !j.forgot {
		j.fail("contract 12: a key is accepted %s after its revocation: %d", after, a.status)
	}
	j.reach("revoked key used")
}

// posted is a POST that has arrived at a receiver.
func (j *judge) posted(req host.FetchRequest) *post {
	p := &post{j: j}
	header := map[string][]string{}
	for name, value := range req.Header {
		header[name] = []string{value}
	}
	for _, secret := range j.w.secrets[req.URL] {
		if webhook.Verify(secret, header, req.Body, j.w.now, 0) == nil {
			p.verified = true
		}
	}
	var e webhook.Event
	if err := json.Unmarshal(req.Body, &e); err != nil {
		j.fail("spec, Events: a webhook is no event: %s", req.Body)
	}
	j.last[e.SessionID] = j.last[e.SessionID] || e.Type != webhook.TypeStarted
	if e.Test || !p.verified {
		p.event = &event{Event: e}
		if !e.Test {
			j.signature(req, e)
		}
		return p
	}
	p.event = j.arrived(req, e)
	return p
}

// signature checks that a wrong signature has an excuse: the receiver's copy of a new secret was lost, or
// the clocks differ.
func (j *judge) signature(req host.FetchRequest, e webhook.Event) {
	if len(j.w.secrets[req.URL]) == 1 && j.w.rate[switchOperator] == 0 && j.w.rate[switchClocks] == 0 &&
		j.w.rate[switchSlow] == 0 && j.w.rate[switchFreeze] == 0 {
		j.fail("spec, Signature: %s of %s does not verify", e.Type, short(e.SessionID))
	}
}

// unreached is a POST that did not arrive.
func (j *judge) unreached(req host.FetchRequest) {
	var e webhook.Event
	if json.Unmarshal(req.Body, &e) == nil && !e.Test {
		j.last[e.SessionID] = j.last[e.SessionID] || e.Type != webhook.TypeStarted
		j.event(e, string(req.Body)).tries++
	}
}

func (j *judge) event(e webhook.Event, body string) *event {
	known := j.events[e.ID]
	if known == nil {
		known = &event{Event: e, body: body, firstTry: j.w.now}
		j.events[e.ID] = known
	}
	return known
}

// arrived is an event with a valid signature.
func (j *judge) arrived(req host.FetchRequest, e webhook.Event) *event {
	known := j.event(e, string(req.Body))
	if known.body != string(req.Body) {
		j.fail("contract 25: event %s has other bytes", e.ID)
	}
	if (known.accepted || known.rejected) && j.undisturbed(known) {
		j.fail("I5: event %s of type %s is posted again after its end", e.ID, e.Type)
	}
	known.tries++
	offer, ok := j.offers[e.IntegrationID]
	if !ok || offer.url != req.URL {
		j.fail("threats: an event of %s arrives at %s", e.IntegrationID, req.URL)
	}
	s := j.sessions[e.SessionID]
	if s == nil {
		// Its start has not been answered yet, or never will be.
		j.arrivals = append(j.arrivals, known)
		return known
	}
	j.about(s, e)
	return known
}

// about checks an event of a known session.
func (j *judge) about(s *session, e webhook.Event) {
	if id := s.types[e.Type]; id != "" && id != e.ID && !j.forgot {
		j.fail("I6: session %s has two events of type %s", short(s.id), e.Type)
	}
	s.types[e.Type] = e.ID
	j.reach("event " + e.Data.Status)
	switch e.Type {
	case webhook.TypeStarted:
		return
	case webhook.TypeCompleted:
		if e.Data.Result == nil || !e.Data.Result.Verified {
			j.fail("spec, Data by event: a completed event without a result")
			return
		}
		j.verdict(s, "the event", e.Data.Result.Level, e.Data.Result.ChallengeAge)
		j.ended(s, "COMPLETED", "the event")
	case webhook.TypeFailed:
		j.ended(s, "FAILED", "the event")
		j.failure(s, e.Data.Failure.Code)
	case webhook.TypeExpired:
		if early := s.asked.Add(10*time.Minute - j.tolerance()); j.w.now.Before(early) {
			j.fail("I7: the expired event of session %s arrives after %s", short(s.id), j.w.now.Sub(s.asked))
		}
		j.ended(s, "EXPIRED", "the event")
	}
	if e.Type != webhook.TypeExpired &&
		(e.Data.PublisherState == nil || *e.Data.PublisherState != s.state ||
			e.Data.ExternalUserID == nil || *e.Data.ExternalUserID != s.user) {
		j.fail("spec, Data by event: the event of session %s has another state or user: %s", short(s.id),
			e.ID)
	}
}

// replied is the response that has reached the service.
func (p *post) replied(status int) {
	if status >= 200 && status < 300 {
		p.event.accepted, p.event.delivered = true, p.j.w.now
	}
	if status >= 400 && status < 500 {
		p.event.rejected = true
	}
}

// expired checks that each session has ended although no one has asked for it: its last event was posted.
func (j *judge) expired() {
	for _, s := range j.order {
		if s.offer.url != "" && !j.last[s.id] && !j.forgot {
			j.fail("I7: no event about the end of session %s was posted", short(s.id))
		}
	}
}

// recovered checks, some time after the last fault, that nothing waits for an operator (I10).
func (j *judge) recovered() {
	for _, s := range j.order {
		if s.offer.url != "" && s.types[webhook.TypeStarted] == "" && !j.forgot && !j.waits(s) {
			j.fail("I10: the started event of session %s was never posted, %s after the last fault",
				short(s.id), recovery)
		}
	}
}

// waits reports whether an event of the session was posted, so that it may be waiting for another attempt.
func (j *judge) waits(s *session) bool {
	for _, e := range j.events {
		if e.SessionID == s.id {
			return true
		}
	}
	return j.w.rate[switchReceivers] > 0 || j.w.rate[switchOperator] > 0 || j.w.rate[switchClocks] > 0
}

// closing checks the whole history, after all retries.
func (j *judge) closing() {
	dead := j.dead()
	for _, s := range j.order {
		if err := history.Explain(s.exchanges.History()); err != nil && !j.forgot {
			j.fail("I1: %v", err)
		}
		status := s.final.text("status")
		if j.forgot {
			continue
		}
		if status == "PENDING" {
			j.fail("I7: session %s is pending at the end", short(s.id))
		}
		if s.offer.url == "" {
			continue
		}
		want := map[string]string{"COMPLETED": webhook.TypeCompleted, "FAILED": webhook.TypeFailed,
			"EXPIRED": webhook.TypeExpired}[status]
		for _, kind := range []string{webhook.TypeStarted, want} {
			e := j.events[s.types[kind]]
			if (e == nil || !e.accepted) && !dead[s.id+":"+kind] {
				j.fail("I3: event %s of session %s is neither delivered nor listed as failed", kind,
					short(s.id))
			}
			if e != nil && e.tries > 1 && j.calm() && !j.w.seen[switchReceivers] {
				j.fail("I4: event %s of session %s was posted %d times without any fault", kind, short(s.id),
					e.tries)
			}
		}
	}
	j.strangers()
}

// strangers checks that each event belongs to a session that some start can have created.
func (j *judge) strangers() {
	unknown := map[string]map[string]bool{}
	for _, e := range j.events {
		if j.sessions[e.SessionID] != nil {
			continue
		}
		if unknown[e.IntegrationID] == nil {
			unknown[e.IntegrationID] = map[string]bool{}
		}
		unknown[e.IntegrationID][e.SessionID] = true
	}
	for i, ids := range unknown {
		if len(ids) > j.unknown[i] {
			j.fail("I4: integration %s has events of %d sessions that no start has created", i, len(ids))
		}
	}
}

// dead returns the events that operators see as failed, by idempotency key.
func (j *judge) dead() map[string]bool {
	w, dead := j.w, map[string]bool{}
	var list struct {
		Deliveries []struct {
			Event    string `json:"event"`
			Type     string `json:"type"`
			Session  string `json:"session_id"`
			Reason   string `json:"reason"`
			Attempts int    `json:"attempts"`
		} `json:"deliveries"`
	}
	a := answer{}
	for range 10 {
		a = w.ask(true, request("GET", "/admin/v1/deliveries?limit=200", operatorToken, nil))
		if a.status == 200 {
			break
		}
		w.sleep(5 * time.Second)
	}
	if err := json.Unmarshal(a.body, &list); err != nil || a.status != 200 {
		j.fail("I10: the failed events cannot be listed at the end: %d %s", a.status, a.body)
	}
	for _, d := range list.Deliveries {
		dead[d.Session+":"+d.Type] = true
		j.reach("event failed")
		if e := j.events[d.Event]; e == nil || d.Attempts > e.tries {
			j.fail(
				"I11: event %s of session %s has failed (%s) after %d attempts, and other than %v were made",
				d.Type, short(d.Session), d.Reason, d.Attempts, e)
		}
	}
	return dead
}

// reach records a transition for the coverage.
func (j *judge) reach(transition string) {
	if transition == j.breakAt {
		j.fail("test: %s", transition)
	}
	if j.w.cover != nil {
		j.w.cover.reach(transition, &j.w.seen)
	}
}
