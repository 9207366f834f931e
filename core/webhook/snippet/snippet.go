// Package snippet has the check of a webhook's signature in every language that the documentation shows. Each
// needs the standard library of its language alone.
//
// The languages of package mend have it in a whole receiver, and it is taken from there. The others are files
// of this package. Whoever writes Go calls webhook.Verify, and needs none of this.
package snippet

import (
	"embed"

	"github.com/verge-id/verge/core/internal/troubleshooting"
)

// Snippet is the check in one language: a function that returns what is wrong with a request, or nothing.
type Snippet struct {
	ID   string // as in package mend, such as "node"
	Name string // for people
	Code string
}

//go:embed checks
var checks embed.FS

// All returns the snippets, in the order in which they are shown.
func All() []Snippet {
	var all []Snippet
	for _, l := range troubleshooting.Languages() {
		all = append(all, Snippet{ID: l.ID, Name: l.Name, Code: l.Check()})
	}
	for _, s := range []struct{ id, name, file string }{
		{"ruby", "Ruby", "check.rb"}, {"java", "Java", "Check.java"}, {"csharp", "C#", "Check.cs"},
	} {
		code, err := checks.ReadFile("checks/" + s.file)
		if err != nil {
			panic("snippet: there is no check in " + s.name + ": " + err.Error())
		}
		all = append(all, Snippet{ID: s.id, Name: s.name, Code: string(code)})
	}
	return all
}
