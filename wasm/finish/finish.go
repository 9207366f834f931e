// Package finish makes the module that is shipped out of the one that `go build` made for wasip1. Use
// [Module] wherever a module is built, so that tests run on what is shipped.
//
// Package reloop rewrites the code. This package makes the data smaller. A module that came out of [Module]
// answers, calls and stores what the input did. The one difference is in the text of a panic: for functions
// that are not the product's own, it has their names and no lines.
package finish

import (
	"errors"

	"github.com/verge-id/verge/wasm/cursor"
	"github.com/verge-id/verge/wasm/internal/reloop"
)

const dataSection = 11

var errTruncated = errors.New("finish: the module is truncated")

// Module returns the module that is shipped.
func Module(wasm []byte) ([]byte, error) {
	wasm, err := reloop.Module(wasm) // it has read the header and the sections
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(wasm)), wasm[:8]...)
	for r := (&cursor.Cursor{Left: wasm[8:]}); len(r.Left) > 0; {
		id := r.Byte()
		body := r.Take(int(r.Uint(32)))
		if r.Err() != nil {
			return nil, errTruncated
		}
		if id == dataSection {
			if body, err = smaller(body); err != nil {
				return nil, err
			}
		}
		out = append(appendUint(append(out, id), uint64(len(body))), body...)
	}
	return out, nil
}

// smaller returns a data section that fills memory with the same bytes, except for lines of the program that
// nobody asks for.
func smaller(body []byte) ([]byte, error) {
	segments, err := readSegments(body)
	if err != nil {
		return nil, err
	}
	m, err := load(segments)
	if err != nil {
		return nil, err
	}
	dropLines(m.bytes)
	return m.segments(), nil
}

func appendUint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendInt(b []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}
