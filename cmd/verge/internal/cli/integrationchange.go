package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

type integrationShowCmd struct {
	ID string `arg:"" help:"The integration, as \"verge integration list\" shows it."`
	asking
}

func (c *integrationShowCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ReadIntegration, p.printIntegration)
}

// printIntegration prints an integration, one fact a line.
func (p *program) printIntegration(i *operate.Integration) error {
	var f facts
	f.add("integration", i.ID)
	f.add("publisher", i.PublisherID)
	f.add("name", i.Name)
	f.add("state", stateOf(i.Archived, i.Managed, i.Removed))
	f.addSettings(&i.Integration, false)
	f.add("webhook", webhookOf(i.Integration))
	f.add("ready", readinessOf(i))
	if i.Staged != nil {
		f.add("staged webhook", i.Staged.URL)
	}
	f.addSettings(&i.Integration, true)
	f.add("deliveries", failureOf(i.Failing))
	f.add("created", whenever(i.Created))
	f.add("version", i.Version)
	return f.print(p)
}

// settingWords turns the name of a setting into words.
var settingWords = strings.NewReplacer("_uris", " URIs", "_url", " URL", "_", " ")

// addSettings adds the settings of i: those of the section access, or the others.
func (f *facts) addSettings(i *integration.Integration, access bool) {
	for _, s := range integration.Settings {
		value := s.Text(i)
		switch {
		case s.Name == "method_settings" || (s.Section == "access") != access:
			continue
		case s.Name == "minimum_age":
			value = strconv.Itoa(i.Minimum())
		case s.Name == "attempts":
			value = cmp.Or(value, "the service's")
		}
		f.add(settingWords.Replace(s.Name), value)
	}
}

// failureOf returns the failure of deliveries in words, or "".
func failureOf(of *operate.Failing) string {
	switch {
	case of == nil:
		return ""
	case of.Alerted == nil:
		return "failing since " + words.When(of.Since) + ", no alert yet"
	}
	return "failing since " + words.When(of.Since) + ", latest alert " + words.When(*of.Alerted)
}

func readinessOf(i *operate.Integration) string {
	switch {
	case i.Readiness != nil && i.Readiness.Ready:
		return "yes, tested " + words.When(i.Readiness.At)
	case i.Readiness != nil:
		return "no, tested " + words.When(i.Readiness.At)
	case i.Ready:
		return "yes"
	case i.Webhook.URL == "":
		return "no, it has no webhook"
	}
	return "no, not tested yet"
}

// listFlag reads lists in flags, separated by commas unless the flag has the tag sep:"none". Each further
// flag adds to the list. A flag with an empty value is an empty list.
var listFlag = kong.TypeMapper(reflect.TypeFor[*[]string](),
	kong.MapperFunc(func(c *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := c.Scan.PopValueInto("list", &text); err != nil {
			return err
		}
		list := target.Interface().(*[]string)
		if *list == nil {
			*list = []string{}
		}
		words := []string{text}
		if c.Value.Tag.Sep == ',' {
			words = strings.Split(text, ",")
		} else if err := checkOneAddress(text); err != nil {
			return err
		}
		for _, word := range words {
			if word = strings.TrimSpace(word); word != "" {
				*list = append(*list, word)
			}
		}
		return nil
	}))

// checkOneAddress returns an error if a text has several addresses. A comma alone may be part of an address.
func checkOneAddress(text string) error {
	if strings.Contains(text, ",http://") || strings.Contains(text, ",https://") {
		return fmt.Errorf("%q looks like several addresses; give the flag once for each", text)
	}
	return nil
}

// objectFlag reads JSON objects in flags.
var objectFlag = kong.TypeMapper(reflect.TypeFor[*map[string]json.RawMessage](),
	kong.MapperFunc(func(c *kong.DecodeContext, target reflect.Value) error {
		var text string
		err := c.Scan.PopValueInto("object", &text)
		if err == nil && json.Unmarshal([]byte(text), target.Interface()) != nil {
			err = errors.New("not a JSON object like '{\"bankid\": {…}}'")
		}
		return err
	}))

// integrationFlags are the settings of an integration. An omitted setting keeps its value, or has its
// default.
type integrationFlags struct {
	operate.IntegrationInput
	hookFlags
	WebhookOff bool `help:"Send no events, and remove the webhook's URL."`
}

