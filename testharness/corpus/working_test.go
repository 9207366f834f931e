package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/core/sessiontest"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/wasm/abi"
)

const adminPath = "/admin/v1/"

// receivers are the ways in which a webhook can end (contract 26).
var receivers = []struct {
	name string
	take func(host.FetchRequest) (host.FetchResponse, error)
}{
	{"200", answers(200)}, {"204", answers(204)}, {"299", answers(299)},
	{"100", answers(100)}, {"301", answers(301)}, {"307", answers(307)},
	{"400", answers(400)}, {"401", answers(401)}, {"404", answers(404)}, {"410", answers(410)},
	{"429", answers(429)},
	{"500", answers(500)}, {"502", answers(502)}, {"503", answers(503)}, {"0", answers(0)},
	{"999", answers(999)},
	{"timeout", fails(host.FetchTimeout)}, {"network", fails(host.FetchNetwork)},
	{"blocked", fails(host.FetchBlocked)},
}

// webhooks delivers webhooks, tries them again and gives them up, in production.
func webhooks(s *recording) {
	s.ask("contract 5: not ready", "POST", web.StartPath, bearer(s.shop.secretKey), s.startBody(nil))
	s.ask("contract 5: without a webhook it never is", "POST", web.StartPath, bearer(s.shop.secretKey),
		s.startBody(members{"integration_id": s.shop.silent.id}))
	s.ask("contract 5: with webhooks switched off it always is", "POST", web.StartPath,
		bearer(s.shop.secretKey), s.startBody(members{"integration_id": s.shop.off.id}))
	for _, r := range receivers {
		s.receiver = r.take
		s.admin("contract 29: test, the receiver answers "+r.name, "POST",
			adminPath+"integrations/"+s.shop.l2.id+"/test", nil, "")
	}
	n := 0
	s.receiver = func(q host.FetchRequest) (host.FetchResponse, error) { // takes the third probe, too
		if n++; n == 3 {
			return host.FetchResponse{Status: 200}, nil
		}
		s.receiver = nil
		defer func(r func(host.FetchRequest) (host.FetchResponse, error)) { s.receiver = r }(s.receiver)
		return s.Fetch(context.Background(), q)
	}
	s.admin("contract 29: test, the receiver takes anything", "POST",
		adminPath+"integrations/"+s.shop.l2.id+"/test", nil, "")
	s.receiver = nil
	for _, i := range []*integrated{s.shop.l1, s.shop.l2} {
		must(200, s.admin("contract 29: ready", "POST", adminPath+"integrations/"+i.id+"/test", nil, ""))
	}
	s.pause(5 * time.Second)

	for _, outcome := range outcomes {
		v := s.start(members{"state": "s", "external_user_id": "user-42"})
		s.runDue("the started event")
		s.act(outcome, v, outcome)
		s.runDue("the event of " + outcome)
		s.runDue("nothing is due")
	}
	for _, r := range receivers {
		v := s.start(nil)
		s.receiver = r.take
		s.runDue("contract 26: the receiver answers " + r.name)
		s.act("approve", v, sandboxApprove)
		s.runDue("contract 26: and again")
		s.receiver = nil
		s.pause(7 * time.Second)
		s.runDue("contract 26: what is tried again")
	}
	s.pause(11 * time.Minute)
	s.runDue("timers")
	s.start(members{"integration_id": s.shop.l2.id})
	s.receiver = answers(500)
	for range 12 {
		next := s.runDue("contract 26: one more attempt")
		if next.IsZero() {
			break
		}
		s.now = next
	}
	s.receiver = nil
	deliveries(s)
	jobs(s)
	s.change(s.shop.l1.id,
		func(i *integration.Integration) { i.Webhook.URL = "https://shop.example/hooks/new" })
	s.pause(5 * time.Second)
	s.ask("contract 29: another URL resets readiness", "POST", web.StartPath, bearer(s.shop.secretKey),
		s.startBody(nil))
}

