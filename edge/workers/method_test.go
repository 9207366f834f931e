package workers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/oidctest"
	"github.com/verge-id/verge/testharness/workerd"
)

// bankKey is a client's private key as a secret of the Worker has it.
func bankKey(t *testing.T) (text string, public *ecdsa.PublicKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), &key.PublicKey
}

// deployBanks runs the Worker with three methods, which authenticate to one provider in three ways. Each has
// its own integration, whose id ends with the method's place in the list.
func deployBanks(t *testing.T) (*service, *workerd.Server, *oidctest.Server) {
	t.Helper()
	const base = "http://verge.localhost"
	one, publicOne := bankKey(t)
	two, publicTwo := bankKey(t)
	returns := func(name string) []string { return []string{base + "/verify/return/" + name} }
	provider := oidctest.Start(t, oidctest.Config{Pushed: true, Clients: []oidctest.Client{
		{ID: "one", Auth: "private_key_jwt", Key: publicOne, ReturnURLs: returns("one")},
		{ID: "two", Auth: "private_key_jwt", Key: publicTwo, ReturnURLs: returns("two")},
		{ID: "three", Secret: "canary-of-the-client", ReturnURLs: returns("three")},
	}})
	method := func(name string, secret string) string {
		return fmt.Sprintf(`{"name": %q, "kind": "oidc", %s, "settings": {"issuer": %q, "client_id": %q, `+
			`"proof": {"claim": ["is_over_18"], "equals": true, "age": 18}}}`, name, secret, provider.URL, name)
	}
	var integrations []any
	for n, name := range []string{"one", "two", "three"} {
		integrations = append(integrations, map[string]any{"id": bankIntegration(n), "publisher": "pub_shop",
			"name": name, "level": "L2", "challenge_age": 25, "methods": []string{name}, "webhook_off": true})
	}
	s, server := deploy(t, newInbox(t), func(w *workerd.Worker) {
		w.Config.BaseURL = base
		w.ConfigText = fmt.Sprintf(`{"base_url": %q, "dev": true, "partitions": 2, `+
			`"oidc_provider": {"keys_env": ["KEY_TWO", "KEY_ONE"]}, "methods": [%s, %s, %s]}`, base,
			method("one", `"keys_env": {"private_key": "KEY_ONE"}`), method("two", `"keys_env": {"private_key": "KEY_TWO"}`),
			method("three", `"secrets_env": {"client_secret": "SECRET_THREE"}`))
		w.Secrets["KEY_ONE"], w.Secrets["KEY_TWO"], w.Secrets["SECRET_THREE"] = one, two,
			"canary-of-the-client\n"
		w.Site.(map[string]any)["integrations"] = integrations
	})
	s.makeKey()
	return s, server, provider
}

func bankIntegration(n int) string { return fmt.Sprintf("5b0c7f0e-9a53-4c8e-8d0f-2f6a5f1c0b%02d", n) }

// visitor is a browser that keeps cookies. It sends requests for the service to the Worker, and all others to
// where they go.
type visitor struct {
	t         *testing.T
	to, other http.Client
	base      string
}

func (s *service) visitor() *visitor {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &visitor{s.t, http.Client{Transport: s.client.Transport, Jar: jar, CheckRedirect: stay},
		http.Client{Jar: jar, CheckRedirect: stay}, s.base}
}

// open asks for a page and follows redirects.
func (v *visitor) open(method, target string, form url.Values) (status int, page string) {
	v.t.Helper()
	for range 10 {
		client := &v.other
		if strings.HasPrefix(target, "/") {
			target = v.base + target
		}
		if strings.HasPrefix(target, v.base+"/") {
			client = &v.to
		}
		req, err := http.NewRequest(method, target, strings.NewReader(form.Encode()))
		if err != nil {
			v.t.Fatal(err)
		}
		if method == "POST" {
			req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"},
				"Origin": {v.base}}
		}
		resp, err := client.Do(req)
		if err != nil {
			v.t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			v.t.Fatal(err)
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			return resp.StatusCode, string(b)
		}
		method, target, form = "GET", resp.Header.Get("Location"), nil
	}
	v.t.Fatalf("the browser is redirected indefinitely, at last to %s", target)
	return 0, ""
}

