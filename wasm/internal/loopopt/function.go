package loopopt

import (
	"math"
	"slices"
)

// function is a function of the form in the package comment.
type function struct {
	locals   []byte
	head     []instr // before the dispatch
	dispatch label   // of the loop around it; -1: no jumps
	table    []*basic
	blocks   []*basic // in the order they are written in
	tail     []instr  // after the last block and the loop's end
}

// basic is a basic block: the code after the end of one of the table's blocks.
type basic struct {
	label   label
	code    []instr
	at      int  // its index in the blocks
	entered bool // a goroutine may return to here, or a jump to here goes through the table
	loop    int  // number of blocks of the loop that begins here, including this one
	forward bool // a forward jump has its target here
}

// parse returns nil if the body has another form.
func parse(body []byte) (*function, error) {
	r := read(body)
	for n := r.uint(); n > 0 && !r.failed(); n-- {
		r.uint()
		r.Byte()
	}
	if r.failed() {
		return nil, errTruncated
	}
	f := &function{locals: body[:len(body)-len(r.Left)], dispatch: -1}
	code, err := decode(r.Left)
	if err != nil {
		return nil, err
	}
	d := slices.IndexFunc(code, func(i instr) bool { return i.op == opBrTable })
	if d < 2 || !localPC(code[d-1], opLocalGet) {
		return nil, nil
	}
	// The table's blocks, from the inside. Its last entry is the outermost.
	byLabel := map[label]*basic{}
	outermost := code[d].labels[len(code[d].labels)-1]
	i := d - 2
	for ; i >= 0 && code[i].op == opBlock; i-- {
		b := &basic{label: code[i].label, at: len(f.blocks)}
		f.blocks = append(f.blocks, b)
		byLabel[b.label] = b
		if b.label == outermost {
			break
		}
	}
	if byLabel[outermost] == nil {
		return nil, nil
	}
	for _, l := range code[d].labels {
		if byLabel[l] == nil {
			return nil, nil
		}
		f.table = append(f.table, byLabel[l])
	}
	if i > 0 && code[i-1].op == opLoop {
		i--
		f.dispatch = code[i].label
	}
	f.head = code[:i]
	if slices.ContainsFunc(f.head, func(i instr) bool {
		return i.op != opBlock && i.op != opGlobalGet && !(i.op == opLocalSet && i.n != 0)
	}) || f.table[0] != f.blocks[0] {
		return nil, nil
	}
	if !f.split(code[d+1:]) {
		return nil, nil
	}
	for _, b := range f.blocks {
		if !f.findJumps(b) {
			return nil, nil
		}
	}
	return f, nil
}

// split sets the code of the basic blocks, which is after each block's end, and the tail. It returns false
// for another form.
func (f *function) split(rest []instr) bool {
	for n, b := range f.blocks {
		if rest[0].op != opEnd || rest[0].label != b.label {
			return false
		}
		last := n == len(f.blocks)-1
		end := 1
		for inside := 0; ; end++ {
			switch rest[end].op {
			case opBlock, opLoop, opIf:
				inside++
			case opEnd:
				inside--
			}
			if inside < 0 && (last || rest[end].label == f.blocks[n+1].label) {
				break
			}
			if inside < 0 {
				return false
			}
		}
		b.code = rest[1:end]
		rest = rest[end:]
	}
	if f.dispatch >= 0 {
		if rest[0].label != f.dispatch {
			return false
		}
		rest = rest[1:]
	}
	f.tail = rest
	return true
}

// localPC reports whether an instruction uses PC_B, the first parameter.
func localPC(i instr, op byte) bool { return i.op == op && i.n == 0 }

// findJumps replaces the instructions of each jump with one jump. It returns false if other code uses PC_B,
// the loop or the blocks.
func (f *function) findJumps(b *basic) bool {
	var out []instr
	for i := 0; i < len(b.code); i++ {
		x := b.code[i]
		jumps := func(i int) bool {
			return i+2 < len(b.code) && b.code[i].op == opI32Const && localPC(b.code[i+1], opLocalSet) &&
				b.code[i+2].op == opBr && b.code[i+2].label == f.dispatch && f.dispatch >= 0
		}
		switch {
		case jumps(i):
			out = append(out, instr{op: opJump, jump: &jump{to: f.block(x.n), pc: x}})
			i += 2
		case x.op == opIf && jumps(i+1) && i+4 < len(b.code) && b.code[i+4].op == opEnd:
			out = append(out,
				instr{op: opJump, jump: &jump{to: f.block(b.code[i+1].n), pc: b.code[i+1], when: true}})
			i += 4
		case localPC(x, opLocalSet) && i+3 < len(b.code) && b.code[i+1].op == opI32Const &&
			localPC(b.code[i+2], opLocalGet) && b.code[i+3].op == opCallIndirect:
			// Go's compiler keeps the function's number in PC_B for a moment
			out = append(out, b.code[i:i+4]...)
			i += 3
		case localPC(x, opLocalGet) || localPC(x, opLocalSet) || localPC(x, opLocalTee) || x.op == opBrTable:
			return false
		case (x.op == opBr || x.op == opBrIf) && f.owns(x.label):
			return false
		default:
			out = append(out, x)
		}
	}
	b.code = out
	return true
}

