package longfellow

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"testing"
)

// newLayer returns a layer of terms.
func newLayer(bits, wires int, terms ...term) layer {
	l := layer{bits: bits, wires: wires, chunks: make([]chunk, 1)}
	c := &l.chunks[0]
	var last term
	for i, t := range terms {
		c.table = append(c.table, term{t.g - last.g, t.h0 - last.h0, t.h1 - last.h1, t.constant})
		c.terms = append(c.terms, uint16(i))
		last = t
	}
	return l
}

// newCubic returns a circuit of the statement that the prover knows x and y with x^3 + x*y = public, and
// x*(x-1)*y = 0. Inputs are 1, the public value, x and y. constants are 0, 1 and -1.
func newCubic[E element[E]](t testing.TB, f *field[E]) *system[E] {
	t.Helper()
	var zero E
	const one, minus, assert = 1, 2, 0
	c := &circuit[E]{outputs: 2, public: 2, inputs: 4,
		constants: []E{zero, f.one, zero.sub(f.one)},
		layers: []layer{
			// out 0 = x2*x + xy - public, out 1 = (x2 - x) * y, which must be zero as a term
			newLayer(
				3,
				6,
				term{0, 0, 1, minus},
				term{0, 0, 4, one},
				term{0, 2, 3, one},
				term{1, 5, 2, assert},
			),
			// wires: 1, public, x - or y for wire 5's partner -, x2, xy, (x2 - x)*y by linear terms
			newLayer(2, 4, term{0, 0, 0, one}, term{1, 0, 1, one}, term{2, 0, 2, one}, term{5, 0, 2, minus},
				term{4, 2, 3, one}, term{3, 2, 2, one}, term{5, 2, 2, one}),
		}}
	// The identity is read back, so that the circuit is as if it came from a file.
	read, err := readCircuit(bufio.NewReader(bytes.NewReader(writeCircuit(f, c))), f)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := newSystem(f, read, 4, 6, 120)
	if !ok {
		t.Fatal("parameters")
	}
	return s
}

// elementOf returns a small number as an element. Only its powers and sums matter, so any embedding does.
func elementOf[E element[E]](f *field[E], n int) E {
	b := make([]byte, f.size)
	b[0] = byte(n)
	e, _ := f.decode(b)
	return e
}

func (s *system[E]) verify(label string, public []E, b []byte) Reason {
	p, rest, ok := readProof(b, s.field, s.circuit, &s.shape)
	if !ok || len(rest) != 0 {
		return Malformed
	}
	t := newTranscript([]byte(label))
	t.bytes(p.root[:])
	r := s.replay(t, public, p)
	if !r.committed() {
		return Commitment
	}
	return r.check()
}

