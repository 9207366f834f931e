package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"image"
	"image/jpeg"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness/estimatortest"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/oidctest"
	"github.com/verge-id/verge/testharness/testenv"
)

// production is `verge serve` in mode production, the real binary. A proxy in front does TLS, as
// at an operator's. It also is the publisher's site.
type production struct {
	*site
	bank         *bank
	in           *served
	front        *httptest.Server
	frontCA      string
	integrations map[string]string // ids, by the method that each offers
}

const (
	productionURL  = "https://verify.example.com"
	productionShop = "https://shop.example"
	personCanary   = "person-canary"
)

// newProduction starts it with the methods of a bank, and one integration for each.
func newProduction(t *testing.T, b *bank, more string) *production {
	t.Helper()
	dir := t.TempDir()
	s := &production{bank: b, integrations: map[string]string{},
		site: newSite(t, "bolt:"+filepath.Join(dir, "verge.db"), "", "")}
	config := fmt.Sprintf("mode = \"production\"\nbase_url = %q\nkv = %q\nkeyring = %q\n"+
		"trusted_proxies = [\"127.0.0.1\"]\nproxy_header = \"X-Forwarded-For\"\n%s\n"+
		"[[publishers]]\nid = \"pub_example\"\n", productionURL, "bolt:"+filepath.Join(dir, "verge.db"),
		s.ring, more)
	for file, content := range map[string]string{"ca.pem": b.ca, "client.pem": b.key} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n, name := range slices.Sorted(maps.Keys(bankMethods)) {
		s.integrations[name] = fmt.Sprintf("5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b%02d", n)
		config += fmt.Sprintf("[[methods]]\nname = %q\nkind = \"oidc\"\nca = %q\nprivate_network = true\n"+
			"[methods.oidc]\nissuer = %q\nclient_id = \"verge\"\nprivate_key_file = %q\n%s\n"+
			"[[integrations]]\nid = %q\npublisher = \"pub_example\"\nlevel = \"L2\"\nchallenge_age = 25\n"+
			"methods = [%q]\nwebhook_off = true\n", name, filepath.Join(dir, "ca.pem"), b.issuer,
			filepath.Join(dir, "client.pem"), bankMethods[name], s.integrations[name], name)
	}
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.in = s.start()
	s.stand(t)
	s.in.publisher = newPublisher(readyFile{BaseURL: productionURL, seeds: seeds{SecretKey: s.key}})
	s.in.publisher.http = s.client()
	return s
}

// stand starts the proxy.
func (s *production) stand(t *testing.T) {
	t.Helper()
	template := aCertificate()
	template.DNSNames = append(template.DNSNames, "shop.example")
	certPEM, keyPEM, _ := selfSigned(t, template)
	certificate, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	s.frontCA = certPEM
	to := &url.URL{Scheme: "http", Host: s.in.at.Public}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.Out.URL.RawQuery = r.In.URL.RawQuery // ReverseProxy would leave out what it cannot parse
		r.SetXForwarded()
	}}
	s.front = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "shop.example" {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<title>Shop</title>")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	s.front.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.front.StartTLS()
	t.Cleanup(s.front.Close)
}

// client is an HTTP client for which the service and the shop are at the front.
func (s *production) client() *http.Client {
	c := clientTrusting(s.frontCA, s.bank.ca)
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, addr string) (net.Conn,
		error) {
		if strings.HasSuffix(addr, ".com:443") || strings.HasSuffix(addr, ".example:443") {
			addr = s.front.Listener.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return c
}

// visitor is a browser with cookies, without a window.
type visitor struct {
	t    *testing.T
	http *http.Client
	at   *url.URL
	code string // that a provider sent back through it
}

func (s *production) visitor(t *testing.T) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &visitor{t: t, http: s.client()}
	v.http.Jar = jar
	return v
}