// deliveries lists dead events and sends them again (contract 27).
func deliveries(s *recording) {
	var page struct {
		Deliveries []struct {
			Event string `json:"event"`
		} `json:"deliveries"`
	}
	check(json.Unmarshal(must(200, s.admin("contract 27: dead events", "GET", adminPath+"deliveries", nil,
		"")).Body, &page))
	for _, query := range []string{
		"after=", "after=p0:", "after=p1:evt_", "after=p9:", "after=x", "after=%zz", "a=b",
	} {
		s.admin("contract 27: dead events, a page", "GET", adminPath+"deliveries?"+query, nil, "")
	}
	for _, d := range page.Deliveries {
		s.admin("contract 27: send again", "POST", adminPath+"deliveries/"+d.Event+"/resend", nil, "")
		s.admin("contract 27: once is enough", "POST", adminPath+"deliveries/"+d.Event+"/resend", nil, "")
	}
	for _, id := range []string{"evt_", "evt_00000000-0000-4000-8000-000000000000", "x", "", "evt_x"} {
		s.admin("contract 27: another event", "POST", adminPath+"deliveries/"+id+"/resend", nil, "")
	}
	s.runDue("what was sent again")
	s.admin("contract 27: no dead events", "GET", adminPath+"deliveries", nil, "")
}

// jobs claims jobs and runs them side by side, as a runner does.
func jobs(s *recording) {
	for range 6 {
		s.start(nil)
	}
	for _, p := range []kv.Partition{"p0", "p1", "p7", ""} {
		for _, n := range []int{0, 1, 2, 100} {
			for k, j := range s.claim(fmt.Sprintf("claim %d of %s", n, p), p, n) {
				switch k % 3 {
				case 0:
					s.run("run", j)
					s.run("run it once more: its lease is lost", j)
				case 1:
					s.put("defer", j, s.now.Add(time.Minute))
					s.run("run what was given back", j)
				case 2:
					s.pause(25 * time.Second)
					s.run("no attempt begins that may outlast its lease", j)
				}
			}
		}
	}
	s.pause(time.Minute)
	for _, p := range []kv.Partition{"p0", "p1"} {
		for _, j := range s.claim("claim what came free", p, 100) {
			bad := j
			bad.Task.Payload = nil
			s.run("a task without a payload", bad)
			bad.Task.Payload = append([]byte{0xff}, j.Task.Payload...)
			s.run("a damaged task", bad)
			bad = j
			bad.Task.Lease = "another"
			s.run("another's lease", bad)
		}
	}
	s.pause(time.Hour)
	for _, p := range []kv.Partition{"p0", "p1"} {
		for _, j := range s.claim("claim timers", p, 100) {
			s.run("expire", j)
		}
	}
	s.runDue("the rest")
	s.pause(time.Hour)
	s.runDue("the rest's events")
}

