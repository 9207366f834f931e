package admin

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

func TestKeysAreMadeListedAndRevoked(t *testing.T) {
	w := newFixture(t)
	var made operate.CreatedKey
	if e := w.ask(t, "POST", operate.ListKeys.Path, `{"publisher_id":"pub_a"}`, &made); e != nil {
		t.Fatal(e)
	}
	if !integration.WellFormed(integration.SecretPrefix, made.Key) || made.Info.Public() ||
		made.Info.Last4 != made.Key[len(made.Key)-4:] {
		t.Errorf("contract 12: %+v", made.Info)
	}
	var public operate.CreatedKey
	expires := w.Clock.Now().Add(time.Hour)
	body := `{"publisher_id":"pub_a","integration_id":"` + testUUID + `",` +
		`"expires":"` + expires.Format(time.RFC3339) + `"}`
	if e := w.ask(t, "POST", operate.ListKeys.Path, body, &public); e != nil {
		t.Fatal(e)
	}
	if !integration.WellFormed(integration.PublicPrefix, public.Key) ||
		public.Info.Expires == nil || !public.Info.Expires.Equal(expires) {
		t.Errorf("contract 12: %+v", public.Info)
	}
	var list struct{ Keys []integration.Key }
	if e := w.ask(t, "GET", operate.ListKeys.Path, "", &list); e != nil || len(list.Keys) != 2 {
		t.Errorf("contract 12: listed are %+v, %v", list, e)
	}
	raw, err := w.Handle(ctx, &web.Request{Method: "GET", Path: operate.ListKeys.Path,
		Header: web.Header{"Authorization": {"Bearer " + operator}}})
	coretest.Must(t, err)
	for _, k := range []string{made.Key, public.Key} {
		if bytes.Contains(raw.Body, []byte(k[7:27])) {
			t.Errorf("contract 12: a key is shown a second time: %s", raw.Body)
		}
	}
	var revoked integration.Key
	e := w.ask(t, "POST", "/admin/v1/keys/"+made.Info.ID+"/revoke", "", &revoked)
	if e != nil || revoked.Revoked == nil {
		t.Errorf("contract 12: %+v, %v", revoked, e)
	}
	w.rejected(t, web.NotFound, "POST", "/admin/v1/keys/key_0000000000000000/revoke", "")
	w.rejected(t, web.NotFound, "POST", "/admin/v1/keys/x/revoke", "")
}

func TestCreateKey_NullField(t *testing.T) {
	w := newFixture(t)
	var made operate.CreatedKey
	const body = `{"publisher_id":"pub_a","integration_id":null,"expires":null}`
	if e := w.ask(t, "POST", operate.ListKeys.Path, body, &made); e != nil {
		t.Fatal(e)
	}
	if made.Info.Public() || made.Info.Expires != nil {
		t.Errorf("contract 3: %+v", made.Info)
	}
}

// A response must never contain a key with more rights than requested.
func TestKey_RequestedRights(t *testing.T) {
	w := newFixture(t)
	now := w.Clock.Now().Format(time.RFC3339)
	for _, c := range []struct {
		name, body string
		code       web.Code
	}{
		{"no body", ``, web.InvalidRequest},
		{"no object", `[]`, web.InvalidRequest},
		{"no publisher", `{}`, web.InvalidRequest},
		{"a publisher that is null", `{"publisher_id":null}`, web.InvalidRequest},
		{"a publisher that is not there", `{"publisher_id":"pub_x"}`, web.NotFound},
		{"a publisher that is a number", `{"publisher_id":5}`, web.InvalidRequest},
		{"an integration that is not there",
			`{"publisher_id":"pub_a","integration_id":"` + otherUUID + `"}`, web.NotFound},
		{"an integration that is a number", `{"publisher_id":"pub_a","integration_id":5}`, web.InvalidRequest},
		{"an integration that is empty", `{"publisher_id":"pub_a","integration_id":""}`, web.InvalidRequest},
		{"a name twice", `{"publisher_id":"pub_a","publisher_id":"pub_a"}`, web.InvalidRequest},
		{"expiry in the past", `{"publisher_id":"pub_a","expires":"2020-01-01T00:00:00Z"}`, web.InvalidRequest},
		{"expiry that is now", `{"publisher_id":"pub_a","expires":"` + now + `"}`, web.InvalidRequest},
		{"expiry that is a number", `{"publisher_id":"pub_a","expires":1795212600}`, web.InvalidRequest},
		{"a list with null for an integration",
			`{"publisher_id":"pub_a","integration_id":[null]}`, web.InvalidRequest},
		{"expiry without zone", `{"publisher_id":"pub_a","expires":"2030-01-01T00:00:00"}`, web.InvalidRequest},
		{"too long", `{"publisher_id":"pub_a"}` + strings.Repeat(" ", web.MaxBody), web.PayloadTooLarge},
	} {
		t.Run("contract 12: "+c.name,
			func(t *testing.T) { w.rejected(t, c.code, "POST", operate.ListKeys.Path, c.body) })
	}
	if keys, _, err := w.Operations.Directory.ListKeys(ctx, "", "", 100); err != nil || len(keys) != 0 {
		t.Errorf("contract 12: a refused request has made %+v, %v", keys, err)
	}
}

// Anybody can read a public key, and who chooses the callback gets the result token.
func TestNoPublicKeyWithoutCallbackOrigins(t *testing.T) {
	for _, dev := range []bool{false, true} {
		w := newFixture(t)
		w.Operations.Dev = dev
		i, err := w.Operations.Directory.Integration(ctx, testUUID)
		coretest.Must(t, err)
		open := *i
		open.CallbackOrigins = nil
		coretest.Must(t, w.Operations.Directory.PutIntegration(ctx, open, ""))
		const body = `{"publisher_id":"pub_a","integration_id":"` + testUUID + `"}`
		if dev {
			if e := w.ask(t, "POST", operate.ListKeys.Path, body, nil); e != nil {
				t.Errorf("contract 8: dev mode allows any callback, but got %v", e)
			}
			continue
		}
		e := w.rejected(t, web.Forbidden, "POST", operate.ListKeys.Path, body)
		if e != nil && !strings.Contains(e.Message, "callback_origins") {
			t.Errorf("contract 8: %q does not name the missing setting", e.Message)
		}
		if keys, _, err := w.Operations.Directory.ListKeys(ctx, "", "", 100); err != nil || len(keys) != 0 {
			t.Errorf("contract 8: a refused request has made %+v, %v", keys, err)
		}
		w.rejected(t, web.NotFound, "POST", operate.ListKeys.Path,
			`{"publisher_id":"pub_b","integration_id":"`+testUUID+`"}`)
		if e := w.ask(t, "POST", operate.ListKeys.Path, `{"publisher_id":"pub_a"}`, nil); e != nil {
			t.Errorf("contract 8: a secret key: %v", e)
		}
	}
}
