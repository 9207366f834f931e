package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/web"
)

// wrongBodies contains invalid bodies for every route with a body, and the fields of the error. Each route
// with more than one field has a body that mixes errors of the decoder (a type, an empty text, a missing
// field) with errors of package operate (a value).
var wrongBodies = map[string][]struct{ body, fields string }{
	"POST " + operate.CreatePublisher.Path: {
		{`{"id":"x","name":5}`, "id name"},
		{`{"id":"","name":" "}`, "id name"},
		{`{"id":7}`, "id name"},
		{`{}`, "name"},
	},
	"PATCH " + operate.ReadPublisher.Path: {{`{"name":5}`, "name"}, {`{"name":""}`, "name"}},
	"POST " + operate.EndPasskeys.Path: {
		{
			`{}`,
			"publisher_id",
		}, {`{"publisher_id":""}`, "publisher_id"}, {`{"publisher_id":1}`, "publisher_id"},
	},
	"POST " + operate.ListIntegrations.Path: {
		{`{"name":"","level":1,"challenge_age":0}`, "challenge_age level name publisher_id"},
		{`{"publisher_id":"","attempts":"3","passkeys":"x","webhook_url":"x"}`,
			"attempts name passkeys publisher_id webhook_url"},
		{`{"publisher_id":"pub_a","name":5,"methods":["x"],"callback_origins":["x"],"webhook_off":1}`,
			"callback_origins methods name webhook_off"},
	},
	"PATCH " + operate.ReadIntegration.Path: {
		{
			`{"name":"","level":1,"challenge_age":0,"minimum_age":true}`,
			"challenge_age level minimum_age name",
		},
		{`{"webhook_secret":"weak","webhook_url":7,"methods":["x"]}`, "methods webhook_secret webhook_url"},
		{`{"webhook_url":"https://hooks.publisher.example/b","webhook_off":true}`, "webhook_url"},
	},
	"POST " + operate.StageWebhook.Path: {
		{`{"webhook_url":"x","webhook_secret":1}`, "webhook_secret webhook_url"},
		{`{"webhook_off":true,"new_webhook_secret":true}`, "webhook_off"},
		{`{"webhook_secret":"weak","new_webhook_secret":"yes"}`, "new_webhook_secret webhook_secret"},
	},
	"POST " + operate.RotateSecret.Path:  {{`{"staged":"yes"}`, "staged"}},
	"POST " + operate.SendTestEvent.Path: {{`{}`, "type"}, {`{"type":1}`, "type"}, {`{"type":"x"}`, "type"}},
	"POST " + operate.StartTestSession.Path: {
		{
			`{}`,
			"callback_url",
		}, {`{"callback_url":1}`, "callback_url"}, {`{"callback_url":"x"}`, "callback_url"},
		{`{"callback_url":"https://other.example/back"}`, "callback_url"},
	},
	"POST " + operate.ListKeys.Path: {
		{`{"expires":"2001-01-01T00:00:00Z"}`, "expires publisher_id"},
		{`{"expires":"9999-12-31T23:59:59-23:00"}`, "expires publisher_id"}, // 10000 in UTC
		{`{"publisher_id":1,"integration_id":"","expires":"soon"}`, "expires integration_id publisher_id"},
	},
	"POST " + operate.ChangeRole.Path: {{`{}`, "role"}, {`{"role":1}`, "role"}, {`{"role":""}`, "role"}},
	"POST " + operate.ListInvitations.Path: {
		{`{"name":"","role":"x"}`, "name publisher_id role"},
		{`{"publisher_id":1,"name":"x\ny","role":"operator"}`, "name publisher_id role"},
		{`{"publisher_id":"pub_a","name":"x\ny"}`, "name role"},
		{`{"publisher_id":"pub_none","name":"x\ny","role":"x"}`, "name role"},
		{`{"publisher_id":"pub_a","name":5,"role":"viewer"}`, "name"},
	},
	"POST " + operate.CreateLink.Path: {
		{`{"name":"","role":"x"}`, "name role"},
		{`{"publisher_id":1,"name":"x\ny","role":"x"}`, "name publisher_id role"},
		{`{"publisher_id":1,"role":"developer"}`, "publisher_id"},
		{`{"publisher_id":"","role":"operator"}`, "publisher_id"},
		{`{"publisher_id":"pub_none","name":1,"role":"operator"}`, "name role"},
		{`{"publisher_id":"pub_a","name":1,"role":"viewer"}`, "name"},
	},
	"POST " + operate.ListOperators.Path: {
		{`{"name":"","role":"x"}`, "name role"},
		{`{"role":1,"expires":"2001-01-01T00:00:00Z"}`, "expires name role"},
		{`{"name":"x\ny","expires":"soon"}`, "expires name role"},
		{`{"name":"x","role":"viewer","expires":"soon"}`, "expires"},
		{`{"name":"x","role":"viewer","expires":"9999-12-31T23:59:59-23:00"}`, "expires"},
	},
	"POST " + operate.LoadTrustList.Path: {
		{`{}`, "certificates configuration document issued method name next_update signer_fingerprint"},
		{`{"method":1,"name":2,"configuration":3,"sequence":-1,"issued":"soon","next_update":4,"issuer":5,` +
			`"signer":6,"signer_fingerprint":7,"document":8,"skipped":"9","certificates":[1]}`,
			"certificates configuration document issued issuer method name next_update sequence signer " +
				"signer_fingerprint skipped"},
		{`{"method":"a","name":"b","configuration":"c","issued":"2020-01-01T00:00:00Z","document":"d",` +
			`"next_update":"soon","signer_fingerprint":"e","certificates":["!"]}`, "certificates next_update"},
	},
	"POST " + operate.ApplySite.Path: {
		{
			`{"publishers":[{"id":"x"},{"id":"pub_f"},{"id":"pub_f"}],"integrations":[{"id":"y","publisher":"pub_z",` +
				`"level":"L9","challenge_age":0,"method":"sandbox","webhook_url":"http://x","secret":"weak"}]}`,
			"integrations.0.challenge_age integrations.0.id integrations.0.level " +
				"integrations.0.publisher integrations.0.secret integrations.0.webhook_url " +
				"publishers.0.id publishers.2.id",
		},
		{`{"publishers":5}`, "publishers"},
		{`{"publishers":[{"id":7}],"integrations":[` + inSite + `]}`, "publishers.0.id"},
		{`{"publishers":[{"id":"pub_f"},"shop"],"integrations":[` + inSite + `]}`, "publishers.1"},
		{`{"publishers":{"id":"pub_a"},"integrations":[` + inSite + `]}`, "publishers"},
		{`{"publishers":[{"id":"pub_f","name":7}],"integrations":[` + inSite + `]}`,
			"integrations.0.publisher publishers.0.name"},
		{`{"publishers":[{"id":"pub_a"}],"integrations":[` + strings.Replace(inSite, "true", "1", 1) + `]}`,
			"integrations.0.webhook_off"},
		{`{"publishers":[{"id":7,"name":{}},"shop"],"integrations":[{"ID":"y","publisher":5,"level":[],` +
			`"challenge_age":"18","callback_origins":[5],"method":"sandbox","webhook_off":true},7]}`,
			"integrations.0.callback_origins integrations.0.challenge_age integrations.0.id " +
				"integrations.0.level integrations.0.publisher integrations.1 " +
				"publishers.0.id publishers.0.name publishers.1"},
	},
}

