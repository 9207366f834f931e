package wasmhost

import (
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

const header = "\x00asm\x01\x00\x00\x00"

// A module must be rejected before memory is reserved for its declared counts. Each of these modules ended
// the process or would use gigabytes.
func TestCheckShape_Limits(t *testing.T) {
	const vast = "\xff\xff\xff\xff\x0f"
	for _, c := range []struct{ name, wasm, says string }{
		{"functions without a body", "\x0a\x05" + vast, "4294967295 of something, with 0 bytes left"},
		{"types", "\x01\x05" + vast, "4294967295 of something"},
		{"a type's parameters", "\x01\x07\x01\x60" + vast, "bytes are wanted"},
		{"imports", "\x02\x05" + vast, "4294967295 of something"},
		{"an import's name", "\x02\x06\x01" + vast, "bytes are wanted"},
		{"an imported table", "\x02\x06\x01\x00\x00\x01\x70\x00", "0x1 where 0x0 is expected"},
		{"functions", "\x03\x05" + vast, "4294967295 of something"},
		{"tables", "\x04\x07\x02\x70\x00\x01\x70\x00\x01", "2 memories or tables"},
		{"a large table", "\x04\x08\x01\x70\x00" + vast, "room for more than 131072 functions"},
		{"a table of anything", "\x04\x04\x01\x6f\x00\x01", "0x6f where 0x70"},
		{"memories", "\x05\x05\x02\x00\x01\x00\x01", "2 memories or tables"},
		{"globals", "\x06\x05" + vast, "4294967295 of something"},
		{"exports", "\x07\x05" + vast, "4294967295 of something"},
		{"an export's name", "\x07\x06\x01" + vast, "bytes are wanted"},
		{"elements", "\x09\x05" + vast, "4294967295 of something"},
		{"an element's functions", "\x09\x0a\x01\x00\x41\x00\x0b" + vast, "4294967295 of something"},
		{"elements of expressions", "\x09\x0a\x01\x04\x41\x00\x0b" + vast, "0x4 where 0x0"},
		{"a function's variables", "\x0a\x0a\x01\x08\x01" + vast + "\x7f\x0b", "more than 50000 variables"},
		{"kinds of variables", "\x0a\x07\x01\x05" + vast, "4294967295 of something"},
		{
			"many groups of variables",
			"\x0a\x10\x01\x0e\x03\xd0\x86\x03\x7f\xd0\x86\x03\x7f\xd0\x86\x03\x7f\x0b",
			"more than 50000 variables",
		},
		{"a function's size", "\x0a\x06\x01" + vast, "bytes are wanted"},
		{"pieces of data", "\x0b\x05" + vast, "4294967295 of something"},
		{"a piece of data", "\x0b\x07\x01\x01" + vast, "bytes are wanted"},
		{"names for a debugger", "\x00\x0c\x04name\x02\x05" + vast, "names for a debugger"},
		{"a custom section's name", "\x00\x05" + vast, "bytes are wanted"},
		{"tags", "\x0d\x05" + vast, "a section 13"},
		{"a section's size", "\x0a" + vast, "bytes are wanted"},
		{"a number without end", "\x0a\x80\x80\x80\x80\x80\x80\x80", "more than 32 bits"},
		{"nothing", "\x0a", "bytes are wanted"},
	} {
		_, err := Compile(t.Context(), []byte(header+c.wasm), CompileConfig{})
		if err == nil {
			t.Errorf("%s: the module was compiled, want %q", c.name, c.says)
			continue
		}
		for _, says := range []string{c.says, "is no WebAssembly that can be run"} {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", c.name, err, says)
			}
		}
	}
	if err := checkShape(testenv.Module(t)); err != nil {
		t.Errorf("the guest that is built from this source: %v", err)
	}
}

// A growing table uses memory that no limit counts.
func TestCheckShape_GrowingTable(t *testing.T) {
	// type () -> (); function; table of 1; code: ref.null func, i32.const 1, table.grow 0, drop
	wasm := header + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x04\x04\x01\x70\x00\x01" +
		"\x0a\x0c\x01\x0a\x00\xd0\x70\x41\x01\xfc\x0f\x00\x1a\x0b"
	_, err := Compile(t.Context(), []byte(wasm), CompileConfig{})
	if err == nil || !strings.Contains(err.Error(), "reference-types") {
		t.Errorf("%v", err)
	}
}

// FuzzShape checks that an accepted module has as many bytes as its counts declare.
func FuzzShape(f *testing.F) {
	f.Add([]byte(header + "\x01\x05\x01\x60\x00\x01\x7f\x03\x02\x01\x00\x07\x05\x01\x01f\x00\x00" +
		"\x0a\x06\x01\x04\x00\x41\x01\x0b"))
	f.Add([]byte(header + "\x09\x07\x01\x00\x41\x00\x0b\x01\x00"))
	f.Add([]byte(header + "\x0b\x07\x01\x00\x41\x00\x0b\x01x"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		m, err := Compile(t.Context(), wasm, CompileConfig{MemoryMax: 1 << 20})
		if err == nil {
			m.Close()
		}
	})
}
