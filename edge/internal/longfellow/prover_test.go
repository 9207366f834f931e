package longfellow

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// prover proves statements about small circuits, and false ones, too. It is slow and not zero-knowledge: its
// randomness is a seed's.
type prover[E element[E]] struct {
	*system[E]
	random *rand.Rand
	// cheat, if not nil, changes the rows before the prover commits to them.
	cheat func(rows [][]E)
	// cheatWitness, if not nil, changes the witnesses before they are written into rows.
	cheatWitness func(witnesses []E)
}

func (p *prover[E]) element() E {
	var key [32]byte
	for i := range key {
		key[i] = byte(p.random.Uint32())
	}
	return p.field.sample(newTranscript(key[:]))
}

func (p *prover[E]) elements(n int) []E {
	e := make([]E, n)
	for i := range e {
		e[i] = p.element()
	}
	return e
}

// extend returns a row with the values at all points of the code, given those at the first ones.
func (p *prover[E]) extend(first []E) []E {
	length := p.shape.double + p.shape.columns
	points := make([]int, 0, length)
	for i := len(first); i < length; i++ {
		points = append(points, i)
	}
	row := append(make([]E, 0, length), first...)
	row = row[:length]
	p.field.interpolator(len(first), 0, len(first), points).apply(row[len(first):], first)
	return row
}

// committed is a prover's commitment to its inputs, with the values that it needs later.
type committed[E element[E]] struct {
	*prover[E]
	inputs, witnesses []E
	rows              [][]E
	tree, nonces      []digest
}

// root returns the commitment.
func (c *committed[E]) root() digest { return c.tree[1] }

// prove returns a proof that the inputs satisfy the circuit, if they do.
func (p *prover[E]) prove(label string, inputs []E) []byte {
	c := p.commit(inputs)
	return writeProof(p.field, c.prove(func() *transcript {
		t := newTranscript([]byte(label))
		root := c.root()
		t.bytes(root[:])
		return t
	}))
}

// commit commits to the private inputs and the pads.
func (p *prover[E]) commit(inputs []E) *committed[E] {
	f, s := p.field, &p.shape
	c := &committed[E]{prover: p, inputs: inputs}
	c.witnesses = append(c.witnesses, inputs[p.circuit.public:]...)
	for i := range p.circuit.layers {
		pads := p.elements(padsOf(&p.circuit.layers[i]))
		n := len(pads)
		pads[n-1] = pads[n-3].mul(pads[n-2])
		c.witnesses = append(c.witnesses, pads...)
	}
	if p.cheatWitness != nil {
		p.cheatWitness(c.witnesses)
	}

	c.rows = p.rowsOf(c.witnesses)
	if p.cheat != nil {
		p.cheat(c.rows)
	}
	c.tree = make([]digest, 2*s.columns)
	c.nonces = make([]digest, s.columns)
	for i := range s.columns {
		for j := range c.nonces[i] {
			c.nonces[i][j] = byte(p.random.Uint32())
		}
		column := append([]byte{}, c.nonces[i][:]...)
		for _, row := range c.rows {
			b := make([]byte, f.size)
			f.encode(b, row[s.double+i])
			column = append(column, b...)
		}
		c.tree[s.columns+i] = sha256.Sum256(column)
	}
	for i := s.columns - 1; i > 0; i-- {
		c.tree[i] = sha256.Sum256(append(append([]byte{}, c.tree[2*i][:]...), c.tree[2*i+1][:]...))
	}
	return c
}

// prove returns the proof. start returns a new transcript that has everything before the statement.
func (c *committed[E]) prove(start func() *transcript) *proof[E] {
	f, s := c.field, &c.shape
	out := &proof[E]{root: c.root()}
	out.sumcheck = c.sumcheck(start, c.inputs, c.witnesses)
	public := c.inputs[:c.circuit.public]
	t := start()
	ch := replaySumcheck(t, f, c.circuit, public, out.sumcheck)
	c.combine(t, out, c.rows, public, &ch)
	open := make([]bool, 2*s.columns)
	columns := t.choose(s.columns, s.queries)
	for _, i := range columns {
		open[s.columns+i] = true
		out.ligero.nonces = append(out.ligero.nonces, c.nonces[i])
	}
	for _, row := range c.rows {
		for _, i := range columns {
			out.ligero.opened = append(out.ligero.opened, row[s.double+i])
		}
	}
	for i := s.columns - 1; i > 0; i-- {
		open[i] = open[2*i] || open[2*i+1]
		if open[i] && !open[2*i] {
			out.ligero.merklePath = append(out.ligero.merklePath, c.tree[2*i])
		}
		if open[i] && !open[2*i+1] {
			out.ligero.merklePath = append(out.ligero.merklePath, c.tree[2*i+1])
		}
	}
	return out
}

