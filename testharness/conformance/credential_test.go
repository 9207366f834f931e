package conformance_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

func TestCredentials(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	t.Run("start", func(t *testing.T) { startWithCredentials(t, h) })
	s := h.Start(nil)
	result := h.Approve(s).ResultToken
	unknownPK, _ := integration.GenerateKey(integration.PublicPrefix, rand.Reader)
	for _, c := range rejectedCredentials(t, h, result) {
		t.Run("validate/"+c.name, func(t *testing.T) {
			wantError(t, h.ValidateAs(c.header, result), c.status, c.code)
		})
		t.Run("reconcile/"+c.name, func(t *testing.T) {
			wantError(t, h.Do("GET", web.SessionsPath+s.SessionID, c.header, nil), c.status, c.code)
		})
	}
	validateWithPublicKey := func(key string) *testharness.Response {
		return h.Do(
			"POST",
			web.ValidatePath,
			nil,
			[]byte(`{"result_token":"`+result+`","public_key":"`+key+`"}`),
		)
	}
	t.Run("validate/spec: a public key in the body, with a result token, has no authority",
		func(t *testing.T) {
			wantError(t, validateWithPublicKey(h.Publisher.L1.PublicKey), 403, "FORBIDDEN")
		})
	t.Run("validate/contract 5: an unknown public key in the body is no known credential",
		func(t *testing.T) {
			wantError(t, validateWithPublicKey(unknownPK), 401, "UNAUTHORIZED")
		})
	t.Run("reconcile/spec: a key in the query is no credential", func(t *testing.T) {
		r := h.Do("GET", web.SessionsPath+s.SessionID+"?api_key="+h.Publisher.SecretKey, nil, nil)
		wantError(t, r, 401, "UNAUTHORIZED")
	})
	const title = "validate/contract 5: none of that consumed the token; Sec-Fetch-Mode is no browser"
	t.Run(title, func(t *testing.T) {
		wantStatus(t, h.ValidateAs(with(h, "Sec-Fetch-Mode", "cors"), result), 200)
	})
	t.Run("reconcile/contract 5: Sec-Fetch-Mode is no browser", func(t *testing.T) {
		r := h.Do("GET", web.SessionsPath+s.SessionID, with(h, "Sec-Fetch-Mode", "cors"), nil)
		wantStatus(t, r, 200)
	})
	t.Run("contract 5: what is unknown, malformed or mistyped looks the same", func(t *testing.T) {
		first := h.ValidateAs(nil, "svc_rt_x")
		unknown, _ := integration.GenerateKey(integration.SecretPrefix, rand.Reader)
		sk := h.Publisher.SecretKey
		for _, key := range []string{
			unknown, "", "x", "svc_sk_", sk[:20], sk + "0", strings.ToUpper(sk), unknownPK,
		} {
			same(t, first, h.ValidateAs(testharness.Bearer(key), "svc_rt_x"))
		}
	})
}

