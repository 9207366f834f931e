package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/web"
)

// printJSON prints the response of the API on one line, with times as in the API.
func printJSON(p *program, v any) error {
	_, err := p.stdout.Write(append(web.JSON(200, v).Body, '\n'))
	return err
}

// show prints v as JSON, or calls print.
func show(p *program, asJSON bool, v any, print func() error) error {
	if asJSON {
		return printJSON(p, v)
	}
	return print()
}

// english is the language of the command line, for texts that have translations.
const english = "en"

// maxCell is the maximum width of a cell. --json has the whole text.
const maxCell = 96

// printTable prints rows under their heads. Each row is one line, on a terminal and in a pipe. Ids are never
// cut, so that other commands and grep can use them.
func printTable(p *program, heads string, rows [][]string) error {
	all := append([][]string{strings.Split(heads, "|")}, rows...)
	widths := make([]int, len(all[0]))
	for _, row := range all {
		for n, cell := range row {
			row[n] = cut(oneLine(cell), maxCell)
			widths[n] = max(widths[n], utf8.RuneCountInString(row[n]))
		}
	}
	var out strings.Builder
	for _, row := range all {
		line := ""
		for n, cell := range row {
			line += cell + strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell)+2)
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(p.stdout, out.String())
	return err
}

// facts are the lines that describe one object. A fact without a value is omitted.
type facts [][2]string

func (f *facts) add(name, value string) {
	if value != "" {
		*f = append(*f, [2]string{name, value})
	}
}

func (f *facts) print(p *program) error {
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, fact := range *f {
		fmt.Fprintf(table, "%s\t%s\n", fact[0], oneLine(fact[1]))
	}
	return table.Flush()
}

// oneLine replaces characters that would move a cursor or begin a cell, because the text comes from other
// people.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}

// cut shortens a text to a number of characters.
func cut(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// whenever is like when, for a time that may be missing.
func whenever(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return words.When(*t)
}

// stateOf returns whether an object is in use, and who manages it, in words.
func stateOf(archived *time.Time, managed, removed bool) string {
	switch {
	case archived != nil:
		return "archived " + words.When(*archived)
	case managed:
		return "in the file"
	case removed:
		return "no longer in the file"
	}
	return "in use"
}