var beginForm = regexp.MustCompile(`(?s)<form[^>]*data-outcome="begin".*?</form>`)

// prove opens a session's page, goes to the provider and comes back. It returns the last page.
func (v *visitor) prove(redirect string) (page string) {
	v.t.Helper()
	status, page := v.open("GET", redirect, nil)
	form := beginForm.FindString(page)
	if status != http.StatusOK || form == "" {
		v.t.Fatalf("the method's page: %d %s", status, page)
	}
	fields := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(form, -1) {
		fields.Add(m[1], html.UnescapeString(m[2]))
	}
	status, page = v.open("POST", "/verify", fields)
	hop := hopLink.FindStringSubmatch(page)
	if status != http.StatusOK || hop == nil {
		v.t.Fatalf("the page after the button: %d %s", status, page)
	}
	status, page = v.open("GET", html.UnescapeString(hop[1]), nil)
	if status != http.StatusOK {
		v.t.Fatalf("the last page: %d %s", status, page)
	}
	return page
}

// TestMethodsAtTheEdge: an operator configures methods by VERGE_CONFIG, with their secrets and keys in
// secrets of the Worker, and they verify people (contract 36, 41).
func TestMethodsAtTheEdge(t *testing.T) {
	t.Parallel()
	s, server, provider := deployBanks(t)
	status := func(id string) string {
		var answer struct {
			Status string  `json:"status"`
			Code   *string `json:"failure_code"`
		}
		a := s.status(id)
		if err := json.Unmarshal(a.body, &answer); err != nil {
			t.Fatalf("%d %s", a.status, a.body)
		}
		if answer.Code != nil {
			return answer.Status + " " + *answer.Code
		}
		return answer.Status
	}
	for n, name := range []string{"one", "two", "three"} {
		provider.Answer(oidctest.Answer{Subject: "person-canary", Claims: oidctest.AgeClaims(40)})
		id, redirect := s.startOn(bankIntegration(n))
		hop := hopLink.FindStringSubmatch(s.visitor().prove(redirect))
		if hop == nil || status(id) != "COMPLETED" {
			t.Fatalf("%s: an adult is %s; the log: %s", name, status(id), server.Log())
		}
		back, err := url.Parse(html.UnescapeString(hop[1]))
		if err != nil {
			t.Fatal(err)
		}
		s.want(s.validate(back.Query().Get("result_token")), http.StatusOK, "")
	}
	for _, c := range []struct {
		rule   string
		answer oidctest.Answer
		want   string
	}{
		{"a minor", oidctest.Answer{Claims: oidctest.AgeClaims(15)}, "FAILED PROVIDER_REJECTED"},
		{"no claim", oidctest.Answer{Claims: map[string]any{}}, "PENDING"},
		{"access_denied", oidctest.Answer{Error: "access_denied"}, "PENDING"},
	} {
		provider.Answer(c.answer)
		id, redirect := s.startOn(bankIntegration(0))
		s.visitor().prove(redirect)
		if got := status(id); got != c.want {
			t.Errorf("%s: the session is %q, want %q", c.rule, got, c.want)
		}
	}
	provider.Answer(oidctest.Answer{Claims: oidctest.AgeClaims(40)})
	provider.Rotate()
	provider.Compress()
	provider.Codes(func() string { return strings.Repeat("/ c", 8<<10/3) })
	id, redirect := s.startOn(bankIntegration(1))
	if s.visitor().prove(redirect); status(id) != "COMPLETED" {
		t.Errorf("contract 36: after a new key, in gzip, with a code of 8 KiB, the session is %s; "+
			"the log: %s", status(id), server.Log())
	}
	set := s.do("GET", s.base+"/oidc/jwks", nil, nil)
	if set.status != http.StatusOK || strings.Count(string(set.body), `"kid"`) != 2 ||
		strings.Contains(string(set.body), `"d"`) {
		t.Errorf("contract 50: the key set of the OpenID provider: %d %s", set.status, set.body)
	}
	for _, secret := range []string{"canary", "PRIVATE KEY"} {
		if strings.Contains(server.Log(), secret) {
			t.Errorf("contract 13: the log has %q", secret)
		}
	}
}