// hookFlags are the webhook of an integration, or one to stage.
type hookFlags struct {
	WebhookURL *string `name:"webhook-url" placeholder:"URL" help:"URL for events: https."`
	SecretFile string  `xor:"secret" placeholder:"FILE" help:"File with the webhook secret, mode 0600 (create it with \"verge webhook secret\")."`
	SecretEnv  string  `xor:"secret" placeholder:"NAME" help:"Environment variable with the webhook secret."`
	NewSecret  bool    `xor:"secret" help:"Generate a webhook secret. It is printed once."`
}

func (f *hookFlags) request(p *program) (operate.WebhookInput, error) {
	w := operate.WebhookInput{URL: f.WebhookURL, NewSecret: f.NewSecret}
	secret, err := config.ReadSecret(&p.System, "secret", f.SecretFile, f.SecretEnv)
	if err != nil {
		return w, usagef("--%s", strings.ReplaceAll(err.Error(), "secret_", "secret-"))
	}
	if secret != "" {
		w.Secret = &secret
	}
	return w, nil
}

func (f *integrationFlags) request(p *program) (operate.IntegrationInput, error) {
	r := f.IntegrationInput
	if f.WebhookOff && f.hookFlags != (hookFlags{}) {
		return r, usagef("--webhook-off excludes the other webhook flags: choose one")
	}
	if r.MethodSettings != nil && *r.MethodSettings == nil {
		r.MethodSettings = nil
	}
	hook, err := f.hookFlags.request(p)
	if f.WebhookOff {
		hook.Off = &f.WebhookOff
	}
	r.WebhookInput = &hook
	return r, err
}

type integrationCreateCmd struct {
	Publisher string `required:"" placeholder:"PUB_ID" help:"The publisher of the integration."`
	Name      string `required:"" help:"Its name, 1 to 100 characters."`
	integrationFlags
	asking
}

// Help is shown by `verge integration create --help`.
func (integrationCreateCmd) Help() string {
	return `An integration defines how a publisher's users are verified: the level, the methods,
and where events are sent. If it has a webhook and you give no secret, a secret is
generated and printed once. In production it starts no sessions until "verge
integration test" reports that it is ready.

Examples:

    verge integration create --publisher pub_example --name "Age check" \
        --challenge-age 25 --webhook-url https://shop.example.com/webhooks
    verge integration create --publisher pub_example --name "Documents" --level L2 --webhook-off`
}

func (c *integrationCreateCmd) Run(ctx context.Context, p *program) error {
	ask, err := c.request(p)
	if err != nil {
		return err
	}
	ask.Publisher, ask.Name = c.Publisher, &c.Name
	return callWith(ctx, p, c, operate.CreateIntegration, ask, func(made *operate.Changed) error {
		// Print only the id to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, made.ID)
		fmt.Fprintf(p.stderr, "Created the integration %s.\n", oneLine(made.Name))
		tellSecret(p, made)
		switch {
		case made.Ready:
		case made.Webhook.URL == "":
			fmt.Fprintf(p.stderr, "It is not ready yet: it has no webhook. Set one, or switch "+
				"webhooks off:\n    verge integration change %s --webhook-url URL\n"+
				"    verge integration change %s --webhook-off\n", made.ID, made.ID)
		default:
			fmt.Fprintf(p.stderr, "It is not ready yet: save the secret in the receiver, then run\n"+
				"    verge integration test %s\n", made.ID)
		}
		return nil
	})
}

// tellSecret prints a new webhook secret for a person to read.
func tellSecret(p *program, made *operate.Changed) {
	if made.Secret != "" {
		fmt.Fprintf(p.stderr, "Its webhook secret is shown only once: %s\n", made.Secret)
	}
}

type integrationChangeCmd struct {
	ID   string  `arg:"" help:"The integration."`
	Name *string `help:"New name."`
	integrationFlags
	changing
}

// Help is shown by `verge integration change --help`.
func (integrationChangeCmd) Help() string {
	return `Changes the settings that you give and keeps the others. Changes take effect
immediately. A new webhook URL or secret resets readiness, so that in production no
sessions start until the next test. Use "verge integration stage" to avoid this
pause.

Examples:

    verge integration change 711bb7bd-4165-465f-a5bb-ec37600c13c9 --challenge-age 30
    verge integration change 711bb7bd-4165-465f-a5bb-ec37600c13c9 --browser-origins=`
}

func (c *integrationChangeCmd) Run(ctx context.Context, p *program) error {
	ask, err := c.request(p)
	if err != nil {
		return err
	}
	ask.Name = c.Name
	if empty(ask) {
		return usagef("no changes given; for example: --challenge-age 30")
	}
	return callWith(ctx, p, c, operate.ChangeIntegration, operate.IntegrationUpdate{
		Versioned: operate.Versioned{ID: c.ID, Version: c.IfVersion}, IntegrationInput: ask}, p.printChanged)
}

