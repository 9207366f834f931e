package config

import (
	"fmt"
	"slices"
)

// ReadMethods returns the plan of `verge dev`: mode dev, with the methods of a developer's file. Without a
// path it has no methods. The file must not use a name in taken.
func ReadMethods(sys *System, path string, taken []string) (Plan, error) {
	var pl Plan
	pl.Core.Dev, pl.Egress.Dev = true, true
	var ps problems
	if path == "" {
		checkVariables(sys, nil, &ps)
		return pl, ps.err("the environment")
	}
	var file struct {
		Methods []map[string]any `toml:"methods"`
	}
	const others = " here; the file has only methods, each under a line [[methods]]"
	if _, err := readTOML(sys.FS, path, &file, others, &ps); err != nil {
		return pl, fmt.Errorf("--methods: %w", err)
	}
	if len(file.Methods) == 0 {
		ps.add("the file has no methods; each begins with a line [[methods]]")
	}
	conf := File{Methods: file.Methods}
	checkVariables(sys, conf.variables(), &ps)
	conf.checkMethods(sys, &pl, &ps)
	for _, m := range pl.Core.Methods {
		if slices.Contains(taken, m.Name) {
			ps.add("methods.%s: `verge dev` already has a method of that name; choose another name", m.Name)
		}
	}
	_, wrong := pl.Core.Catalog()
	ps.take(wrong, nil)
	return pl, ps.err("--methods " + path)
}