// operators asks the operators' side.
func operators(s *recording) {
	for _, h := range []web.Header{
		{}, bearer(""), bearer("x"), bearer(s.shop.secretKey), headers("Authorization", operatorToken),
		headers("Authorization", "bearer "+operatorToken), bearer(operatorToken + " "),
		bearer(operatorToken[1:]),
	} {
		for _, path := range []string{"/", adminPath + "keys", adminPath + "nothing"} {
			s.admin("who is no operator", "GET", path, h, "")
		}
	}
	for _, path := range []string{
		"integrations", "integrations/" + s.shop.l1.id + "/test", "keys", "keys/key_0123456789abcdef/revoke",
		"deliveries", "deliveries/evt_x/resend", "", "x", "keys/", "keys//revoke", "keys/a/b",
		"keys/a/revoke/",
		"integrations//test",
	} {
		for _, method := range []string{"GET", "POST", "HEAD", "DELETE", "OPTIONS"} {
			s.admin("method "+method, method, adminPath+path, nil, "")
		}
	}
	key := func(name, body string) (id string) {
		var created struct{ Info struct{ ID string } }
		r := s.admin("a key: "+name, "POST", adminPath+"keys", nil, body)
		if r.Status == 200 {
			check(json.Unmarshal(r.Body, &created))
		}
		return created.Info.ID
	}
	var ids []string
	for _, m := range []members{{"publisher_id": s.shop.id},
		{"publisher_id": s.shop.id, "integration_id": s.shop.l1.id},
		{"publisher_id": s.shop.id, "expires": s.now.Add(time.Hour).Format(time.RFC3339)},
		{"publisher_id": s.shop.id, "expires": s.now.Add(-time.Hour).Format(time.RFC3339)},
		{"publisher_id": s.shop.id, "expires": "soon"}, {"publisher_id": s.shop.id, "expires": 1},
		{"publisher_id": s.shop.id, "expires": ""},
		{"publisher_id": s.shop.id, "integration_id": s.other.l1.id},
		{"publisher_id": s.shop.id, "integration_id": "x"}, {"publisher_id": "pub_none"},
		{"publisher_id": ""},
		{"publisher_id": 1}, {}, {"integration_id": s.shop.l1.id},
		{"publisher_id": s.shop.id, "integration_id": ""},
		{"publisher_id": s.shop.id, "integration_id": nil, "x": 1}} {
		if id := key("made", m.String()); id != "" {
			ids = append(ids, id)
		}
	}
	for _, body := range []string{
		"", "[]", "null", "{", "x", `{"publisher_id":"pub_shop","publisher_id":"pub_shop"}`,
		strings.Repeat(" ", 17*1024), `{"publisher_id":null}`,
	} {
		key("another body", body)
	}
	s.admin("keys", "GET", adminPath+"keys", nil, "")
	for _, id := range append(ids, ids[0], "key_0000000000000000", "key_", "x", strings.ToUpper(ids[1])) {
		s.admin("revoke", "POST", adminPath+"keys/"+id+"/revoke", nil, "")
	}
	s.admin("keys, some revoked", "GET", adminPath+"keys", nil, "")
	for _, id := range []string{
		s.shop.l1.id, s.shop.silent.id, s.shop.off.id, s.other.l1.id, "x",
		"00000000-0000-0000-0000-000000000000",
		strings.ToUpper(s.shop.l1.id),
	} {
		s.admin("test", "POST", adminPath+"integrations/"+id+"/test", nil, "")
		s.admin("integrations", "GET", adminPath+"integrations", nil, "")
	}
	s.change(s.shop.l1.id, func(i *integration.Integration) { i.Webhook.Sealed = "AAAA" })
	s.pause(5 * time.Second)
	s.admin("integrations, one whose secret is damaged", "GET", adminPath+"integrations", nil, "")
	s.admin("test without a secret", "POST", adminPath+"integrations/"+s.shop.l1.id+"/test", nil, "")
}

// site is a configuration of one publisher with one integration, changed.
func site(change members) string {
	i := members{"id": "0d7a4b9e-1c36-4f58-9e02-7b8a6c5d4e01", "publisher": "pub_site", "name": "Site",
		"level": "L1", "challenge_age": 21, "method": "sandbox",
		"browser_origins": []string{origin}, "callback_origins": []string{origin},
		"webhook_url": origin + "/hooks/l1",
		"secret":      webhookSecret("5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0a01")}
	maps.Copy(i, change)
	maps.DeleteFunc(i, func(_ string, v any) bool { return v == nil })
	return members{"publishers": []members{{"id": "pub_site", "name": "Site"}},
		"integrations": []members{i}}.String()
}

