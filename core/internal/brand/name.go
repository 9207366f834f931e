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
		return "name has characters that cannot be seen or that cover other text; " +
			"write it on one line, in letters, digits, spaces and signs"
	case n > MaxName:
		return fmt.Sprintf("name has %d characters; at most %d are allowed", n, MaxName)
	}
	return ""
}

// maxMarks is the maximum number of accents and other marks on one character. Each one is drawn above or
// below the others, so more would cover other lines of a page, such as the host that receives the result.
const maxMarks = 4

// IsPrintable reports whether a name is valid UTF-8 without line breaks and invisible characters, such as
// those that change the direction of the text. A name may have the two joiners that some scripts need inside
// a word, and the selectors that choose the form of a sign, but not these and spaces alone. It has at most 4
// marks on one character.
func IsPrintable(name string) bool {
	forbidden := func(r rune) bool {
		return IsUnseen(r) && r != '\u200c' && r != '\u200d' && !unicode.Is(unicode.Variation_Selector, r)
	}
	seen := func(r rune) bool { return !IsUnseen(r) && !unicode.IsSpace(r) }
	return utf8.ValidString(name) && !strings.ContainsFunc(name, forbidden) && marks(name) <= maxMarks &&
		(name == "" || strings.ContainsFunc(name, seen))
}

// marks returns the largest number of marks on one character.
func marks(name string) int {
	most, n := 0, 0
	for _, r := range name {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me) && !unicode.Is(unicode.Variation_Selector, r):
			n++
		case !IsUnseen(r):
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// IsUnseen reports whether a character is invisible: controls, joiners, selectors, and the fillers
// of some scripts, which Unicode counts as letters or signs. Spaces are not among them.
func IsUnseen(r rune) bool {
	return !unicode.IsGraphic(r) || r == '\u2800' || // braille without a dot
		unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
