package method

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/problem"
)

// Entry is a configured method with its kind.
type Entry struct {
	Config
	Of Kind
}

// Reaches reports whether the method can prove a level.
func (e Entry) Reaches(level string) bool { return level <= e.Level }

// Catalog is the methods of a service, in the order of the configuration.
type Catalog []Entry

// NewCatalog puts methods and kinds together, and reports everything that is wrong. The problems name members
// as the configuration file does: methods.bankid.oidc.issuer.
func NewCatalog(kinds []Kind, methods []Config, dev bool) (Catalog, problem.List) {
	var catalog Catalog
	var wrong problem.List
	for _, c := range methods {
		member := "methods." + c.Name
		if !isName(c.Name) {
			wrong.Add("methods", "%q is no name; use 1 to 32 lower case letters, digits and -", c.Name)
			continue
		}
		if _, twice := catalog.Find(c.Name); twice {
			wrong.Add(member, "it is there twice")
			continue
		}
		at := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == c.Kind })
		if at < 0 {
			wrong.Add(member+".kind", "%q is not known; this release has: %s", c.Kind, kindNames(kinds))
			continue
		}
		e := Entry{Config: c, Of: kinds[at]}
		e.Dev = dev
		switch {
		case c.Level == "":
			e.Level = e.Of.Level
		case c.Level != "L1" && c.Level != "L2":
			wrong.Add(member+".level", "%q must be L1 or L2", c.Level)
		case c.Level > e.Of.Level:
			wrong.Add(member+".level", "%s is too high; %s proves at most %s", c.Level, c.Kind, e.Of.Level)
		}
		if len(c.Title) > maxTitle {
			wrong.Add(member+".title", "it has %d bytes; at most %d are allowed", len(c.Title), maxTitle)
		}
		if e.Of.Check != nil {
			wrong.AddWithin(member+"."+c.Kind+".", e.Of.Check(e.Config))
		}
		catalog = append(catalog, e)
	}
	return catalog, wrong
}

// maxTitle is the most bytes of a method's title, which stands on a button.
const maxTitle = 60

func kindNames(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return strings.Join(names, ", ")
}

func isName(s string) bool {
	return len(s) > 0 && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// Find returns the method of that name.
func (c Catalog) Find(name string) (Entry, bool) {
	at := slices.IndexFunc(c, func(e Entry) bool { return e.Name == name })
	if at < 0 {
		return Entry{}, false
	}
	return c[at], true
}

// Names returns the names of all methods.
func (c Catalog) Names() []string {
	names := make([]string, len(c))
	for n, e := range c {
		names[n] = e.Name
	}
	return names
}

// Real reports whether any method verifies somebody.
func (c Catalog) Real() bool {
	return slices.ContainsFunc(c, func(e Entry) bool { return !e.Of.Sandbox })
}

// Opened is a method that can be used.
type Opened struct {
	Entry
	Method
}

// Open opens all methods. They share h, except that each one's requests carry its name.
func (c Catalog) Open(h Host) (map[string]Opened, error) {
	all := make(map[string]Opened, len(c))
	for _, e := range c {
		own := h
		own.Fetch = fetchFor{h.Fetch, e.Name}
		m, err := e.Of.Open(e.Config, own)
		if err != nil {
			return nil, fmt.Errorf("method %s: %w", e.Name, err)
		}
		all[e.Name] = Opened{e, m}
	}
	return all, nil
}

// fetchFor is a Fetcher that says for which method it asks.
type fetchFor struct {
	host.Fetcher
	method string
}

func (f fetchFor) Fetch(ctx context.Context, req host.FetchRequest) (host.FetchResponse, error) {
	req.For = f.method
	return f.Fetcher.Fetch(ctx, req)
}
