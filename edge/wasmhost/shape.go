package wasmhost

import (
	"bytes"
	"errors"
	"fmt"
)

// The most that a module may have of anything that it declares with a count. The compiling library
// trusts a count and reserves memory for it, and a process that cannot get the memory ends. A module of
// 15 bytes once did that.
const (
	maxCount  = 1 << 17 // functions, types, elements of its table and so on; Go's guest has some thousands
	maxLocals = 50_000  // of a function, as in browsers
)

// checkShape refuses a module that has other parts than a guest needs, or whose counts are larger than
// the bytes that follow. The compiler checks the content of the parts.
func checkShape(wasm []byte) error {
	r := &parts{b: wasm}
	r.take(8) // the compiler has read these before
	for !r.failed() && len(r.b) > 0 {
		id := r.byte()
		s := &parts{b: r.take(r.number())}
		if r.failed() {
			break
		}
		if r.err = s.section(id); r.err == nil && len(s.b) > 0 && !opaque[id] {
			r.err = fmt.Errorf("%d bytes are left over in its section %d", len(s.b), id)
		}
	}
	return r.err
}

// opaque are the sections that are not read to their end.
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
			r.want(0x70) // of functions
			limited := r.byte()
			if r.number() > maxCount {
				return fmt.Errorf("its table has room for more than %d functions", maxCount)
			}
			if limited&1 != 0 {
				r.number()
			}
		}
	case exportSection:
		r.each(func() {
			r.bytes()
			r.byte()
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
			body := &parts{b: r.bytes()}
			locals := 0
			body.each(func() {
				if n := body.number(); n > maxLocals {
					locals = maxLocals + 1
				} else {
					locals = min(locals+n, maxLocals+1)
				}
				body.byte()
			})
			if r.err == nil {
				r.err = body.err
			}
			if locals > maxLocals && r.err == nil {
				r.err = fmt.Errorf("a function of it has more than %d variables", maxLocals)
			}
		})
	case dataSection:
		r.each(func() {
			switch kind := r.byte(); kind {
			case 0:
				r.constant()
			case 1: // copied by an instruction
			default:
				r.fail("data of kind %d", kind)
			}
			r.bytes()
		})
	default:
		return fmt.Errorf("it has a section %d, which no guest needs", id)
	}
	return r.err
}

// parts takes numbers and bytes from the front of b. If one is missing, parts has failed and returns
// zeros afterwards.
type parts struct {
	b   []byte
	err error
}

func (r *parts) failed() bool { return r.err != nil }

func (r *parts) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("it is not what a guest's module looks like: "+format, args...)
	}
	r.b = nil
}

func (r *parts) take(n int) []byte {
	if n > len(r.b) {
		r.fail("%d bytes are wanted, %d are left", n, len(r.b))
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *parts) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *parts) want(b byte) {
	if got := r.byte(); got != b && !r.failed() {
		r.fail("%#x where %#x is expected", got, b)
	}
}

// number reads an unsigned number of at most 32 bits.
func (r *parts) number() int {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			return int(v)
		}
	}
	r.fail("a number of more than 32 bits")
	return 0
}

func (r *parts) bytes() []byte { return r.take(r.number()) }

// count reads how many things follow, each of at least one byte.
func (r *parts) count() int {
	n := r.number()
	if n > maxCount || n > len(r.b) {
		r.fail("%d of something, with %d bytes left", n, len(r.b))
		return 0
	}
	return n
}

func (r *parts) atMostOne() int {
	n := r.count()
	if n > 1 {
		r.fail("%d memories or tables", n)
	}
	return n
}

func (r *parts) each(one func()) {
	for n := r.count(); n > 0 && !r.failed(); n-- {
		one()
	}
}

// constant skips an expression that says where something begins or what value a global has.
func (r *parts) constant() {
	switch op := r.byte(); op {
	case 0x41, 0x23:
		for r.byte() >= 0x80 {
		}
	default:
		r.fail("instruction %#x", op)
	}
	r.want(0x0b)
}
