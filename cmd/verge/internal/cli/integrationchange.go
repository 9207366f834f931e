package cli

import (
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
	f.add("level", i.Level)
	f.add("challenge age", strconv.Itoa(i.ChallengeAge))
	f.add("minimum age", strconv.Itoa(i.Minimum()))
	f.add("attempts", attemptsOf(i.Integration))
	f.add("methods", strings.Join(i.Offers(), ", "))
	f.add("passkeys", i.Passkeys)
	f.add("webhook", webhookOf(i.Integration))
	f.add("ready", readinessOf(i))
	if i.Staged != nil {
		f.add("staged webhook", i.Staged.URL)
	}
	f.add("callback origins", strings.Join(i.CallbackOrigins, ", "))
	f.add("browser origins", strings.Join(i.BrowserOrigins, ", "))
	f.add("redirect URIs", strings.Join(i.RedirectURIs, ", "))
	f.add("created", whenever(i.Created))
	f.add("version", i.Version)
	return f.print(p)
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
		}
		for _, word := range words {
			if word = strings.TrimSpace(word); word != "" {
				*list = append(*list, word)
			}
		}
		return nil
	}))

// objectFlag reads JSON objects in flags. A flag with an empty value counts as omitted.
var objectFlag = kong.TypeMapper(reflect.TypeFor[*map[string]json.RawMessage](),
	kong.MapperFunc(func(c *kong.DecodeContext, target reflect.Value) error {
		var text string
		err := c.Scan.PopValueInto("object", &text)
		if err == nil && text != "" && json.Unmarshal([]byte(text), target.Interface()) != nil {
			err = errors.New("not a JSON object like '{\"bankid\": {…}}'")
		}
		return err
	}))

// integrationFlags are the settings of an integration. An omitted one keeps its value, or has its default.
type integrationFlags struct {
	operate.IntegrationInput
	hookFlags
	WebhookOff bool `help:"Send no events, and forget the webhook's URL."`
}

// hookFlags are the webhook of an integration, or one to stage.
type hookFlags struct {
	WebhookURL *string `name:"webhook-url" placeholder:"URL" help:"Where events go: https."`
	SecretFile string  `xor:"secret" placeholder:"FILE" help:"File with the webhook secret, mode 0600 (\"verge webhook secret\" makes one)."`
	SecretEnv  string  `xor:"secret" placeholder:"NAME" help:"Environment variable with the webhook secret."`
	NewSecret  bool    `xor:"secret" help:"Have a webhook secret made. It is printed once."`
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
		return r, usagef("--webhook-off goes with no other flag of the webhook: choose one")
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
	Publisher string `required:"" placeholder:"PUB_ID" help:"Whose integration it is."`
	Name      string `required:"" help:"Its name, 1 to 100 characters."`
	integrationFlags
	asking
}

// Help is shown by `verge integration create --help`.
func (integrationCreateCmd) Help() string {
	return `An integration is how a publisher has users verified: to what level, by which
methods, and where the events go. If it has a webhook and you give no secret, one
is made and printed once. In production it starts no session until "verge
integration test" says that it is ready.

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
		// The id is alone on stdout, so that a script can take it from there.
		fmt.Fprintln(p.stdout, made.ID)
		fmt.Fprintf(p.stderr, "The integration %s is made.\n", oneLine(made.Name))
		tellSecret(p, made)
		switch {
		case made.Ready:
		case made.Webhook.URL == "":
			fmt.Fprintf(p.stderr, "It is not ready yet: it has no webhook. Give it one, or say that it "+
				"sends no events:\n    verge integration change %s --webhook-url URL\n"+
				"    verge integration change %s --webhook-off\n", made.ID, made.ID)
		default:
			fmt.Fprintf(p.stderr, "It is not ready yet: put the secret into the receiver, then run\n"+
				"    verge integration test %s\n", made.ID)
		}
		return nil
	})
}

// tellSecret prints a webhook secret that was made for a person to read.
func tellSecret(p *program, made *operate.Changed) {
	if made.Secret != "" {
		fmt.Fprintf(p.stderr, "Its webhook secret is shown only this time: %s\n", made.Secret)
	}
}

type integrationChangeCmd struct {
	ID   string  `arg:"" help:"The integration."`
	Name *string `help:"Its name from now on."`
	integrationFlags
	changing
}

// Help is shown by `verge integration change --help`.
func (integrationChangeCmd) Help() string {
	return `Changes what you give and leaves the rest. A change holds at once. A new webhook
URL or secret resets readiness, so production starts no session until the next
test: "verge integration stage" is the way without that pause.

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
		return usagef("say what to change, for example --challenge-age 30")
	}
	return callWith(ctx, p, c, operate.ChangeIntegration, operate.IntegrationUpdate{
		Versioned: operate.Versioned{ID: c.ID, Version: c.IfVersion}, IntegrationInput: ask}, p.printChanged)
}

