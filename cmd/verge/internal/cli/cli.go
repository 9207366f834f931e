package cli

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/verge-id/verge/cmd/verge/internal/words"
)

// cli is the whole command line. The commands of a group are in the file of the group. The tag does of a
// command names the endpoints of package operate that it calls.
type cli struct {
	Dev   devCmd   `cmd:"" group:"run" help:"Run everything on this machine: service, sandbox, demo shop, webhook inbox."`
	Serve serveCmd `cmd:"" group:"run" help:"Run the service with a configuration file."`
	Init  initCmd  `cmd:"" group:"files" help:"Create the files for a first server."`

	Publisher   publisherCommands   `cmd:"" group:"operate" help:"Manage publishers."`
	Integration integrationCommands `cmd:"" group:"operate" help:"Manage integrations and test their webhooks."`
	Delivery    deliveryCommands    `cmd:"" group:"operate" help:"List and resend webhook events."`
	Key         keyCommands         `cmd:"" group:"operate" help:"Create, list and revoke API keys."`
	Session     sessionCommands     `cmd:"" group:"operate" help:"Show a session, or start a test session."`
	Event       eventCommands       `cmd:"" group:"operate" help:"Send test events."`
	Passkey     passkeyCommands     `cmd:"" group:"operate" help:"Count or end the passkeys of a publisher's users."`
	Member      memberCommands      `cmd:"" group:"operate" help:"Manage the people who use the console."`
	Operator    operatorCommands    `cmd:"" group:"operate" help:"Create, list and revoke operator tokens."`
	Report      reportCmd           `cmd:"" does:"readReport" group:"operate" help:"Write a signed report for regulators."`
	Usage       usageCmd            `cmd:"" does:"readUsage" group:"operate" help:"Count sessions by day and outcome."`
	Audit       auditCmd            `cmd:"" group:"operate" help:"Show the audit log: each change and its author."`
	Apply       applyCmd            `cmd:"" does:"applySite" group:"operate" help:"Apply a configuration file to a running server."`

	Module moduleCommands `cmd:"" group:"operate" help:"Replace and sign modules, for the engine wasm."`

	Keyring struct {
		Generate keyringGenerateCmd `cmd:"" help:"Write a new key ring."`
		Rotate   keyringRotateCmd   `cmd:"" help:"Add a new active key. Data of older keys stays valid."`
		Retire   keyringRetireCmd   `cmd:"" help:"Remove a key that is no longer needed."`
		List     keyringListCmd     `cmd:"" help:"List the ids and times of a ring's keys."`
		Adopt    keyringAdoptCmd    `cmd:"" help:"Make the store accept a new ring instead of a lost one."`
	} `cmd:"" group:"files" help:"Create and change key ring files."`
	Listen  listenCmd `cmd:"" group:"develop" help:"Post test events to a receiver on this machine."`
	Webhook struct {
		Verify webhookVerifyCmd `cmd:"" help:"Check the signature of a saved webhook request."`
		Secret webhookSecretCmd `cmd:"" help:"Create a random webhook secret."`
	} `cmd:"" group:"files" help:"Check saved webhook requests; create a secret."`
	Replay replayCmd `cmd:"" group:"files" help:"Run recorded transcripts through an engine and show the first difference."`

	KV kvCommands `cmd:"" name:"kv" group:"stores" help:"Check a store before use. Back up and restore a store."`

	Worker workerCommands `cmd:"" group:"files" help:"Check the configuration of a Cloudflare Worker."`

	Method methodCommands `cmd:"" group:"methods" help:"List methods, and test the connections to their providers."`

	Completion completionCmd `cmd:"" group:"about" help:"Print a script that completes commands in your shell."`
	Complete   completeCmd   `cmd:"" hidden:""`
	Man        manCmd        `cmd:"" group:"about" help:"Write manual pages of all commands."`

	Version versionCmd `cmd:"" group:"about" help:"Show the version, like --version."`
	Help    helpCmd    `cmd:"" group:"about" help:"Show help for a command."`
}

// about heads `verge --help`.
const about = `Verge verifies ages and identity documents on behalf of publishers.

Start here:

    verge dev                                 # then open the address that it prints
    verge help dev                            # help for a command

On a server:

    verge init --group verge                  # creates the files in /etc/verge
    verge serve --config /etc/verge/verge.toml --check
    verge method check bankid --config /etc/verge/verge.toml
    verge serve --config /etc/verge/verge.toml

Operators' commands call a running server's admin listener. In the directory of a
running "verge dev" they find it; for any other server, set VERGE_ADMIN_URL and
VERGE_OPERATOR_TOKEN. "verge help publisher" lists the commands of "publisher".

For shell completion, see "verge help completion".

Exit codes: 0 success, 1 failure, 2 invalid command line or configuration.`

