package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/demo"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/sandbox"
	"github.com/verge-id/verge/testharness/wallettest"
)

// plan checks the developer's files before anything is created or bound.
func (c *devCmd) plan(p *program) (plan, error) {
	checked, err := config.ReadMethods(&p.System, c.Methods, ownMethods)
	return plan{Plan: checked, now: p.Now, random: p.Random}, misuse(err)
}

// methods adds the demo's methods to pl's methods, and reads the seeds. It returns all methods, and fills
// ready with the seeds.
func (c *devCmd) methods(p *program, pl *plan, ready *readyFile) (seedFile, method.Catalog, error) {
	names := slices.Clone(ownMethods)
	for _, m := range pl.Core.Methods {
		names = append(names, m.Name)
	}
	kept, err := loadSeeds(p.FS, c.Data, p.Random, names)
	if err != nil {
		return kept, nil, err
	}
	kept.issuer = wallettest.NewIssuer(wallettest.IssuerConfig{Now: p.Now()})
	ready.seeds, ready.Integrations = kept.seeds, map[string]string{}
	for _, name := range names {
		ready.Integrations[name] = kept.Integrations[name]
	}
	pl.Core.Methods = append(demo.Methods(ready.DemoURL, *kept.counterparts()), pl.Core.Methods...)
	methods, wrong := pl.Core.Catalog()
	return kept, methods, wrong.Err()
}

// counterparts are the secrets that the demo's methods share with their simulated providers.
func (s seedFile) counterparts() *demo.Secrets {
	return &demo.Secrets{Bank: s.BankSecret, Camera: s.CameraToken, Issuer: s.issuer}
}

// ownMethods are the methods that dev has without a file.
var ownMethods = []string{sandbox.Name, demo.BankMethod, demo.CameraMethod, demo.WalletMethod}

// site returns the publisher of `verge dev` and its integrations: the two of the sandbox, one for each other
// method, and one with all methods that can prove an adult age, with passkeys enabled. ids has
// the id of each method's integration. Pages of origins can use the public key.
func (s seeds) site(methods method.Catalog, ids map[string]string, webhookURL string, origins ...string,
) integration.Site {
	publisher := integration.SitePublisher{ID: s.PublisherID, Name: "Oak & Ember (demo)", Accent: demo.Accent,
		Logo: demo.Logo()}
	site := integration.Site{Publishers: []integration.SitePublisher{publisher}}
	add := func(i integration.SiteIntegration) {
		i.Publisher, i.WebhookURL, i.Secret = s.PublisherID, webhookURL, s.WebhookSecret
		site.Integrations = append(site.Integrations, i)
	}
	add(integration.SiteIntegration{ID: s.IntegrationID, Name: "Age estimation", Level: "L1",
		ChallengeAge: 25, Method: sandbox.Name, BrowserOrigins: origins})
	add(integration.SiteIntegration{ID: s.IntegrationIDL2, Name: "Identity document", Level: "L2",
		ChallengeAge: 18, Method: sandbox.Name})
	var all []string
	for _, m := range methods {
		age := provenAge(m)
		if age == adult {
			all = append(all, m.Name)
		}
		if m.Name != sandbox.Name {
			add(integration.SiteIntegration{ID: ids[m.Name], Name: titleOf(m), Level: m.Level,
				ChallengeAge: challengeAge(m.Level), MinimumAge: age, Method: m.Name})
		}
	}
	add(integration.SiteIntegration{ID: s.IntegrationIDAll, Name: "All methods", Level: "L1",
		ChallengeAge: challengeAge("L1"), Methods: all, Passkeys: integration.PasskeysService})
	return site
}

// adult is the age that dev's integrations require if a method can prove it.
const adult = 18

// provenAge returns the highest age up to adult that a method can prove.
func provenAge(m method.Entry) int {
	if m.Of.Oldest != nil {
		if oldest := m.Of.Oldest(m.Config); oldest > 0 && oldest < adult {
			return oldest
		}
	}
	return adult
}

// challengeAge returns the challenge age of dev's integrations of a level.
func challengeAge(level string) int {
	if level == "L1" {
		return 25 // an estimate needs a margin
	}
	return adult
}

func titleOf(m method.Entry) string {
	return cmp.Or(m.TitleIn(english), m.Name)
}

// offers returns the integrations as the shop offers them.
func (s seeds) offers(methods method.Catalog, ids map[string]string) []demo.Offer {
	offers := []demo.Offer{
		{IntegrationID: s.IntegrationID, Title: "Sandbox instead of an estimate",
			Text: "Level L1 · you choose the outcome"},
		{IntegrationID: s.IntegrationIDL2, Title: "Sandbox instead of a document",
			Text: "Level L2 · you choose the outcome"},
	}
	texts := map[string]string{
		demo.BankMethod:   "you sign in at a simulated bank",
		demo.CameraMethod: "a simulated estimator gets your picture",
		demo.WalletMethod: "a simulated wallet shares your age",
	}
	for _, m := range methods {
		if m.Name == sandbox.Name {
			continue
		}
		text, own := texts[m.Name]
		if !own {
			text = fmt.Sprintf("your method %s, of kind %s", m.Name, m.Kind)
		}
		offers = append(offers, demo.Offer{IntegrationID: ids[m.Name], Title: titleOf(m),
			Text: "Level " + m.Level + " · " + text})
	}
	return append(offers, demo.Offer{IntegrationID: s.IntegrationIDAll, Title: "Let me choose",
		Text: "Level L1 · Verge offers all methods, and a passkey the next time"})
}
