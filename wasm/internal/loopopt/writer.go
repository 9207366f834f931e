package loopopt

import (
	"errors"
	"slices"
)

// writer writes a function's blocks in order.
type writer struct {
	f     *function
	out   []instr
	loops map[*basic]label // labels of the open loops, by their heads
	next  label
	again bool // a jump uses the table
}

func (w *writer) add(op byte, l label) { w.out = append(w.out, instr{op: op, label: l}) }

func (w *writer) label() label {
	w.next--
	return w.next
}

// encode returns the function's body. An error means that this package has a bug.
func (f *function) encode() ([]byte, error) {
	w := &writer{f: f, loops: map[*basic]label{}, next: -1}
	w.out = append(w.out, f.head...)
	dead := w.label()
	table, unused := w.table(dead)
	for from, j := range f.jumps {
		if throughTable(from, j) {
			if w.again = true; !j.to.entered {
				return nil, errors.New("a jump through the table has no target")
			}
		}
	}
	if !w.again && !slices.ContainsFunc(f.blocks[1:], func(b *basic) bool { return b.entered }) {
		table, unused = nil, false // the function is called, and no goroutine returns to it
	}
	if w.again {
		w.add(opLoop, f.dispatch)
	}
	if unused {
		w.add(opBlock, dead)
	}
	w.blocks(0, len(f.blocks), table)
	if unused {
		w.add(opEnd, dead)
	}
	if w.again {
		w.add(opEnd, f.dispatch)
	}
	if f.tail[0].op != opUnreachable {
		w.out = append(w.out, instr{op: opUnreachable, raw: []byte{opUnreachable}})
	}
	w.out = append(w.out, f.tail...)
	return encode(append([]byte(nil), f.locals...), w.out)
}

// table returns the targets of the function's addresses. The last entry is for all later addresses. It
// traps, and so do the entries of blocks that are never entered.
func (w *writer) table(dead label) (labels []label, unused bool) {
	for _, b := range w.f.table {
		l := b.label
		if !b.entered {
			l = dead
		}
		labels = append(labels, l)
	}
	for len(labels) > 1 && labels[len(labels)-1] == dead && labels[len(labels)-2] == dead {
		labels = labels[:len(labels)-1]
	}
	for _, l := range labels {
		unused = unused || l == dead
	}
	return labels, unused
}

// around reports whether a block is within the loop that begins at head.
func around(head, b *basic) bool {
	return b.at >= head.at && b.at < head.at+head.loop
}

// throughTable reports whether a jump must use the table, because it goes neither forward nor to the head
// of a loop around it.
func throughTable(from *basic, j *jump) bool {
	return j.to.at <= from.at && !around(j.to, from)
}

// blocks writes the blocks from one index to another: a loop's, or all.
func (w *writer) blocks(from, to int, table []label) {
	all := w.f.blocks
	// A block that is entered or jumped to begins where another ends.
	var begins []*basic
	for at := from; at < to; at++ {
		b := all[at]
		if (at > from || table != nil) && (b.forward || b.entered) {
			begins = append(begins, b)
		}
		if b.loop > 0 && w.loops[b] == 0 {
			at += b.loop - 1
		}
	}
	for i := len(begins) - 1; i >= 0; i-- {
		w.add(opBlock, begins[i].label)
	}
	if table != nil {
		// The function is called far more often than it is resumed. A branch that is almost always taken
		// costs less than the table.
		pc := instr{op: opLocalGet, raw: []byte{opLocalGet, 0}}
		w.out = append(w.out, pc, instr{op: opI32Eqz, raw: []byte{opI32Eqz}},
			instr{op: opBrIf, label: table[0]}, pc, instr{op: opBrTable, labels: table})
	}
	for at := from; at < to; at++ {
		b := all[at]
		if len(begins) > 0 && begins[0] == b {
			w.add(opEnd, b.label)
			begins = begins[1:]
		}
		if b.loop > 0 && w.loops[b] == 0 {
			l := w.label()
			w.loops[b] = l
			w.add(opLoop, l)
			w.blocks(at, at+b.loop, nil)
			w.add(opEnd, l)
			at += b.loop - 1
			continue
		}
		w.code(b)
	}
}

func (w *writer) code(b *basic) {
	for _, i := range b.code {
		if i.op != opJump {
			w.out = append(w.out, i)
			continue
		}
		branch := byte(opBr)
		if i.jump.when {
			branch = opBrIf
		}
		switch to := i.jump.to; {
		case to.at > b.at:
			w.add(branch, to.label)
		case around(to, b):
			w.add(branch, w.loops[to])
		default:
			l := w.label()
			if i.jump.when {
				w.add(opIf, l)
			}
			w.out = append(w.out, i.jump.pc, instr{op: opLocalSet, raw: []byte{opLocalSet, 0}})
			w.add(opBr, w.f.dispatch)
			if i.jump.when {
				w.add(opEnd, l)
			}
		}
	}
}
