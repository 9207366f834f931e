package api

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/core/web"
)

// An integration can name methods that a restart of the service has removed from its configuration.
func TestStart_MethodsRemoved(t *testing.T) {
	for _, c := range []struct {
		name    string
		methods []string
		want    web.Code
	}{
		{"contract 33: the only method cannot begin", []string{"gone"}, web.ProviderUnavailable},
		{"contract 33: none of the methods can begin", []string{"gone", "lost"}, web.ProviderUnavailable},
		{"contract 33: another method is left", []string{"gone", "sandbox"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			page := []string{"https://www.publisher.example"}
			coretest.Must(t, w.Directory.PutIntegration(ctx, integration.Integration{ID: testUUID,
				PublisherID: "pub_a", Level: "L1", ChallengeAge: 25, Methods: c.methods,
				Webhook: integration.Webhook{Off: true}, CallbackOrigins: page}, ""))
			body, e := w.ask((*API).Start, web.StartPath, bearer(w.sk), startBody())
			if code(e) != c.want || c.want == "" && !strings.Contains(string(body), `"redirect_url"`) {
				t.Fatalf("%s, %v, want %q", body, e, c.want)
			}
			if logged := w.Logged.String(); c.want != "" && (e.Session == "" ||
				!strings.Contains(logged, "method=gone") || !strings.Contains(logged, "not_configured")) {
				t.Errorf("contract 48: the log does not name the method and the reason: %s", logged)
			}
		})
	}
}
