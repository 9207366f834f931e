package main

import (
	"context"
	"errors"
	"strings"

	"github.com/alecthomas/kong"
)

// cli is the whole command line. Each command is in a file of its own.
type cli struct {
	Dev     devCmd     `cmd:"" group:"run" help:"Run everything on this machine: service, sandbox, demo shop, webhook inbox."`
	Version versionCmd `cmd:"" group:"about" help:"Say which build this is."`
	Help    helpCmd    `cmd:"" group:"about" help:"Say how a command is used."`
}

// about heads `verge --help`.
const about = `Verge verifies ages and identity documents on behalf of publishers.

Start here:

    verge dev                                 # then click on the address it prints
    verge help dev                            # how any command is used

Exit codes: 0 it worked, 1 it failed, 2 the command line or the configuration is wrong.`

var groups = []kong.Group{
	{Key: "run", Title: "Run:"},
	{Key: "about", Title: "About:"},
}

// execute parses args and runs the command they name.
func execute(ctx context.Context, args []string, p *program) error {
	parser, helped, err := newParser(ctx, p)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	command, err := parser.Parse(args)
	if *helped {
		return nil
	}
	if err != nil {
		return usageError{explain(parser.Model, args, err)}
	}
	return command.Run()
}

// newParser returns the parser and whether it has answered with help.
func newParser(ctx context.Context, p *program) (*kong.Kong, *bool, error) {
	helped := new(bool)
	parser, err := kong.New(new(cli),
		kong.Name("verge"),
		kong.Description(about),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, WrapUpperBound: 100, NoAppDescFormat: true}),
		kong.ExplicitGroups(groups),
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { *helped = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
	)
	return parser, helped, err
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, for example: integration test."`
}

func (c *helpCmd) Run(ctx context.Context, p *program) error {
	return execute(ctx, append(c.Command, "--help"), p)
}

// explain says where a mistyped flag or command belongs when the parser's own
// suggestion, which looks at the place alone where the mistake was made, has
// found nothing: another command's flag, or a command written without its group.
func explain(app *kong.Application, args []string, err error) error {
	var parse *kong.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	text := err.Error()
	if strings.Contains(text, "did you mean") {
		return errors.New(text)
	}
	var hints []string
	switch word, isFlag := mistake(text); {
	case word == "":
	case isFlag:
		for _, leaf := range app.Leaves(true) {
			for _, flag := range leaf.Flags {
				if "--"+flag.Name == word {
					hints = append(hints, "`"+leaf.FullPath()+"` has "+word)
				}
			}
		}
	default:
		for _, leaf := range app.Leaves(true) {
			if leaf.Name == word {
				hints = append(hints, "did you mean `"+leaf.FullPath()+"`?")
			}
		}
	}
	at := "verge"
	if node := parse.Context.Selected(); node != nil {
		at = node.FullPath()
	} else if len(parse.Context.Path) > 0 {
		if last := parse.Context.Path[len(parse.Context.Path)-1]; last.Command != nil {
			at = last.Command.FullPath()
		}
	}
	return errors.New(strings.Join(append([]string{text}, append(hints, "run `"+at+" --help`")...), "; "))
}

// mistake takes the word out of the parser's message.
func mistake(text string) (word string, isFlag bool) {
	if word, ok := strings.CutPrefix(text, "unknown flag "); ok {
		return word, true
	}
	if word, ok := strings.CutPrefix(text, "unexpected argument "); ok {
		return word, false
	}
	return "", false
}
