package config

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"

	"github.com/verge-id/verge/cmd/verge/internal/words"
)

// notation explains why a file is not TOML. why is the parser's reason, and the column counts bytes. The
// parser names a single byte of a character such as a quotation mark that was copied from a web page.
func notation(why string, b []byte, line, column int) string {
	lines := bytes.Split(b, []byte("\n"))
	text := string(lines[min(max(line, 1), len(lines))-1])
	rest := text[min(max(column, 1)-1, len(text)):]
	if strings.HasSuffix(strings.TrimRight(text[:len(text)-len(rest)], " \t"), "=") {
		rest = strings.TrimLeft(rest, " \t")
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch {
	case size == 0:
		return why
	case r == utf8.RuneError:
		return why + "; save the file as UTF-8"
	case unicode.In(r, unicode.Pi, unicode.Pf) || r == '„' || r == '‚':
		return fmt.Sprintf(`%c is a typographic quotation mark; write " instead`, r)
	case r > unicode.MaxASCII:
		return fmt.Sprintf("the character U+%04X is allowed in quotes and comments only; "+
			"replace or delete it", r)
	case strings.HasPrefix(why, "invalid escape"):
		return why + `; write \\ for each \, or use single quotes, such as 'C:\verge'`
	case strings.HasPrefix(why, "unexpected character") || strings.HasPrefix(why, "expected keyword"):
		return why + `; a text needs quotes, such as mode = "test"; true and false have none`
	}
	return why
}

// meant returns advice for an unknown setting: the setting that has almost the same name, or the place of a
// setting that belongs above the tables. It returns "" if there is neither.
func meant(of reflect.Type, key toml.Key) string {
	top := tableOf(of)
	t := top
	for _, name := range key[:len(key)-1] {
		field, ok := fieldOf(t, name)
		if !ok {
			return ""
		}
		if t = tableOf(field.Type); t.Kind() != reflect.Struct {
			return ""
		}
	}
	last := key[len(key)-1]
	if field, ok := fieldOf(top, last); ok && t != top {
		if tableOf(field.Type).Kind() == reflect.Struct {
			return fmt.Sprintf("; begin the table with a line [%s]", last)
		}
		return fmt.Sprintf("; write %s above the first line that begins with [", last)
	}
	for _, name := range settingsOf(t) {
		if words.Distance(name, strings.ToLower(last)) <= 2 {
			return fmt.Sprintf("; did you mean %s?", name)
		}
	}
	return ""
}

// tableOf returns the type of a table, of a list of tables or of a pointer to one.
func tableOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// settingsOf returns the names of the settings in a table.
func settingsOf(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("toml"); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
