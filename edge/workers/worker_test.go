package workers_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/core/webhook"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/wait"
	"github.com/verge-id/verge/testharness/wallettest"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/settings"
)

// deploy runs the Worker as it is deployed, with an operator's configuration.
func deploy(t *testing.T, in *inbox, change func(*workerd.Worker)) (*service, *workerd.Server) {
	t.Helper()
	return deployOn(t, 1, in, change)
}

// deployOn is deploy in several isolates.
func deployOn(t *testing.T, isolates int, in *inbox, change func(*workerd.Worker)) (
	*service, *workerd.Server) {
	t.Helper()
	w := &workerd.Worker{
		Config: settings.Config{
			Config: core.Config{BaseURL: "http://verge.localhost", Dev: true, Partitions: 2,
				Schedule: webhook.Schedule{Delays: slices.Repeat([]time.Duration{200 * time.Millisecond}, 5),
					JitterPercent: -1}},
		},
		Site: shop(in, "secret_env", "SHOP_WEBHOOK_SECRET"),
		Secrets: map[string]string{"VERGE_KEYRING": string(newKeyring(t)),
			"VERGE_OPERATOR_TOKEN": operatorToken + "\n", "SHOP_WEBHOOK_SECRET": webhookSecret + "\n"},
	}
	w.AdminHost = "verge.localhost" // under /admin/ of the public host
	if change != nil {
		change(w)
	}
	server := workerd.Start(t, &workerd.Options{Worker: w, Isolates: isolates})
	return &service{t: t, client: server.Client(), base: w.Config.BaseURL, admin: w.Config.BaseURL}, server
}

// A balancer asks for /readyz?store=ignore, so it keeps a deployment whose store is away.
func TestReady_StoreAway(t *testing.T) {
	s, server := deploy(t, newInbox(t), nil)
	asks := func(when, path string, status int, body string) {
		t.Helper()
		if a := s.do("GET", s.base+path, nil, nil); a.status != status ||
			strings.TrimSpace(string(a.body)) != body {
			t.Errorf("%s: %s: %d %s, want %d %s", when, path, a.status, a.body, status, body)
		}
	}
	asks("a new isolate", "/readyz?store=ignore", 200, `{"status":"ok"}`)
	asks("a new isolate", "/readyz", 200, `{"status":"ok"}`)
	for _, of := range core.StorePartitions(2) {
		s.want(s.action(string(of), "lock", ""), http.StatusOK, "")
	}
	wait.Until(t, "the next check of the store", func() bool {
		return s.do("GET", s.base+"/readyz", nil, nil).status == http.StatusServiceUnavailable
	})
	asks("the store is locked", "/readyz", 503, `{"status":"unavailable"}`)
	asks("the store is locked", "/readyz?store=ignore", 200, `{"status":"degraded"}`)
	asks("the store is locked", "/readyz?store=", 503, `{"status":"unavailable"}`)
	asks("the store is locked", "/healthz", 200, `{"status":"ok"}`)
	server.Restart(t)
	asks("a new isolate without a store", "/readyz?store=ignore", 200, `{"status":"degraded"}`)
	asks("a new isolate without a store", "/readyz", 503, `{"status":"unavailable"}`)
}

// A variable holds 5 KB, so a site may be in several variables.
func TestWorker_SiteInTwoVariables(t *testing.T) {
	s, _ := deploy(t, newInbox(t), func(w *workerd.Worker) {
		integrations, err := json.Marshal(map[string]any{
			"integrations": w.Site.(map[string]any)["integrations"]})
		if err != nil {
			t.Fatal(err)
		}
		w.Secrets["VERGE_SITE_2"] = string(integrations)
		delete(w.Site.(map[string]any), "integrations")
	})
	s.makeKey()
	s.start()
}

// An operator's configuration is enough: the site exists, the admin API creates a key and tests the webhook,
// and a verification can be completed.
func TestWalkOnTheDeployedEntry(t *testing.T) {
	in := newInbox(t)
	s, _ := deploy(t, in, nil)
	s.makeKey()
	ready := s.post("/admin/v1/integrations/"+integrationID+"/test", operatorToken, nil)
	if is, _ := jsonOf(t, ready)["ready"].(bool); !is {
		t.Errorf("the webhook test: %d %s", ready.status, ready.body)
	}
	id, redirect := s.start()
	result := s.approve(redirect)
	s.want(s.validate(result), http.StatusOK, "")
	s.want(s.validate(result), http.StatusConflict, "ALREADY_USED")
	for _, event := range []string{"verification.started", "verification.completed"} {
		wait.Until(t, event, func() bool { return slices.Equal(in.statuses(id, event), []int{204}) })
	}
}

