package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/edge/egress"
)

func (c *File) checkSite(sys *System, pl *Plan, ps *problems) {
	pl.Site = c.site(sys, ps)
	c.warnOfClients(pl)
	judged := pl.Core
	if len(judged.Methods) == 0 {
		judged.Test = true // judge reports the missing methods, so they are not reported for each integration
	}
	methods, _ := judged.Catalog()
	wrong := pl.Site.Problems(methods, pl.Core.Dev, nil)
	for _, p := range wrong {
		ps.add("%s", p.Text)
	}
	for n, i := range pl.Site.Integrations {
		if i.AlertURL != "" && i.WebhookURL == "" && !i.Archived {
			pl.warn("integration %q: it has alert_url, which reports failed webhooks, but no webhook_url; "+
				"set webhook_url, or remove alert_url", i.ID)
		}
		for _, u := range [][2]string{{"webhook_url", i.WebhookURL}, {"alert_url", i.AlertURL}} {
			if !wrong.Has(fmt.Sprintf("integrations.%d.%s", n, u[0])) {
				about := fmt.Sprintf("integration %q: events cannot reach its %s", i.ID, u[0])
				pl.checkReach("", u[1], about, ps)
			}
		}
	}
}

// ReadSite returns the publishers and integrations of a file, whose other settings are not used.
func ReadSite(sys *System, path string) (integration.Site, error) {
	var c File
	var ps problems
	if err := readConfig(sys.FS, path, &c, &ps); err != nil {
		return integration.Site{}, fmt.Errorf("configuration: %w", err)
	}
	if reflect.DeepEqual(c, File{}) && len(ps) == 0 {
		// A file that was cut off would archive all publishers and integrations.
		ps.add("no settings: the file is empty, or has only comments; restore it")
	}
	site := c.site(sys, &ps)
	return site, ps.err(path)
}

// site returns the publishers and integrations of the file, with the secrets of their webhooks.
func (c *File) site(sys *System, ps *problems) integration.Site {
	var s integration.Site
	for _, given := range c.Publishers {
		p := given.SitePublisher
		if given.LogoFile != "" && !given.Archived {
			var err error
			if p.Logo, err = afero.ReadFile(sys.FS, given.LogoFile); err != nil {
				ps.add("publisher %q: logo_file: %v", given.ID, err)
			}
		}
		s.Publishers = append(s.Publishers, p)
	}
	for _, given := range c.Integrations {
		if given.Archived { // its secret may be missing
			s.Integrations = append(s.Integrations, integration.SiteIntegration{ID: given.ID,
				Publisher: given.Publisher, Archived: true})
			continue
		}
		i := given.SiteIntegration
		var err error
		if i.Secret, err = given.secret(sys); err != nil {
			ps.add("integration %q: %v", given.ID, err)
			// A valid secret replaces it, so that Validate finds only the other problems.
			i.Secret, err = integration.GenerateSecret(sys.Random)
			ps.addLines("", err)
		}
		for _, s := range integration.Settings {
			if !s.Required && given.writesZero(s.Name) {
				ps.add("integration %q: %s is 0; set at least 1, or omit it for the default", given.ID,
					s.Name)
			}
		}
		i.MethodSettings = given.methodSettings(ps)
		s.Integrations = append(s.Integrations, i)
	}
	return s
}

// writesZero reports whether the file has a 0 for a setting. TOML ignores the case of its name.
func (i integrationConfig) writesZero(name string) bool {
	for key, value := range i.written {
		if strings.EqualFold(key, name) && value == int64(0) {
			return true
		}
	}
	return false
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

// checkReach rejects an address that no request of the method could reach, or no event if method is "". It
// ignores a URL that is not https, because its reader rejects it. Only dev mode allows http.
func (pl *Plan) checkReach(method, address, about string, ps *problems) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && !pl.Core.Dev {
		return
	}
	if err = egress.New(pl.Egress).CheckFor(method, address); err == nil {
		return
	}
	do := ""
	switch {
	case u.User != nil:
		do = "; remove the user name and password from the URL"
	case method != "":
		do = "; " + pl.PublicAddress(method)
	}
	ps.add("%s: %v%s", about, err, do)
}

// secret reads the webhook's secret from its file or variable. Without a webhook, it returns "".
func (i integrationConfig) secret(sys *System) (string, error) {
	secret, err := ReadSecret(sys, "secret", i.SecretFile, i.SecretEnv)
	if err == nil && secret == "" && i.WebhookURL != "" {
		return "", errors.New("its webhook has no secret; set secret_file or secret_env " +
			"(`verge webhook secret` creates one)")
	}
	return secret, err
}
