package brand

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the maximum number of characters of the name of a publisher, an integration or a person.
const MaxName = 100

// NameProblem returns the fault of a name in a configuration, or "". The empty text is none, and valid.
func NameProblem(name string) string {
	switch n := utf8.RuneCountInString(name); {
	case name == "":
		return ""
	case name != strings.TrimSpace(name):
		return "name has space at its ends"
	case !utf8.ValidString(name) || strings.ContainsFunc(name, Unprintable):
		return "name has characters that cannot be seen; " +
			"write it on one line, in letters, digits, spaces and signs"
	case n > MaxName:
		return fmt.Sprintf("name has %d characters; at most %d are allowed", n, MaxName)
	}
	return ""
}

// Unprintable reports whether a character is not allowed in a name: line breaks and invisible characters,
// such as those that change the direction of the text. The two joiners that some scripts need inside a word
// are allowed.
func Unprintable(r rune) bool { return !unicode.IsGraphic(r) && r != '\u200c' && r != '\u200d' }