func jsonOf(t *testing.T, a answer) (m map[string]any) {
	t.Helper()
	if err := json.Unmarshal(a.body, &m); err != nil {
		t.Errorf("%d %s: %v", a.status, a.body, err)
	}
	return m
}

// After workerd was killed, written data still exists, and due tasks run.
func TestWorker_Restart(t *testing.T) {
	in := newInbox(t)
	in.answer(http.StatusInternalServerError)
	s, server := deploy(t, in, func(w *workerd.Worker) {
		w.Config.Schedule.Delays = slices.Repeat([]time.Duration{1500 * time.Millisecond}, 30)
		// The leases of the killed process end soon.
		w.Config.AttemptTime, w.Config.Lease = time.Second, 2100*time.Millisecond
	})
	s.makeKey()
	id, redirect := s.start()
	used := s.approve(redirect)
	s.want(s.validate(used), http.StatusOK, "")
	_, redirect = s.start()
	unused := s.approve(redirect)
	wait.Until(t, "attempts that fail",
		func() bool { return len(in.statuses(id, "verification.completed")) > 0 })

	server.Restart(t)
	in.answer(0)
	for _, event := range []string{"verification.started", "verification.completed"} {
		wait.Until(t, event, func() bool {
			all := in.statuses(id, event)
			return len(all) > 0 && all[len(all)-1] == 204
		})
	}
	s.want(s.validate(used), http.StatusConflict, "ALREADY_USED")
	s.want(s.validate(unused), http.StatusOK, "")
}

// trace is a correlation id of a form that may be logged.
const trace = "5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b11"

