package reloop

import "errors"

const (
	importSection  = 2
	elementSection = 9
	codeSection    = 10
)

var (
	errTruncated = errors.New("reloop: the module is truncated")
	errElements  = errors.New("reloop: the table of functions is not written as Go's linker does")
)

type section struct {
	id   byte
	body []byte
}

func split(b []byte) ([]section, error) {
	var all []section
	for r := (&reader{b: b}); len(r.b) > 0; {
		s := section{id: r.byte()}
		s.body = r.bytes(r.uint())
		if r.failed {
			return nil, errTruncated
		}
		all = append(all, s)
	}
	return all, nil
}

// functionPCs returns the upper part of the addresses inside each function (PC_F), by the function's
// place in the code section. The upper part is the function's slot in the table. The lower 16 bits of
// an address are PC_B.
func functionPCs(sections []section) (map[int]uint64, error) {
	imported := uint64(0)
	pcs := map[int]uint64{}
	for _, s := range sections {
		r := &reader{b: s.body}
		switch s.id {
		case importSection:
			for n := r.uint(); n > 0 && !r.failed; n-- {
				r.bytes(r.uint())
				r.bytes(r.uint())
				if r.byte() != 0 {
					return nil, errors.New("reloop: the module imports something other than functions")
				}
				r.uint()
				imported++
			}
		case elementSection:
			if r.uint() != 1 || r.byte() != 0 || r.byte() != opI32Const {
				return nil, errElements
			}
			slot := r.int()
			if r.byte() != opEnd || slot < 0 {
				return nil, errElements
			}
			for n := r.uint(); n > 0 && !r.failed; n-- {
				if f := r.uint(); f >= imported {
					pcs[int(f-imported)] = uint64(slot)
				}
				slot++
			}
		}
		if r.failed {
			return nil, errTruncated
		}
	}
	return pcs, nil
}

// reader takes numbers and bytes from the front of b. If one is missing, the reader has failed, and
// everything that it returns afterwards is zero.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.b)) {
		r.failed, r.b = true, nil
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return v
		}
	}
	r.failed, r.b = true, nil
	return 0
}

func (r *reader) int() int64 {
	var v int64
	for shift := 0; shift < 64; {
		c := r.byte()
		v |= int64(c&0x7f) << shift
		shift += 7
		if c < 0x80 {
			if shift < 64 && c&0x40 != 0 {
				v |= -1 << shift
			}
			return v
		}
	}
	r.failed, r.b = true, nil
	return 0
}

func appendUint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}
