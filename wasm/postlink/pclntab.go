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
//	header   magic, pointer size, number of functions, offsets of the parts
//	names    of functions, each with a zero behind it
//	files    of each function's package, and their names
//	deltas   one list of (value, address) pairs for each function and kind of value
//	entries  of functions in order of their addresses, and for each function a record
//
// A record also refers to data outside of the table, by its distance from the address gofunc. The address is
// in the runtime's description of the module (moduledata), which begins with the addresses of the table and
// its parts.
//
// Only the stack of a panic shows files, lines, arguments, and calls of inlined functions. If a record has no
// reference to such data, the runtime writes "?" and 0 for files and lines, no arguments, and only the outer
// function. It leaves out a function without a name. It also reads names of its own functions, of reflect's,
// and of wrappers, so these are kept.
const (
	magic       = "\xf1\xff\xff\xff\x00\x00\x01\x08" // no padding; instructions of 1 byte, pointers of 8
	headerSize  = 8 + 8*8
	entrySize   = 8
	recordName  = 4 // offsets in a record
	recordSP    = 16
	recordFile  = 20
	recordLine  = 24
	recordMore  = 28 // number of further lists
	recordUnit  = 32 // the package's files
	recordStart = 36 // line of the function
	recordKind  = 40 // 1 byte; the runtime gives wrappers and its own functions a kind other than 0
	recordData  = 43 // 1 byte: number of references to data
	recordLists = 44

	listInlined = 2 // index of a further list
	dataInlined = 3 // indexes of references to data
	dataArgs    = 5
	dataLive    = 6
	noData      = 1<<32 - 1
	inlinedSize = 16 // size of the description of an inlined call
	inlinedName = 4

	moduleNames  = 1 // words of the runtime's description of the module
	moduleDeltas = 10
	moduleGofunc = 40
)

// ours are the prefixes of functions that keep their lines: those that verify users.
var ours = []string{"main.", "github.com/verge-id/verge/"}

// named are parts of names of functions that keep no lines nevertheless: pages, which are generated, the
// dashboard, and readers of settings. Their functions are short enough to be found by their names.
var named = []string{"/pages.", "/core/internal/console.", "/core/admin.", "/core/operate.",
	"/core/internal/member.", "/core/internal/audit.", "/core/internal/usage.", "/core/integration.",
	"/core/internal/troubleshooting.", "/core/internal/templrt.", "/core/language.", "/core/setting.",
	"/core/problem.", "/wasm/settings.", "/core/internal/brand.", "/core/internal/report.",
	"/core/internal/finished.", "/core/internal/timeline.", "/core/internal/snippet."}

// read are the prefixes of functions whose names the runtime or package reflect reads.
var read = []string{"runtime.", "reflect.", "internal/reflectlite."}