func TestHandler(t *testing.T) {
	s, server := deploy(t, newInbox(t), nil)
	s.makeKey()
	for _, c := range []struct {
		name, method, path string
		header             http.Header
		body               string
		status             int
		code               string
	}{
		{"contract 5: there is no such path", "GET", "/nowhere", nil, "", 404, "NOT_FOUND"},
		{"contract 5: nobody", "POST", web.StartPath, nil, "{}", 401, "UNAUTHORIZED"},
		{"contract 3: a body of more than 16 KiB",
			"POST", web.StartPath, bearer(s.key), strings.Repeat(" ", 17<<10), 413, "PAYLOAD_TOO_LARGE"},
		{"a URL of more than 8 KiB", "GET", "/?" + strings.Repeat("a", 8<<10), nil, "", 414, "URI_TOO_LONG"},
		{"contract 35: a return whose URL has 26 KiB", "GET",
			"/verify/return/bankid?code=" + strings.Repeat("%20", (26<<10-27)/3), nil, "", 400, ""},
		{"contract 35: a longer return", "GET",
			"/verify/return/bankid?code=" + strings.Repeat("a", 26<<10-26), nil, "", 414, "URI_TOO_LONG"},
		{"a header of more than 48 KiB",
			"GET", "/", http.Header{"X-Large": {strings.Repeat("a", 48<<10)}}, "", 431, "INVALID_REQUEST"},
		{"the operators' side lets no publisher in",
			"GET", "/admin/v1/keys", bearer(s.key), "", 401, "UNAUTHORIZED"},
		{"the operators' side", "GET", "/admin/v1/keys", bearer(operatorToken), "", 200, ""},
		{"contract 5: POST on a health check", "POST", "/healthz", nil, "{}", 405, "METHOD_NOT_ALLOWED"},
		{"contract 5: PUT on a health check", "PUT", "/readyz", nil, "", 405, "METHOD_NOT_ALLOWED"},
		{"contract 4: a health check", "GET", "/readyz", nil, "", 200, ""},
		{"contract 5: an escaped slash",
			"POST", "/api/v1/verify%2Fstart", bearer(s.key), "{}", 404, "NOT_FOUND"},
		{"contract 5: an escaped slash of the operators' side",
			"GET", "/admin/v1%2fkeys", bearer(operatorToken), "", 404, "NOT_FOUND"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := c.header.Clone()
			if header == nil {
				header = http.Header{}
			}
			header.Set("X-Correlation-Id", "mine & yours")
			a := s.do(c.method, s.base+c.path, header, []byte(c.body))
			s.want(a, c.status, c.code)
			id := a.header.Get("X-Request-Id")
			if a.header.Get("X-Correlation-Id") != "mine & yours" || !strings.HasPrefix(id, "req_") {
				t.Errorf("contract 4: headers %v", a.header)
			}
			if c.code == "" {
				return
			}
			if a.text("correlation_id") != "mine & yours" || a.text("request_id") != id ||
				a.header.Get("Content-Type") != "application/json; charset=utf-8" ||
				a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("contract 1, 5: %v %s", a.header, a.body)
			}
		})
	}
	for path, want := range map[string]string{"/healthz": `{"status":"ok"}`, "/readyz": `{"status":"ok"}`} {
		if a := s.do("GET", s.base+path, nil, nil); a.status != 200 ||
			strings.TrimSpace(string(a.body)) != want {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := s.do("HEAD", s.base+"/api/v1/openapi.yaml", nil, nil); len(a.body) > 0 {
		t.Errorf("HEAD: %d %s", a.status, a.body)
	}
	session := "svc_sess_" + strings.Repeat("AbC-1_z9", 10)
	for _, path := range []string{"/john-smith", "/verify/john-smith", "/docs/john-smith",
		web.SessionsPath + "john-smith", web.SessionsPath + "svc_sess_john-smith", web.SessionsPath + session,
		"/admin/v1/john-smith", "/admin/v1/keys/john-smith/john-smith/john-smith",
		"/admin/v1/integrations/" + trace} {
		s.do("GET", s.base+path, http.Header{"X-Correlation-Id": {"john-smith"}}, nil)
	}
	s.do("GET", s.base+"/", http.Header{"X-Correlation-Id": {trace}, "Cf-Connecting-Ip": {"203.0.113.77"}},
		nil)
	for _, text := range []string{s.key, operatorToken, webhookSecret, "john-smith", "203.0.113"} {
		if strings.Contains(server.Log(), text) {
			t.Errorf("contract 13: the log has a secret or a caller's text:\n%s", server.Log())
		}
	}
	sum := sha256.Sum256([]byte("john-smith"))
	for _, text := range []string{
		fmt.Sprintf(`"correlation_id":"sha256:%x"`, sum[:8]), `"correlation_id":"` + trace + `"`,
		`"path":"` + web.SessionsPath + session + `"`, `"path":"` + web.SessionsPath + `…"`,
		`"path":"/admin/v1/keys/…/…/…"`, `"path":"/admin/v1/integrations/` + trace + `"`,
	} {
		wait.Until(t, text+" in the log", func() bool { return strings.Contains(server.Log(), text) })
	}
}

// Contract 22: if the handler itself rejects a request, a person gets a page, and a program gets JSON.
func TestHandler_Page(t *testing.T) {
	s, _ := deploy(t, newInbox(t), nil)
	long := "/verify?flow=" + strings.Repeat("a", 9<<10)
	for _, c := range []struct {
		name, path, accept, language string
		status                       int
		contentType, text            string
	}{
		{"a browser", long, "text/html,*/*;q=0.8", "", 414, "text/html; charset=utf-8",
			"<h1>This link is too long</h1>"},
		{"a browser in French", long, "text/html,*/*;q=0.8", "x, en;q=0.5, fr-CH;q=0.9, de;q=2", 414,
			"text/html; charset=utf-8", "<h1>Ce lien est trop long</h1>"},
		{"a program", long, "*/*", "", 414, "application/json; charset=utf-8", `"code":"URI_TOO_LONG"`},
		{"JSON preferred", long, "text/html;q=0.5, application/json", "", 414,
			"application/json; charset=utf-8", `"code":"URI_TOO_LONG"`},
		{"a browser at the API", "/api/v1/verify/x" + long, "text/html", "", 414,
			"application/json; charset=utf-8", `"code":"URI_TOO_LONG"`},
		{"a pending response", web.PendingPath + long, "text/html", "", 414,
			"application/json; charset=utf-8", `"code":"URI_TOO_LONG"`},
		{"the operators' side", "/admin" + long, "text/html", "", 414,
			"application/json; charset=utf-8", `"code":"URI_TOO_LONG"`},
	} {
		a := s.do("GET", s.base+c.path,
			http.Header{"Accept": {c.accept}, "Accept-Language": {c.language}}, nil)
		if a.status != c.status || a.header.Get("Content-Type") != c.contentType ||
			!strings.Contains(string(a.body), c.text) || a.header.Get("X-Request-Id") == "" {
			t.Errorf("contract 22: %s: %d %v %s", c.name, a.status, a.header, a.body)
		}
	}
	s.wantPage(s.base, "/verify%zz", nil, 400, "This request is not valid")
}

// Contract 48: the operator may have the log show a part of clients' addresses.
func TestClientLog_Modes(t *testing.T) {
	s, server := deploy(t, newInbox(t), func(w *workerd.Worker) { w.Secrets["LOG_CLIENT"] = "cut" })
	for address, shown := range map[string]string{
		"203.0.113.77": "203.0.113.0/24", "2001:db8:1:2:3::4": "2001:db8:1::/48",
	} {
		s.do("GET", s.base+"/", http.Header{"Cf-Connecting-Ip": {address}}, nil)
		wait.Until(t, shown, func() bool { return strings.Contains(server.Log(), `"client":"`+shown+`"`) })
		if strings.Contains(server.Log(), address) {
			t.Errorf("contract 48: the log has the whole of %s:\n%s", address, server.Log())
		}
	}
}

// A custom domain of the platform passes on both protocols.
func TestPlainHTTPIsRejected(t *testing.T) {
	deployed := map[string]*service{}
	for _, base := range []string{"https://verge.example", "http://verge.localhost"} {
		deployed[base], _ = deploy(t, newInbox(t), func(w *workerd.Worker) { w.Config.BaseURL = base })
	}
	for name, c := range map[string]struct {
		base, host, proto string
		status            int
		code              string
	}{
		"plain http": {"https://verge.example", "verge.example", "http", 403,
			"FORBIDDEN"},
		"https": {"https://verge.example", "verge.example", "https", 404,
			"NOT_FOUND"},
		"plain http on this machine": {"https://verge.example", "127.0.0.1:8787", "http", 404,
			"NOT_FOUND"},
		"a service that is plain http": {"http://verge.localhost", "verge.example", "http", 404,
			"NOT_FOUND"},
		"https to a plain http service": {"http://verge.localhost", "verge.example", "https", 404,
			"NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			s := *deployed[c.base]
			s.t = t
			header := http.Header{workerd.Proto: {c.proto}, "X-Correlation-Id": {"mine"}}
			a := s.do("GET", "http://"+c.host+"/nowhere", header, nil)
			s.want(a, c.status, c.code)
			if a.text("correlation_id") != "mine" || !strings.HasPrefix(a.text("request_id"), "req_") {
				t.Errorf("contract 4, 5: %s", a.body)
			}
			if c.status == 403 {
				s.wantPage("http://"+c.host, "/verify", header, 403, "This request is not valid")
			}
		})
	}
}

