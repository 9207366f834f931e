package cli

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The scripts are our own, because they only call `verge complete`: the parser's model already has all
// completions, so a library would only add dependencies.
//
//go:embed completion
var completions embed.FS

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Your shell: ${enum}."`
}

// Help is shown by `verge completion --help`.
func (completionCmd) Help() string {
	return `Prints a script that makes the shell complete commands, flags and their values.

    bash    put into ~/.bashrc:   source <(verge completion bash)
    zsh     put into ~/.zshrc, below compinit:   source <(verge completion zsh)
    fish    verge completion fish > ~/.config/fish/completions/verge.fish`
}

func (c *completionCmd) Run(p *program) error {
	script, err := completions.ReadFile("completion/verge." + c.Shell)
	if err == nil {
		_, err = p.stdout.Write(script)
	}
	return err
}

// completeCmd is the command that the scripts call.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words after verge, up to the one to complete, which may be empty."`
}

func (c *completeCmd) Run(ctx context.Context, p *program) error {
	parser, _, err := newParser(ctx, p)
	if err != nil {
		return err
	}
	for _, found := range complete(parser.Model, c.Words) {
		fmt.Fprintf(p.stdout, "%s\t%s\n", found.word, found.help)
	}
	return nil
}

// completion is a possible word, and its description.
type completion struct{ word, help string }

// complete returns the completions of the last word, in the order of names. Without completions, the shell
// completes file names.
func complete(app *kong.Application, words []string) []completion {
	if len(words) == 0 {
		words = []string{""}
	}
	if len(words) > 1 && words[0] == "help" {
		words = words[1:] // its arguments are a command
	}
	node, taken := app.Node, 0
	var asked *kong.Flag // whose value comes next
	for _, word := range words[:len(words)-1] {
		switch child := childOf(node, word); {
		case word == "=": // bash makes a word of it
		case asked != nil:
			asked = nil
		case strings.HasPrefix(word, "-"):
			if name, _, whole := strings.Cut(word, "="); !whole {
				asked = flagOf(node, name)
			}
		case child != nil:
			node, taken = child, 0
		default:
			taken++
		}
	}
	last := strings.TrimPrefix(words[len(words)-1], "=")
	var all []completion
	name, value, whole := strings.Cut(last, "=")
	switch {
	case asked != nil:
		all = choices(asked.Value)
	case whole && strings.HasPrefix(name, "-"):
		if flag := flagOf(node, name); flag != nil {
			last = value
			all = choices(flag.Value)
		}
	case strings.HasPrefix(last, "-"):
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				all = append(all, completion{"--" + flag.Name, flag.Help})
			}
		}
	case len(node.Children) > 0:
		for _, child := range node.Children {
			if !child.Hidden {
				all = append(all, completion{child.Name, child.Help})
			}
		}
	case taken < len(node.Positional):
		all = choices(node.Positional[taken])
	}
	all = slices.DeleteFunc(all, func(c completion) bool { return !strings.HasPrefix(c.word, last) })
	slices.SortFunc(all, func(a, b completion) int { return strings.Compare(a.word, b.word) })
	return all
}

// choices are the values that something can have, if there are only a few.
func choices(v *kong.Value) (all []completion) {
	for _, word := range v.EnumSlice() {
		if word != "" {
			all = append(all, completion{word, ""})
		}
	}
	return all
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// flagOf returns the flag of a command whose value is the next word, or nil.
func flagOf(node *kong.Node, written string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if written == "--"+flag.Name || flag.Short != 0 && written == "-"+string(flag.Short) {
				if flag.IsBool() {
					return nil
				}
				return flag
			}
		}
	}
	return nil
}