// startWithCredentials tries every credential on start.
func startWithCredentials(t *testing.T, h *testharness.Harness) {
	sk, pk := h.Publisher.SecretKey, h.Publisher.L1.PublicKey
	unknownSK, _ := integration.GenerateKey(integration.SecretPrefix, rand.Reader)
	unknownPK, _ := integration.GenerateKey(integration.PublicPrefix, rand.Reader)
	bearer := testharness.Bearer
	plain, public := body(nil), body{"public_key": pk}
	inBody := func(key any) body { return body{"public_key": key} }

	for _, c := range []struct {
		name   string
		header http.Header
		body   body
		status int
		code   string
	}{
		{"spec: start with a secret key", bearer(sk), plain, 200, ""},
		{"spec: start with a public key", nil, public, 200, ""},
		{"contract 9: neither", nil, plain, 401, "UNAUTHORIZED"},
		{"contract 9: both", bearer(sk), public, 400, "INVALID_REQUEST"},
		{"contract 9: both, the public key unknown", bearer(sk), inBody(unknownPK), 400, "INVALID_REQUEST"},
		{"contract 9: both, the public key empty", bearer(sk), inBody(""), 400, "INVALID_REQUEST"},
		{"contract 5: unknown secret key", bearer(unknownSK), plain, 401, "UNAUTHORIZED"},
		{"contract 5: malformed secret key", bearer("svc_sk_x"), plain, 401, "UNAUTHORIZED"},
		{"contract 12: mistyped secret key", bearer(sk[:len(sk)-1] + flip(sk[len(sk)-1])),
			plain, 401, "UNAUTHORIZED"},
		{"contract 5: empty bearer", bearer(""), plain, 401, "UNAUTHORIZED"},
		{"contract 5: other scheme", headers("Authorization", "Basic "+sk), plain, 401, "UNAUTHORIZED"},
		{"contract 5: the key without scheme", headers("Authorization", sk), plain, 401, "UNAUTHORIZED"},
		{"contract 5: two Authorization headers", also(bearer(sk), "Authorization", "Bearer "+sk),
			plain, 401, "UNAUTHORIZED"},
		{"spec: the scheme is not case-sensitive", headers("Authorization", "bearer "+sk), plain, 200, ""},
		{"contract 5: public key in the Authorization header", bearer(pk), plain, 403, "FORBIDDEN"},
		{"contract 5: unknown public key in the Authorization header",
			bearer(unknownPK), plain, 401, "UNAUTHORIZED"},
		{"contract 5: unknown public key", nil, inBody(unknownPK), 401, "UNAUTHORIZED"},
		{"contract 5: malformed public key", nil, inBody("svc_pk_"), 401, "UNAUTHORIZED"},
		{"contract 5: public_key is no string", nil, inBody(7), 400, "INVALID_REQUEST"},
		{"spec: a secret key in public_key", nil, inBody(sk), 401, "UNAUTHORIZED"},
		{"contract 12: a public key belongs to one integration", nil,
			body{"public_key": pk, "integration_id": h.Publisher.L2.ID}, 403, "FORBIDDEN"},
		{"contract 5: another publisher's integration with a public key", nil,
			body{"public_key": pk, "integration_id": h.Other.L1.ID}, 404, "NOT_FOUND"},
		{"contract 5: secret key with Origin", also(bearer(sk), "Origin", h.Publisher.L1.BrowserOrigin),
			plain, 403, "FORBIDDEN"},
		{"contract 5: secret key with Sec-Fetch-Site", also(bearer(sk), "Sec-Fetch-Site", "same-origin"),
			plain, 403, "FORBIDDEN"},
		{"contract 5: secret key with Sec-Fetch-Mode, as Node's fetch sends it",
			also(bearer(sk), "Sec-Fetch-Mode", "cors"), plain, 200, ""},
		{"contract 5: unknown secret key with Origin", also(bearer(unknownSK), "Origin", "https://a.example"),
			plain, 401, "UNAUTHORIZED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(h, c.header, string(h.StartBody(c.body)))
			wantError(t, r, c.status, c.code)
			want := ""
			if c.status == 401 {
				want = "Bearer"
			}
			if got := r.Header.Get("WWW-Authenticate"); got != want {
				t.Errorf("WWW-Authenticate %q, want %q", got, want)
			}
		})
	}
}

// rejectedCredential is one that neither validate nor reconcile takes.
type rejectedCredential struct {
	name   string
	header http.Header
	status int
	code   string
}

