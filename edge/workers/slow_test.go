package workers_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/oidctest"
)

// TestProvider_Slow: a provider may take nearly its whole timeout for each response of a return, and the user
// still comes back verified, on every engine. So all its responses fit into the time of a request. A machine
// that is slow itself exceeds the timeout of 3 s, so the walk is repeated, with a new provider.
func TestProvider_Slow(t *testing.T) {
	long.Skip(t, "TestProvider_Slow")
	for name, open := range map[string]func(walks, *testing.T) (client *http.Client, key string){
		"native": walks.natively, "wasm": walks.inGuests, "workerd": walks.onWorkerd,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var err error
			for range 5 {
				if err = verifySlowly(t, open); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

// verifySlowly walks through one session with a new slow provider.
func verifySlowly(t *testing.T, open func(walks, *testing.T) (client *http.Client, key string)) error {
	t.Helper()
	var provider http.Handler
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != oidctest.LoginPath { // that is for the browser
			time.Sleep(2600 * time.Millisecond)
		}
		provider.ServeHTTP(w, r)
	}))
	t.Cleanup(slow.Close)
	provider = oidctest.New(oidctest.Config{Issuer: slow.URL,
		Clients: []oidctest.Client{{ID: "verge", Secret: "secret"}}})
	p := newWalks(t)
	p.config = core.Config{BaseURL: "https://" + walkHost, Dev: true, Methods: []method.Config{{
		Name: "login", Kind: "oidc", Secrets: map[string]string{"client_secret": "secret"},
		Settings: json.RawMessage(`{"issuer":"` + slow.URL + `","client_id":"verge","userinfo":true,` +
			`"proof":{"claim":["is_over_18"],"equals":true,"age":18}}`),
	}}}
	client, key := open(p, t)
	return p.verify(client, key, "begin", nil)
}
