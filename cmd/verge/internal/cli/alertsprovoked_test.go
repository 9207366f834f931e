package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/agenttest"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/faultproxy"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// notProvoked are the alerts that no test provokes against a real instance, with the reason. promtool tests
// them with made-up series (edge/deploy/alerts_test.yml).
var notProvoked = map[string]string{
	"VergeStoreGrows":         "a gigabyte of data within a week",
	"VergeExpiredDataStays":   "expired data that stays for a quarter of an hour",
	"VergeCannotSendEvents":   "a webhook secret whose key is retired before it is encrypted again",
	"VergeEventsWait":         "an event that waits for an hour, by the clock of the instance",
	"VergeTasksAreLate":       "all workers blocked for more than a minute",
	"VergeStoreIsNotVacuumed": "100,000 deleted rows of PostgreSQL under a long transaction",
	"VergeRevocationIsNotChecked": "a wallet's document whose status list is away; the event is tested " +
		"(testharness/conformance)",
}

// TestAlerts_Provoked provokes each alert by its cause, against the real binary. Without the cause, no alert
// fires; with it, exactly the listed ones.
func TestAlerts_Provoked(t *testing.T) {
	long.Skip(t, "TestAlerts_Provoked")
	t.Parallel()
	// The cases mostly wait, so several run at the same time, with any -parallel.
	places := make(chan struct{}, 4)
	var running sync.WaitGroup
	for _, c := range provocations {
		running.Go(func() {
			places <- struct{}{}
			defer func() { wait.For(places) }()
			t.Run(c.name, c.provoke)
		})
	}
	running.Wait()
}