func rejectedCredentials(t *testing.T, h *testharness.Harness, result string) []rejectedCredential {
	t.Helper()
	unknownSK, err := integration.GenerateKey(integration.SecretPrefix, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	unknownPK, err := integration.GenerateKey(integration.PublicPrefix, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	bearer := testharness.Bearer
	return []rejectedCredential{
		{"contract 5: none", nil, 401, "UNAUTHORIZED"},
		{"contract 5: unknown secret key", bearer(unknownSK), 401, "UNAUTHORIZED"},
		{"contract 5: malformed", bearer("x"), 401, "UNAUTHORIZED"},
		{"contract 5: a public key", bearer(h.Publisher.L1.PublicKey), 403, "FORBIDDEN"},
		{"contract 5: an unknown public key", bearer(unknownPK), 401, "UNAUTHORIZED"},
		{"contract 5: secret key with Origin", with(h, "Origin", "https://shop.example"), 403, "FORBIDDEN"},
		{"contract 5: secret key with Sec-Fetch-Site", with(h, "Sec-Fetch-Site", "none"), 403, "FORBIDDEN"},
		{"spec: the result token is no credential", bearer(result), 401, "UNAUTHORIZED"},
	}
}

func TestKeys(t *testing.T) {
	k := keyMaker{newHarness(t, &opts{Configure: unlimited})}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"contract 12: 32 random bytes in base62 and 6 characters of checksum", k.form},
		{"contract 12: two are valid at the same time, for rotation", k.twoAtOnce},
		{"contract 12: revoked, for both kinds and immediately on this instance", k.revoked},
		{"contract 12: an expiry ends a key at its instant", k.expires},
		{"contract 12: an expiry in the past is rejected", k.expiredBefore},
		{"contract 12: listed by their last 4 characters only", k.listed},
		{"contract 12: only a hash is kept", k.hashed},
		{"admin: no access without the operator's token", k.operatorOnly},
	} {
		t.Run(c.name, c.run)
	}
}

// keyMaker is an operator who makes keys of a publisher.
type keyMaker struct{ *testharness.Harness }

func (k keyMaker) create(t *testing.T, more body) (key, id string) {
	t.Helper()
	b := body{"publisher_id": k.Publisher.ID}
	maps.Copy(b, more)
	r := k.Admin("POST", "/admin/v1/keys", b)
	wantStatus(t, r, 200)
	info, _ := r.JSON()["info"].(map[string]any)
	id, _ = info["id"].(string)
	return r.Text("key"), id
}

func (k keyMaker) try(key string) *testharness.Response {
	return start(k.Harness, testharness.Bearer(key), string(k.StartBody(nil)))
}

func (k keyMaker) form(t *testing.T) {
	sk, _ := k.create(t, nil)
	pk, _ := k.create(t, body{"integration_id": k.Publisher.L1.ID})
	whole := len(sk) == len("svc_sk_")+43+6 && len(pk) == len(sk)
	if !whole || !strings.HasPrefix(sk, "svc_sk_") || !strings.HasPrefix(pk, "svc_pk_") {
		t.Errorf("keys of %d and %d characters, or with a wrong prefix", len(sk), len(pk))
	}
	wantStatus(t, k.try(sk), 200)
}

func (k keyMaker) twoAtOnce(t *testing.T) {
	a, _ := k.create(t, nil)
	b, _ := k.create(t, nil)
	token := k.Approve(k.Start(nil)).ResultToken
	wantStatus(t, k.try(a), 200)
	wantStatus(t, k.try(b), 200)
	wantStatus(t, k.ValidateAs(testharness.Bearer(b), token), 200)
}

func (k keyMaker) revoked(t *testing.T) {
	sk, id := k.create(t, nil)
	wantStatus(t, k.try(sk), 200)
	wantStatus(t, k.Admin("POST", "/admin/v1/keys/"+id+"/revoke", nil), 200)
	wantError(t, k.try(sk), 401, "UNAUTHORIZED")
	pk, id := k.create(t, body{"integration_id": k.Publisher.L1.ID})
	b := string(k.StartBody(body{"public_key": pk}))
	wantStatus(t, start(k.Harness, nil, b), 200)
	wantStatus(t, k.Admin("POST", "/admin/v1/keys/"+id+"/revoke", nil), 200)
	wantError(t, start(k.Harness, nil, b), 401, "UNAUTHORIZED")
	wantStatus(t, k.TryStart(nil), 200)
}

