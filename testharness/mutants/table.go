package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed table
var tableFiles embed.FS

// readTable returns the mutants of the files below table, ordered by path and line. Other files than .txt are
// errors, since a mutant in a misnamed file would never be tried.
func readTable(files fs.FS) ([]mutant, error) {
	var all []mutant
	err := fs.WalkDir(files, "table", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		pkg, ok := strings.CutSuffix(strings.TrimPrefix(name, "table/"), ".txt")
		name = path.Join("testharness/mutants", name)
		if !ok {
			return fmt.Errorf("%s: the name must be that of a package, with .txt", name)
		}
		mutants, err := parse(name, pkg, string(text))
		all = append(all, mutants...)
		return err
	})
	return all, err
}

// parse returns the mutants of one file of the table. Errors begin with file:line.
func parse(file, pkg, text string) ([]mutant, error) {
	var all []mutant
	var e entry
	for i, line := range append(strings.Split(text, "\n"), "") {
		at := fmt.Sprintf("%s:%d", file, i+1)
		var err error
		switch {
		case strings.HasPrefix(line, "#"):
		case line != "":
			if e.at == "" {
				e.at, e.pkg = at, pkg
			}
			err = e.add(line)
		case e.at != "":
			at, err = e.at, e.complete()
			all, e = append(all, e.mutant), entry{}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s:1: the file contains no mutant", file)
	}
	return all, nil
}

// entry is a mutant while its lines are read.
type entry struct {
	mutant
	section byte // '-' or '+' after the first such line
	last    string
}

func (e *entry) add(line string) error {
	if strings.TrimRight(line, " \t\r") != line {
		return errors.New("white space at the end of the line")
	}
	if line[0] == '-' || line[0] == '+' {
		return e.code(line[0], line[1:])
	}
	if e.section != 0 {
		return errors.New("a field after the code; separate mutants with an empty line")
	}
	if more, ok := strings.CutPrefix(line, "  "); ok {
		if e.last != "breaks" {
			return errors.New("only breaks can continue on the next line")
		}
		e.breaks += " " + more
		return nil
	}
	name, value, ok := strings.Cut(line, ": ")
	if !ok {
		return fmt.Errorf(`%q is no field; use "name: value", or - or + and a space before code`, line)
	}
	if e.breaks == "" && name != "breaks" {
		return errors.New("breaks must be the first field of a mutant")
	}
	e.last = name
	return e.set(name, value)
}

func (e *entry) set(name, value string) error {
	twice := false
	switch name {
	case "breaks":
		twice, e.breaks = e.breaks != "", value
	case "of":
		twice, e.of = e.of != "", value
	case "ask":
		e.ask = append(e.ask, value)
	case "hang":
		if value != "yes" {
			return fmt.Errorf("hang is %q; use yes, or omit it", value)
		}
		twice, e.hang = e.hang, true
	default:
		return fmt.Errorf("unknown field %q; use breaks, of, ask or hang", name)
	}
	if twice {
		return fmt.Errorf("%s appears twice; separate mutants with an empty line", name)
	}
	return nil
}

// code adds a line to old or new.
func (e *entry) code(section byte, line string) error {
	switch {
	case section == '-' && e.section == '+':
		return errors.New("- after +; separate mutants with an empty line")
	case line != "" && line[0] != ' ':
		return fmt.Errorf("no space between the %c and the code", section)
	}
	text := &e.old
	if section == '+' {
		text = &e.new
	}
	if section == e.section {
		*text += "\n"
	}
	*text += strings.TrimPrefix(line, " ")
	e.section = section
	return nil
}

// complete returns an error if a part is missing.
func (e *entry) complete() error {
	switch {
	case e.breaks == "":
		return errors.New("breaks must be the first field of a mutant")
	case e.old == "":
		return errors.New("no code to change; write it after a - and a space")
	case len(e.ask) == 0:
		return errors.New("no ask; name the package whose tests fail")
	}
	return nil
}
