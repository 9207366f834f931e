package bolt

import (
	"encoding/binary"
	"fmt"
	"io"
)

// check walks the pages of a file that no process writes, and returns an error for the first bad page.
// bbolt trusts its pages: a page that refers to an earlier one would block a reader forever, without a way
// to recover. Leaves are nearly all of the file; check reads only their headers.
//
// A page consists of a header and its elements. The header is id (8), flags (2), number of elements (2)
// and number of overflow pages (4). An element of a branch is the key's position (4), the key's length
// (4) and the number of the child page (8). An element of a leaf is flags (4), the key's position
// relative to the element (4), the key's length (4) and the value's length (4). The value of a bucket
// begins with the page number of its root (8), which is zero if the bucket is so small that it follows
// inline.
func check(r io.ReaderAt, m meta) error {
	w := walk{r: r, m: m, seen: make([]bool, m.pages)}
	root, err := w.page(m.root, true)
	if err != nil {
		return err
	}
	if root.flags != leafPage {
		return nil // more top-level buckets than a Store creates; prepare reports it
	}
	for i := range root.count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(root.data) {
			return damaged(fmt.Sprintf("page %d has too many elements", m.root))
		}
		order := binary.NativeEndian
		isBucket := order.Uint32(root.data[at:])&1 != 0
		value := uint64(at) + uint64(order.Uint32(root.data[at+4:])) + uint64(order.Uint32(root.data[at+8:]))
		if value+16 > uint64(len(root.data)) {
			return damaged(fmt.Sprintf("an element of page %d is outside of it", m.root))
		}
		if !isBucket {
			continue
		}
		if id := order.Uint64(root.data[value:]); id != 0 {
			if err := w.tree(id); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	pageHeader  = 16
	elementSize = 16
	branchPage  = 1
	leafPage    = 2
)

type walk struct {
	r    io.ReaderAt
	m    meta
	seen []bool
}

type page struct {
	flags uint16
	count int
	data  []byte // with the header; for a leaf only the header, unless leaves is set
}

func (w *walk) tree(id uint64) error {
	for todo := []uint64{id}; len(todo) > 0; {
		id, todo = todo[len(todo)-1], todo[:len(todo)-1]
		p, err := w.page(id, false)
		if err != nil {
			return err
		}
		if p.flags == leafPage {
			continue
		}
		for i := range p.count {
			at := pageHeader + i*elementSize
			if at+elementSize > len(p.data) {
				return damaged(fmt.Sprintf("page %d has too many elements", id))
			}
			todo = append(todo, binary.NativeEndian.Uint64(p.data[at+8:]))
		}
	}
	return nil
}

// page reads a page and checks that it belongs to a tree, has its own number, is inside the file, and is
// visited for the first time. It reads the elements of a leaf only if leaves is set.
func (w *walk) page(id uint64, leaves bool) (page, error) {
	if id < 2 || id >= w.m.pages {
		return page{}, damaged(fmt.Sprintf("a page number, %d, is outside of the file's %d pages", id,
			w.m.pages))
	}
	if w.seen[id] {
		return page{}, damaged(fmt.Sprintf("two ways lead to page %d", id))
	}
	w.seen[id] = true
	size := int64(w.m.pageSize)
	header := make([]byte, pageHeader)
	if _, err := w.r.ReadAt(header, int64(id)*size); err != nil {
		return page{}, err
	}
	order := binary.NativeEndian
	p := page{flags: order.Uint16(header[8:]), count: int(order.Uint16(header[10:])), data: header}
	overflow := uint64(order.Uint32(header[12:]))
	switch {
	case order.Uint64(header) != id:
		return page{}, damaged(fmt.Sprintf("page %d holds page %d", id, order.Uint64(header)))
	case p.flags != branchPage && p.flags != leafPage:
		return page{}, damaged(fmt.Sprintf("page %d has the flags %#x, want a branch or a leaf", id, p.flags))
	case id+overflow >= w.m.pages:
		return page{}, damaged(fmt.Sprintf("page %d runs over the end of the file", id))
	case p.flags == branchPage && p.count == 0:
		return page{}, damaged(fmt.Sprintf("page %d is a branch without children", id))
	}
	if p.flags == leafPage && !leaves {
		return p, nil
	}
	p.data = make([]byte, int64(overflow+1)*size)
	_, err := w.r.ReadAt(p.data, int64(id)*size)
	return p, err
}