// sites applies the publishers and integrations of the operator's configuration.
func sites(s *recording) {
	apply := func(name, body string) { s.do("apply: "+name, abi.Apply, []byte(body)) }
	for _, change := range []members{
		{}, {}, {"level": "L2"}, {"webhook_off": true, "webhook_url": nil, "secret": nil},
		{"browser_origins": nil, "callback_origins": nil}, {},
	} {
		apply("a site", site(change))
	}
	for _, change := range []members{{"id": "x"}, {"publisher": "pub_none"}, {"level": "L3"},
		{"challenge_age": 0}, {"challenge_age": "21"}, {"method": "oidc"},
		{"webhook_url": "http://shop.example"},
		{"webhook_url": "x"},
		{"secret": nil}, {"secret": ""}, {"unknown": 1}, {"browser_origins": []string{"shop.example"}},
		{"id": "x", "level": "x", "challenge_age": 100}, {"name": strings.Repeat("x", 70_000)}} {
		apply("what is no site", site(change))
	}
	for _, body := range []string{
		"", "{}", "null", "[]", "{", "{}{}", `{"publishers":1}`, `{"publishers":[{"id":"x"}]}`,
		`{"publishers":[{"id":"pub_a"},{"id":"pub_a"}]}`, "\xff",
	} {
		apply("what is no site", body)
	}
	for n := 1; n <= 10; n++ {
		for _, f := range []fault{unavailable, vanished, lost} {
			s.fault = func(at int, _ abi.Kind) fault {
				if at == n {
					return f
				}
				return none
			}
			apply(fmt.Sprintf("effect %d fails", n),
				site(members{"challenge_age": 30 + n, "name": fmt.Sprint(f)}))
			s.fault = nil
		}
	}
	apply("the first again", site(nil))
	var created struct{ Key string }
	check(json.Unmarshal(must(200, s.admin("a key of the site's", "POST", adminPath+"keys", nil,
		members{"publisher_id": "pub_site"}.String())).Body, &created))
	id := "0d7a4b9e-1c36-4f58-9e02-7b8a6c5d4e01"
	s.admin("test", "POST", adminPath+"integrations/"+id+"/test", nil, "")
	s.ask("start", "POST", web.StartPath, bearer(created.Key), s.startBody(members{"integration_id": id}))
	s.runDue("its event")
	apply("and once more: it stays ready", site(nil))
	s.ask("start", "POST", web.StartPath, bearer(created.Key), s.startBody(members{"integration_id": id}))
	testEvents(s, id, created.Key)
	recordUsage(s, id)
}

// testEvents lists test events with and without their tag. The host asks again for one request (contract 49).
func testEvents(s *recording, id, key string) {
	target := web.TestsPath + "?since=2026-11-20T22:10:00Z&integration_id=" + id
	tag := ""
	for range 2 {
		h := headers("Authorization", "Bearer "+key, "If-None-Match", tag)
		tag = must(200, s.ask("test events", "GET", target, h, "")).Header.Get("Etag")
		h = headers("Authorization", "Bearer "+key, "If-None-Match", tag, "Prefer", "wait=20")
		must(304, s.ask("the same test events", "GET", target, h, ""))
		must(304, s.send("the same, asked again", abi.HandleAgain, "GET", target, h, ""))
		must(200, s.admin("a test event", "POST", adminPath+"integrations/"+id+"/test-event", nil,
			members{"type": webhook.TypeStarted}.String()))
		must(200, s.send("another one, asked again", abi.HandleAgain, "GET", target, h, ""))
	}
	must(401, s.send("with no key, asked again", abi.HandleAgain, "GET", target, headers(), ""))
}

// recordUsage records sums of several integrations and keys, with a working and with a failing store.
func recordUsage(s *recording, id string) {
	day := host.DayOf(s.now)
	for n := range 4 {
		totals := host.Totals{Keys: []host.KeyUse{{Key: "key_0a4e1f7c1b2d4c3e", Day: day + host.Day(n/2)}}}
		for i := range 40 { // more than one commit holds
			totals.Days = append(totals.Days, host.DayTotal{Integration: fmt.Sprintf("%08x%s", i%12, id[8:]),
				Day:      day,
				Instance: fmt.Sprint("i", i), Counts: host.Counts{uint64(1 + n/2*i), uint64(n / 2)}})
		}
		s.do("record usage", abi.RecordUsage, abi.Append.Totals(nil, totals))
		for at := 1; at <= 40 && n == 1; at += 13 {
			for _, f := range []fault{unavailable, vanished, lost} {
				s.fault = func(now int, _ abi.Kind) fault {
					if now == at {
						return f
					}
					return none
				}
				totals.Days[0].Counts[0]++
				s.do(fmt.Sprintf("record usage: effect %d fails", at), abi.RecordUsage,
					abi.Append.Totals(nil, totals))
				s.fault = nil
			}
		}
	}
}