func (k keyMaker) expires(t *testing.T) {
	expires := k.Now().Add(time.Hour)
	sk, _ := k.create(t, body{"expires": expires.Format(time.RFC3339)})
	k.AdvanceTo(expires.Add(-time.Millisecond))
	wantStatus(t, k.try(sk), 200)
	k.AdvanceTo(expires)
	wantError(t, k.try(sk), 401, "UNAUTHORIZED")
}

func (k keyMaker) expiredBefore(t *testing.T) {
	r := k.Admin("POST", "/admin/v1/keys", body{"publisher_id": k.Publisher.ID,
		"expires": k.Now().Format(time.RFC3339)})
	wantError(t, r, 400, "INVALID_REQUEST")
}

func (k keyMaker) listed(t *testing.T) {
	sk, id := k.create(t, nil)
	r := k.Admin("GET", "/admin/v1/keys", nil)
	wantStatus(t, r, 200)
	if strings.Contains(string(r.Body), sk[7:20]) || strings.Contains(string(r.Body), sk[len(sk)-6:]) {
		t.Error("the list holds more of a key")
	}
	found := false
	for _, one := range list(t, r, "keys") {
		found = found || one["id"] == id && one["last4"] == sk[len(sk)-4:]
	}
	if !found {
		t.Errorf("%s not listed: %s", id, r.Body)
	}
}

func (k keyMaker) hashed(t *testing.T) {
	items := 0
	for text := range everything(t, k.Harness) {
		items++
		p := k.Publisher
		for _, key := range []string{p.SecretKey, p.L1.PublicKey, p.L1.WebhookSecret} {
			if strings.Contains(text, key) || strings.Contains(text, key[7:30]) {
				t.Errorf("the store holds a key: %s", text)
			}
		}
	}
	if items < 10 {
		t.Errorf("only %d items seen", items)
	}
}

func (k keyMaker) operatorOnly(t *testing.T) {
	h2 := newHarness(t, nil)
	right := h2.OperatorToken
	for _, token := range []string{"", "x", h2.Publisher.SecretKey, right + "x", right[:len(right)-1]} {
		real := h2.OperatorToken
		h2.OperatorToken = token
		wantError(t, h2.Admin("GET", "/admin/v1/keys", nil), 401, "UNAUTHORIZED")
		h2.OperatorToken = real
	}
	wantStatus(t, h2.Admin("GET", "/admin/v1/keys", nil), 200)
}

// Two services on one store are two instances. When one revokes a key, the other
// may accept it for 5 more seconds.
func TestRevocationElsewhere(t *testing.T) {
	a := newHarness(t, nil)
	b := newHarness(t, &opts{KV: sharing(a), Keyring: a.Keyring})
	sk, pk := a.Publisher.SecretKey, a.Publisher.L1.PublicKey
	// b has written the integrations again. The keys of a are still good, beside b's own.
	try := func() (secret, public int) {
		return start(b, testharness.Bearer(sk), string(b.StartBody(nil))).Status,
			start(b, nil, string(b.StartBody(body{"public_key": pk}))).Status
	}
	if secret, public := try(); secret != 200 || public != 200 {
		t.Fatalf("before: %d %d", secret, public)
	}
	for _, k := range list(t, a.Admin("GET", "/admin/v1/keys", nil), "keys") {
		if last := k["last4"]; last == sk[len(sk)-4:] || last == pk[len(pk)-4:] {
			wantStatus(t, a.Admin("POST", fmt.Sprintf("/admin/v1/keys/%s/revoke", k["id"]), nil), 200)
		}
	}
	b.Advance(5 * time.Second)
	if secret, public := try(); secret != 401 || public != 401 {
		t.Errorf("contract 12: 5 seconds after the revocation another instance answers %d and %d", secret,
			public)
	}
}
