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
	case !IsPrintable(name):
		return "name has characters that cannot be seen; " +
			"write it on one line, in letters, digits, spaces and signs"
	case n > MaxName:
		return fmt.Sprintf("name has %d characters; at most %d are allowed", n, MaxName)
	}
	return ""
}

// IsPrintable reports whether a name is valid UTF-8 without line breaks and invisible characters, such as
// those that change the direction of the text. A name may have the two joiners that some scripts need inside
// a word, and the selectors that choose the form of a sign, but not these and spaces alone.
func IsPrintable(name string) bool {
	forbidden := func(r rune) bool {
		return IsUnseen(r) && r != '\u200c' && r != '\u200d' && !unicode.Is(unicode.Variation_Selector, r)
	}
	seen := func(r rune) bool { return !IsUnseen(r) && !unicode.IsSpace(r) }
	return utf8.ValidString(name) && !strings.ContainsFunc(name, forbidden) &&
		(name == "" || strings.ContainsFunc(name, seen))
}

// IsUnseen reports whether a character is invisible: controls, joiners, selectors, and the fillers
// of some scripts, which Unicode counts as letters or signs. Spaces are not among them.
func IsUnseen(r rune) bool {
	return !unicode.IsGraphic(r) || r == '\u2800' || // braille without a dot
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
