package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

const twoMutants = `# Visitors.

breaks: a visitor enters
  through a shut door
of: Door.Enter
ask: ./door TestEnter|TestLeave
ask: ./door/bell
hang: yes
- if !d.open {
-
- 	return false
- }
+ # no comment

breaks: no visitor leaves: not one
ask: ./door
- d.leave()
`

func TestReadTable(t *testing.T) {
	got, err := readTable(fstest.MapFS{
		"table/door.txt":      {Data: []byte(twoMutants)},
		"table/door/bell.txt": {Data: []byte("breaks: it is silent\nask: ./door/bell\n- ring()\n+ //")},
	})
	want := []mutant{
		{at: "testharness/mutants/table/door/bell.txt:1", breaks: "it is silent", pkg: "door/bell",
			old: "ring()", new: "//", ask: []string{"./door/bell"}},
		{at: "testharness/mutants/table/door.txt:3", breaks: "a visitor enters through a shut door",
			pkg: "door", of: "Door.Enter", old: "if !d.open {\n\n\treturn false\n}", new: "# no comment",
			ask: []string{"./door TestEnter|TestLeave", "./door/bell"}, hang: true},
		{at: "testharness/mutants/table/door.txt:15", breaks: "no visitor leaves: not one", pkg: "door",
			old: "d.leave()", ask: []string{"./door"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestReadTable_WrongName(t *testing.T) {
	_, err := readTable(fstest.MapFS{"table/door.text": {Data: []byte(twoMutants)}})
	if want := "testharness/mutants/table/door.text: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
}

func TestParse_Errors(t *testing.T) {
	const good = "breaks: b\nask: ./door\n- old\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty file", "", "f:1: the file contains no mutant"},
		{"only comments", "# none\n\n", "f:1: the file contains no mutant"},
		{"no breaks", good + "\nask: ./door\n- old\n", "f:5: breaks must be the first field"},
		{"code alone", good + "\n- old\n\n", "f:5: breaks must be the first field"},
		{"no ask", "\nbreaks: b\n- old\n", "f:2: no ask"},
		{"no old", "\nbreaks: b\nask: ./door\n+ new\n", "f:2: no code to change"},
		{"unknown field", "breaks: b\npkg: door\n", `f:2: unknown field "pkg"`},
		{"field without a value", "breaks: b\nof:\n", `f:2: "of:" is no field`},
		{"code without a mark", good + "new\n", "f:4: a field after the code"},
		{"a field twice", "breaks: b\nof: A\nof: B\n", "f:3: of appears twice"},
		{"no empty line before breaks", "breaks: b\nask: ./door\nbreaks: c\n", "f:3: breaks appears twice"},
		{"no empty line after the code", good + good, "f:4: a field after the code"},
		{"old after new", good + "+ new\n- old\n", "f:5: - after +"},
		{"no space before code", "breaks: b\nask: ./door\n-old\n", "f:3: no space between the - and"},
		{"another field continues", "breaks: b\nask: ./door\n  TestEnter\n", "f:3: only breaks can continue"},
		{"a file begins with a continuation", "  b\n", "f:1: only breaks can continue"},
		{"hang without yes", "breaks: b\nhang: no\n", `f:2: hang is "no"; use yes`},
		{"white space at an end", "breaks: b \n", "f:1: white space at the end of the line"},
		{"lines that end with CR LF", "breaks: b\r\n", "f:1: white space at the end of the line"},
	} {
		if _, err := parse("f", "door", c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s…", c.name, err, c.want)
		}
	}
}

// FuzzParse checks that no part of an accepted file is lost: written and read again, it has the same mutants.
func FuzzParse(f *testing.F) {
	f.Add(twoMutants)
	f.Add("breaks: b\nask: ./door\n- old\n-\n+\n+ new\n")
	f.Fuzz(func(t *testing.T, text string) {
		mutants, err := parse("f", "door", text)
		if err != nil {
			return
		}
		var b strings.Builder
		for i := range mutants {
			write(&b, mutants[i])
			mutants[i].at = ""
		}
		again, err := parse("f", "door", b.String())
		for i := range again {
			again[i].at = ""
		}
		if err != nil || !reflect.DeepEqual(again, mutants) {
			t.Errorf("%+v is %+v, %v when read again", mutants, again, err)
		}
	})
}

// write adds the mutant in the format of the table.
func write(b *strings.Builder, m mutant) {
	fmt.Fprintf(b, "breaks: %s\n", m.breaks)
	if m.of != "" {
		fmt.Fprintf(b, "of: %s\n", m.of)
	}
	for _, ask := range m.ask {
		fmt.Fprintf(b, "ask: %s\n", ask)
	}
	if m.hang {
		b.WriteString("hang: yes\n")
	}
	for _, section := range []struct{ mark, code string }{{"-", m.old}, {"+", m.new}} {
		if section.code == "" {
			continue
		}
		for line := range strings.SplitSeq(section.code, "\n") {
			b.WriteString(strings.TrimSuffix(section.mark+" "+line, " ") + "\n")
		}
	}
	b.WriteString("\n")
}
