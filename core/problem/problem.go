// Package problem lists the errors of a configuration.
//
// A package with a Config checks it in a method Validate, which returns a List of all errors. Each Problem
// names the field with the wrong value. Code that has read the configuration from a file, where the field has
// another name, replaces the name with Rename.
package problem

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong.
type Problem struct {
	Member string // the field with the wrong value, such as BaseURL or Limits.PublicPerIP
	Text   string // the error and its fix
}

func (p Problem) Error() string { return p.Member + ": " + p.Text }

// List has all errors; it is nil without errors. Use Err to return a List as an error.
type List []Problem

// Add adds one problem.
func (l *List) Add(member, format string, args ...any) {
	*l = append(*l, Problem{member, fmt.Sprintf(format, args...)})
}

// AddError adds err, which may be nil, as a problem of the member.
func (l *List) AddError(member string, err error) {
	if err != nil {
		l.Add(member, "%v", err)
	}
}

// AddWithin adds the problems of a part of a configuration; prefix, such as "Limits.", is added before their
// names.
func (l *List) AddWithin(prefix string, part List) {
	for _, p := range part {
		*l = append(*l, Problem{prefix + p.Member, p.Text})
	}
}

// Has reports whether a problem is about the member or one that contains it: integrations.0 contains
// integrations.0.name.
func (l List) Has(member string) bool {
	return slices.ContainsFunc(l, func(p Problem) bool { return strings.HasPrefix(member+".", p.Member+".") })
}

// Rename returns the same problems with other names of members. A member that
// names does not have keeps its name.
func (l List) Rename(names map[string]string) List {
	var renamed List
	for _, p := range l {
		if name, ok := names[p.Member]; ok {
			p.Member = name
		}
		renamed = append(renamed, p)
	}
	return renamed
}

// Error has one problem a line.
func (l List) Error() string {
	lines := make([]string, len(l))
	for n, p := range l {
		lines[n] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns the list as an error: nil if nothing is wrong.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}
