package postlink

import (
	"errors"

	"github.com/verge-id/verge/wasm/cursor"
)

// Go's linker leaves zeros out of a data section wherever there are eight or more in a row. So it writes
// 100,000 segments. This reduces the file, but not its gzip: gzip compresses zeros to almost nothing, but
// not the addresses of the segments. So only long runs of zeros are left out here.
const gap = 256

const (
	opI32Const = 0x41
	opEnd      = 0x0b

	most = 1 << 30 // bytes of memory that a module's data may span
)

var (
	errSegments = errors.New("postlink: the data section is not written as Go's linker does")
	errOverlap  = errors.New("postlink: two segments of data overlap")
)

// segment is data and its address in memory.
type segment struct {
	at   int64
	data []byte
}

func readSegments(body []byte) ([]segment, error) {
	r := cursor.Cursor{Left: body}
	n := r.Uint(32)
	var all []segment
	for ; n > 0 && r.Err() == nil; n-- {
		if r.Byte() != 0 || r.Byte() != opI32Const {
			return nil, errSegments
		}
		at := r.Int()
		if r.Byte() != opEnd {
			return nil, errSegments
		}
		data := r.Take(int(r.Uint(32)))
		if at < 0 || at+int64(len(data)) > most {
			return nil, errSegments
		}
		all = append(all, segment{at, data})
	}
	if r.Err() != nil {
		return nil, errTruncated
	}
	if len(r.Left) > 0 {
		return nil, errSegments
	}
	return all, nil
}

// memory is the content of a module's memory from an address, after its data has been written.
type memory struct {
	from  int64
	bytes []byte
}

// load writes segments to memory. Bytes that two of them write would depend on their order, so this is an
// error.
func load(segments []segment) (memory, error) {
	if len(segments) == 0 {
		return memory{}, nil
	}
	from, to := segments[0].at, int64(0)
	for _, s := range segments {
		from, to = min(from, s.at), max(to, s.at+int64(len(s.data)))
	}
	m := memory{from, make([]byte, to-from)}
	written := make([]bool, to-from)
	for _, s := range segments {
		for i, b := range s.data {
			at := s.at - from + int64(i)
			if written[at] {
				return memory{}, errOverlap
			}
			m.bytes[at], written[at] = b, true
		}
	}
	return m, nil
}

// segments returns the data section that writes this memory.
func (m memory) segments() []byte {
	var all []segment
	for at := 0; at < len(m.bytes); at++ {
		if m.bytes[at] == 0 {
			continue
		}
		end := at + 1 // after the last byte that is not zero
		for i := end; i < len(m.bytes) && i-end < gap; i++ {
			if m.bytes[i] != 0 {
				end = i + 1
			}
		}
		all = append(all, segment{m.from + int64(at), m.bytes[at:end]})
		at = end
	}
	out := appendUint(nil, uint64(len(all)))
	for _, s := range all {
		out = append(appendInt(append(out, 0, opI32Const), s.at), opEnd)
		out = append(appendUint(out, uint64(len(s.data))), s.data...)
	}
	return out
}