// contract 30: the client's address comes only from the platform's header.
func TestClientAddressOfThePlatform(t *testing.T) {
	s, _ := deploy(t, newInbox(t),
		func(w *workerd.Worker) { w.Config.Limits.SecretPerIP = ratelimit.PerMinute(3) })
	from := func(address, forwarded string) int {
		t.Helper()
		header := http.Header{"Cf-Connecting-Ip": {address}, "X-Forwarded-For": {forwarded}}
		return s.do("POST", s.base+web.ValidatePath, header, []byte("{}")).status
	}
	for i, c := range []struct {
		address, forwarded string
		status             int
	}{
		{"192.0.2.1", "198.51.100.1", 401}, {"192.0.2.1", "198.51.100.2", 401},
		{"192.0.2.1", "198.51.100.3", 401},
		{"192.0.2.1", "198.51.100.4", 429}, {"192.0.2.2", "198.51.100.4", 401},
		{"2001:db8::1", "", 401}, {"2001:db8::2", "", 401}, {"2001:db8::ffff:3", "", 401},
		{"2001:db8::4", "", 429},
		{"2001:db8:0:1::4", "", 401},
	} {
		if got := from(c.address, c.forwarded); got != c.status {
			t.Errorf("request %d, from %s: %d, want %d", i, c.address, got, c.status)
		}
	}
}

