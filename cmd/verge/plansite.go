package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/edge/egress"
)

func (c *config) checkSite(p *program, pl *plan, ps *problems) {
	for _, given := range c.Publishers {
		pl.site.Publishers = append(pl.site.Publishers, integration.Publisher{ID: given.ID, Name: given.Name})
	}
	for _, given := range c.Integrations {
		secret, err := given.secret(p)
		if err != nil {
			ps.add("integration %q: %v", given.ID, err)
			// A good secret takes its place, so that Validate finds only the other problems.
			secret, err = integration.GenerateSecret(p.random)
			ps.addLines("", err)
		}
		pl.site.Integrations = append(pl.site.Integrations, integration.SiteIntegration{ID: given.ID,
			Publisher: given.Publisher, Name: given.Name, Level: given.Level,
			ChallengeAge: given.ChallengeAge, Method: given.Method,
			CallbackOrigins: given.CallbackOrigins, BrowserOrigins: given.BrowserOrigins,
			WebhookURL: given.WebhookURL, WebhookOff: given.WebhookOff, Secret: secret})
		pl.checkReach(given.ID, given.WebhookURL, ps)
	}
	methods, wrong := pl.core.Catalog()
	if len(wrong) > 0 || len(methods) == 0 {
		return // judge says what is wrong with the methods, so it is not said of each integration
	}
	ps.addLines("", pl.site.Validate(methods, pl.core.Dev))
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
	switch {
	case i.SecretFile != "" && i.SecretEnv != "":
		return "", errors.New("secret_file and secret_env are both set; choose one")
	case i.SecretEnv != "":
		secret, _ := p.getenv(i.SecretEnv)
		if secret == "" {
			return "", fmt.Errorf("secret_env: the environment has no %s", i.SecretEnv)
		}
		return secret, nil
	case i.SecretFile != "":
		b, err := readPrivate(p.fs, i.SecretFile)
		if err != nil {
			return "", fmt.Errorf("secret_file: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	case i.WebhookURL != "":
		return "", errors.New("its webhook has no secret; set secret_file or secret_env " +
			"(`verge webhook secret` makes one)")
	}
	return "", nil
}

// apply puts the site into the store. It warns of integrations that start no session because their
// webhook has not passed its test.
func (pl *plan) apply(ctx context.Context, d *integration.Directory) error {
	if err := d.Put(ctx, pl.site, sideBySide); err != nil {
		return err
	}
	var looks []func() error
	for _, i := range pl.site.Integrations {
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