// rowsOf returns the extended rows: three that blind, those of the witnesses, and those of the triples.
func (p *prover[E]) rowsOf(witnesses []E) [][]E {
	s := &p.shape
	linear, quadratic := p.elements(s.double), p.elements(s.double)
	var sum, zero E
	for i := s.queries; i < s.block; i++ {
		sum = sum.add(linear[i])
		quadratic[i] = zero
	}
	linear[s.queries] = linear[s.queries].sub(sum)
	rows := [][]E{p.extend(p.elements(s.block)), p.extend(linear), p.extend(quadratic)}
	add := func(n int, values []E) {
		for i := range n {
			row := append(p.elements(s.queries), make([]E, s.perRow)...)
			if i*s.perRow < len(values) {
				copy(row[s.queries:], values[i*s.perRow:])
			}
			rows = append(rows, p.extend(row))
		}
	}
	add(s.rows, witnesses)
	var sides [3][]E
	for _, t := range p.triples {
		for j, w := range [3]int{t.x, t.y, t.z} {
			sides[j] = append(sides[j], witnesses[w])
		}
	}
	for _, side := range sides {
		add(s.tripleRow, side)
	}
	return rows
}

// combine computes the three combinations of the rows.
func (p *prover[E]) combine(t *transcript, out *proof[E], rows [][]E, public []E, ch *sumcheckChallenges[E]) {
	f, c, s := p.field, p.circuit, &p.shape
	t.bytes(statementHash[:])
	lowDegree := sampleAll(t, f, s.combined())
	linear := sampleAll(t, f, len(c.layers)+1)
	factors := make([]E, s.combined()*s.perRow)
	e := &equations[E]{factor: linear, witnesses: factors[:s.witnesses]}
	sumcheckEquations(f, c, public, out.sumcheck, ch, e, newTables(c))
	for i, tr := range p.triples {
		for j, w := range [3]int{tr.x, tr.y, tr.z} {
			a := f.sample(t)
			at := (s.rows+j*s.tripleRow)*s.perRow + i
			factors[at] = factors[at].add(a)
			factors[w] = factors[w].sub(a)
		}
	}
	quadratic := sampleAll(t, f, s.tripleRow)

	l := &out.ligero
	l.lowDegree = append(l.lowDegree, rows[0][:s.block]...)
	l.linear = append(l.linear, rows[1][:s.double]...)
	for i := range s.combined() {
		row := rows[blinding+i]
		f.fold(l.lowDegree, row[:s.block], lowDegree[i])
		factor := p.extend(append(make([]E, s.queries), factors[i*s.perRow:][:s.perRow]...))
		for k := range l.linear {
			l.linear[k] = l.linear[k].add(factor[k].mul(row[k]))
		}
	}
	sum := append([]E{}, rows[2][:s.double]...)
	for i, by := range quadratic {
		side := func(j int) []E { return rows[blinding+s.rows+j*s.tripleRow+i] }
		for k := range sum {
			sum[k] = sum[k].add(by.mul(side(2)[k].sub(side(0)[k].mul(side(1)[k]))))
		}
	}
	l.quadLow, l.quadHigh = sum[:s.queries], sum[s.block:]
	writeElements(t, f, l.lowDegree)
	writeElements(t, f, l.linear)
	writeElements(t, f, l.quadLow)
	writeElements(t, f, l.quadHigh)
}

// terms returns a layer's terms.
func (l *layer) terms() []term {
	var terms []term
	for _, c := range l.chunks {
		t := c.start
		for _, n := range c.terms {
			d := c.table[n]
			t = term{t.g + d.g, t.h0 + d.h0, t.h1 + d.h1, d.constant}
			terms = append(terms, t)
		}
	}
	return terms
}

// sumcheck returns the padded sumcheck proof.
func (p *prover[E]) sumcheck(start func() *transcript, inputs, witnesses []E) []sumcheckLayer[E] {
	f, c := p.field, p.circuit
	values := make([][]E, len(c.layers))
	values[len(values)-1] = inputs
	for i := len(c.layers) - 1; i > 0; i-- {
		values[i-1] = make([]E, c.layers[i-1].wires)
		for _, t := range c.layers[i].terms() {
			in := c.constants[t.constant].mul(values[i][t.h0]).mul(values[i][t.h1])
			values[i-1][t.g] = values[i-1][t.g].add(in)
		}
	}
	var done []sumcheckLayer[E]
	pads := witnesses[c.inputs-c.public:]
	for i := range c.layers {
		l := &c.layers[i]
		layer := sumcheckLayer[E]{rounds: make([][2]E, 2*l.bits)}
		// The challenges up to a round do not depend on what follows it.
		challenges := func() *sumcheckChallenges[E] {
			ch := replaySumcheck(start(), f, c, inputs[:c.public], append(done[:i:i], layer))
			return &ch
		}
		for round := range layer.rounds {
			at := p.round(i, round, values[i], challenges())
			for k, node := range [2]int{0, 2} {
				layer.rounds[round][k] = at(f.nodes[node]).sub(pads[2*round+k])
			}
		}
		ch := challenges().layers[i]
		for side := range 2 {
			table := make([]E, l.wires)
			selector(f, table, ch.rounds[side])
			var v E
			for k, s := range table {
				v = v.add(s.mul(values[i][k]))
			}
			layer.claims[side] = v.sub(pads[4*l.bits+side])
		}
		pads = pads[padsOf(l):]
		done = append(done, layer)
	}
	return done
}