// TestAlerts_AllCovered: an alert is provoked, or has a reason.
func TestAlerts_AllCovered(t *testing.T) {
	rules, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("alertsprovoked_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, provoked, _ := strings.Cut(string(source), "var provocations")
	alerts := regexp.MustCompile(`(?m)^      - alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1)
	if len(alerts) < 30 {
		t.Fatalf("only %d alerts are found", len(alerts))
	}
	for _, a := range alerts {
		if strings.Contains(provoked, `"`+a[1]+`"`) == (notProvoked[a[1]] != "") {
			t.Errorf("%s is neither provoked nor in notProvoked, or both", a[1])
		}
	}
}

var provocations = []struct {
	name    string
	provoke func(t *testing.T)
}{
	{"instances absent and restarting", provokeAbsence},
	{"store away, slow and full", provokeStore},
	{"webhooks fail", provokeWebhooks},
	{"key rings", provokeRings},
	{"a store of another ring", foreignRing},
	{"private keys in an agent", provokeKeys},
	{"certificates of listeners", provokeCertificates},
	{"certificates of settings and trusted lists", provokeWallet},
	{"estimator away, slow and wrong", provokeEstimator},
	{"users do not come back", provokeBank},
	{"sessions do not complete", provokeSessions},
	{"guests fail", provokeGuests},
}

// sessions starts n sessions of an integration, and completes them.
func sessions(t *testing.T, in *served, n int, complete bool) {
	t.Helper()
	for range n {
		_, redirect, err := in.publisher.start(testIntegration)
		if err != nil {
			t.Fatalf("%v: %s", err, in.logs)
		}
		if !complete {
			continue
		}
		if _, err := in.approve(redirect); err != nil {
			t.Fatalf("%v: %s", err, in.logs)
		}
	}
}

// quick is a site on bolt whose receiver accepts everything, with the settings at the end.
func quick(t *testing.T, more string) (*site, *events) {
	t.Helper()
	sink := newEvents(t)
	sink.trust(testSecret)
	return newSite(t, "bolt:"+filepath.Join(t.TempDir(), "verge.db"), sink.URL, unlimited+more), sink
}

// writeSecret replaces a file that only its owner can read.
func writeSecret(t *testing.T, path, text string) {
	t.Helper()
	if err := config.WritePrivate(afero.NewOsFs(), path, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func one(in *served) map[string]*served { return map[string]*served{"a": in} }

func (in *served) ends() { in.kill(); wait.For(in.ended) }

func provokeAbsence(t *testing.T) {
	redis := stores.StartRedis(t)
	sink := newEvents(t)
	sink.trust(testSecret)
	s := newSite(t, redis.URL(), sink.URL, unlimited)
	w := newWatch(t, map[string]*served{"a": s.start(), "b": s.start()})
	w.calm(func() { sessions(t, w.instances["a"], 3, true) })
	w.instances["b"].ends()
	w.scrape(10)
	w.fires("one of two instances is killed", "VergeInstanceIsAbsent")
	w.instances["a"].ends()
	w.scrape(10)
	w.fires("all instances are killed", "VergeInstanceIsAbsent", "VergeIsAbsent")

	w = newWatch(t, one(s.start()))
	w.calm(func() { sessions(t, w.instances["a"], 3, true) })
	for range 3 {
		w.instances["a"].ends()
		w.instances["a"] = s.start()
		w.scrape(5)
	}
	w.fires("three restarts", "VergeRestarts")
}

func provokeStore(t *testing.T) {
	redis := stores.StartRedis(t)
	sink := newEvents(t)
	sink.trust(testSecret)
	proxy := faultproxy.New(t, redis.Addr(), faultproxy.Config{Delay: 700 * time.Millisecond})
	// Each call may take long, and so may all calls of a start.
	s := newSite(t, "redis://"+proxy.Addr()+"?read_timeout=1m", sink.URL,
		unlimited+"[store]\nbudget = \"12s\"\n")
	w := newWatch(t, one(s.start()))
	w.room = true
	w.calm(func() { sessions(t, w.instances["a"], 3, true) })
	for range 2 {
		proxy.Use(faultproxy.Always(faultproxy.Delay))
		sessions(t, w.instances["a"], 2, false)
		proxy.Off()
		w.scrape(15)
	}
	w.fires("each call of the store takes 0.7 s", "VergeStoreIsSlow")

	// A restart measures the store now, not within a minute.
	restart := func(maxmemory int64) {
		redis.Do("CONFIG", "SET", "maxmemory", maxmemory)
		w.instances["a"].ends()
		in := s.start()
		w.instances["a"] = in
		wait.Until(t, "the measurement", func() bool { return in.metric(t, "verge_store_size_bytes") != "" })
		w.scrape(60)
	}
	used := usedMemory(t, redis)
	restart(used * 115 / 100)
	w.fires("12 % of maxmemory are free", "VergeStoreIsFilling")
	restart(usedMemory(t, redis) * 103 / 100)
	w.fires("3 % of maxmemory are free", "VergeStoreIsFilling", "VergeStoreIsFull")
	restart(0)
	w.fires("without maxmemory")

	proxy.Down()
	wait.Until(t, "the failure of the store", func() bool {
		return strings.Contains(w.instances["a"].metric(t, "verge_store_failing{"), " 1")
	})
	w.scrape(10)
	w.fires("the store is away", "VergeIsNotReady", "VergeStoreFails")
}

// usedMemory returns the memory that Redis uses.
func usedMemory(t *testing.T, redis *stores.Redis) (bytes int64) {
	t.Helper()
	info := fmt.Sprint(redis.Do("INFO", "memory"))
	_, used, _ := strings.Cut(info, "used_memory:")
	if _, err := fmt.Sscan(used, &bytes); err != nil {
		t.Fatalf("%v: %s", err, info)
	}
	return bytes
}

func provokeWebhooks(t *testing.T) {
	s, sink := quick(t, "[webhooks]\nretries = [\"1s\"]\n")
	w := newWatch(t, one(s.start()))
	in := w.instances["a"]
	w.calm(func() {
		sessions(t, in, 3, true)
		wait.Until(t, "the deliveries", func() bool {
			return strings.HasSuffix(in.metric(t, `verge_events_total{event="webhook_delivered"}`), " 6")
		})
	})
	sink.trust("whsec_" + strings.Repeat("A", 43) + "=")
	for round := 1; round <= 2; round++ {
		sessions(t, in, 15, true)
		dead := fmt.Sprintf(" %d", 30*round)
		wait.Until(t, "the end of the attempts", func() bool {
			return strings.HasSuffix(in.metric(t, `verge_events_total{event="webhook_dead"}`), dead)
		})
		w.scrape(15)
	}
	w.fires("the receiver rejects all events", "VergeDeliveriesFail", "VergeEventsAreGivenUp")
}

func provokeRings(t *testing.T) {
	redis := stores.StartRedis(t)
	sink := newEvents(t)
	sink.trust(testSecret)
	s := newSite(t, redis.URL(), sink.URL, unlimited)
	fleet := s.fleet(2, true)
	w := newWatch(t, map[string]*served{"a": fleet[0].served, "b": fleet[1].served})
	w.calm(func() { sessions(t, fleet[0].served, 3, true) })
	rotate := []string{"keyring", "rotate", fleet[0].ring, "--seals-in", "0s"}
	if code := run(t.Context(), rotate, onDisk()); code != exitOK {
		t.Fatalf("rotate: exit code %d", code)
	}
	wait.Until(t, "the rotation", func() bool {
		return strings.HasSuffix(fleet[1].metric(t, "verge_keyring_missing_keys "), " 1") &&
			strings.HasSuffix(fleet[1].metric(t, "verge_ready "), " 0") &&
			fleet[0].metric(t, "verge_keyring_sealing_key{") !=
				fleet[1].metric(t, "verge_keyring_sealing_key{")
	})
	w.scrape(20)
	w.fires("one instance missed a rotation", "VergeIsNotReady", "VergeKeyMissing", "VergeKeyRingsDiffer")

	// A damaged file: the ring in memory stays.
	writeSecret(t, fleet[0].ring, "{}")
	wait.Until(t, "the unreadable file", func() bool {
		return strings.HasSuffix(fleet[0].metric(t, "verge_keyring_unreadable "), " 1")
	})
	w.scrape(20)
	w.fires("a ring's file is damaged", "VergeIsNotReady", "VergeKeyMissing", "VergeKeyRingIsNotRead",
		"VergeKeyRingsDiffer")
}

// foreignRing lets a store adopt another ring. Records of the old one are not authentic.
func foreignRing(t *testing.T) {
	t.Helper()
	s, _ := quick(t, "")
	in := s.start()
	w := newWatch(t, one(in))
	w.calm(func() { sessions(t, in, 3, true) })
	in.ends()
	p := onDisk()
	p.Getenv = func(name string) (string, bool) {
		v, ok := map[string]string{"VERGE_OPERATOR_TOKEN": testToken, "HOOK": testSecret}[name]
		return v, ok
	}
	if err := os.Remove(s.ring); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"keyring", "generate", s.ring},
		{"keyring", "adopt", "--config", s.config}} {
		if code := run(t.Context(), args, p); code != exitOK {
			t.Fatalf("%q: exit code %d: %s", args, code, p.stderr)
		}
	}
	in = s.start()
	w.instances["a"] = in
	w.scrape(1)
	before := in.metric(t, `verge_events_total{event="record_not_authentic"}`)
	in.publisher.start(testIntegration) // by a key whose record the old ring has signed
	wait.Until(t, "the record", func() bool {
		return in.metric(t, `verge_events_total{event="record_not_authentic"}`) != before
	})
	w.scrape(10)
	w.fires("the store has records of another ring", "VergeStoreIsNotTrusted")
}

func provokeKeys(t *testing.T) {
	agent := agenttest.Start(t)
	key := agent.AddToken()
	s := newKeyless(t, key)
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, fmt.Sprintf("[report]\nprivate_key_file = %q\n", key)...)
	if err := os.WriteFile(s.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = []string{"SSH_AUTH_SOCK=" + agent.Socket}
	in := s.start()
	w := newWatch(t, one(in))
	w.calm(func() { s.redeem(in, s.code(in)) })
	agent.RemoveToken()
	for range 2 {
		for range 3 {
			s.redeem(in, s.code(in))
		}
		wait.Until(t, "the check of the key", func() bool {
			return strings.HasSuffix(in.metric(t, "verge_private_key_failing{"), " 1")
		})
		w.scrape(15)
	}
	w.fires("the token with the private key is removed: 503 for ID tokens", "VergePrivateKeyFails",
		"VergeRefusesForLoad")
	req, err := http.NewRequest("GET", "http://"+in.at.Admin+"/admin/v1/report", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusInternalServerError {
		t.Fatalf("a report without its key: %v, %v", resp, err)
	}
	resp.Body.Close()
	w.scrape(5)
	w.fires("a report cannot be signed: 500", "VergeErrors", "VergePrivateKeyFails")
}

func provokeCertificates(t *testing.T) {
	s, _ := quick(t, "")
	dir := t.TempDir()
	write := func(life time.Duration, mismatch bool) {
		t.Helper()
		template := aCertificate()
		template.NotAfter = time.Now().Add(life)
		cert, key, _ := selfSigned(t, template)
		if mismatch {
			_, key, _ = selfSigned(t, template)
		}
		for file, text := range map[string]string{"tls.crt": cert, "tls.key": key} {
			writeSecret(t, filepath.Join(dir, file), text)
		}
	}
	whole, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(whole), `"http://127.0.0.1"`, `"https://verify.example.com"`, 1) +
		fmt.Sprintf(
			"[tls]\ncert = %q\nkey = %q\n",
			filepath.Join(dir, "tls.crt"),
			filepath.Join(dir, "tls.key"),
		)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.key = "unused: the test starts no session"
	write(90*24*time.Hour, false)
	w := newWatch(t, one(s.start()))
	in := w.instances["a"]
	w.calm(func() {})
	expires := func() string { return in.metric(t, "verge_tls_certificate_expiry_timestamp_seconds") }
	for _, c := range []struct {
		rule   string
		life   time.Duration
		alerts []string
	}{
		{"a certificate of ten days", 10 * 24 * time.Hour, []string{"VergeCertificateExpires"}},
		{"a certificate of an hour", time.Hour,
			[]string{"VergeCertificateExpires", "VergeCertificateHasExpired"}},
		{"a certificate of three months", 90 * 24 * time.Hour, nil},
	} {
		before := expires()
		write(c.life, false)
		wait.Until(t, "the new certificate", func() bool { return expires() != before })
		w.scrape(90)
		w.fires(c.rule, c.alerts...)
	}
	write(90*24*time.Hour, true)
	wait.Until(t, "the rejection", func() bool {
		return strings.HasSuffix(in.metric(t, "verge_tls_certificate_refused "), " 1")
	})
	w.scrape(10)
	w.fires("a key of another certificate", "VergeCertificateRefused")
}

func provokeWallet(t *testing.T) {
	s := newTrust(t, "")
	key := filepath.Join(s.dir, "key.pem")
	chain := filepath.Join(s.dir, "chain.pem")
	signs := func(life time.Duration) string {
		t.Helper()
		template := aCertificate()
		template.NotAfter = time.Now().Add(life)
		cert, private, _ := selfSigned(t, template)
		for file, text := range map[string]string{chain: cert, key: private} {
			writeSecret(t, file, text)
		}
		return s.listedWallet() + "grace = \"1s\"\n"
	}
	signed := func(life time.Duration) string {
		return strings.Replace(signs(life), "profile = \"eu-av\"\n", fmt.Sprintf("profile = \"eu-av\"\n"+
			"request = \"signed\"\nclient_id_prefix = \"x509_san_dns\"\nprivate_key_file = %q\n"+
			"certificate_file = %q\n", key, chain), 1)
	}
	s.publishes(1, s.issuer)
	s.serve(signed(90 * 24 * time.Hour))
	s.waitForList(1)
	w := newWatch(t, one(s.in))
	listed := func() {
		t.Helper()
		w.instances["a"] = s.in
		wait.Until(t, "the list's metric", func() bool {
			return s.in.metric(t, "verge_trust_list_grace_end_seconds{") != ""
		})
	}
	listed()
	w.calm(func() {})
	for _, c := range []struct {
		rule   string
		life   time.Duration
		alerts []string
	}{
		{"a wallet's certificate of ten days", 10 * 24 * time.Hour,
			[]string{"VergeSettingCertificateExpires"}},
		{"a wallet's certificate of an hour", time.Hour, []string{"VergeSettingCertificateExpires",
			"VergeSettingCertificateHasExpired"}},
	} {
		s.serve(signed(c.life))
		listed()
		w.scrape(90)
		w.fires(c.rule, c.alerts...)
	}
	number := uint64(1)
	// A slow machine may read a list after the list's grace.
	wait.Until(t, "a list with a short life is stored", func() bool {
		number++
		s.listUntil(number, time.Now().Add(2*time.Second), s.issuer)
		s.serve(signed(90 * 24 * time.Hour))
		return within(3*time.Second, func() bool { return s.hasList(number) })
	})
	listed()
	time.Sleep(4 * time.Second)
	w.scrape(90)
	w.fires("a trusted list that is late, and whose grace has ended", "VergeTrustListIsLate",
		"VergeTrustListIsTooOld")
}

func provokeEstimator(t *testing.T) {
	s, _ := quick(t, "")
	const secret = "estimator-token-of-24-characters"
	estimator, at := estimatortest.Serve(t, estimatortest.Config{Token: secret})
	token := filepath.Join(t.TempDir(), "token")
	writeSecret(t, token, secret)
	whole, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(whole), `method = "sandbox"`, `methods = ["camera"]`, 1) +
		fmt.Sprintf("[[methods]]\nname = \"camera\"\nkind = \"estimator\"\n[methods.estimator]\n"+
			"profile = \"plain\"\nurl = %q\ntoken_file = %q\n", at+estimatortest.PlainPath, token)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in := s.start()
	w := newWatch(t, one(in))
	picture, uploads := estimatortest.Picture(), 0
	estimates := func(n int) {
		t.Helper()
		for range n {
			_, redirect, err := in.publisher.start(testIntegration)
			if err != nil {
				t.Fatal(err)
			}
			b := &testenv.Browser{
				Client: &http.Client{Transport: toPort{in.at.Public}, CheckRedirect: noRedirects},
			}
			page, err := b.Open(redirect)
			for range 2 { // the page before the camera, and the camera
				if err == nil && page.Has(`data-outcome="begin"`) {
					page, err = b.Submit(page, "begin")
				}
			}
			if err == nil {
				_, err = b.Upload(page, picture)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, in.logs)
			}
			uploads++
		}
		// A request is counted after its response.
		wait.Until(t, "the count of requests", func() bool {
			counted := 0
			for line := range strings.Lines(in.metric(t, `verge_http_requests_total{route="file"`)) {
				fields := strings.Fields(line)
				n, err := strconv.Atoi(fields[len(fields)-1])
				if err != nil {
					t.Fatal(err)
				}
				counted += n
			}
			return counted == uploads
		})
	}
	w.calm(func() { estimates(3) })
	for _, c := range []struct {
		rule   string
		answer estimatortest.Answer
		alerts []string
	}{
		{"status 500", estimatortest.Answer{Status: 500}, []string{"VergeMethodIsAway"}},
		{"the connection breaks", estimatortest.Answer{Cut: true}, []string{"VergeMethodIsAway"}},
		{"no response", estimatortest.Answer{Hang: true}, []string{"VergeMethodIsAway", "VergeMethodIsSlow"}},
		{"another form", estimatortest.Answer{Body: "<html>"}, []string{"VergeMethodIsNotBelieved"}},
		{"it works", estimatortest.Answer{}, nil},
	} {
		for range 2 {
			estimator.Answer(c.answer)
			estimates(2)
			w.scrape(25)
		}
		w.fires("the estimator: "+c.rule, c.alerts...)
	}
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func provokeBank(t *testing.T) {
	b := goBank(t)
	s := newProduction(t, b, unlimited)
	w := newWatch(t, one(s.in))
	users := func(n int, back bool) {
		t.Helper()
		for range n {
			_, redirect, err := s.in.publisher.start(s.integrations["plain"])
			if err != nil {
				t.Fatal(err)
			}
			v := s.visitor(t)
			if leave := v.begin(redirect); back {
				v.open("GET", leave, nil)
			}
		}
	}
	b.next(login{Claims: claimsOf(40, "", nil)})
	w.calm(func() { users(3, true) })
	for range 3 {
		users(25, false)
		w.scrape(30)
	}
	w.fires("users leave for the provider and do not come back", "VergeNobodyReturns", "VergeNobodySucceeds")
}

func provokeSessions(t *testing.T) {
	const second = "5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b12"
	s, sink := quick(t, "")
	whole, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	text := string(
		whole,
	) + fmt.Sprintf(
		"[[integrations]]\nid = %q\npublisher = \"pub_example\"\nlevel = \"L1\"\n"+
			"challenge_age = 25\nmethod = \"sandbox\"\nwebhook_url = %q\nsecret_env = \"HOOK\"\n",
		second,
		sink.URL,
	)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in := s.start()
	w := newWatch(t, one(in))
	starts := func(integration string, n int) {
		t.Helper()
		for range n {
			if _, _, err := in.publisher.start(integration); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.calm(func() { sessions(t, in, 3, true); starts(second, 1) })
	for range 2 {
		sessions(t, in, 3, true)
		starts(second, 40)
		w.scrape(60)
	}
	w.fires("one integration completes nothing", "VergeIntegrationFails")
	for range 2 {
		starts(second, 40)
		starts(testIntegration, 40)
		w.scrape(60)
	}
	w.fires("no session completes", "VergeNobodySucceeds")
}

func provokeGuests(t *testing.T) {
	g := newGuests(t)
	module := g.put("failing.wasm", failing(t))
	g.compile(module, "interruptible")
	s, _ := quick(t, g.section(module, "module_key = \""+g.public+"\"\ninterruptible = true"))
	in := s.start()
	w := newWatch(t, one(in))
	w.calm(func() { sessions(t, in, 3, true) })
	failOn(t, in, "trap")
	w.scrape(1)
	w.fires("a guest traps", "VergeGuestsFail")
}