// empty reports whether a request changes nothing.
func empty(ask any) bool {
	b, err := json.Marshal(ask)
	return err == nil && string(b) == "{}"
}

// printChanged prints an integration after a change, and the secret if one was made.
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
	return `An archived integration starts no session. Sessions under way end as they would,
and their events are delivered. Nothing takes it out of the archive.

Example:

    verge integration archive 711bb7bd-4165-465f-a5bb-ec37600c13c9`
}

func (c *integrationArchiveCmd) Run(ctx context.Context, p *program) error {
	return call(ctx, p, c, operate.ArchiveIntegration, func(gone *operate.Integration) error {
		fmt.Fprintf(p.stdout, "%s (%s) is archived. It starts no session from now on.\n", gone.ID,
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
	return `Puts another webhook URL, another secret or both beside the present ones. Events
still go to the present URL, signed with the present secret. When "verge
integration test --staged" finds the staged webhook ready, it takes the place of
the present one. "verge integration drop" forgets it.

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
		return usagef("say what to stage: --webhook-url, or a secret with --new-secret, --secret-file " +
			"or --secret-env")
	}
	in := operate.StagedWebhook{Versioned: operate.Versioned{ID: c.ID, Version: c.IfVersion},
		WebhookInput: ask}
	return callWith(ctx, p, c, operate.StageWebhook, in, func(changed *operate.Changed) error {
		fmt.Fprintf(p.stdout, "Staged. Nothing has changed for events yet. To take it over, run\n"+
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
		fmt.Fprintln(p.stdout, "Nothing is staged any more. The present webhook goes on as before.")
		return nil
	})
}

type integrationRotateCmd struct {
	ID     string `arg:"" help:"The integration."`
	AtOnce bool   `help:"Replace the present secret now, which resets readiness. Default: stage the new one beside it."`
	changing
}

// Help is shown by `verge integration rotate --help`.
func (integrationRotateCmd) Help() string {
	return `Makes a new webhook secret and prints it once. It is staged: the present secret
goes on signing until "verge integration test --staged" has found that the
receiver accepts the new one. Use --at-once if the present secret has leaked.

Examples:

    verge integration rotate 711bb7bd-4165-465f-a5bb-ec37600c13c9
    verge integration rotate 711bb7bd-4165-465f-a5bb-ec37600c13c9 --at-once > secret`
}

func (c *integrationRotateCmd) Run(ctx context.Context, p *program) error {
	in := operate.Rotation{Versioned: operate.Versioned{ID: c.ID, Version: c.IfVersion}, Staged: !c.AtOnce}
	return callWith(ctx, p, c, operate.RotateSecret, in, func(changed *operate.Changed) error {
		// The secret is alone on stdout, so that a script can take it from there.
		fmt.Fprintln(p.stdout, changed.Secret)
		staged := " --staged"
		if c.AtOnce {
			staged = ""
		}
		fmt.Fprintf(p.stderr, "This is the only time that it is shown. Put it into the receiver, then run\n"+
			"    verge integration test %s%s\n", changed.ID, staged)
		return nil
	})
}
