package loopopt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/verge-id/verge/testharness/long"
)

// TestModule_RandomFunctions compares random functions of Go's form, with jumps from anywhere to anywhere,
// before and after. They must behave the same for all conditions and at any place where a goroutine returns
// to them.
func TestModule_RandomFunctions(t *testing.T) {
	t.Parallel()
	const runs = 6
	functions := long.Pick(t, "TestModule_RandomFunctions", 400, 2000)
	h := newMachine(t)
	loops, rotated := 0, 0
	for seed := range uint64(functions) {
		text := randomFunction(rand.New(rand.NewPCG(seed, 0)))
		b := assemble(t, text)
		before := callable(b)
		after, err := Module(before)
		if err != nil {
			t.Fatalf("function %d: %v\n%s", seed, err, text)
		}
		f, err := parse(b)
		if f == nil || err != nil {
			t.Fatalf("function %d is not of Go's shape (%v)\n%s", seed, err, text)
		}
		written := slices.Clone(f.blocks)
		f.findLoops(1)
		if slices.ContainsFunc(f.blocks, func(b *basic) bool { return b.loop > 0 }) {
			loops++
		}
		if !slices.Equal(f.blocks, written) {
			rotated++
		}
		for run := range uint64(runs) {
			if want, got := h.trace(t, before, run), h.trace(t, after, run); got != want {
				t.Fatalf("function %d, run %d:\n%s, before\n%s\n%s", seed, run, got, want, text)
			}
		}
	}
	if loops < functions/3 || rotated < functions/50 {
		t.Errorf("of %d functions only %d have loops and %d of them were rotated: too few for a useful test",
			functions, loops, rotated)
	}
}

// randomFunction returns a function whose basic blocks report that they run. Each ends with a jump, one or
// two conditional jumps, a call, a return, or the next block.
func randomFunction(r *rand.Rand) string {
	var out strings.Builder
	p := func(format string, a ...any) { fmt.Fprintf(&out, format+"\n", a...) }
	n := 2 + r.IntN(9)
	var pcs []int
	var table []string
	for k := range n {
		pcs = append(pcs, len(table))
		for range 1 + r.IntN(2) { // addresses
			table = append(table, fmt.Sprint("b", k))
		}
	}
	p("block U\nloop L")
	for k := n - 1; k >= 0; k-- {
		p("block b%d", k)
	}
	p("local.get 0\nbr_table %s", strings.Join(table, " "))
	near, calls, ifs := r.IntN(2) == 0, r.IntN(4), 0
	jump := func(from int) {
		to := r.IntN(n)
		if near {
			lowest := max(0, from-2)
			to = lowest + r.IntN(min(n, from+4)-lowest)
		}
		p("i32.const %d\nlocal.set 0\nbr L", pcs[to])
	}
	when := func(do func()) {
		ifs++
		p("call 1\nif X%d", ifs)
		do()
		p("end")
	}
	for k := range n {
		p("end\ni32.const %d\ncall 0", k)
		if r.IntN(6) == 0 {
			when(func() { p("i32.const %d\ncall 0", 40+k); jump(k) })
		}
		switch x := r.IntN(10); {
		case k < n-1 && x < calls:
			p("i64.const %d\ncall 2\ncall 1\nbr_if U", 1<<16|pcs[k+1])
		case x < 4:
			when(func() { jump(k) })
		case x < 6:
			when(func() { jump(k) })
			jump(k)
		case x < 8:
			jump(k)
		case x < 9:
			p("i32.const 0\nreturn")
		}
	}
	p("end\nunreachable\nend\ni32.const 1\nend")
	return out.String()
}

// callable returns a module that exports a function with this body as f. The function may call three
// functions of its host: one records that a block ran, one returns the next condition, and one records the
// address to which a goroutine returns.
func callable(b []byte) []byte {
	section := func(id byte, b string) string {
		return string(append(appendUint([]byte{id}, uint64(len(b))), b...))
	}
	code := string(append(appendUint([]byte{1}, uint64(len(b))), b...))
	return []byte("\x00asm\x01\x00\x00\x00" +
		section(1, "\x04\x60\x01\x7f\x01\x7f\x60\x01\x7f\x00\x60\x00\x01\x7f\x60\x01\x7e\x00") +
		section(importSection, "\x03\x01h\x03ran\x00\x01\x01h\x02if\x00\x02\x01h\x04call\x00\x03") +
		section(3, "\x01\x00") +
		section(4, "\x01\x70\x00\x04") +
		section(7, "\x01\x01f\x00\x03") +
		section(elementSection, "\x01\x00\x41\x01\x0b\x01\x03") +
		section(codeSection, code))
}

// machine runs such modules and records their events.
type machine struct {
	runtime wazero.Runtime
	random  *rand.Rand
	log     []int64
	back    int64
}

const enough = 120 // maximum number of events of one run

func newMachine(t *testing.T) *machine {
	ctx := context.Background()
	m := &machine{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())}
	t.Cleanup(func() { m.runtime.Close(ctx) })
	_, err := m.runtime.NewHostModuleBuilder("h").
		NewFunctionBuilder().WithFunc(func(block int32) {
		if m.log = append(m.log, int64(block)); len(m.log) > enough {
			panic("enough")
		}
	}).Export("ran").
		NewFunctionBuilder().WithFunc(func() int32 { return m.random.Int32N(2) }).Export("if").
		NewFunctionBuilder().WithFunc(func(pc int64) { m.log, m.back = append(m.log, pc), pc }).Export(
		"call").
		Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// trace calls f. If f stops in the middle, trace calls it again with the address of its last call or, as
// after a recovered panic, with the previous one.
func (m *machine) trace(t *testing.T, wasm []byte, run uint64) string {
	ctx := context.Background()
	guest, err := m.runtime.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close(ctx)
	m.random, m.log, m.back = rand.New(rand.NewPCG(run, 1)), nil, 0
	for pc := uint64(0); len(m.log) <= enough; {
		stopped, err := guest.ExportedFunction("f").Call(ctx, pc)
		if err != nil {
			return fmt.Sprint(m.log, strings.Contains(err.Error(), "unreachable"))
		}
		if stopped[0] == 0 {
			return fmt.Sprint(m.log, "returns")
		}
		pc = uint64(m.back) & 0xffff
		if m.random.IntN(4) == 0 {
			pc--
		}
	}
	return fmt.Sprint(m.log)
}
