package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// door is the package that the tests below look for code in.
var door = map[string]string{
	"door/door.go": `package door

import "time"

const patience = 3 * time.Second

type Door struct {
	open bool
	log  []string
}

// Enter lets a visitor in, unless the door is shut.
func (d *Door) Enter(visitor string) bool {
	if !d.open { // no entry
		return false
	}
	d.log = append(d.log,
		visitor,
	)
	return true
}

func (d *Door) Leave(visitor string) bool {
	if !d.open {
		return false
	}
	d.log = append(d.log, "-"+visitor)
	return true
}

func (d *Door) Say(visitor string) string { return greet(d.log, "hello "+visitor) }

var rooms = []string{"hall", "attic"}
`,
	"door/bell.lua":     "-- call('SET', 1)\nlocal n = call('SET', -- twice\n\t2)\nreturn n\n",
	"door/door_test.go": "package door\n\nconst tested = 3 * time.Second\n",
}

// apply puts a mutant into a tree of these files. It returns the file that is
// changed, on one line.
func apply(t *testing.T, files map[string]string, m mutant) (string, error) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file, mutated, err := newTree(root).apply(m)
	if err != nil {
		return "", err
	}
	if _, ok := files[file]; !ok {
		t.Errorf("%s is changed, which is no file of the tree", file)
	}
	return strings.Join(strings.Fields(string(mutated)), " "), nil
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name        string
		of, old, to string
		want        string // is in the file then
	}{
		{"a whole statement", "", `d.log = append(d.log, "-"+visitor)`, `_ = visitor`,
			`return false } _ = visitor return true`},
		{"part of an expression", "", `3 * time`, `4 * time`, "const patience = 4 * time.Second"},
		{"space, a line's end and the comma of a list do not count", "",
			"d.log=append( d.log, visitor )", `_ = visitor`, "} _ = visitor return true"},
		{"comments do not count", "Door.Enter", "if !d.open { return false }", "",
			"Enter(visitor string) bool { d.log"},
		{"of tells two places apart", "Door.Leave", "!d.open", "false",
			`Leave(visitor string) bool { if false {`},
		{"a hole stands for code, and for the same code in new", "", `greet($what)`, `shout($what)`,
			`return shout(d.log, "hello "+visitor)`},
		{"a hole ends with the brackets around it", "Door.Enter", `if !d.open {$refuse}`, `{$refuse}`,
			`bool { {return false} d.log`},
		{"a hole may be empty", "", `patience = $none 3`, `patience = $none 5`, `patience = 5 *`},
		{"two holes of a name stand for the same code", "", `} $log = append($log, "-"`, `} $log = join($log, "-"`,
			`} d.log = join(d.log, "-"+visitor)`},
		{"what is deleted from a list takes its comma along", "", `"hall"`, ``, `rooms = []string{ "attic"}`},
		{"a local variable may have another name", "",
			`self.log = append(self.log, "-"+guest)`, `drop(self, guest)`, `} drop(d, visitor) return true`},
		{"other languages", "", `call('SET', 2)`, `call('GET', 2)`, `local n = call('GET', 2) return n`},
		{"the file is the declaration in other languages", "bell.lua", `return n`, `return 0`, `return 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := apply(t, door, mutant{pkg: "door", of: c.of, old: c.old, new: c.to})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant it to have %s", got, c.want)
			}
		})
	}
}

// The code is still found after a developer has moved it or renamed its variables.
func TestApplyAfterAChange(t *testing.T) {
	m := mutant{pkg: "door", old: `d.log = append(d.log, "-"+visitor)`, new: `forget(d, visitor)`}
	for _, c := range []struct {
		name string
		from string
		to   string
		want string
	}{
		{"the variables have other names", `func (d *Door) Leave(visitor string) bool {
	if !d.open {
		return false
	}
	d.log = append(d.log, "-"+visitor)`, `func (door *Door) Leave(guest string) bool {
	if !door.open {
		return false
	}
	door.log = append(door.log, "-"+guest)`, "forget(door, guest) return true"},
		{"the function has another name", "Leave(visitor", "GoAway(visitor",
			"forget(d, visitor) return true"},
		{"the line is wrapped", `append(d.log, "-"+visitor)`, "append(\n\t\td.log,\n\t\t\"-\"+visitor,\n\t)",
			"forget(d, visitor) return true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(door["door/door.go"], c.from, c.to, 1)
			if changed == door["door/door.go"] {
				t.Fatal("the mutant does not change the code")
			}
			got, err := apply(t, map[string]string{"door/elsewhere.go": changed}, m)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant it to have %s", got, c.want)
			}
		})
	}
}

// These are the messages for a developer after whose change an entry of the table no longer fits.
func TestApplyRejects(t *testing.T) {
	for _, c := range []struct {
		name string
		m    mutant
		want []string
	}{
		{"code that occurs twice", mutant{pkg: "door", old: "!d.open"},
			[]string{"2 times", "door.go:14 in Door.Enter", "door.go:24 in Door.Leave",
				"declaration that is meant"}},
		{"code that has changed", mutant{pkg: "door", old: `append(d.log, "-"+visitor+"!")`},
			[]string{"the nearest is door/door.go:27 in Door.Leave", `begin with  append(d.log, "-"+visitor`,
				"the code has ) return true", `the table has +"!")`}},
		{"a field of another name", mutant{pkg: "door", old: `d.book = append(d.book, "-"+visitor)`},
			[]string{"then the code has open { return false", "the table has book = append(d.book"}},
		{"too little code, if its variables have other names", mutant{pkg: "door", old: `"-"+guest`},
			[]string{"door/door.go:27 in Door.Leave", "but for the names of variables"}},
		{"code that is gone", mutant{pkg: "door", old: "shut(d)"},
			[]string{`no code of door begins like old, with "shut(d)"`, "if it was removed"}},
		{"code of a test", mutant{pkg: "door", old: "tested"}, []string{"no code of door begins like old"}},
		{"code in another declaration than of", mutant{pkg: "door", of: "Door.Say", old: "!d.open"},
			[]string{"no code of Door.Say of door begins like old"}},
		{"a declaration that is gone", mutant{pkg: "door", of: "Door.Exit", old: "!d.open"},
			[]string{"door declares no Door.Exit", "if it was renamed"}},
		{"a package that is gone", mutant{pkg: "gate", old: "!d.open"},
			[]string{"there is no package gate", "if it was moved"}},
		{"a hole at the beginning, which may begin anywhere", mutant{pkg: "door", old: "$log = append($log"},
			[]string{"old begins with a hole"}},
		{"no code at all", mutant{pkg: "door", old: " // nothing\n"}, []string{"old is empty"}},
		{"a hole in new alone", mutant{pkg: "door", old: "patience", new: "$patience"},
			[]string{"new has $patience, and old has not"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := apply(t, door, c.m)
			if err == nil {
				t.Fatal("the mutant was applied, want an error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}
