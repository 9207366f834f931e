package loopopt

import (
	"errors"
	"fmt"
)

// Instructions that matter here (WebAssembly 2.0, 5.4).
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opI32Const     = 0x41
	opI64Const     = 0x42
	opI32Eqz       = 0x45

	void = 0x40 // the type of a block without results
)

// A label names the target of a branch: a block, loop or if. Each has its own label. WebAssembly counts
// them from the inside instead; encode converts them.
type label int

// instr is an instruction, or a whole jump of Go's compiler.
type instr struct {
	op     byte
	raw    []byte  // the original bytes; nil if this package created it
	n      int64   // constant, or index of a local
	label  label   // its own, for block, loop, if and end; the target, for a branch
	labels []label // of br_table
	jump   *jump   // of opJump
}

// opJump represents "i32.const PC_B, local.set $PC_B, br $dispatch", and the same inside an if. No
// instruction has this number.
const opJump = 0xff

type jump struct {
	to   *basic // the basic block at pc
	pc   instr  // the constant
	when bool   // jump only if the value on the stack is not zero
}

// decode returns the instructions of a function. The label of its body is 0.
func decode(b []byte) (code []instr, err error) {
	open := []label{0}
	last := label(0)
	branch := func(depth uint64) label {
		if depth >= uint64(len(open)) {
			err = fmt.Errorf("a branch leaves %d blocks, and %d are open", depth+1, len(open))
			return 0
		}
		return open[len(open)-1-int(depth)]
	}
	r := read(b)
	for len(r.Left) > 0 && err == nil {
		at := r.Left
		i := instr{op: r.Byte()}
		switch i.op {
		case opBlock, opLoop, opIf:
			r.Int()
			last++
			i.label = last
			open = append(open, last)
		case opEnd:
			if len(open) == 0 {
				return nil, fmt.Errorf("an end of nothing")
			}
			i.label = open[len(open)-1]
			open = open[:len(open)-1]
		case opBr, opBrIf:
			i.label = branch(r.uint())
		case opBrTable:
			for n := r.uint(); n > 0 && !r.failed() && err == nil; n-- {
				i.labels = append(i.labels, branch(r.uint()))
			}
			i.labels = append(i.labels, branch(r.uint())) // the default target
		default:
			if err := i.operands(r); err != nil {
				return nil, err
			}
		}
		if r.failed() {
			return nil, errTruncated
		}
		i.raw = at[:len(at)-len(r.Left)]
		code = append(code, i)
	}
	if err == nil && len(open) != 0 {
		err = fmt.Errorf("%d blocks are not closed", len(open))
	}
	return code, err
}

// operands reads the operands of an instruction other than blocks and branches.
func (i *instr) operands(r *reader) error {
	switch op := i.op; {
	case op == opI32Const || op == opI64Const:
		i.n = r.Int()
	case op == 0x10 || op >= opLocalGet && op <= 0x24: // call; locals, globals
		i.n = int64(r.uint())
	case op == opCallIndirect || op >= 0x28 && op <= 0x3e: // loads and stores
		r.uint()
		r.uint()
	case op == 0x3f || op == 0x40: // memory.size, memory.grow
		r.Byte()
	case op == 0x43: // f32.const
		r.bytes(4)
	case op == 0x44: // f64.const
		r.bytes(8)
	case op == 0xfc:
		switch sub := r.uint(); {
		case sub <= 7: // saturating truncation
		case sub == 10: // memory.copy
			r.bytes(2)
		case sub == 11: // memory.fill
			r.Byte()
		default:
			return fmt.Errorf("unknown instruction 0xfc %d", sub)
		}
	case op <= 0x01 || op == opElse || op == opReturn || op == 0x1a || op == 0x1b ||
		op >= opI32Eqz && op <= 0xc4:
	default:
		return fmt.Errorf("unknown instruction %#x", op)
	}
	return nil
}

// encode is the inverse of decode. It fails if a branch refers to a block that is not around it, or if a
// jump of Go's is left.
func encode(b []byte, code []instr) (_ []byte, err error) {
	open := []label{0}
	depth := func(l label) uint64 {
		for i := len(open) - 1; i >= 0; i-- {
			if open[i] == l {
				return uint64(len(open) - 1 - i)
			}
		}
		err = errors.New("a jump lost its target")
		return 0
	}
	for _, i := range code {
		switch i.op {
		case opBlock, opLoop, opIf:
			open = append(open, i.label)
			if i.raw == nil {
				i.raw = []byte{i.op, void}
			}
			b = append(b, i.raw...)
		case opEnd:
			open = open[:len(open)-1]
			b = append(b, i.op)
		case opBr, opBrIf:
			b = appendUint(append(b, i.op), depth(i.label))
		case opBrTable:
			b = appendUint(append(b, i.op), uint64(len(i.labels)-1))
			for _, l := range i.labels {
				b = appendUint(b, depth(l))
			}
		default:
			b = append(b, i.raw...)
		}
	}
	return b, err
}
