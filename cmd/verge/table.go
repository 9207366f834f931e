package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/core/instant"
)

// printJSON prints what the API answered, on one line, with times as the API has them.
func printJSON(p *program, v any) error {
	text, err := instant.JSON(v)
	if err != nil {
		return err
	}
	_, err = p.stdout.Write(append(text, '\n'))
	return err
}

// A table has at most this many columns of text (contract 47).
const tableWidth = 100

// What stands between two cells, and before a line that goes on with a row.
const (
	cellGap   = 2
	rowIndent = 4
)

// printTable prints rows under their heads. A cell never breaks a line. If rows are too long for a line, each
// goes on in a further one, and so do the heads. So ids are whole, and can be given to other commands. Only a
// cell that is too long for a line of its own is cut; --json has it whole.
func printTable(p *program, heads string, rows [][]string) error {
	all := append([][]string{strings.Split(heads, "|")}, rows...)
	for _, row := range all {
		for n, cell := range row {
			row[n] = cut(oneLine(cell), tableWidth-rowIndent)
		}
	}
	widths := make([]int, len(all[0]))
	for _, row := range all {
		for n, cell := range row {
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
		}
	}
	begins := lineBegins(widths)
	var out strings.Builder
	for _, row := range all {
		line := ""
		for n, cell := range row {
			switch {
			case n == 0:
				line = cell
			case begins[n]:
				out.WriteString(strings.TrimRight(line, " ") + "\n")
				line = strings.Repeat(" ", rowIndent) + cell
			default:
				line += strings.Repeat(" ", cellGap) + cell
			}
			line += strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell))
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(p.stdout, out.String())
	return err
}

// lineBegins says which columns begin a line of their row.
func lineBegins(widths []int) []bool {
	begins := make([]bool, len(widths))
	used := 0
	for n, width := range widths {
		switch {
		case n == 0:
			used = width
		case used+cellGap+width > tableWidth:
			begins[n], used = true, rowIndent+width
		default:
			used += cellGap + width
		}
	}
	return begins
}

// facts are the lines that describe one thing. A fact without a value is left out.
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

// oneLine replaces what would move a cursor or begin a cell. Others have written what is printed.
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

// minute is a time to the minute, in UTC, for tables. A nil time is a dash.
func minute(t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// howMany is a number of things in words: 1 problem, 2 problems.
func howMany(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// dash stands for nothing in a table.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// whenever is when for a time that may be missing.
func whenever(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return when(*t)
}

// stateOf says whether a thing is in use, and who may change it.
func stateOf(archived *time.Time, managed, removed bool) string {
	switch {
	case archived != nil:
		return "archived " + archived.UTC().Format(time.DateOnly)
	case managed:
		return "in the file"
	case removed:
		return "no longer in the file"
	}
	return "in use"
}