// inSite is an integration of a site that is valid except for its publisher, if that does not exist.
const inSite = `{"id":"694069ac-4d4e-475f-906b-2f11c5eca7bd","publisher":"pub_a","name":"Checkout","level":"L1",` +
	`"challenge_age":25,"method":"sandbox","webhook_off":true}`

// Contract 5: an error lists all invalid fields of a body, and the request has no effect.
func TestBody_AllFieldErrors(t *testing.T) {
	w := newFixture(t)
	named := w.sample(t)
	before := w.stored(t)
	for name, r := range rows {
		if r.body != "" && len(wrongBodies[name]) == 0 {
			t.Errorf("contract 5: no wrong body is sent to %s", name)
		}
		method, _, _ := strings.Cut(name, " ")
		path := named.Replace(r.path)
		for _, c := range wrongBodies[name] {
			e := w.rejected(t, web.InvalidRequest, method, operate.Prefix+path, c.body)
			if e == nil {
				continue
			}
			var fields []string
			for _, d := range e.Details {
				fields = append(fields, d.Field)
				if d.Message == "" || d.Code == "" {
					t.Errorf("contract 5: %s %s: %+v", name, c.body, d)
				}
			}
			slices.Sort(fields)
			if got := strings.Join(slices.Compact(fields), " "); got != c.fields {
				t.Errorf("contract 5: %s %s names %q, want %q", name, c.body, got, c.fields)
			}
		}
	}
	if w.stored(t) != before {
		t.Error("contract 5: a refused request has changed something")
	}
}
