package simulation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
)

// epoch is when every history begins. The odd part of a second shows where times are rounded.
var epoch = time.Date(2026, 11, 20, 22, 10, 0, 123_456_789, time.UTC)

const (
	hostName      = "verge.example"
	baseURL       = "https://" + hostName
	callback      = "https://shop.example/return"
	operatorToken = "op_of_the_simulation_of_verge"
)

// world is everything in one history.
type world struct {
	*scheduler
	rate      rates
	healed    bool // the faults have ended
	config    core.Config
	store     *store
	kv        kv.KV             // the store, as the ports of instances reach it
	clocks    map[string]*clock // of the machines, by the name of the instance; "store" is the store's
	running   []*instance
	rings     []keyring.File  // of each machine's file
	past      []files         // of machines, the earliest first
	trusts    []proofSettings // of each machine's configuration
	persons   []*person
	judge     *judge
	people    int // who have not ended
	shops     []*shop
	secrets   map[string][]string // of webhooks, by URL: those that its receiver accepts
	bank      *bank
	registers []*register // of issuers
	lists     []*trustList
	pictures  map[string]*picture
	archived  map[string]*archived // integrations, by id
	seen      [switches]bool       // faults that have occurred

	lastFault time.Time // when the last one ended, or will end

	rotating *signal // the key ring has been rotated
	rotated  time.Time

	digest hash.Hash // of all responses, commits and webhooks; nil: not wanted
	cover  *Coverage
}

// files are the files of a machine.
type files struct {
	ring  keyring.File
	trust proofSettings
}

// base is the state in which every history begins: two publishers whose integrations are ready. It is made
// once, because it costs as much as a history.
type base struct {
	config core.Config
	ring   keyring.File
	store  *store
	shops  []shop
}

var theBase = sync.OnceValue(newBase)

func newBase() *base {
	b := &base{
		config: core.Config{BaseURL: baseURL, Test: true, OperatorToken: operatorToken, Partitions: 2},
	}
	l := &b.config.Limits
	for _, limit := range []*ratelimit.Limit{&l.PublicPerIP, &l.PublicPerNetwork, &l.PublicPerKey,
		&l.StartsPerPublisher, &l.SecretPerIP, &l.ReconcilePerKey, &l.PreflightsPerIP, &l.PagesPerIP} {
		// The period is longer than the difference of clocks, which a limit takes for requests.
		*limit = ratelimit.Limit{Count: 1_000_000, Per: 10 * time.Minute}
	}
	var err error
	b.ring, err = keyring.Generate(&random{1}, epoch.Add(-time.Hour))
	must(err)
	w := newWorld(b, 0, nil, nil)
	in := w.running[0]
	must(in.start(context.Background(), b.ring, w.clocks[in.name], w.trusts[0]))
	d := in.service.Directory()
	for n, id := range []string{"pub_shop", "pub_other"} {
		s := shop{publisher: id}
		must(d.PutPublisher(context.Background(), integration.Publisher{ID: id, Name: id}))
		hook := func(path string) integration.Webhook {
			return integration.Webhook{URL: "https://" + id[4:] + ".example/" + path}
		}
		for m, i := range []integration.Integration{
			{Level: "L1", ChallengeAge: 25, Webhook: hook("1")},
			{Level: "L2", ChallengeAge: 18, Webhook: hook("2")},
			{Level: "L2", ChallengeAge: 40, Webhook: integration.Webhook{Off: true}},
			{Level: "L2", ChallengeAge: 18, MinimumAge: 18, Method: proofMethod, Passkeys: "service",
				Webhook: hook("4")},
			{Level: "L2", ChallengeAge: 18, MinimumAge: 18, Method: bankMethod, Passkeys: "service",
				Webhook: hook("5")},
			{Level: "L1", ChallengeAge: 25, Method: estimateMethod, Passkeys: "service", Webhook: hook("6")},
			{Level: "L1", ChallengeAge: 18, MinimumAge: 18, Method: proofMethod, Passkeys: "service",
				Webhook: hook("7")},
		} {
			i.ID = fmt.Sprintf("5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c%02d%02d", n, m)
			i.PublisherID, i.Name, i.Method = id, id, cmp.Or(i.Method, sandbox.Name)
			i.CallbackOrigins = []string{"https://shop.example"}
			secret := ""
			if i.Webhook.URL != "" {
				secret, err = integration.GenerateSecret(&random{uint64(100*n + m)})
				must(err)
				w.secrets[i.Webhook.URL] = []string{secret}
			}
			must(d.PutIntegration(context.Background(), i, secret))
			s.integrations = append(s.integrations, offer{id: i.ID, level: i.Level, age: i.ChallengeAge,
				url: i.Webhook.URL, secret: secret, proves: i.Method != sandbox.Name,
				estimates: i.Method == estimateMethod})
		}
		s.key, _, err = d.CreateKey(context.Background(), id, "", nil)
		must(err)
		b.shops = append(b.shops, s)
	}
	for _, s := range b.shops {
		for _, i := range s.integrations {
			if i.url == "" {
				continue
			}
			r := in.handle(true, request("POST", "/admin/v1/integrations/"+i.id+"/test", operatorToken, nil))
			if r.Status != 200 || !strings.Contains(string(r.Body), `"ready":true`) {
				panic(fmt.Sprintf("simulation: the webhook test of %s: %d %s", i.id, r.Status, r.Body))
			}
		}
	}
	for range 3 { // then only the base's key counts, as in a store that is older than a session
		must(in.ring.Refresh(context.Background()))
	}
	b.store = w.store
	return b
}