// open asks for a page and follows redirects. It returns the page's status and text.
func (v *visitor) open(method, target string, form url.Values) (int, string) {
	v.t.Helper()
	for range 10 {
		u, err := url.Parse(target)
		if err != nil {
			v.t.Fatal(err)
		}
		if v.at != nil {
			u = v.at.ResolveReference(u)
		}
		req, err := http.NewRequest(method, u.String(), strings.NewReader(form.Encode()))
		if err != nil {
			v.t.Fatal(err)
		}
		if method == "POST" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", v.at.Scheme+"://"+v.at.Host)
		}
		resp, err := v.http.Do(req)
		if err != nil {
			v.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			v.t.Fatal(err)
		}
		v.at = u
		if code := u.Query().Get("code"); code != "" {
			v.code = code
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			return resp.StatusCode, string(body)
		}
		method, target, form = "GET", resp.Header.Get("Location"), nil
	}
	v.t.Fatalf("the browser is redirected indefinitely, at last to %s", v.at)
	return 0, ""
}

// begin opens a session's page and presses its button. It returns where the page sends the browser.
func (v *visitor) begin(redirect string) (leave string) {
	v.t.Helper()
	status, page := v.open("GET", redirect, nil)
	_, form, found := strings.Cut(page, `data-outcome="begin"`)
	if status != http.StatusOK || !found {
		v.t.Fatalf("the method's page (%d) has no button to begin: %s", status, page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	fields := url.Values{}
	for _, input := range hiddenInput.FindAllStringSubmatch(form, -1) {
		fields.Set(html.UnescapeString(input[1]), html.UnescapeString(input[2]))
	}
	status, page = v.open("POST", "/verify", fields)
	hop := hopLink.FindStringSubmatch(page)
	if status != http.StatusOK || hop == nil {
		v.t.Fatalf("the page after the button (%d) does not lead to the provider: %s", status, page)
	}
	return html.UnescapeString(hop[1])
}

// bankCase is a login and the outcome of the session.
type bankCase struct {
	rule    string
	method  string
	login   login
	rotates bool   // the bank gets another key while the user is there
	want    string // status and failure code
	says    string // on the page; "": nothing is looked for
	absent  string // the claim that session show and the log name as absent
}

// claimsOf returns a bank's claims about a person of that age, with one claim changed.
func claimsOf(age int, change string, value any) map[string]any {
	claims := oidctest.AgeClaims(age)
	claims["verified_claims"] = map[string]any{
		"verification": map[string]any{"trust_framework": "dk_mitid"},
		"claims":       map[string]any{"birthdate": fmt.Sprintf("%d-01-01", 2025-age)},
	}
	if value == nil {
		delete(claims, change)
	} else {
		claims[change] = value
	}
	return claims
}

func bornIn(birthdate string) map[string]any {
	claims := claimsOf(40, "", nil)
	claims["verified_claims"].(map[string]any)["claims"] = map[string]any{"birthdate": birthdate}
	return claims
}

const unconfirmed = "did not confirm your age"

var bankCases = []bankCase{
	{rule: "contract 36: a claim that says yes", method: "plain", login: login{Claims: claimsOf(40, "", nil)},
		want: "COMPLETED"},
	{rule: "contract 36: a claim that says no", method: "plain", login: login{Claims: claimsOf(15, "", nil)},
		want: "FAILED PROVIDER_REJECTED"},
	{rule: "contract 36: the text true is not true", method: "plain",
		login: login{Claims: claimsOf(40, "is_over_18", "true")}, want: "PENDING", says: unconfirmed},
	{rule: "contract 36: no claim", method: "plain", login: login{Claims: claimsOf(40, "is_over_18", nil)},
		want: "PENDING", says: unconfirmed, absent: "is_over_18"},
	{rule: "contract 36: a claim whose scope the method does not ask for", method: "unasked",
		login: login{Claims: claimsOf(40, "", nil)}, want: "PENDING", says: unconfirmed},
	{rule: "contract 36: a birth date that is a year", method: "ida", login: login{Claims: bornIn("1975")},
		want: "COMPLETED"},
	{rule: "contract 36: a birth date that cannot be read", method: "ida",
		login: login{Claims: bornIn("02/01/1980")}, want: "PENDING", says: unconfirmed},
	{rule: "contract 36: another acr has no effect", method: "plain",
		login: login{
			Claims: claimsOf(40, "", nil),
			ACR:    "urn:test:low",
		}, want: "PENDING", says: `data-outcome="begin"`},
	{rule: "contract 35: access_denied", method: "plain", login: login{Error: "access_denied"},
		want: "PENDING"},
	{rule: "contract 35: another error", method: "plain", login: login{Error: "server_error"},
		want: "PENDING",
		says: `data-outcome="begin"`},
	{rule: "contract 36: a new key in the middle", method: "plain",
		login: login{Claims: claimsOf(40, "", nil)}, rotates: true, want: "COMPLETED"},
	{rule: "idura-age, an adult", method: "idura", login: login{Claims: claimsOf(40, "", nil)},
		want: "COMPLETED"},
	{rule: "idura-age, a minor", method: "idura", login: login{Claims: claimsOf(15, "", nil)},
		want: "FAILED PROVIDER_REJECTED"},
	{rule: "mitid-age, an adult", method: "mitid", login: login{Claims: claimsOf(40, "", nil)},
		want: "COMPLETED"},
	{rule: "mitid-age, a minor", method: "mitid", login: login{Claims: claimsOf(15, "", nil)},
		want: "FAILED PROVIDER_REJECTED"},
	{rule: "signaturgruppen-av, an adult", method: "signaturgruppen",
		login: login{Claims: claimsOf(40, "", nil)}, want: "COMPLETED"},
	{rule: "signaturgruppen-av, no proof of age", method: "signaturgruppen",
		login: login{Claims: claimsOf(40, "idtoken_type", "id")}, want: "FAILED PROVIDER_REJECTED"},
	{rule: "oidc4ida, an adult", method: "ida", login: login{Claims: claimsOf(40, "", nil)},
		want: "COMPLETED"},
	{rule: "oidc4ida, a minor", method: "ida", login: login{Claims: claimsOf(15, "", nil)},
		want: "FAILED PROVIDER_REJECTED"},
}

// walk carries out a case, and returns the session and the code that came through the browser.
func (s *production) walk(t *testing.T, c bankCase) (session, code string) {
	t.Helper()
	p := s.in.publisher
	id, redirect, err := p.start(s.integrations[c.method])
	if err != nil {
		t.Fatal(err)
	}
	s.bank.next(c.login)
	v := s.visitor(t)
	leave := v.begin(redirect)
	if !strings.HasPrefix(leave, s.bank.issuer+"/") || !strings.Contains(leave, "request_uri=") ||
		strings.Contains(leave, "redirect_uri=") {
		t.Errorf("contract 36: the request was not pushed: %s", leave)
	}
	if c.rotates {
		s.bank.rotate()
	}
	status, page := v.open("GET", leave, nil)
	if status != http.StatusOK || v.at.Host != "verify.example.com" || !strings.Contains(page, c.says) {
		t.Fatalf("the browser ends at %s with %d, want %q: %s", v.at, status, c.says, page)
	}
	if got := s.outcome(t, id); got != c.want {
		t.Errorf("the session is %q, want %q", got, c.want)
	}
	if c.want == "COMPLETED" {
		s.validate(t, v, page)
	}
	return id, v.code
}

// outcome asks for a session's status.
func (s *production) outcome(t *testing.T, id string) string {
	t.Helper()
	status, _, body, err := s.in.publisher.api("GET", "/api/v1/verify/sessions/"+id, nil)
	var answer struct {
		Status      string `json:"status"`
		FailureCode string `json:"failure_code"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &answer) != nil {
		t.Fatalf("reconcile: %d %v %s", status, err, body)
	}
	return strings.TrimSpace(answer.Status + " " + answer.FailureCode)
}

// validate brings the result token of the last page to the service.
func (s *production) validate(t *testing.T, v *visitor, page string) {
	t.Helper()
	hop := hopLink.FindStringSubmatch(page)
	if hop == nil {
		t.Fatalf("the last page has no link back to the publisher: %s", page)
	}
	back, err := url.Parse(html.UnescapeString(hop[1]))
	if err != nil || back.Scheme+"://"+back.Host != productionShop {
		t.Fatalf("the browser is sent to %s", hop[1])
	}
	if valid, status, body := s.in.publisher.validate(back.Query().Get("result_token")); !valid {
		t.Errorf("validate: %d %s", status, body)
	}
}

// TestProduction: a real provider verifies people in production, natively and in a guest (contract 31, 36,
// 41).
func TestProduction(t *testing.T) {
	t.Parallel()
	for provider, open := range map[string]func(*testing.T) *bank{"go": goBank, "npm": npmBank} {
		for _, engine := range []string{"native", "wasm"} {
			t.Run(provider+" "+engine, func(t *testing.T) {
				t.Parallel()
				if engine == "wasm" || provider == "npm" {
					long.Skip(t, "TestProduction")
				}
				more := ""
				if engine == "wasm" {
					g := newGuests(t)
					module := g.put("verge.wasm", testenv.Module(t))
					g.compile(module)
					more = g.section(module, fmt.Sprintf("module_key = %q", g.public))
				}
				b := open(t)
				s := newProduction(t, b, more)
				s.checks(t)
				var codes []string
				for _, c := range bankCases {
					t.Run(c.rule, func(t *testing.T) {
						id, code := s.walk(t, c)
						codes = append(codes, code)
						s.logs(t, c, id)
						steps := s.explains(t, id, c.method, c.want)
						if c.absent != "" && (len(steps) != 1 || steps[0].Reason != "claim_absent" ||
							steps[0].Setting != "proof.claim" || steps[0].Detail != c.absent) {
							t.Errorf("contract 48: session show has %+v, want claim_absent of %s", steps,
								c.absent)
						}
					})
				}
				if b.inGo != nil {
					t.Run("contract 36: deviations", func(t *testing.T) {
						codes = append(codes, s.deviates(t))
					})
				}
				s.tellsNothing(t, codes)
				s.verifiesAudit(t)
			})
		}
	}
}

// deviates has a person come back with a code of 8 KiB, from a provider that compresses and has replaced its
// key under the same kid. It returns the code.
func (s *production) deviates(t *testing.T) (code string) {
	t.Helper()
	provider := s.bank.inGo
	code = strings.Repeat("c /+", 8<<10/4)
	provider.Codes(func() string { return code })
	provider.Compress()
	provider.Tamper(func(header, _ map[string]any) { header["kid"] = "same" })
	for range 2 {
		keys := provider.KeySet()["keys"].([]any)
		key := keys[len(keys)-1].(map[string]any)
		key["kid"] = "same"
		body, err := json.Marshal(map[string]any{"keys": []any{key}})
		if err != nil {
			t.Fatal(err)
		}
		provider.Fault(oidctest.KeysPath, oidctest.Fault{Body: string(body)})
		s.walk(t, bankCase{method: "deviating", login: login{Claims: claimsOf(40, "", nil)},
			want: "COMPLETED"})
		provider.Rotate()
	}
	provider.Heal()
	return code
}

// checks expects that `verge method check` accepts every method, and reports the missing part of the others.
func (s *production) checks(t *testing.T) {
	t.Helper()
	for name := range bankMethods {
		if code, out := s.check(t, s.config, name); code != exitOK ||
			!strings.Contains(out, "accepted a pushed request") ||
			!strings.Contains(out, "?      cannot check whether the provider returns the claim ") ||
			strings.Contains(out, "WARN   the request asks for the scope openid alone") !=
				(name == "unasked") {
			t.Errorf("method check %s: %d %s", name, code, out)
		}
	}
	config, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	for missing, want := range map[string]struct {
		code int
		says string
	}{
		"private_network": {exitUsage, "not allowed: .*set private_network = true in methods.plain"},
		"ca":              {exitFailed, "tls_error: .*set the authority's file in methods.plain.ca"},
	} {
		var kept []string
		for line := range strings.Lines(string(config)) {
			if !strings.HasPrefix(line, missing+" = ") {
				kept = append(kept, line)
			}
		}
		file := filepath.Join(t.TempDir(), "verge.toml")
		if err := os.WriteFile(file, []byte(strings.Join(kept, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		reason, advice, _ := strings.Cut(want.says, ".*")
		if code, out := s.check(t, file, "plain"); code != want.code || !strings.Contains(out, reason) ||
			!strings.Contains(out, advice) {
			t.Errorf("method check without %s: %d %s", missing, code, out)
		}
	}
}

func (s *production) check(t *testing.T, config, name string) (code int, out string) {
	t.Helper()
	cmd := exec.Command("verge", "method", "check", name, "--config", config)
	cmd.Env = append(os.Environ(), "VERGE_OPERATOR_TOKEN="+testToken)
	b, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}

// logs looks for the one line of a method that could not decide.
func (s *production) logs(t *testing.T, c bankCase, id string) {
	t.Helper()
	failed := 0
	for line := range strings.Lines(s.in.logs.String()) {
		var said struct{ Msg, Session, Method, Reason string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "method failed" && said.Session == id {
			if failed++; said.Method != c.method || said.Reason == "" {
				t.Errorf("the line of a failure says neither method nor reason: %s", line)
			}
		}
	}
	want := 0
	if c.says != "" && c.says != unconfirmed {
		want = 1
	}
	if failed != want {
		t.Errorf("the log has %d lines about a failure of the method, want %d", failed, want)
	}
}

// explains looks for the method and the reason of a session that was not completed, in `verge session show`
// and in the log (contract 48). It returns the steps that are shown.
func (s *production) explains(t *testing.T, id, method, want string) []operate.SessionStep {
	t.Helper()
	cmd := exec.Command("verge", "session", "show", id, "--json", "--admin-url", "http://"+s.in.at.Admin)
	cmd.Env = append(os.Environ(), "VERGE_OPERATOR_TOKEN="+testToken)
	out, err := cmd.Output()
	var shown operate.Session
	if err != nil || json.Unmarshal(out, &shown) != nil {
		t.Fatalf("session show: %v %s", err, out)
	}
	if want == "COMPLETED" {
		if len(shown.Steps) > 0 {
			t.Errorf("contract 48: a session without a failed step has %+v", shown.Steps)
		}
	} else if n := len(shown.Steps); n == 0 || shown.Steps[n-1].Method != method ||
		shown.Steps[n-1].Reason == "" {
		t.Errorf("contract 48: session show names neither method nor reason: %+v", shown.Steps)
	}
	ended := 0
	for line := range strings.Lines(s.in.logs.String()) {
		var said struct{ Msg, Session, Integration, Method, Reason string }
		if json.Unmarshal([]byte(line), &said) != nil || said.Session != id || said.Msg != "session ended" {
			continue
		}
		ended++
		if said.Method != method || said.Integration != shown.Integration || said.Reason == "" {
			t.Errorf("contract 48: the line of the end lacks method, integration or reason: %s", line)
		}
	}
	if ended == 1 != (want != "PENDING") {
		t.Errorf("contract 48: %d lines say that the session, which is %s, has ended", ended, want)
	}
	return shown.Steps
}

// tellsNothing searches logs for forbidden data.
func (s *production) tellsNothing(t *testing.T, codes []string) {
	t.Helper()
	log := s.in.logs.String()
	for _, secret := range append(codes, personCanary, "PRIVATE KEY", s.key) {
		if secret != "" && strings.Contains(log, secret) {
			t.Errorf("contract 13: the log has %q", secret)
		}
	}
}

// verifiesAudit has `verge audit verify` check the log, and a log that lacks an entry (contract 48).
func (s *production) verifiesAudit(t *testing.T) {
	t.Helper()
	log := s.in.logs.String()
	var second string
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"msg":"audit"`) && strings.Contains(line, `"seq":"2"`) {
			second = line
		}
	}
	for _, c := range []struct {
		name, log, says string
		code            int
	}{
		{"the whole log", log, "no gaps, no changes", exitOK},
		{"an entry is missing", strings.Replace(log, second, "", 1), "entry 3 follows entry 1: 1 are missing",
			exitFailed},
		{"no log of Verge", "hello\n", "no line \"audit\"", exitFailed},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("verge", "audit", "verify", file)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != c.code ||
			!strings.Contains(string(out), c.says) {
			t.Errorf("contract 48: audit verify, %s: %s, want %q and exit code %d", c.name, out, c.says,
				c.code)
		}
	}
}

// TestProductionEstimates: a picture goes to an estimator in a private network, whose certificate a private
// authority has signed, and decides (contract 31, 37).
func TestProductionEstimates(t *testing.T) {
	t.Parallel()
	const id, token = "5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9c00", "canary-token-of-the-estimator"
	at := privateAddress(t)
	_, certPEM, keyPEM, _ := newBank(t, at)
	estimator := estimatortest.New(estimatortest.Config{Token: token})
	var address string
	serveTLS(t, at, certPEM, keyPEM, func(url string) http.Handler {
		address = url + estimatortest.PlainPath
		return estimator
	})
	dir := t.TempDir()
	for file, content := range map[string]string{"ca.pem": certPEM, "token": token + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newProduction(t, goBank(t),
		fmt.Sprintf("[[methods]]\nname = \"camera\"\nkind = \"estimator\"\nca = %q\n"+
			"private_network = true\n[methods.estimator]\nprofile = \"plain\"\nurl = %q\ntoken_file = %q\n"+
			"[[integrations]]\nid = %q\npublisher = \"pub_example\"\nlevel = \"L1\"\nchallenge_age = 25\n"+
			"methods = [\"camera\"]\nwebhook_off = true\n", filepath.Join(dir, "ca.pem"),
			address, filepath.Join(dir, "token"), id))
	if code, out := s.check(t, s.config, "camera"); code != exitOK {
		t.Errorf("method check: %d %s", code, out)
	}
	for _, c := range []struct {
		rule   string
		answer estimatortest.Answer
		want   string
		steps  string // result and reason of the failed step
	}{
		{"old enough", estimatortest.Answer{Age: 30}, "COMPLETED", ""},
		{"below the challenge age", estimatortest.Answer{Age: 20}, "PENDING", "attempt_failed below"},
		{"it fails", estimatortest.Answer{Status: 500}, "PENDING", "unavailable unavailable"},
		{"it returns no estimate", estimatortest.Answer{Body: "<html>"}, "PENDING",
			"refused answer_not_json"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			estimator.Answer(c.answer)
			session, redirect, err := s.in.publisher.start(id)
			if err != nil {
				t.Fatal(err)
			}
			v := s.visitor(t)
			v.sendPicture(redirect)
			if got := s.outcome(t, session); got != c.want {
				t.Errorf("the session is %q, want %q", got, c.want)
			}
			steps := ""
			for _, step := range s.explains(t, session, "camera", c.want) {
				steps += step.Result + " " + step.Reason
			}
			if steps != c.steps {
				t.Errorf("contract 48: session show has the steps %q, want %q", steps, c.steps)
			}
		})
	}
	if n := strings.Count(s.in.logs.String(), `"msg":"method failed"`); n != 2 {
		t.Errorf("the log has %d lines about a failure, want 2", n)
	}
	if strings.Contains(s.in.logs.String(), token) {
		t.Error("contract 13: the log has the token")
	}
}

// sendPicture opens a session's page and sends its form with a picture.
func (v *visitor) sendPicture(redirect string) {
	v.t.Helper()
	_, page := v.open("GET", redirect, nil)
	_, form, found := strings.Cut(page, `data-step="camera"`)
	if !found {
		v.t.Fatalf("the page has no form for a picture: %s", page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, input := range hiddenInput.FindAllStringSubmatch(form, -1) {
		if err := w.WriteField(html.UnescapeString(input[1]), html.UnescapeString(input[2])); err != nil {
			v.t.Fatal(err)
		}
	}
	header := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="image"; filename="still.jpg"`},
		"Content-Type": {"image/jpeg"}}
	part, err := w.CreatePart(header)
	if err == nil {
		err = jpeg.Encode(part, image.NewYCbCr(image.Rect(0, 0, 640, 480), image.YCbCrSubsampleRatio420), nil)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		v.t.Fatal(err)
	}
	req, err := http.NewRequest("POST", productionURL+"/verify/file", &body)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Origin", productionURL)
	resp, err := v.http.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther && resp.StatusCode != http.StatusServiceUnavailable {
		v.t.Errorf("the picture gets %d", resp.StatusCode)
	}
}