// round returns the polynomial of a round, given the challenges of those before it.
func (p *prover[E]) round(i, round int, values []E, ch *sumcheckChallenges[E]) func(x E) E {
	f, c := p.field, p.circuit
	l, challenge := &c.layers[i], ch.layers[i]
	outputs, before := c.outputs, [2][]E{ch.output, ch.output}
	if i > 0 {
		outputs, before = c.layers[i-1].wires, ch.layers[i-1].rounds
	}
	var out [2][]E
	for side := range out {
		out[side] = make([]E, outputs)
		selector(f, out[side], before[side])
	}
	f.fold(out[0], out[1], challenge.alpha)
	constants := withBeta(c.constants, challenge.beta)
	terms := l.terms()
	return func(x E) E {
		var sum E
		// The bits that are bound have challenges, this round's has x, and the others are the term's.
		bound := [2][]E{challenge.rounds[0][:(round+1)/2], challenge.rounds[1][:round/2]}
		bound[round%2] = append(bound[round%2][:len(bound[round%2]):len(bound[round%2])], x)
		for _, t := range terms {
			v := constants[t.constant].mul(out[0][t.g])
			for side, h := range [2]uint32{t.h0, t.h1} {
				v = v.mul(p.partial(values, bound[side], int(h)))
			}
			sum = sum.add(v)
		}
		return sum
	}
}

// partial returns selector(h) * value, with the lowest bits of h bound.
func (p *prover[E]) partial(values, bound []E, h int) E {
	n := len(bound)
	if n == 0 {
		return values[h]
	}
	selects := make([]E, 1<<n)
	selector(p.field, selects, bound)
	var sum E
	for low, s := range selects {
		if k := h>>n<<n | low; k < len(values) {
			sum = sum.add(s.mul(values[k]))
		}
	}
	return sum.mul(selects[h&(1<<n-1)])
}

func writeProof[E element[E]](f *field[E], p *proof[E]) []byte {
	b := append([]byte{}, p.root[:]...)
	elements := func(e ...E) {
		for _, e := range e {
			b = append(b, make([]byte, f.size)...)
			f.encode(b[len(b)-f.size:], e)
		}
	}
	for _, l := range p.sumcheck {
		for i := 0; i < len(l.rounds); i += 2 {
			elements(l.rounds[i][0], l.rounds[i+1][0], l.rounds[i][1], l.rounds[i+1][1])
		}
		elements(l.claims[:]...)
	}
	elements(p.ligero.lowDegree...)
	elements(p.ligero.linear...)
	elements(p.ligero.quadLow...)
	elements(p.ligero.quadHigh...)
	for _, n := range p.ligero.nonces {
		b = append(b, n[:]...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.ligero.opened)))
	elements(p.ligero.opened...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(p.ligero.merklePath)))
	for _, d := range p.ligero.merklePath {
		b = append(b, d[:]...)
	}
	return b
}

// writeCircuit writes the deployed format.
func writeCircuit[E element[E]](f *field[E], c *circuit[E]) []byte {
	b := []byte{1}
	id := identity{Hash: sha256.New()}
	id.append(f.identity)
	number := func(n ...int) {
		for _, n := range n {
			b = append(b, byte(n), byte(n>>8), byte(n>>16))
		}
	}
	number(int(f.id), c.outputs, 1, c.public, c.inputs, c.inputs, len(c.layers), len(c.constants))
	id.numbers(c.outputs, log2(c.outputs), 1, 0, len(c.layers), c.inputs, c.public, c.inputs)
	constants := make([]byte, len(c.constants)*f.size)
	for i, k := range c.constants {
		f.encode(constants[i*f.size:], k)
	}
	b = append(b, constants...)
	for _, l := range c.layers {
		terms := l.terms()
		number(l.bits, l.wires, len(terms))
		id.numbers(l.wires, l.bits, len(terms))
		var last term
		difference := func(now, last uint32) {
			if now < last {
				number(int(last-now)<<1 | 1)
				return
			}
			number(int(now-last) << 1)
		}
		for _, t := range terms {
			difference(t.g, last.g)
			difference(t.h0, last.h0)
			difference(t.h1, last.h1)
			number(int(t.constant))
			last = t
			id.numbers(int(t.g), int(t.h0), int(t.h1))
			// A malformed circuit may lack the constant.
			if k := constants[min(int(t.constant)*f.size, len(constants)):]; len(k) > 0 {
				id.append(k[:f.size])
			}
		}
	}
	sum := id.sum()
	return append(b, sum[:]...)
}
