package loopopt

import (
	"errors"

	"github.com/verge-id/verge/wasm/cursor"
)

const (
	importSection  = 2
	elementSection = 9
	codeSection    = 10
)

var (
	errTruncated = errors.New("loopopt: the module is truncated")
	errElements  = errors.New("loopopt: the table of functions is not written as Go's linker does")
)

type section struct {
	id   byte
	body []byte
}

func split(b []byte) ([]section, error) {
	var all []section
	for r := read(b); len(r.Left) > 0; {
		s := section{id: r.Byte()}
		s.body = r.bytes(r.uint())
		if r.failed() {
			return nil, errTruncated
		}
		all = append(all, s)
	}
	return all, nil
}

// functionPCs returns the upper part of the addresses inside each function (PC_F), by the function's index
// in the code section. The upper part is the function's slot in the table. The lower 16 bits of an address
// are PC_B.
func functionPCs(sections []section) (map[int]uint64, error) {
	imported := uint64(0)
	pcs := map[int]uint64{}
	for _, s := range sections {
		r := read(s.body)
		switch s.id {
		case importSection:
			for n := r.uint(); n > 0 && !r.failed(); n-- {
				r.bytes(r.uint())
				r.bytes(r.uint())
				if r.Byte() != 0 {
					return nil, errors.New("loopopt: the module imports something other than functions")
				}
				r.uint()
				imported++
			}
		case elementSection:
			if r.uint() != 1 || r.Byte() != 0 || r.Byte() != opI32Const {
				return nil, errElements
			}
			slot := r.Int()
			if r.Byte() != opEnd || slot < 0 {
				return nil, errElements
			}
			for n := r.uint(); n > 0 && !r.failed(); n-- {
				if f := r.uint(); f >= imported {
					pcs[int(f-imported)] = uint64(slot)
				}
				slot++
			}
		}
		if r.failed() {
			return nil, errTruncated
		}
	}
	return pcs, nil
}

// reader reads a module.
type reader struct{ cursor.Cursor }

func read(b []byte) *reader { return &reader{cursor.Cursor{Left: b}} }

func (r *reader) failed() bool { return r.Err() != nil }

func (r *reader) uint() uint64 { return r.Uint(64) }

func (r *reader) bytes(n uint64) []byte {
	return r.Take(int(min(n, uint64(len(r.Left))+1))) // n may be too large for an int
}

func appendUint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}
