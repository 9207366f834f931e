package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/spf13/afero"
)

type manCmd struct {
	Dir string `arg:"" type:"path" help:"Directory for the pages. It is created if it is missing."`
}

// Help is shown by `verge man --help`.
func (manCmd) Help() string {
	return `Writes a manual page for each command: verge.1, verge-serve.1, verge-kv-backup.1 and
so on. They have the same text as "verge help".

Example:

    verge man /usr/local/share/man/man1`
}

func (c *manCmd) Run(ctx context.Context, p *program) error {
	parser, _, err := newParser(ctx, p)
	if err != nil {
		return err
	}
	if err := p.FS.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	pages := manPages(parser.Model, thisBuild().Version)
	for name, text := range pages {
		if err := afero.WriteFile(p.FS, filepath.Join(c.Dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(p.stdout, "Wrote %d pages to %s.\n", len(pages), c.Dir)
	return nil
}

// manPages returns the pages of all commands by their files' names. They have no date, so that a release can
// be built again with the same bytes.
func manPages(app *kong.Application, version string) map[string]string {
	pages := map[string]string{}
	leaves := app.Leaves(true)
	m := new(manual)
	m.head("verge", version, "user verification that you host yourself")
	m.section("SYNOPSIS")
	m.line(".B verge")
	m.words("COMMAND [ARGUMENTS] [FLAGS]")
	m.section("DESCRIPTION")
	m.text(app.Help)
	m.section("COMMANDS")
	for _, leaf := range leaves {
		m.item(strings.TrimPrefix(commandOf(leaf), "verge "), leaf.Help+" See "+pageOf(leaf)+"(1).")
	}
	pages["verge.1"] = m.String()
	for _, leaf := range leaves {
		pages[pageOf(leaf)+".1"] = commandPage(leaf, version)
	}
	return pages
}

func commandPage(leaf *kong.Node, version string) string {
	m := new(manual)
	m.head(pageOf(leaf), version, strings.TrimSuffix(leaf.Help, "."))
	m.section("SYNOPSIS")
	m.line(".B " + escape(commandOf(leaf)))
	for _, arg := range leaf.Positional {
		m.words(arg.Summary())
	}
	m.words("[FLAGS]")
	m.section("DESCRIPTION")
	if leaf.Detail == "" {
		m.text(leaf.Help)
	}
	m.text(leaf.Detail)
	if len(leaf.Positional) > 0 {
		m.section("ARGUMENTS")
		for _, arg := range leaf.Positional {
			m.item(arg.Summary(), arg.Help+variablesOf(arg.Tag))
		}
	}
	m.section("FLAGS")
	for _, group := range leaf.AllFlags(true) {
		for _, flag := range group {
			m.item(flag.String(), flag.Help+variablesOf(flag.Tag))
		}
	}
	m.section("EXIT STATUS")
	m.text("0: success. 1: failure. 2: invalid command line or configuration.")
	m.section("SEE ALSO")
	m.words("verge(1)")
	return m.String()
}

// commandOf returns the name of a command, without its arguments.
func commandOf(leaf *kong.Node) string { return strings.TrimSpace(commandName(leaf)) }

func commandName(n *kong.Node) string {
	if n.Parent == nil {
		return n.Name
	}
	return commandName(n.Parent) + " " + n.Name
}

func pageOf(leaf *kong.Node) string { return strings.ReplaceAll(commandOf(leaf), " ", "-") }

func variablesOf(tag *kong.Tag) string {
	if len(tag.Envs) == 0 {
		return ""
	}
	return " Variable: " + strings.Join(tag.Envs, ", ") + "."
}

// manual is a page in the format of man(7).
type manual struct{ strings.Builder }

func (m *manual) line(s string) { m.WriteString(s + "\n") }

func (m *manual) words(s string) { m.line(escape(s)) }

func (m *manual) head(name, version, does string) {
	m.line(`.TH "` + escape(strings.ToUpper(name)) + `" 1 "" "verge ` + escape(version) + `"`)
	m.section("NAME")
	m.words(name + " - " + does)
}

func (m *manual) section(name string) { m.line(".SH " + name) }

func (m *manual) item(name, text string) {
	m.line(".TP")
	m.line(".B " + escape(name))
	m.words(text)
}

// text writes paragraphs. Indented lines are examples and stay unchanged.
func (m *manual) text(s string) {
	example := false
	for line := range strings.SplitSeq(strings.TrimSpace(s), "\n") {
		indented := strings.HasPrefix(line, "    ")
		switch {
		case indented && !example:
			m.line(".PP\n.nf")
		case !indented && example && line != "":
			m.line(".fi\n.PP")
		case line == "" && !example:
			m.line(".PP")
		}
		if line != "" {
			example = indented
			m.words(line)
		}
	}
	if example {
		m.line(".fi")
	}
}

// escape keeps roff from reading text as commands: a backslash, a hyphen that it may break at or print as
// another character, and a dot or an apostrophe that begins a line.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
