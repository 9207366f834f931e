package api

import (
	"testing"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/testhost"
	"github.com/verge-id/verge/core/web"
)

// A request records the key that has authenticated it, even if the request fails later. A rejected key is not
// recorded.
func TestKey_UseIsRecorded(t *testing.T) {
	w := newFixture(t)
	id := func(prefix, text string) string { return integration.Present(prefix, text).ID() }
	secret, public := id(integration.SecretPrefix, w.sk), id(integration.PublicPrefix, w.pk)
	for _, c := range []struct {
		name   string
		h      endpoint
		header web.Header
		body   string
		want   string
	}{
		{"start with a secret key", (*API).Start, bearer(w.sk), startBody(), secret},
		{"start with a public key", (*API).Start, nil, startBody(`"public_key":"` + w.pk + `"`), public},
		{"validate", (*API).Validate, bearer(w.sk), `{"result_token":"x"}`, secret},
		{"a body that is wrong", (*API).Start, bearer(w.sk), `{}`, secret},
		{"a public key that may not go there", (*API).Start, bearer(w.pk), startBody(), ""},
		{"a secret key from a page", (*API).Start,
			with(bearer(w.sk), "Origin", "https://www.publisher.example"), startBody(), ""},
		{"an unknown key", (*API).Start, bearer(w.newKey(t, integration.SecretPrefix)), startBody(), ""},
		{"no key", (*API).Start, nil, startBody(), ""},
	} {
		var noted []host.UsageEvent
		w.API.Host.Observer = testhost.Observer{
			OnCountUsage: func(t host.UsageEvent) { noted = append(noted, t) }}
		w.ask(c.h, "/", c.header, c.body)
		if c.want == "" && len(noted) == 0 {
			continue
		}
		if len(noted) != 1 || noted[0] != (host.UsageEvent{Key: c.want}) {
			t.Errorf("%s: %+v was noted, want %q", c.name, noted, c.want)
		}
	}
}