func must(err error) {
	if err != nil {
		panic(err) // a mistake in this package
	}
}

func newWorld(b *base, seed uint64, keep map[decision]bool, record func(string)) *world {
	c := &choices{seed: seed, keep: keep}
	w := &world{scheduler: &scheduler{choices: c, now: epoch, order: c.stream("order")}, config: b.config,
		clocks: map[string]*clock{}, secrets: map[string][]string{}, rotating: &signal{},
		pictures: map[string]*picture{}, archived: map[string]*archived{}}
	w.tell = func(string, string, ...any) {}
	if record != nil {
		w.tell = func(who, format string, args ...any) { record(story(w.now, who, format, args...)) }
	}
	w.judge, w.bank = newJudge(w), newBank(w)
	w.clocks["store"] = &clock{}
	now := func() time.Time { return w.clocks["store"].at(w.now) }
	w.store = newStore(now)
	if b.store != nil {
		w.store = b.store.copy(now)
	}
	w.kv = w.store
	for n := range 2 + c.stream("instances").pick(3)/2 { // three cost a third more, and find little more
		in := newInstance(w, n, mix(seed)+uint64(n)<<32)
		w.running, w.clocks[in.name] = append(w.running, in), &clock{}
		w.rings = append(w.rings, b.ring)
		w.trusts = append(w.trusts, proofSettings{anchors: []string{"red", "blue"}, profile: proofOfAge,
			revocation: "if_present"})
	}
	for _, name := range []string{"red", "blue", listedIssuer} {
		w.registers = append(w.registers, newRegister(w, name))
	}
	w.past = []files{{w.rings[0], w.trusts[0]}}
	for n := range 2 {
		w.persons = append(w.persons, newPerson(n, mix(seed)+uint64(n)))
	}
	for _, s := range b.shops {
		s.w, s.keys = w, []string{s.key}
		for _, i := range s.integrations {
			w.secrets[i.url] = []string{i.secret}
			w.judge.offered(i)
		}
		w.shops = append(w.shops, &s)
	}
	return w
}

// note adds a fact to the digest.
func (w *world) note(facts ...any) {
	if w.digest != nil {
		fmt.Fprintln(w.digest, w.now.UnixNano(), facts)
	}
}

// met records that a fault has occurred, or a behaviour.
func (w *world) met(f faultSwitch) { w.metFor(f, 0) }

// metFor records that a fault has begun that lasts so long.
func (w *world) metFor(f faultSwitch, d time.Duration) {
	w.seen[f] = true
	if end := w.now.Add(d); f.isFault() && end.After(w.lastFault) {
		w.lastFault = end
	}
}

// person starts the program of a person or a publisher. The faults end when all of them have ended.
func (w *world) person(name string, program func()) {
	w.people++
	w.spawn(nil, name, func() {
		program()
		w.people--
	})
}

// answer is the response to a request. The status is 0 if none arrived.
type answer struct {
	status int
	header web.Header
	body   []byte
	asked  time.Time

	by      *instance // nil: the request did not arrive
	handler *task     // of the request
	fields  func() map[string]any
}