// limits exhausts the limits (contract 21, 30). Guessing counts.
func limits(s *recording) {
	v := s.start(nil)
	at := func(name, client, method, path string, h web.Header, body string) {
		s.request(name, abi.Handle, &web.Request{Method: method, Path: path, Header: h, Body: []byte(body),
			Client: netip.MustParseAddr(client)})
	}
	public := s.startBody(members{"public_key": s.shop.l1.publicKey})
	for range 15 {
		at("a public key from one address", "192.0.2.2", "POST", web.StartPath, web.Header{}, public)
	}
	for n := range 15 {
		at("a public key from many", fmt.Sprintf("192.0.2.%d", 10+n), "POST", web.StartPath,
			headers("Origin", origin), public)
	}
	for n := range 15 {
		at("IPv6 counts by /64", fmt.Sprintf("2001:db8::%d", n+1), "POST", web.StartPath, web.Header{}, "{}")
	}
	for range 18 {
		at("reconcile by one key", "192.0.2.40", "GET", web.SessionsPath+v.ID, bearer(s.shop.secretKey), "")
	}
	for range 34 {
		at("guessing", "192.0.2.41", "POST", web.ValidatePath, bearer("svc_sk_guess"), "{}")
	}
	at("who guessed has no more for good keys", "192.0.2.41", "GET", web.SessionsPath+v.ID,
		bearer(s.other.secretKey), "")
	for n := range 8 {
		s.pause(time.Duration(n*n) * time.Second)
		at("and waits", "192.0.2.41", "POST", web.ValidatePath, bearer("svc_sk_guess"), "{}")
		at("reconcile by one key", "192.0.2.40", "GET", web.SessionsPath+v.ID, bearer(s.shop.secretKey), "")
	}
}

// faults makes the store unavailable, or lose requests or replies, at each effect of every request and task
// (contract 5, 503).
func faults(s *recording) {
	for _, c := range slices.Concat(s.requestsUnderFaults(), s.workUnderFaults()) {
		s.failEachEffect(c)
	}
	s.planted()
}

// underFaults is an operation whose effects fail, and its preparation, which may be nil.
type underFaults struct {
	name   string
	before func()
	do     func(name string)
}

// requestsUnderFaults are the requests of publishers and users.
func (s *recording) requestsUnderFaults() []underFaults {
	secret := bearer(s.shop.secretKey)
	var v started
	var result string
	fresh := func() { v = s.start(nil) }
	approved := func() { fresh(); result = s.approve(v) }
	n := 0
	return []underFaults{
		{"start", nil, func(name string) { s.ask(name, "POST", web.StartPath, secret, s.startBody(nil)) }},
		{"start without a webhook", nil, func(name string) {
			s.ask(name, "POST", web.StartPath, secret,
				s.startBody(members{"integration_id": s.shop.silent.id}))
		}},
		{"start with an Idempotency-Key", nil, func(name string) {
			n++
			h := with(secret, "Idempotency-Key", fmt.Sprint(n/2))
			s.ask(name, "POST", web.StartPath, h, s.startBody(nil))
		}},
		{"start by a public key", nil, func(name string) {
			s.ask(name, "POST", web.StartPath, headers("Origin", origin),
				s.startBody(members{"public_key": s.shop.l1.publicKey}))
		}},
		{"a start that fails", nil, func(name string) {
			s.ask(name, "POST", web.StartPath, secret,
				s.startBody(members{"external_user_id": sandboxInitError}))
		}},
		{"preflight", nil, func(name string) {
			s.ask(name, "OPTIONS", web.StartPath,
				headers("Origin", origin, "Access-Control-Request-Method", "POST"), "")
		}},
		{"the page", fresh, func(name string) { s.page(name, v) }},
		{"approve", fresh, func(name string) { s.act(name, v, sandboxApprove) }},
		{"a failed attempt", fresh, func(name string) { s.act(name, v, sandboxFailAttempt) }},
		{"reject", fresh, func(name string) { s.act(name, v, sandboxReject) }},
		{"the hop again", approved, func(name string) { s.page(name, v) }},
		{"validate", approved, func(name string) { s.validate(name, result) }},
		{"validate with an Idempotency-Key", approved,
			func(name string) { s.validate(name, result, "Idempotency-Key", "k") }},
		{"reconcile", fresh, func(name string) { s.reconcile(name, v.ID) }},
	}
}