// empty reports whether a request has no changes.
func empty(ask any) bool {
	b, err := json.Marshal(ask)
	return err == nil && string(b) == "{}"
}

// printChanged prints an integration after a change, and a new secret.
func (p *program) printChanged(changed *operate.Changed) error {
	if err := p.printIntegration(&changed.Integration); err != nil {
		return err
	}
	tellSecret(p, changed)
	return nil
}

type integrationArchiveCmd struct {
	ID string `arg:"" help:"The integration."`
	changing
}

// Help is shown by `verge integration archive --help`.
func (integrationArchiveCmd) Help() string {
	return `An archived integration starts no sessions. Active sessions continue, and their
events are delivered. This cannot be undone.

Example:

    verge integration archive 711bb7bd-4165-465f-a5bb-ec37600c13c9`
}

func (c *integrationArchiveCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ArchiveIntegration, func(gone *operate.Integration) error {
		fmt.Fprintf(p.stdout, "%s (%s) is archived. It can start no more sessions.\n", gone.ID,
			oneLine(gone.Name))
		return nil
	})
}

type integrationStageCmd struct {
	ID string `arg:"" help:"The integration."`
	hookFlags
	changing
}

// Help is shown by `verge integration stage --help`.
func (integrationStageCmd) Help() string {
	return `Adds a second webhook URL, a second secret, or both, next to the current ones.
Events still go to the current URL, signed with the current secret. When "verge
integration test --staged" passes, the staged webhook replaces the current one.
"verge integration drop" discards it.

Examples:

    verge integration stage 711bb7bd-4165-465f-a5bb-ec37600c13c9 --webhook-url https://new.example.com/hooks
    verge integration stage 711bb7bd-4165-465f-a5bb-ec37600c13c9 --new-secret`
}

func (c *integrationStageCmd) Run(ctx context.Context, p *program) error {
	ask, err := c.request(p)
	if err != nil {
		return err
	}
	if empty(ask) {
		return usagef("nothing to stage: give --webhook-url, or a secret with --new-secret, --secret-file " +
			"or --secret-env")
	}
	in := operate.StagedWebhook{Versioned: operate.Versioned{ID: c.ID, Version: c.IfVersion},
		WebhookInput: ask}
	return callWith(ctx, p, c, operate.StageWebhook, in, func(changed *operate.Changed) error {
		fmt.Fprintf(p.stdout, "Staged. Events do not change yet. To switch to the staged webhook, run\n"+
			"    verge integration test %s --staged\n", changed.ID)
		tellSecret(p, changed)
		return nil
	})
}

type integrationDropCmd struct {
	ID string `arg:"" help:"The integration."`
	changing
}

func (c *integrationDropCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.DropStaged, func(changed *operate.Integration) error {
		fmt.Fprintln(p.stdout, "The staged webhook is discarded. The current webhook stays in use.")
		return nil
	})
}

type integrationRotateCmd struct {
	ID     string `arg:"" help:"The integration."`
	AtOnce bool   `help:"Replace the current secret immediately, which resets readiness. Default: stage the new one."`
	changing
}

// Help is shown by `verge integration rotate --help`.
func (integrationRotateCmd) Help() string {
	return `Creates a new webhook secret and prints it once. It is staged: the current secret
signs events until "verge integration test --staged" has confirmed that the receiver
accepts the new one. A secret that was staged before is discarded. Use --at-once if the
current secret has leaked.

Examples:

    verge integration rotate 711bb7bd-4165-465f-a5bb-ec37600c13c9
    verge integration rotate 711bb7bd-4165-465f-a5bb-ec37600c13c9 --at-once > secret`
}

func (c *integrationRotateCmd) Run(ctx context.Context, p *program) error {
	in := operate.Rotation{Versioned: operate.Versioned{ID: c.ID, Version: c.IfVersion}, Staged: !c.AtOnce}
	return callWith(ctx, p, c, operate.RotateSecret, in, func(changed *operate.Changed) error {
		// Print only the secret to stdout, so that a script can use it.
		fmt.Fprintln(p.stdout, changed.Secret)
		staged := " --staged"
		if c.AtOnce {
			staged = ""
		}
		fmt.Fprintf(p.stderr, "The secret is shown only once. Save it in the receiver, then run\n"+
			"    verge integration test %s%s\n", changed.ID, staged)
		return nil
	})
}