// keepsName reports whether a function keeps its name. kind is the record's.
func keepsName(name string, kind byte) bool {
	return kind != 0 || slices.ContainsFunc(slices.Concat(ours, read), func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

func keepsLines(name string) bool {
	for _, prefix := range ours {
		if strings.HasPrefix(name, prefix) {
			return !slices.ContainsFunc(named, func(part string) bool { return strings.Contains(name, part) })
		}
	}
	return false
}

// dropTraces overwrites data that only the stack of a panic shows: all arguments, and the files, lines and
// inlined calls of functions that are not ours. It does not modify a table that it does not recognise.
func dropTraces(m memory) {
	at := bytes.Index(m.bytes, []byte(magic))
	if at < 0 || bytes.Contains(m.bytes[at+1:], []byte(magic)) {
		return
	}
	t, ok := readTable(m, at)
	if !ok {
		return
	}
	for _, zeros := range t.zeros {
		clear(zeros)
	}
	for _, reference := range t.references {
		binary.LittleEndian.PutUint32(reference, noData)
	}
	for _, list := range t.unused() {
		clear(list)
	}
	names := t.names[:t.units]
	for at, size := 1, 0; at < len(names); at += size + 1 {
		name, _, _ := bytes.Cut(names[at:], []byte{0})
		if size = len(name); !t.named[uint32(at)] {
			clear(name)
		}
	}
}

// table is the table of functions, and its data that is overwritten.
type table struct {
	names, deltas, functions []byte // names also has the parts with files
	units                    uint64 // offset of the first of these
	gofunc                   []byte // the data after the address gofunc

	kept       map[uint32]bool // offsets of required lists
	dropped    map[uint32]bool // offsets of lists that a function does not need
	named      map[uint32]bool // offsets of names that are kept
	zeros      [][]byte
	references [][]byte // to data
}

func readTable(m memory, at int) (t *table, ok bool) {
	defer func() {
		if recover() != nil { // an offset beyond the data
			t, ok = nil, false
		}
	}()
	data := m.bytes[at:]
	word := func(n int) uint64 { return binary.LittleEndian.Uint64(data[8+8*n:]) }
	count, names, units, deltas, entries := word(0), word(3), word(4), word(6), word(7)
	if count == 0 || names != headerSize || names >= units || units >= deltas || deltas >= entries {
		return nil, false
	}
	gofunc, ok := m.gofunc(uint64(m.from)+uint64(at), names, deltas)
	if !ok {
		return nil, false
	}
	t = &table{
		names:     data[names:deltas],
		units:     units - names,
		deltas:    data[deltas:entries],
		functions: data[entries:],
		gofunc:    gofunc,
		kept:      map[uint32]bool{0: true},
		dropped:   map[uint32]bool{},
		named:     map[uint32]bool{},
	}
	last := uint32(0)
	for n := range count {
		entry := t.functions[n*entrySize:]
		r := record(t.functions[binary.LittleEndian.Uint32(entry[4:]):])
		address := binary.LittleEndian.Uint32(entry)
		if r.field(0) != address || address < last || !t.read(r) {
			return nil, false
		}
		last = address
	}
	for at := range t.dropped {
		if _, ends := t.list(at); !ends {
			return nil, false
		}
	}
	return t, true
}

// gofunc returns the data after the address gofunc, if the description of the module is found: the words
// with the addresses of the table and its parts.
func (m memory) gofunc(table, names, deltas uint64) ([]byte, bool) {
	for at := -m.from & 7; at+8*(moduleGofunc+1) <= int64(len(m.bytes)); at += 8 {
		word := func(n int) uint64 { return binary.LittleEndian.Uint64(m.bytes[at+8*int64(n):]) }
		if word(0) == table && word(moduleNames) == table+names && word(moduleDeltas) == table+deltas {
			start := word(moduleGofunc) - uint64(m.from)
			return m.bytes[min(start, uint64(len(m.bytes))):], true
		}
	}
	return nil, false
}

// record describes a function.
type record []byte

func (r record) field(at uint32) uint32 { return binary.LittleEndian.Uint32(r[at:]) }

// lists returns the references to the further lists, of 4 bytes each.
func (r record) lists() []byte { return r[recordLists : recordLists+4*r.field(recordMore)] }

// data returns the references to data, of 4 bytes each.
func (r record) data() []byte {
	from := recordLists + 4*r.field(recordMore)
	return r[from : from+4*uint32(r[recordData])]
}

// read adds the data of a function's record that is kept and that is overwritten.
func (t *table) read(r record) bool {
	name, _, ends := bytes.Cut(t.names[r.field(recordName):], []byte{0})
	if !ends {
		return false
	}
	if keepsName(string(name), r[recordKind]) {
		t.named[r.field(recordName)] = true
	} else {
		t.zeros = append(t.zeros, r[recordName:recordName+4])
	}
	t.kept[r.field(recordSP)] = true
	keeps := keepsLines(string(name))
	if files, lines := r.field(recordFile), r.field(recordLine); keeps {
		t.kept[files], t.kept[lines] = true, true
	} else {
		t.dropped[files], t.dropped[lines] = true, true
		t.zeros = append(t.zeros, r[recordFile:recordMore], r[recordUnit:recordStart])
	}
	t.zeros = append(t.zeros, r[recordStart:recordKind])
	for _, i := range []int{dataArgs, dataLive} {
		if reference := r.data(); len(reference) >= 4*(i+1) {
			t.references = append(t.references, reference[4*i:4*i+4])
		}
	}
	return t.readInlined(r, keeps)
}

// readInlined adds the calls of inlined functions. recover counts the calls of wrappers, so those are kept.
func (t *table) readInlined(r record, keeps bool) bool {
	lists, data := r.lists(), r.data()
	drop := !keeps && r[recordKind] == 0 && len(lists) > 4*listInlined && len(data) > 4*dataInlined
	for i := 0; i < len(lists); i += 4 {
		if i != 4*listInlined || !drop {
			t.kept[binary.LittleEndian.Uint32(lists[i:])] = true
		}
	}
	if len(lists) <= 4*listInlined || len(data) <= 4*dataInlined {
		return true
	}
	list, reference := lists[4*listInlined:4*listInlined+4], data[4*dataInlined:4*dataInlined+4]
	offset, at := binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(reference)
	if offset == 0 || at == noData {
		return offset == 0 && at == noData
	}
	calls := t.gofunc[at : at+inlinedSize*uint32(t.most(offset)+1)]
	for call := calls; len(call) > 0; call = call[inlinedSize:] {
		at := record(call).field(inlinedName)
		if at == 0 || t.names[at-1] != 0 {
			return false
		}
		name, _, _ := bytes.Cut(t.names[at:], []byte{0})
		switch {
		case drop:
		case keepsName(string(name), call[0]):
			t.named[at] = true
		default:
			t.zeros = append(t.zeros, call[inlinedName:inlinedName+4])
		}
	}
	if !drop {
		return true
	}
	t.dropped[offset] = true
	t.zeros = append(t.zeros, list, calls)
	t.references = append(t.references, reference)
	return true
}

// list returns the list of deltas at an offset: pairs of numbers, and a zero.
func (t *table) list(at uint32) (list []byte, ends bool) {
	size, _, ends := readDeltas(t.deltas[at:])
	return t.deltas[at : int(at)+size], ends
}

// most returns the largest value of a list.
func (t *table) most(at uint32) int64 {
	_, most, _ := readDeltas(t.deltas[at:])
	return most
}

// readDeltas returns the size of the list at the start of b, and its largest value. Values begin at -1.
func readDeltas(b []byte) (size int, most int64, ends bool) {
	value, most := int64(-1), int64(-1)
	for first := true; ; first = false {
		delta, n := binary.Uvarint(b[size:])
		if n <= 0 {
			return 0, 0, false
		}
		size += n
		if delta == 0 && !first {
			return size, most, true
		}
		value += int64(delta>>1) ^ -int64(delta&1)
		most = max(most, value)
		if _, n = binary.Uvarint(b[size:]); n <= 0 {
			return 0, 0, false
		}
		size += n
	}
}

// unused returns the lists that are not required. Functions share equal lists.
func (t *table) unused() [][]byte {
	var all [][]byte
	for at := range t.dropped {
		if !t.kept[at] {
			list, _ := t.list(at)
			all = append(all, list)
		}
	}
	return all
}
