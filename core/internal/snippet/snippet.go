// Package snippet has the checks of a webhook's signatures in every language that the documentation shows.
// Each needs only the standard library of its language.
//
// The check of X-Service-Signature in the languages of package troubleshooting is a part of its receivers.
// The other checks are files of this package. Publishers who write Go call webhook.Verify instead.
package snippet

import (
	"embed"

	"github.com/verge-id/verge/core/internal/troubleshooting"
)

// Snippet has the checks in one language: functions that return the reason to reject a request, or nothing.
type Snippet struct {
	ID       string // as in package troubleshooting, such as "node"
	Name     string // for people
	Code     string // checks X-Service-Signature
	Standard string // checks the headers of Standard Webhooks
}

//go:embed checks
var checks embed.FS

// All returns the snippets, in the order in which they are shown.
func All() []Snippet {
	var all []Snippet
	for _, l := range troubleshooting.Languages() {
		all = append(all, Snippet{ID: l.ID, Name: l.Name, Code: l.Check()})
	}
	all = append(all, Snippet{ID: "ruby", Name: "Ruby", Code: file("check.rb")},
		Snippet{ID: "java", Name: "Java", Code: file("Check.java")},
		Snippet{ID: "csharp", Name: "C#", Code: file("Check.cs")})
	for i, name := range []string{"standard.js", "standard.py", "standard.php", "standard.go.txt",
		"standard.rb", "CheckStandard.java", "CheckStandard.cs"} {
		all[i].Standard = file(name)
	}
	return all
}

func file(name string) string {
	code, err := checks.ReadFile("checks/" + name)
	if err != nil {
		panic("snippet: missing file: " + err.Error())
	}
	return string(code)
}
