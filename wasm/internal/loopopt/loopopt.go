// Package loopopt is an optimizer for WebAssembly modules that `go build` made for wasip1. [Module] restores
// the loops and forward jumps of the functions. The result returns, calls and stores the same as the input.
//
// WebAssembly has no goto, and a goroutine must be able to leave its functions in the middle and to return.
// So Go's compiler writes each function as a loop around one br_table, which jumps to the basic block that
// the function's parameter PC_B names:
//
//	loop $dispatch
//	  block $2
//	    block $1
//	      block $0
//	        local.get $PC_B
//	        br_table $0 $1 $2
//	      end                       ;; basic block 0: function entry
//	      … if i32.const 2  local.set $PC_B  br $dispatch end
//	    end                         ;; basic block 1
//	    … call $f  br_if $unwind    ;; returns 1 if the goroutine has to stop
//	  end                           ;; basic block 2: where it continues after $f
//	  …
//	end
//
// Each jump is indirect. To a WebAssembly compiler any basic block can follow any other. So it cannot keep
// values in registers, and it does not know that an address was checked before. Three rules change that:
//
//   - A forward jump leaves the block of its target, without the table.
//   - A backward jump becomes a separate loop if nothing else enters the loop.
//   - The table keeps only the places to which a goroutine can return: the entry, and the places after a
//     call, whose addresses the function itself stores. All other entries trap.
//
// A function with another shape stays unchanged. Go does not document how its compiler writes code. So
// [Module] checks the shape of all code that it changes, and the core's tests run on its result.
package loopopt

import (
	"errors"
	"fmt"
)

// Module returns a module with the same sections, types and functions, and with optimized code. For a module
// that Go did not make for wasip1 it returns an error or exactly the same bytes.
func Module(wasm []byte) ([]byte, error) {
	if len(wasm) < 8 || string(wasm[:8]) != "\x00asm\x01\x00\x00\x00" {
		return nil, fmt.Errorf("loopopt: not a WebAssembly module of version 1")
	}
	sections, err := split(wasm[8:])
	if err != nil {
		return nil, err
	}
	pcs, err := functionPCs(sections)
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(wasm)), wasm[:8]...)
	for _, s := range sections {
		if s.id == codeSection {
			if s.body, err = optimizeCode(s.body, pcs); err != nil {
				return nil, err
			}
		}
		out = append(out, s.id)
		out = appendUint(out, uint64(len(s.body)))
		out = append(out, s.body...)
	}
	return out, nil
}

// body returns the optimized body of a function, or the same body if it has another shape.
func body(b []byte, pc uint64) ([]byte, error) {
	f, err := parse(b)
	if f == nil || err != nil {
		return b, err
	}
	f.findLoops(pc)
	return f.encode()
}

// optimizeCode returns a code section with every function optimized.
func optimizeCode(code []byte, pcs map[int]uint64) ([]byte, error) {
	r := read(code)
	n := r.uint()
	out := appendUint(nil, n)
	for i := 0; uint64(i) < n; i++ {
		b := r.bytes(r.uint())
		if r.failed() {
			return nil, errTruncated
		}
		if pc, known := pcs[i]; known {
			var err error
			if b, err = body(b, pc); err != nil {
				return nil, fmt.Errorf("loopopt: function %d: %w", i, err)
			}
		}
		out = appendUint(out, uint64(len(b)))
		out = append(out, b...)
	}
	if len(r.Left) > 0 {
		return nil, errors.New("loopopt: bytes behind the last function")
	}
	return out, nil
}
