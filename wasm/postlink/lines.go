package postlink

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// Go's linker writes a table of the program's functions into the data (pclntab, since Go 1.20). The runtime
// finds names, stack maps and lines there:
//
//	header   magic, pointer size, number of functions, where the parts begin
//	names    of functions, each with a zero behind it
//	files    of each function's package, and their names
//	deltas   one list of (value, address) pairs for each function and kind of value
//	entries  of functions in order of their addresses, and for each function a record
//
// Files and lines are a fifth of a megabyte with gzip. Only the stack of a panic shows them. A record whose
// lists of files and lines are at 0 has none, and the runtime writes "?" and 0 for them.
const (
	magic       = "\xf1\xff\xff\xff\x00\x00\x01\x08" // no padding; instructions of 1 byte, pointers of 8
	headerSize  = 8 + 8*8
	entrySize   = 8
	recordName  = 4 // offsets in a record
	recordSP    = 16
	recordFile  = 20
	recordLine  = 24
	recordMore  = 28 // number of further lists
	recordLists = 44
)

// ours are the prefixes of functions whose lines stay: those that verify users.
var ours = []string{"main.", "github.com/verge-id/verge/"}

// named are parts of names of functions that keep no lines nevertheless: pages, which are generated, the
// dashboard, and readers of settings. Their functions are short enough to be found by their names.
var named = []string{"/pages.", "/core/internal/console.", "/core/admin.", "/core/operate.",
	"/core/internal/member.", "/core/internal/audit.", "/core/internal/usage.", "/core/integration.",
	"/core/internal/troubleshooting.", "/core/internal/templrt.", "/core/language.", "/core/setting.",
	"/core/problem.", "/wasm/settings."}

func keepsLines(name string) bool {
	for _, prefix := range ours {
		if strings.HasPrefix(name, prefix) {
			return !slices.ContainsFunc(named, func(part string) bool { return strings.Contains(name, part) })
		}
	}
	return false
}

// dropLines overwrites, with zeros, the files and lines of functions that are not ours. It does not modify
// a table that it does not recognise.
func dropLines(data []byte) {
	at := bytes.Index(data, []byte(magic))
	if at < 0 || bytes.Contains(data[at+1:], []byte(magic)) {
		return
	}
	t, ok := readTable(data[at:])
	if !ok {
		return
	}
	for _, r := range t.dropped {
		clear(r)
	}
	for _, list := range t.unused() {
		clear(list)
	}
}

// table is dropLines' view of the table of functions.
type table struct {
	deltas  []byte
	kept    map[uint32]bool // offsets of required lists
	lines   map[uint32]bool // offsets of the lists of files and lines that their function does not need
	dropped [][]byte        // the records' references to them
}

func readTable(data []byte) (t table, ok bool) {
	defer func() {
		if recover() != nil { // an offset beyond the data
			t, ok = table{}, false
		}
	}()
	word := func(n int) uint64 { return binary.LittleEndian.Uint64(data[8+8*n:]) }
	count, names, deltas, entries := word(0), word(3), word(6), word(7)
	if count == 0 || names != headerSize || names >= deltas || deltas >= entries {
		return table{}, false
	}
	t = table{deltas: data[deltas:entries], kept: map[uint32]bool{0: true}, lines: map[uint32]bool{}}
	functions := data[entries:]
	last := uint32(0)
	for n := range count {
		entry := functions[n*entrySize:]
		record := functions[binary.LittleEndian.Uint32(entry[4:]):]
		field := func(at uint32) uint32 { return binary.LittleEndian.Uint32(record[at:]) }
		address := binary.LittleEndian.Uint32(entry)
		if field(0) != address || address < last {
			return table{}, false
		}
		last = address
		t.kept[field(recordSP)] = true
		for i := range field(recordMore) {
			t.kept[field(recordLists+4*i)] = true
		}
		name, _, ends := bytes.Cut(data[names+uint64(field(recordName)):deltas], []byte{0})
		if !ends {
			return table{}, false
		}
		if files, lines := field(recordFile), field(recordLine); keepsLines(string(name)) {
			t.kept[files], t.kept[lines] = true, true
		} else {
			t.lines[files], t.lines[lines] = true, true
			t.dropped = append(t.dropped, record[recordFile:recordMore])
		}
	}
	for at := range t.lines {
		if _, ends := t.list(at); !ends {
			return table{}, false
		}
	}
	return t, true
}

// list returns the list of deltas at an offset: pairs of numbers, and a zero.
func (t table) list(at uint32) (list []byte, ends bool) {
	rest := t.deltas[at:]
	for first := true; ; first = false {
		delta, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, false
		}
		rest = rest[n:]
		if delta == 0 && !first {
			return t.deltas[at : len(t.deltas)-len(rest)], true
		}
		_, n = binary.Uvarint(rest)
		if n <= 0 {
			return nil, false
		}
		rest = rest[n:]
	}
}

// unused returns the lists that are not required. Functions share equal lists.
func (t table) unused() [][]byte {
	var all [][]byte
	for at := range t.lines {
		if !t.kept[at] {
			list, _ := t.list(at)
			all = append(all, list)
		}
	}
	return all
}
