package loopopt

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write the optimized functions to testdata/shapes")

// TestModule_Shapes compares the function at 0x10000 of each file with the expected result in the file.
// Labels have names. In the result the names follow the order in which the labels open.
func TestModule_Shapes(t *testing.T) {
	files, err := filepath.Glob("testdata/shapes/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b, err := body(assemble(t, string(a.Files[0].Data)), 1)
			if err != nil {
				t.Fatal(err)
			}
			got := disassemble(t, b[1:])
			if *update {
				a.Files[1].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := string(a.Files[1].Data); got != want {
				t.Errorf("it becomes\n%s\nwant\n%s", got, want)
			}
		})
	}
}

var names = map[string][]byte{
	"unreachable": {opUnreachable}, "nop": {0x01}, "return": {opReturn}, "i32.eqz": {opI32Eqz},
	"local.get": {opLocalGet}, "local.set": {opLocalSet},
	"call": {0x10}, "call_indirect": {opCallIndirect, 0, 0},
	"i32.const": {opI32Const}, "i64.const": {opI64Const},
	"block": {opBlock}, "loop": {opLoop}, "if": {opIf}, "end": {opEnd},
	"br": {opBr}, "br_if": {opBrIf}, "br_table": {opBrTable},
}

// assemble returns the body of a function without locals.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	var code []instr
	open, labels := []label{0}, map[string]label{}
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		words := strings.Fields(line)
		op, known := names[words[0]]
		if !known {
			t.Fatalf("%q", line)
		}
		i := instr{op: op[0], raw: op}
		switch words[0] {
		case "block", "loop", "if":
			i.raw = nil
			i.label = label(len(labels) + 1)
			labels[words[1]] = i.label
			open = append(open, i.label)
		case "end":
			i.label = open[len(open)-1]
			open = open[:len(open)-1]
		case "br", "br_if":
			i.label = labels[words[1]]
		case "br_table":
			for _, w := range words[1:] {
				i.labels = append(i.labels, labels[w])
			}
		case "local.get", "local.set", "call", "i32.const", "i64.const":
			if _, err := fmt.Sscan(words[1], &i.n); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			i.raw = appendUint(slices.Clone(op), uint64(i.n))
			if i.op == opI64Const { // it is signed, and a leading 0 keeps it positive
				last := len(i.raw) - 1
				i.raw[last] |= 0x80
				i.raw = append(i.raw, 0)
			}
		}
		code = append(code, i)
	}
	b, err := encode([]byte{0}, code)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func disassemble(t *testing.T, b []byte) string {
	t.Helper()
	code, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	labels := map[label]string{}
	for _, i := range code {
		for name, op := range names {
			if op[0] == i.op {
				out.WriteString(name)
			}
		}
		switch i.op {
		case opBlock, opLoop, opIf:
			labels[i.label] = string(rune('a' + len(labels)))
			fmt.Fprint(&out, " ", labels[i.label])
		case opBr, opBrIf:
			fmt.Fprint(&out, " ", labels[i.label])
		case opBrTable:
			for _, l := range i.labels {
				fmt.Fprint(&out, " ", labels[l])
			}
		case opLocalGet, opLocalSet, opI32Const, opI64Const, 0x10:
			fmt.Fprint(&out, " ", i.n)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// moduleOf returns a module with a code section and a function table.
func moduleOf(code ...byte) []byte {
	module := []byte("\x00asm\x01\x00\x00\x00\x02\x01\x00\x09\x07\x01\x00\x41\x01\x0b\x01\x00")
	return append(append(module, codeSection, byte(len(code))), code...)
}

func TestModule_Malformed(t *testing.T) {
	huge := "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
	for _, c := range []struct {
		name  string
		in    []byte
		wrong string
	}{
		{"nothing", nil, "not a WebAssembly module"},
		{"another version", []byte("\x00asm\x02\x00\x00\x00"), "not a WebAssembly module"},
		{"a section that ends early", []byte("\x00asm\x01\x00\x00\x00\x0a\x05\x00"), "truncated"},
		{"more functions than are possible", moduleOf([]byte(huge + "\x01\x02\x03")...), "truncated"},
		{"bytes behind the last function", moduleOf(0, 1, 2, 3), "bytes behind the last function"},
		{
			"a table that declares all remaining bytes",
			moduleOf([]byte("\x01\x13\x00\x02\x40\x20\x00\x0e" + huge + "\x0b\x0b")...),
			"truncated",
		},
		{"a branch out of the function", moduleOf(1, 5, 0, opBr, 1, opEnd, opEnd),
			"a branch leaves 2 blocks"},
		{"an end too many", moduleOf(1, 3, 0, opEnd, opEnd), "an end of nothing"},
		{"an end too few", moduleOf(1, 4, 0, opBlock, 0x40, opEnd), "1 blocks are not closed"},
		{"an unknown instruction", moduleOf(1, 3, 0, 0xfe, opEnd), "function 0: unknown instruction 0xfe"},
		{"memory.init", moduleOf(1, 4, 0, 0xfc, 8, opEnd), "unknown instruction 0xfc 8"},
	} {
		if out, err := Module(c.in); err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v (%d bytes), want %q", c.name, err, len(out), c.wrong)
		}
	}
}

// For any bytes the result must be a module or an error. A module that Go did not create must stay
// unchanged.
func FuzzModule(f *testing.F) {
	a, err := txtar.ParseFile("testdata/shapes/call.txtar")
	if err != nil {
		f.Fatal(err)
	}
	body := assemble(f, string(a.Files[0].Data))
	f.Add(moduleOf(append([]byte{1, byte(len(body))}, body...)...))
	f.Add([]byte("\x00asm\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		before := bytes.Clone(in)
		out, err := Module(in)
		if !bytes.Equal(in, before) {
			t.Error("the input was modified")
		}
		if err != nil {
			return
		}
		if again, err := Module(out); err != nil {
			t.Errorf("the result is rejected: %v", err)
		} else if third, err := Module(again); err != nil || len(third) > len(again)+len(again)/2 {
			t.Errorf("it grows each time: %d, %d, %d bytes (%v)", len(out), len(again), len(third), err)
		}
	})
}