// owns reports whether the label is the dispatch loop's or a table block's.
func (f *function) owns(l label) bool {
	return l == f.dispatch || slices.ContainsFunc(f.blocks, func(b *basic) bool { return b.label == l })
}

// block returns the basic block at an address within the function.
func (f *function) block(pc int64) *basic {
	return f.table[min(uint64(pc), uint64(len(f.table)-1))]
}

// falls reports whether a block continues with the next one.
func (b *basic) falls() bool {
	if len(b.code) == 0 {
		return true
	}
	switch x := b.code[len(b.code)-1]; x.op {
	case opBr, opReturn, opUnreachable:
		return false
	case opJump:
		return x.jump.when
	}
	return true
}

// jumps calls yield for each jump from a block.
func (f *function) jumps(yield func(from *basic, j *jump) bool) {
	for _, b := range f.blocks {
		for _, i := range b.code {
			if i.op == opJump && !yield(b, i.jump) {
				return
			}
		}
	}
}

// findLoops finds the blocks that can be entered and the jumps that are loops. It orders the blocks so that
// a loop's blocks are adjacent, with its head first.
func (f *function) findLoops(pc uint64) {
	f.blocks[0].entered = true
	for _, b := range f.blocks {
		for _, i := range b.code {
			if i.op == opI64Const && uint64(i.n)>>16 == pc {
				// The block of a call's return address can be entered. So can the previous one, where a
				// function continues after a recovered panic.
				back := i.n & math.MaxUint16
				f.block(back).entered = true
				f.block(max(back, 1) - 1).entered = true
			}
		}
	}
	// Go from the last block to the first, so that inner loops come before outer ones.
	for n := len(f.blocks) - 1; n >= 0; n-- {
		if to := f.blocks[n]; f.goesBackTo(to) && !f.makeLoop(to) {
			to.entered = true
		}
	}
	for from, j := range f.jumps {
		if j.to.at > from.at {
			j.to.forward = true
		}
	}
}

func (f *function) goesBackTo(to *basic) bool {
	for from, j := range f.jumps {
		if j.to == to && from.at >= to.at {
			return true
		}
	}
	return false
}

// makeLoop makes a loop of the blocks from first to the last one that jumps back to it, if no other jump
// enters any of them except the head. The head is first, or a later block if Go's compiler has put a loop's
// last blocks in front of its head.
func (f *function) makeLoop(first *basic) bool {
	last := first.at
	for again := true; again; {
		again = false
		for _, b := range f.blocks[first.at : last+1] {
			if end := b.at + b.loop - 1; end > last {
				last, again = end, true
			}
		}
		for from, j := range f.jumps {
			if j.to.at >= first.at && j.to.at <= last && from.at > last {
				last, again = from.at, true
			}
		}
	}
	loop := f.blocks[first.at : last+1]
	inside := func(b *basic) bool { return b.at >= first.at && b.at <= last }

	heads := map[*basic]bool{}
	if first.at == 0 || f.blocks[first.at-1].falls() {
		heads[first] = true
	}
	for _, b := range loop {
		if b.entered {
			heads[b] = true
		}
	}
	for from, j := range f.jumps {
		if inside(j.to) && !inside(from) {
			heads[j.to] = true
		}
	}
	head := first
	for b := range heads {
		head = b
	}
	if len(heads) > 1 || head != first && !f.rotate(first, head, last) {
		return false
	}
	head.loop = len(loop)
	return true
}

// rotate moves the blocks in front of a loop's head behind the loop's last block.
func (f *function) rotate(first, head *basic, last int) bool {
	before, after := f.blocks[head.at-1], f.blocks[last]
	if after.falls() && last+1 == len(f.blocks) {
		return false
	}
	for from, j := range f.jumps {
		// A moved block must only go to the head or out of the loop. Otherwise its jump would go back into
		// the middle. It must not be a loop itself.
		moved := from.at >= first.at && from.at < head.at
		if moved && (j.to.at > head.at && j.to.at <= last || j.to == first) {
			return false
		}
	}
	if after.falls() {
		after.code = append(after.code, instr{op: opJump, jump: &jump{to: f.blocks[last+1]}})
	}
	if before.falls() {
		before.code = append(before.code, instr{op: opJump, jump: &jump{to: head}})
	}
	at := first.at
	loop := slices.Concat(f.blocks[head.at:last+1], f.blocks[at:head.at])
	for i, b := range loop {
		b.at = at + i
		f.blocks[b.at] = b
	}
	return true
}