// text returns a string field of the body, or "".
func (a answer) text(name string) string {
	if a.fields == nil { // no response arrived
		return ""
	}
	s, _ := a.fields()[name].(string)
	return s
}

// fieldsOf returns the fields of a body, which is read once, and only if someone asks for a field.
func fieldsOf(body []byte) func() map[string]any {
	return sync.OnceValue(func() (all map[string]any) {
		if json.Unmarshal(body, &all) != nil {
			return nil
		}
		return all
	})
}

// known reports whether the response excludes a later effect of the request.
func (a answer) known() bool { return a.status != 0 && a.status < 500 }

func request(method, path, bearer string, body any) *web.Request {
	path, query, _ := strings.Cut(path, "?")
	r := &web.Request{Method: method, Path: path, Query: query, Header: web.Header{},
		Client: netip.AddrFrom4([4]byte{192, 0, 2, 1})}
	if bearer != "" {
		r.Header["Authorization"] = []string{"Bearer " + bearer}
	}
	if body != nil {
		var err error
		r.Body, err = json.Marshal(body)
		must(err)
		r.Header["Content-Type"] = []string{"application/json"}
	}
	return r
}

// patience is how long a client waits for a response.
const patience = 15 * time.Second

// anyInstance is the instance that a load balancer chooses.
func (w *world) anyInstance() *instance { return w.running[w.current.act.pick(len(w.running))] }

// ask sends a request to one of the instances.
func (w *world) ask(admin bool, req *web.Request) answer { return w.askOf(w.anyInstance(), admin, req) }

// askOf sends a request to an instance.
func (w *world) askOf(in *instance, admin bool, req *web.Request) answer {
	t := w.current
	if w.over {
		return answer{}
	}
	if in.service == nil || in.dead {
		w.sleep(time.Second)
		return answer{}
	}
	lost := 0 // 1: the request, 2: the response
	if t.act.chance(w.rate[switchNetwork]) && !w.healed {
		lost = 1 + t.act.pick(2)
		w.met(switchNetwork)
	}
	if lost == 1 {
		w.sleep(patience)
		return answer{}
	}
	var got answer
	asked, done := w.now, &signal{}
	handler := w.spawn(in, in.name+" for "+t.name, func() {
		r := in.handle(admin, req)
		if in.dead || w.over {
			return
		}
		w.current.keepLists(in)
		w.tell(in.name, "%s %s gets %d", req.Method, short(req.Path), r.Status)
		w.note(in.name, req.Method, req.Path, r.Status, r.Header, r.Body)
		got = answer{r.Status, r.Header, r.Body, asked, in, w.current, fieldsOf(r.Body)}
		done.set = true
	})
	handler.deadline = w.now.Add(patience)
	if !w.wait(done, patience) || lost == 2 {
		w.tell(t.name, "gets no response to %s %s from %s", req.Method, short(req.Path), in.name)
		return answer{by: in, handler: handler}
	}
	return got
}

// fetch is a webhook that arrives at its receiver.
func (w *world) fetch(by *instance, req host.FetchRequest) (host.FetchResponse, error) {
	if strings.HasPrefix(req.URL, bankURL+"/") {
		return w.bank.fetch(req)
	}
	if req.URL == estimatorURL {
		return w.estimate(req)
	}
	if r := w.registerOf(req.URL); r != nil {
		if req.URL == crlURL(r.issuer) {
			return host.FetchResponse{Status: 200, Body: issuers()[r.issuer].crl}, nil
		}
		return r.fetch(by)
	}
	took, status := 20*time.Millisecond, 0
	failed := ""
	if t := w.current; t != nil && !w.healed && t.act.chance(w.rate[switchReceivers]) {
		w.met(switchReceivers)
		switch t.act.pick(7) {
		case 0:
			status = 500
		case 1:
			status = 302
		case 2:
			status = 404
		case 3:
			took = 8 * time.Second
		case 4: // it arrives, and the response does not
			took, failed = 10*time.Second, host.FetchTimeout
		case 5:
			failed = host.FetchNetwork
		case 6: // it does not arrive
			w.judge.unreached(req)
			return host.FetchResponse{}, &host.FetchError{Reason: host.FetchRefused, Err: errFault}
		}
	}
	w.note(req.URL, req.Header, req.Body)
	p := w.judge.posted(req)
	if status == 0 {
		if status = 204; !p.verified {
			status = 401
		}
	}
	if w.current != nil {
		w.tell("receiver", "%s %s: %d %s", p.event.Type, short(p.event.SessionID), status, failed)
		w.sleep(took)
	}
	if failed != "" {
		return host.FetchResponse{}, &host.FetchError{Reason: failed, Err: errFault}
	}
	p.replied(status)
	return host.FetchResponse{Status: status}, nil
}