var groups = []kong.Group{
	{Key: "run", Title: "Run:"},
	{Key: "operate", Title: "Operate a running server:"},
	{Key: "develop", Title: "Write a receiver:"},
	{Key: "files", Title: "Work with files, without a server:"},
	{Key: "stores", Title: "Check and back up a store:"},
	{Key: "methods", Title: "Set up methods:"},
	{Key: "about", Title: "About:"},
	{Key: "server", Title: "Which server:"},
	{Key: "over", Title: "Over the file:"},
}

// execute parses args and runs the command they name.
func execute(ctx context.Context, args []string, p *program) error {
	parser, helped, err := newParser(ctx, p)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case len(args) == 1 && args[0] == "--version": // a global flag would hide the flag of `module sign`
		args = []string{"version"}
	}
	command, err := parser.Parse(args)
	if *helped {
		return nil
	}
	if err != nil {
		return usageError{explain(parser.Model, err)}
	}
	if err := checkEmpty(command, args); err != nil {
		return err
	}
	return command.Run()
}

// newParser returns the parser, and a variable that says after parsing whether it printed help.
func newParser(ctx context.Context, p *program) (*kong.Kong, *bool, error) {
	helped := new(bool)
	parser, err := kong.New(new(cli), listFlag, objectFlag,
		kong.Name("verge"),
		kong.Description(about),
		kong.ConfigureHelp(kong.HelpOptions{
			Compact: true,
			// "verge --help" lists the commands by group, and "verge help COMMAND" the commands below one.
			NoExpandSubcommands: true,
			FlagsLast:           true,
			WrapUpperBound:      100,
			NoAppDescFormat:     true,
		}),
		kong.ExplicitGroups(groups),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { *helped = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
	)
	return parser, helped, err
}

// clears are the flags whose empty value clears a setting. They are pointers; a flag of the same name that is
// not has a default. In addition, an empty --after begins a list.
var clears = []string{"accent", "logo", "webhook-url", "alert-url", "callback-origins", "browser-origins",
	"redirect-uris"}

// checkEmpty returns a usage error if a flag or argument was given with an empty value, as by a variable of a
// script that is not set. Commands would treat it as omitted: as all publishers, or as the default. Lists of
// arguments may have empty words.
func checkEmpty(c *kong.Context, args []string) error {
	for _, given := range c.Path {
		var name, assigned string
		var value *kong.Value
		switch {
		case given.Flag != nil:
			name, value = "--"+given.Flag.Name, given.Flag.Value
			if value.Name == "after" ||
				value.Target.Kind() == reflect.Pointer && slices.Contains(clears, value.Name) {
				continue
			}
			assigned = name + "="
		case given.Positional != nil && !given.Positional.IsSlice():
			name, value = "<"+given.Positional.Name+">", given.Positional
		default:
			continue
		}
		// The parsed value would not do: an empty path is parsed as the working directory.
		word := args[len(args)-len(given.Remainder())-1]
		if word != "" && word != assigned {
			continue
		}
		instead := "give a value"
		if !value.Required {
			instead += ", or omit it"
		}
		return usagef("%s is empty: %s; run `%s --help`", name, instead, c.Selected().FullPath())
	}
	return nil
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, for example: integration test."`
}

func (c *helpCmd) Run(ctx context.Context, p *program) error {
	return execute(ctx, append(c.Command, "--help"), p)
}

// explain returns the error for a mistyped flag or command. It suggests a similar name, or another command
// with that name. All other errors keep the parser's text.
func explain(app *kong.Application, err error) error {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return err
	}
	at, word := stoppedAt(app, parse.Context)
	said := []string{noValue.ReplaceAllString(err.Error(), "$1: its value is missing")}
	if hints := missing(parse.Context, err.Error()); hints != nil {
		said = append(said, hints...)
	}
	switch {
	case word == "":
	case strings.HasPrefix(word, "-"):
		said = append([]string{"unknown flag " + word}, flagsLike(app, parse.Context, word)...)
	default:
		said = append([]string{"unexpected argument " + word}, commandsLike(app, at, word)...)
	}
	return errors.New(strings.Join(append(said, "run `"+at.FullPath()+" --help`"), "; "))
}

