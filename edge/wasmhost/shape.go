package wasmhost

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/verge-id/verge/wasm/cursor"
)

// Limits of declared counts in a module. The compiling library trusts a count and reserves memory for it,
// and a process that cannot get the memory ends. A module of 15 bytes once caused that.
const (
	maxCount  = 1 << 17 // functions, types, elements of its table and so on; Go's guest has some thousands
	maxLocals = 50_000  // per function, as in browsers
)

// checkShape rejects a module that has other sections than a guest needs, or counts that exceed the bytes
// that follow. The compiler checks the content of the sections.
func checkShape(wasm []byte) error {
	r := partsOf(wasm)
	r.Take(8) // the compiler has read these before
	for !r.failed() && len(r.Left) > 0 {
		id := r.Byte()
		s := partsOf(r.Take(r.number()))
		if r.failed() {
			break
		}
		if err := s.section(id); err != nil {
			r.Fail(err)
		} else if len(s.Left) > 0 && !opaque[id] {
			r.Fail(fmt.Errorf("%d bytes are left over in its section %d", len(s.Left), id))
		}
	}
	if wrong, ok := errors.AsType[cursor.Malformed](r.Err()); ok {
		return fmt.Errorf("it is not what a guest's module looks like: %w", wrong)
	}
	return r.Err()
}

// opaque lists the sections that are not read to their end.
var opaque = map[byte]bool{
	customSection:   true,
	functionSection: true,
	memorySection:   true,
	globalSection:   true,
	startSection:    true,
	countSection:    true,
}

const (
	customSection   = 0
	typeSection     = 1
	importSection   = 2
	functionSection = 3
	tableSection    = 4
	memorySection   = 5
	globalSection   = 6
	exportSection   = 7
	startSection    = 8
	elementSection  = 9
	codeSection     = 10
	dataSection     = 11
	countSection    = 12
)

func (r *parts) section(id byte) error {
	switch id {
	case customSection:
		if bytes.Equal(r.bytes(), []byte("name")) {
			return errors.New("it has names for a debugger: build it without, in Go with -ldflags=-s")
		}
	case typeSection:
		r.each(func() {
			r.want(0x60)
			r.bytes()
			r.bytes()
		})
	case importSection:
		r.each(func() {
			r.bytes()
			r.bytes()
			r.want(0) // a function
			r.number()
		})
	case functionSection, globalSection:
		r.count()
	case memorySection:
		r.atMostOne()
	case tableSection:
		if r.atMostOne() > 0 {
			r.table()
		}
	case exportSection:
		r.each(func() {
			r.bytes()
			r.Byte()
			r.number()
		})
	case startSection, countSection:
	case elementSection:
		r.each(func() {
			r.want(0) // put into the table at the start
			r.constant()
			r.each(func() { r.number() })
		})
	case codeSection:
		r.each(func() {
			body := partsOf(r.bytes())
			if body.locals(); body.failed() {
				r.Fail(body.Err())
			}
		})
	case dataSection:
		r.each(func() {
			switch kind := r.Byte(); kind {
			case 0:
				r.constant()
			case 1: // copied by an instruction
			default:
				r.Failf("data of kind %d", kind)
			}
			r.bytes()
		})
	default:
		return fmt.Errorf("it has a section %d, which no guest needs", id)
	}
	return r.Err()
}

// table reads the type of a table.
func (r *parts) table() {
	r.want(0x70) // of functions
	limited := r.Byte()
	if r.number() > maxCount {
		r.Fail(fmt.Errorf("its table has room for more than %d functions", maxCount))
	}
	if limited&1 != 0 {
		r.number()
	}
}

// locals reads the variables of a function.
func (r *parts) locals() {
	locals := 0
	r.each(func() {
		locals = min(locals+min(r.number(), maxLocals+1), maxLocals+1)
		r.Byte()
	})
	if locals > maxLocals {
		r.Fail(fmt.Errorf("a function of it has more than %d variables", maxLocals))
	}
}

// parts reads the contents of a section.
type parts struct{ cursor.Cursor }

func partsOf(b []byte) *parts { return &parts{cursor.Cursor{Left: b}} }

func (r *parts) failed() bool { return r.Err() != nil }

func (r *parts) want(b byte) {
	if got := r.Byte(); got != b && !r.failed() {
		r.Failf("%#x where %#x is expected", got, b)
	}
}

func (r *parts) number() int { return int(r.Uint(32)) }

func (r *parts) bytes() []byte { return r.Take(r.number()) }

// count reads the number of the following entries, each of at least one byte.
func (r *parts) count() int {
	n := r.number()
	if n > maxCount || n > len(r.Left) {
		r.Failf("%d of something, with %d bytes left", n, len(r.Left))
		return 0
	}
	return n
}

func (r *parts) atMostOne() int {
	n := r.count()
	if n > 1 {
		r.Failf("%d memories or tables", n)
	}
	return n
}

func (r *parts) each(one func()) {
	for n := r.count(); n > 0 && !r.failed(); n-- {
		one()
	}
}

// constant skips the expression of an offset or of a global's initial value.
func (r *parts) constant() {
	switch op := r.Byte(); op {
	case 0x41, 0x23:
		for r.Byte() >= 0x80 {
		}
	default:
		r.Failf("instruction %#x", op)
	}
	r.want(0x0b)
}
