package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/edge/egress"
)

func (c *config) checkSite(p *program, pl *plan, ps *problems) {
	pl.site = c.site(p, ps)
	for _, i := range pl.site.Integrations {
		pl.checkReach(i.ID, i.WebhookURL, ps)
	}
	judged := pl.core
	if len(judged.Methods) == 0 {
		judged.Test = true // judge says that there is no method, so it is not said of each integration
	}
	methods, _ := judged.Catalog()
	ps.addLines("", pl.site.Validate(methods, pl.core.Dev))
}

// site returns the publishers and integrations of the file, with the secrets of their webhooks.
func (c *config) site(p *program, ps *problems) (s integration.Site) {
	for _, given := range c.Publishers {
		s.Publishers = append(s.Publishers,
			integration.SitePublisher{ID: given.ID, Name: given.Name, Archived: given.Archived})
	}
	for _, given := range c.Integrations {
		if given.Archived { // its secret may be gone
			s.Integrations = append(s.Integrations, integration.SiteIntegration{ID: given.ID,
				Publisher: given.Publisher, Archived: true})
			continue
		}
		secret, err := given.secret(p)
		if err != nil {
			ps.add("integration %q: %v", given.ID, err)
			// A good secret takes its place, so that Validate finds only the other problems.
			secret, err = integration.GenerateSecret(p.random)
			ps.addLines("", err)
		}
		s.Integrations = append(s.Integrations, integration.SiteIntegration{ID: given.ID,
			Publisher: given.Publisher, Name: given.Name, Level: given.Level,
			ChallengeAge: given.ChallengeAge, Method: given.Method, Methods: given.Methods,
			MinimumAge:      givenOr(ps, given.ID, "minimum_age", given.MinimumAge),
			Attempts:        givenOr(ps, given.ID, "attempts", given.Attempts),
			Passkeys:        given.Passkeys,
			MethodSettings:  given.methodSettings(ps),
			CallbackOrigins: given.CallbackOrigins, BrowserOrigins: given.BrowserOrigins,
			WebhookURL: given.WebhookURL, WebhookOff: given.WebhookOff, Secret: secret})
	}
	return s
}

// givenOr returns a number that may be left out, as 0. It refuses a 0 that is written.
func givenOr(ps *problems, id, key string, n *int) int {
	if n == nil {
		return 0
	}
	if *n == 0 {
		ps.add("integration %q: %s is 0; give at least 1, or leave it out for the default", id, key)
	}
	return *n
}

// methodSettings returns the integration's settings for single methods as JSON.
func (i integrationConfig) methodSettings(ps *problems) map[string]json.RawMessage {
	if len(i.MethodSettings) == 0 {
		return nil
	}
	all := map[string]json.RawMessage{}
	for name, settings := range i.MethodSettings {
		b, err := json.Marshal(settings)
		if err != nil {
			ps.add("integration %q: method_settings.%s: %v", i.ID, name, err)
		}
		all[name] = b
	}
	return all
}

// checkReach refuses a webhook URL that no event would ever reach. It ignores a URL that is not
// https, because Site.Validate refuses that. Only dev mode allows http.
func (pl *plan) checkReach(id, webhookURL string, ps *problems) {
	if u, err := url.Parse(webhookURL); err != nil || u.Host == "" || u.Scheme != "https" && !pl.core.Dev {
		return
	}
	if err := egress.New(pl.egress).Check(webhookURL); err != nil {
		ps.add("integration %q: no event would ever reach its webhook_url: %v", id, err)
	}
}

// secret reads the webhook's secret from the place that the configuration names. Without a webhook
// it returns "".
func (i integrationConfig) secret(p *program) (string, error) {
	secret, err := readSecret(p, "secret", i.SecretFile, i.SecretEnv)
	if err == nil && secret == "" && i.WebhookURL != "" {
		return "", errors.New("its webhook has no secret; set secret_file or secret_env " +
			"(`verge webhook secret` makes one)")
	}
	return secret, err
}

// apply puts the site into the store and archives nothing that the file does not name. It warns of
// integrations that start no session because their webhook has not passed its test.
func (pl *plan) apply(ctx context.Context, d *integration.Directory) error {
	if err := d.Put(ctx, pl.site, integration.KeepRemoved, sideBySide); err != nil {
		return err
	}
	var looks []func() error
	for _, i := range pl.site.Integrations {
		if i.Archived {
			continue
		}
		looks = append(looks, func() error {
			kept, err := d.Integration(ctx, i.ID)
			if err != nil {
				return fmt.Errorf("integration %s: %w", i.ID, err)
			}
			ready, err := d.Ready(ctx, kept)
			if err != nil {
				return fmt.Errorf("integration %s: %w", i.ID, err)
			}
			if !ready && !pl.core.Dev {
				pl.log.Warn("integration is not ready and starts no session", "integration", i.ID,
					"do", "verge integration test "+i.ID)
			}
			return nil
		})
	}
	return sideBySide(looks)
}

// sideBySide runs all, at most 64 at once, and returns the first error.
func sideBySide(all []func() error) error {
	var group errgroup.Group
	group.SetLimit(64)
	for _, do := range all {
		group.Go(do)
	}
	return group.Wait()
}