// workUnderFaults are the jobs, and the requests of operators.
func (s *recording) workUnderFaults() []underFaults {
	var job host.Job
	fresh := func() { s.start(nil) }
	due := func() {
		s.settle()
		fresh()
		job = s.claim("claim", "p0", 1)[0]
	}
	dead := func() {
		s.settle()
		fresh()
		s.receiver = answers(400)
		s.runDue("an event that is given up")
		s.receiver = nil
	}
	return []underFaults{
		{"ready", nil, func(name string) { s.do(name, abi.Ready, nil) }},
		{"claim", fresh, func(name string) { s.claim(name, "p0", 4) }},
		{"run", due, func(name string) { s.run(name, job) }},
		{"run, to be tried again", due, func(name string) {
			s.receiver = answers(503)
			s.run(name, job)
			s.receiver = nil
		}},
		{"run, to be given up", due, func(name string) {
			s.receiver = answers(404)
			s.run(name, job)
			s.receiver = nil
		}},
		{"defer", due, func(name string) { s.put(name, job, s.now.Add(time.Minute)) }},
		{"run what is due", func() { s.settle(); fresh() }, func(name string) { s.runDue(name) }},
		{"expire", func() { s.settle(); fresh(); s.settle(); s.pause(10 * time.Minute) },
			func(name string) { s.runDue(name) }},
		{"integrations", nil, func(name string) { s.admin(name, "GET", adminPath+"integrations", nil, "") }},
		{"test", nil, func(name string) {
			s.admin(name, "POST", adminPath+"integrations/"+s.shop.l1.id+"/test", nil, "")
		}},
		{"keys", nil, func(name string) { s.admin(name, "GET", adminPath+"keys", nil, "") }},
		{"make a key", nil, func(name string) {
			s.admin(name, "POST", adminPath+"keys", nil, members{"publisher_id": s.shop.id}.String())
		}},
		{"dead events", dead, func(name string) { s.admin(name, "GET", adminPath+"deliveries", nil, "") }},
	}
}

// failEachEffect does it once for each effect that it has, and each way in which that effect can fail.
func (s *recording) failEachEffect(c underFaults) {
	for at := 1; ; at++ {
		reached := abi.Kind(0)
		try := func(what string, f fault, lasting bool) {
			if c.before != nil {
				c.before()
			}
			s.pause(5 * time.Second) // so that cached records expire
			s.fault = func(n int, k abi.Kind) fault {
				if n != at && !(lasting && n > at) {
					return none
				}
				if n == at {
					reached = k
				}
				return f
			}
			c.do(fmt.Sprintf("%s: effect %d %s", c.name, at, what))
			s.fault = nil
		}
		try("fails", unavailable, false)
		if reached == 0 {
			break
		}
		if reached == abi.KVCommit {
			try("is lost", vanished, false)
			try("loses its reply", lost, false)
			try("loses its reply, and all that follow", lost, true)
		}
	}
}

// planted requests forged items of the store.
func (s *recording) planted() {
	secret := bearer(s.shop.secretKey)
	at := kv.Key{Partition: "c", Name: "c/int/" + s.shop.l2.id}
	s.plant(at, []byte("{"))
	s.ask("contract 5, 503: an integration that this service did not write", "POST", web.StartPath, secret,
		s.startBody(members{"integration_id": s.shop.l2.id}))
	damaged, err := sessiontest.Forger{Sealer: s.sealer}.Record(at.String(), []byte(`{"level":1}`))
	check(err)
	s.plant(at, damaged)
	s.ask("contract 5, 500: a damaged integration", "POST", web.StartPath, secret,
		s.startBody(members{"integration_id": s.shop.l2.id}))
	s.admin("contract 5, 500: a damaged integration", "GET", adminPath+"integrations", nil, "")
}