func TestAdminHost(t *testing.T) {
	s, _ := deploy(t, newInbox(t), func(w *workerd.Worker) { w.AdminHost = "operators.localhost" })
	if a := s.do("GET", s.base+"/admin/v1/keys", bearer(operatorToken),
		nil); a.status != http.StatusNotFound {
		t.Errorf("the public host: %d %s", a.status, a.body)
	}
	const operators = "http://operators.localhost"
	if a := s.do("GET", operators+"/admin/v1/keys", bearer(operatorToken), nil); a.status != http.StatusOK {
		t.Errorf("the operators' host: %d %s", a.status, a.body)
	}
	if a := s.do("POST", operators+web.ValidatePath, nil, nil); a.status != http.StatusUnauthorized {
		t.Errorf("the public API on the operators' host: %d %s", a.status, a.body)
	}
}

// Without a separate host, operators are not served: even with the right token, the response is 404, as for
// any unknown path.
func TestNoOperatorsWithoutAHostOfTheirs(t *testing.T) {
	s, _ := deploy(t, newInbox(t), func(w *workerd.Worker) { w.AdminHost = "" })
	for _, token := range []string{operatorToken, "guess"} {
		if a := s.do("GET", s.base+"/admin/v1/keys", bearer(token), nil); a.status != http.StatusNotFound {
			t.Errorf("contract 42: with %q: %d %s", token, a.status, a.body)
		}
	}
	s, _ = deploy(t, newInbox(t), nil) // the public host named as theirs
	if a := s.do("GET", s.base+"/admin/v1/keys", bearer(operatorToken), nil); a.status != http.StatusOK {
		t.Errorf("contract 42: under /admin/: %d %s", a.status, a.body)
	}
	if a := s.do("GET", s.base+"/api/v1/openapi.yaml", nil, nil); a.status != http.StatusOK {
		t.Errorf("contract 42: the public API there: %d %s", a.status, a.body)
	}
}

// Contract 30: after 20 wrong tokens, the right one is 429, too. The Worker's clock is the machine's. If a
// minute ends in between, the test waits for the next one, in which no token was counted yet.
func TestWrongOperatorTokens_LockTheAddress(t *testing.T) {
	s, _ := deploy(t, newInbox(t), nil)
	keys := s.base + "/admin/v1/keys"
	for range 3 {
		begin, rejected := time.Now().Truncate(time.Minute), 0
		for rejected = 0; rejected <= 20; rejected++ {
			if a := s.do("GET", keys, bearer("guess"), nil); a.status != http.StatusUnauthorized {
				break
			}
		}
		a := s.do("GET", keys, bearer(operatorToken), nil)
		if now := time.Now(); !now.Truncate(time.Minute).Equal(begin) {
			time.Sleep(time.Until(now.Truncate(time.Minute).Add(time.Minute)))
			continue
		}
		if rejected > 20 || rejected < 10 || a.status != http.StatusTooManyRequests {
			t.Errorf("contract 30: %d guesses, then the right token: %d %s", rejected, a.status, a.body)
		}
		return
	}
	t.Error("contract 30: 22 requests took longer than a minute, three times")
}