func testProver[E element[E]](t *testing.T, f *field[E]) {
	s := newCubic(t, f)
	x := f.one // x*(x-1) = 0
	y := elementOf(f, 77)
	public := []E{f.one, x.add(y)}
	inputs := append(public[:2:2], x, y)
	newProver := func() *prover[E] {
		return &prover[E]{system: s, random: rand.New(rand.NewPCG(1, 2))}
	}
	bad := func(e *E) {
		v := *e
		*e = v.add(f.one)
	}
	tests := []struct {
		name   string
		label  string
		inputs []E
		public []E
		change func(p *prover[E])
		want   Reason
	}{
		{"true", "a", inputs, public, nil, ""},
		{"other session", "b", inputs, public, nil, Commitment},
		{"other public input", "a", inputs, []E{f.one, x}, nil, Commitment},
		{"false output", "a", append(public[:2:2], x, x), public, nil, LinearSum},
		{"false term that must be zero", "a",
			append(
				[]E{f.one, y.mul(y).mul(y).add(y)},
				y,
				f.one,
			), []E{f.one, y.mul(y).mul(y).add(y)}, nil, LinearSum},
		{"first input is not one", "a", append([]E{y, x.add(y)}, x, y), []E{y, x.add(y)}, nil, LinearSum},
		{"witness not the input", "a", inputs, public, func(p *prover[E]) {
			p.cheatWitness = func(w []E) { bad(&w[1]) }
		}, LinearSum},
		{"pads are not a product", "a", inputs, public, func(p *prover[E]) {
			p.cheatWitness = func(w []E) { bad(&w[len(w)-1]) }
		}, LinearSum},
		{"row not in the code", "a", inputs, public, func(p *prover[E]) {
			p.cheat = func(rows [][]E) {
				for i := range rows[3] {
					if i%2 == 0 {
						bad(&rows[3][i])
					}
				}
			}
		}, LowDegree},
		{"blinding of the code not in the code", "a", inputs, public, func(p *prover[E]) {
			p.cheat = func(rows [][]E) {
				for i := s.shape.block; i < len(rows[0]); i++ {
					bad(&rows[0][i])
				}
			}
		}, LowDegree},
		{"blinding of the linear equations not in the code", "a", inputs, public, func(p *prover[E]) {
			p.cheat = func(rows [][]E) {
				for i := s.shape.double; i < len(rows[1]); i++ {
					bad(&rows[1][i])
				}
			}
		}, LinearRows},
		{"blinding of the linear equations not zero", "a", inputs, public, func(p *prover[E]) {
			p.cheat = func(rows [][]E) {
				row := append([]E{}, rows[1][:s.shape.double]...)
				bad(&row[s.shape.queries])
				rows[1] = p.extend(row)
			}
		}, LinearSum},
		{"blinding of the quadratic equations not zero", "a", inputs, public, func(p *prover[E]) {
			p.cheat = func(rows [][]E) {
				row := append([]E{}, rows[2][:s.shape.double]...)
				bad(&row[s.shape.queries])
				rows[2] = p.extend(row)
			}
		}, Quadratic},
		{"triple not the witnesses", "a", inputs, public, func(p *prover[E]) {
			p.cheat = func(rows [][]E) {
				// x, y and z of the first triple become 0, which satisfies x*y = z.
				for side := range 3 {
					row := append([]E{}, rows[3+s.shape.rows+side*s.shape.tripleRow][:s.shape.block]...)
					var zero E
					row[s.shape.queries] = zero
					rows[3+s.shape.rows+side*s.shape.tripleRow] = p.extend(row)
				}
			}
		}, LinearSum},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newProver()
			if tt.change != nil {
				tt.change(p)
			}
			if r := s.verify(tt.label, tt.public, p.prove("a", tt.inputs)); r != tt.want {
				t.Errorf("reason %q, want %q", r, tt.want)
			}
		})
	}
}

func TestVerify_Prover(t *testing.T) {
	t.Run("GF(2^128)", func(t *testing.T) { testProver(t, gfField()) })
	t.Run("P-256", func(t *testing.T) { testProver(t, fpField()) })
}

// testTampered changes one part of a good proof, without the part that the prover would change with it.
func testTampered[E element[E]](t *testing.T, f *field[E]) {
	s := newCubic(t, f)
	public := []E{f.one, f.one.add(f.one.add(f.one))}
	inputs := append(public[:2:2], f.one, public[1].sub(f.one))
	p := &prover[E]{system: s, random: rand.New(rand.NewPCG(1, 2))}
	good := p.prove("a", inputs)
	if r := s.verify("a", public, good); r != "" {
		t.Fatal(r)
	}
	for name, change := range map[string]func(p *proof[E]){
		"nonce":          func(p *proof[E]) { p.ligero.nonces[1][3] ^= 1 },
		"opened element": func(p *proof[E]) { p.ligero.opened[7] = p.ligero.opened[7].add(f.one) },
		"path":           func(p *proof[E]) { p.ligero.merklePath[0][0] ^= 1 },
		"columns in another order": func(p *proof[E]) {
			n := p.ligero.nonces
			n[0], n[1] = n[1], n[0]
		},
		"root": func(p *proof[E]) { p.root[31] ^= 1 },
	} {
		tampered, _, ok := readProof(good, f, s.circuit, &s.shape)
		if !ok {
			t.Fatal("proof")
		}
		change(tampered)
		if r := s.verify("a", public, writeProof(f, tampered)); r != Commitment {
			t.Errorf("%s: reason %q", name, r)
		}
	}
}

func TestVerify_Tampered(t *testing.T) {
	testTampered(t, gfField())
	testTampered(t, fpField())
}
