// Package postlink rewrites a module that `go build` made for wasip1 into the module that is shipped. Use
// [Module] after every build of a module, so that tests run the code that is shipped.
//
// Package loopopt optimizes the code; this package reduces the size of the data. The rewritten module
// returns, calls and stores the same as its input, except for the text of a panic: the stack contains no
// arguments, and only our own functions and those of the runtime, which have names but no lines.
package postlink

import (
	"errors"

	"github.com/verge-id/verge/wasm/cursor"
	"github.com/verge-id/verge/wasm/internal/loopopt"
)

const dataSection = 11

var errTruncated = errors.New("postlink: the module is truncated")

// Module returns the module to ship. It returns an error if Go did not make the module for wasip1.
func Module(wasm []byte) ([]byte, error) {
	wasm, err := loopopt.Module(wasm) // it has checked the header and the sections
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

// smaller returns a smaller data section that fills memory with the same bytes, except for data of stacks
// that is not kept.
func smaller(body []byte) ([]byte, error) {
	segments, err := readSegments(body)
	if err != nil {
		return nil, err
	}
	m, err := load(segments)
	if err != nil {
		return nil, err
	}
	dropTraces(m)
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