// If the configuration is wrong, no requests are served, and the log has the error.
func TestWorker_WrongConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*workerd.Worker)
		log    string
		short  bool // part of the short run
	}{
		"no key ring": {func(w *workerd.Worker) {
			delete(w.Secrets, "VERGE_KEYRING")
		}, "the configuration has no key ring", true},
		"a key ring that is not": {func(w *workerd.Worker) {
			w.Secrets["VERGE_KEYRING"] = "hush"
		}, "VERGE_KEYRING is not JSON", false},
		"no binding LIMITS": {func(w *workerd.Worker) { w.Unbound = "Limits" }, "LIMITS is missing", false},
		"a missing secret": {func(w *workerd.Worker) {
			delete(w.Secrets, "SHOP_WEBHOOK_SECRET")
		}, "there is no secret SHOP_WEBHOOK_SECRET", true},
		"text that is no JSON": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "hush`
		}, "VERGE_CONFIG is not JSON", true},
		"JSON that is no object": {func(w *workerd.Worker) {
			w.ConfigText = `["hush"]`
		}, "VERGE_CONFIG is not a JSON object", false},
		"a malformed base_url": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "hush"}`
		}, "base_url is no URL", false},
		"a webhook never reached": {func(w *workerd.Worker) {
			w.Secrets["VERGE_SITE_2"] = `{"integrations": [{"id": "x", "webhook_url": "https://10.1.2.3/hush"}]}`
		}, "integration x: events cannot reach its webhook_url: the address is not public", false},
		"contract 61: an alert never reached": {func(w *workerd.Worker) {
			w.Secrets["VERGE_SITE_2"] = `{"integrations": [{"id": "x", "alert_url": "https://10.1.2.3/hush"}]}`
		}, "integration x: events cannot reach its alert_url: the address is not public", false},
		"a method's secret that is not there": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "http://verge.localhost", "dev": true, "methods": [` +
				`{"name": "bankid", "kind": "oidc", "secrets_env": {"client_secret": "BANKID_SECRET"}}]}`
		}, "method bankid: there is no secret BANKID_SECRET", false},
		"a method's key that is not there": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "http://verge.localhost", "dev": true, "methods": [` +
				`{"name": "bankid", "kind": "oidc", "keys_env": {"private_key": "BANKID_KEY"}}]}`
		}, "method bankid: there is no secret BANKID_KEY", false},
		"contract 50: a provider's key that is not there": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "http://verge.localhost", "dev": true, ` +
				`"oidc_provider": {"keys_env": ["OIDC"]}}`
		}, "oidc_provider: there is no secret OIDC", false},
		"contract 50: a provider's key that is none": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "http://verge.localhost", "dev": true, ` +
				`"oidc_provider": {"keys_env": ["OIDC"]}}`
			w.Secrets["OIDC"] = "hush"
		}, "oidc_provider: OIDC is no P-256 key", true},
		"contract 50: keys of the provider that are no list": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "http://verge.localhost", "dev": true, ` +
				`"oidc_provider": {"keys_env": "OIDC"}}`
		}, "oidc_provider.keys_env is no list", false},
		"a method's settings that are not good": {func(w *workerd.Worker) {
			w.ConfigText = `{"base_url": "http://verge.localhost", "dev": true, "methods": [{"name": "bankid",` +
				`"kind": "oidc", "keys_env": {"client": "VERGE_KEYRING"}, "settings": {"isuer": "https://hush.example"}}]}`
		}, "methods.bankid.oidc.isuer: there is no such setting", true},
		"contract 56: a method that asks for proofs": {func(w *workerd.Worker) {
			w.ConfigText = fmt.Sprintf(`{"base_url": "http://verge.localhost", "dev": true, "methods": [`+
				`{"name": "wallet", "kind": "openid4vp", "settings": {"profile": "eu-av", "trust_anchors": [%q], `+
				`"zero_knowledge": "accept", "circuits": [{"url": "https://circuits.example/6", "hash": `+
				`"137e5a75ce72735a37c8a72da1a8a0a5df8d13365c2ae3d2c2bd6a0e7197c7c6"}]}}]}`,
				wallettest.NewIssuer(wallettest.IssuerConfig{Now: time.Now()}).PEM())
		}, "zero_knowledge: this engine verifies no proofs", false},
		"a short secret": {func(w *workerd.Worker) {
			w.Secrets["SHOP_WEBHOOK_SECRET"] = "hush"
		}, "must have at least 16", false},
		"contract 13: a secret of two lines": {func(w *workerd.Worker) {
			w.Secrets["SHOP_WEBHOOK_SECRET"] += "\nhush"
		}, "SHOP_WEBHOOK_SECRET: it has more than one line", false},
		"contract 13: a secret with a zero-width space": {func(w *workerd.Worker) {
			w.Secrets["SHOP_WEBHOOK_SECRET"] = webhookSecret + "\u200bhush"
		}, "SHOP_WEBHOOK_SECRET: it has other characters than printable ASCII", false},
		"contract 13: an operator token of two lines": {func(w *workerd.Worker) {
			w.Secrets["VERGE_OPERATOR_TOKEN"] += "\nhush"
		}, "VERGE_OPERATOR_TOKEN: it has more than one line", false},
	} {
		t.Run(name, func(t *testing.T) {
			if !c.short {
				long.Skip(t, "TestWorker_WrongConfiguration")
			}
			s, server := deploy(t, newInbox(t), c.change)
			s.want(s.post(web.StartPath, "", map[string]any{}), http.StatusServiceUnavailable, "UNAVAILABLE")
			for _, path := range []string{"/readyz", "/readyz?store=ignore"} {
				if a := s.do("GET", s.base+path, nil, nil); a.status != http.StatusServiceUnavailable {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
			}
			if a := s.do("GET", s.base+"/healthz", nil, nil); a.status != http.StatusOK {
				t.Errorf("healthz: %d %s", a.status, a.body)
			}
			if log := server.Log(); !strings.Contains(log, c.log) || strings.Contains(log, "hush") {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}