// noValue matches the error of the parser for a flag at the end of the line that lacks its value.
var noValue = regexp.MustCompile(`^(--[\w-]+): expected .* value but got "EOL" .*$`)

// missing returns the descriptions of the flags or arguments that an error calls missing.
func missing(c *kong.Context, text string) (hints []string) {
	if selected := c.Selected(); selected != nil && strings.HasPrefix(text, "expected ") {
		for _, argument := range selected.Positional {
			if argument.Help != "" && strings.Contains(text, `"<`+argument.Name+`>`) {
				hints = append(hints, "<"+argument.Name+">: "+strings.TrimSuffix(argument.Help, "."))
			}
		}
		return hints
	}
	names, found := strings.CutPrefix(text, "missing flags: ")
	if !found {
		return nil
	}
	for name := range strings.SplitSeq(names, ", ") {
		name, _, _ = strings.Cut(name, "=")
		for _, flag := range c.Flags() {
			if "--"+flag.Name == name {
				hints = append(hints, name+": "+strings.TrimSuffix(flag.Help, "."))
			}
		}
	}
	return hints
}

// stoppedAt returns the command that the parser had reached, and the flag or argument that this
// command does not have. The word is "" for other errors.
func stoppedAt(app *kong.Application, c *kong.Context) (at *kong.Node, word string) {
	at = app.Node
	var rest []string
	taken := 0 // of the command's own arguments
	for _, p := range c.Path {
		if node := p.Node(); node != nil {
			at, taken = node, 0
		}
		if p.Positional != nil {
			taken++
		}
		rest = p.Remainder()
	}
	if len(rest) == 0 {
		return at, ""
	}
	word, _, _ = strings.Cut(rest[0], "=")
	if !strings.HasPrefix(word, "-") {
		if taken < len(at.Positional) {
			return at, "" // the command has this argument, but its value is wrong
		}
		return at, rest[0]
	}
	for _, flag := range c.Flags() {
		if word == "--"+flag.Name || flag.Short != 0 && word == "-"+string(flag.Short) {
			return at, "" // the command has this flag, but its value is wrong
		}
	}
	return at, word
}

// mostHints is the maximum number of other commands with a flag that an error lists. A flag that more
// commands have, such as --json, does not show which command was meant.
const mostHints = 3

// flagsLike suggests flags with a similar name, or else the few commands that have this flag.
func flagsLike(app *kong.Application, c *kong.Context, word string) (hints []string) {
	name := strings.TrimLeft(word, "-")
	var meant []string
	for _, flag := range c.Flags() {
		if near(flag.Name, name) || akin(flag.Name, name) ||
			len(flag.Name) > 3 && strings.HasPrefix(name, flag.Name) {
			meant = append(meant, "--"+flag.Name)
		}
	}
	if meant != nil {
		return didYouMean(meant)
	}
	for _, leaf := range app.Leaves(true) {
		for _, flag := range leaf.Flags {
			if flag.Name == name {
				hints = append(hints, "`"+leaf.FullPath()+"` has "+word)
			}
		}
	}
	if len(hints) > mostHints {
		return nil
	}
	return hints
}

// commandsLike suggests commands below at with a similar name, or else commands of other groups
// that have this name.
func commandsLike(app *kong.Application, at *kong.Node, word string) (hints []string) {
	var meant []string
	for _, child := range at.Children {
		if !child.Hidden && near(child.Name, word) {
			meant = append(meant, "`"+child.FullPath()+"`")
		}
	}
	if meant != nil {
		return didYouMean(meant)
	}
	for _, leaf := range app.Leaves(true) {
		if leaf.Name == word {
			meant = append(meant, "`"+leaf.FullPath()+"`")
		}
	}
	return didYouMean(meant)
}

// didYouMean returns a suggestion of these names, or nil without names.
func didYouMean(these []string) []string {
	if len(these) == 0 {
		return nil
	}
	return []string{"did you mean " + strings.Join(these, " or ") + "?"}
}

// akin reports whether one name is the last part of the other, as key is of module-key.
func akin(a, b string) bool {
	return strings.HasSuffix(a, "-"+b) || strings.HasSuffix(b, "-"+a)
}

// near reports whether name begins with typed, or differs from it by at most two characters.
func near(name, typed string) bool {
	return strings.HasPrefix(name, typed) || words.Distance(name, typed) <= 2
}