// machine runs one instance after another on one machine.
func (w *world) machine(n int) {
	for life := 0; !w.over; life++ {
		in := w.running[n]
		if life > 0 {
			in = newInstance(w, n, mix(in.random.state)+uint64(life))
			w.running[n] = in
			if w.current.act.chance(w.rate[switchOld]) && !w.healed {
				w.restoreFiles(n)
			}
		}
		ended := &signal{}
		w.spawn(in, in.name, func() {
			for !in.dead && !w.over {
				err := in.start(context.Background(), w.rings[n], w.clocks[in.name], w.trusts[n])
				if err == nil {
					break
				}
				w.tell(in.name, "does not start")
				w.sleep(time.Second)
			}
			if in.service != nil {
				w.tell(in.name, "has started")
				in.run()
			}
			ended.set = true
		})
		for !ended.set && !w.over {
			w.wait(ended, time.Hour)
		}
		w.sleep(time.Duration(1+w.current.act.pick(60)) * time.Second)
	}
}

// restoreFiles is an operator who restores old files on a machine, and notices later.
func (w *world) restoreFiles(n int) {
	act := w.current.act
	old, noticed := w.past[act.pick(len(w.past))], time.Duration(1+act.pick(240))*time.Second
	w.rings[n], w.trusts[n] = old.ring, old.trust
	w.metFor(switchOld, noticed)
	w.tell(w.running[n].name, "comes back with old files: %d keys, trust in %v", len(old.ring.Keys),
		old.trust.anchors)
	w.spawn(nil, fmt.Sprintf("repair of machine %d", n+1), func() {
		w.sleep(noticed)
		w.rings[n] = w.past[len(w.past)-1].ring
	})
}

// trouble freezes and kills instances, cuts their way to the store, and moves clocks.
func (w *world) trouble() {
	for !w.healed && !w.over {
		act := w.current.act
		w.sleep(time.Duration(1+act.pick(40)) * time.Second)
		n := act.pick(len(w.running))
		in := w.running[n]
		if w.healed || w.over || in.dead {
			continue
		}
		if act.chance(w.rate[switchFreeze]) {
			d := slowness[1+act.pick(len(slowness)-1)]
			in.frozenUntil = w.now.Add(d)
			w.metFor(switchFreeze, d)
			w.tell(in.name, "freezes for %s", d)
		}
		if act.chance(w.rate[switchKill]) {
			in.dead = true
			w.met(switchKill)
			w.tell(in.name, "is killed")
		}
		if act.chance(w.rate[switchCut]) && in.service != nil {
			all := append([]kv.Partition{integration.Partition}, in.service.Partitions()...)
			in.cut, in.cutUntil = all[act.pick(len(all))], w.now.Add(slowness[1+act.pick(5)])
			w.tell(in.name, "does not reach partition %s until %s", in.cut, in.cutUntil.Format("15:04:05"))
		}
		if act.chance(w.rate[switchClocks]) {
			w.jump(in.name)
		}
		if act.chance(w.rate[switchFailover]) {
			if lost := w.store.failOver(1 + act.pick(5)); lost > 0 {
				w.met(switchFailover)
				w.judge.forgot = true
				w.tell("store", "fails over and loses the last %d writes", lost)
			}
		}
	}
}

// skew is how far a clock can be from the true time: all pairs are within host.ClockMargin.
const skew = 2 * time.Minute

// jump sets a clock.
func (w *world) jump(of string) {
	act := w.current.act
	c := w.clocks[of]
	c.offset = time.Duration(act.pick(2*int(skew/time.Second)+1)) * time.Second
	if c.offset > skew {
		c.offset = skew - c.offset
	}
	w.met(switchClocks)
	w.tell(of, "clock is %s off", c.offset)
}

// heal ends all faults.
func (w *world) heal() {
	w.healed = true
	for n := range w.rings {
		w.rings[n] = w.past[len(w.past)-1].ring
	}
	for _, in := range w.running {
		in.frozenUntil, in.cutUntil = time.Time{}, time.Time{}
	}
	for _, t := range w.tasks {
		if t.still {
			t.wakeAt = w.now
		}
	}
	w.tell("world", "the faults end")
}

// Result is the outcome of one history.
type Result struct {
	Seed  uint64
	Broke []string // promises, with the evidence; "I1: …"
	Steps int      // calls of ports
	Lasts time.Duration

	// Switches are the names of the faults and behaviours that occurred.
	Switches []string

	made []decision
}

// maxSteps ends a history that does not end.
const maxSteps = 400_000

// Runner runs histories, one after another. The zero Runner is ready to use. It reuses coroutines: no history
// can see that, because each of them ends with its task.
type Runner struct {
	Cover Coverage // of all histories that Run has run

	idle    []*coroutine
	breakAt string            // for tests: a transition that breaks the promise "test"
	flawed  func(kv.KV) kv.KV // for tests: a store that breaks its promises
}

// CollectRarely sets the garbage collector of the process for simulations: the heap is small, and would be
// collected in each history, which takes a third of the time.
func CollectRarely() { debug.SetGCPercent(2000) }

// Close ends the coroutines.
func (r *Runner) Close() {
	for _, c := range r.idle {
		c.stop()
	}
	r.idle = nil
}

// Run runs the history of a seed. record, if not nil, receives it line by line.
func (r *Runner) Run(seed uint64, record func(string)) Result {
	return r.run(seed, options{cover: &r.Cover, record: record})
}

// Digest returns the hash of every commit, response and webhook of a history, with their times.
func (r *Runner) Digest(seed uint64) string {
	all := sha256.New()
	r.run(seed, options{digest: all})
	return hex.EncodeToString(all.Sum(nil))
}

// options of one history. All are optional.
type options struct {
	keep   map[decision]bool // of choices
	cover  *Coverage
	record func(string)
	digest hash.Hash
}

func (r *Runner) run(seed uint64, o options) Result {
	w := newWorld(theBase(), seed, o.keep, o.record)
	w.cover, w.idle, w.digest, w.judge.breakAt = o.cover, r.idle, o.digest, r.breakAt
	r.idle = nil // after a panic, Close must not stop coroutines of tasks, which would run unscheduled
	if r.flawed != nil {
		w.kv = r.flawed(w.kv)
	}
	w.rate = draw(w.stream("switches"))
	first := &w.past[0].trust
	first.signed = w.rate[switchSigned] > 0
	if w.rate[switchLists] > 0 && w.stream("lists").chance(400) {
		first.revocation = "required"
	}
	for n := range w.trusts {
		w.trusts[n] = *first
	}
	if w.rate[switchClocks] > 0 {
		w.spawn(nil, "clocks", func() {
			w.jump("store")
			for _, in := range w.running {
				w.jump(in.name)
			}
		})
	}
	for n := range w.running {
		w.spawn(nil, fmt.Sprintf("machine %d", n+1), func() { w.machine(n) })
	}
	w.spawn(nil, "trouble", w.trouble)
	w.populate()
	finished := false
	w.spawn(nil, "end", func() {
		w.end()
		finished = true
	})
	w.play(func() bool { return finished || len(w.judge.broke) > 0 || w.steps > maxSteps })
	if w.steps > maxSteps {
		w.judge.fail("the history does not end within %d calls of ports", maxSteps)
	}
	r.idle = w.idle
	if o.cover != nil {
		o.cover.add()
	}
	result := Result{
		Seed:  seed,
		Broke: w.judge.broke,
		Steps: w.steps,
		Lasts: w.now.Sub(epoch),
		made:  w.made,
	}
	for f, seen := range w.seen {
		if seen {
			result.Switches = append(result.Switches, switchInfo[f].name)
		}
	}
	return result
}

// end waits until all people have ended, ends the faults, and compares the final state.
func (w *world) end() {
	w.sleep(time.Second)
	for w.people > 0 && !w.over {
		w.sleep(10 * time.Second)
	}
	w.heal()
	w.sleep(recovery)
	w.judge.recovered()
	w.sleep(14 * time.Minute) // all sessions have ended
	w.judge.expired()
	for _, s := range w.judge.order {
		w.shops[s.shop].reconcileFinally(s)
	}
	w.sleep(20 * time.Hour) // all retries are over
	w.judge.closing()
}

// recovery is the time after which all effects must have ended (I10), and a poll of each runner.
const recovery = 30*time.Second + poll + 10*time.Second
