package longfellow

// system is a circuit with the parameters of its proofs.
type system[E element[E]] struct {
	field   *field[E]
	circuit *circuit[E]
	shape   shape
	triples []triple
}

func newSystem[E element[E]](f *field[E], c *circuit[E], rate, queries, length int) (*system[E], bool) {
	s := &system[E]{field: f, circuit: c}
	// The witnesses are the private inputs and the pads of the sumcheck proof. The last three pads of a layer
	// are two factors and their product.
	witnesses := c.inputs - c.public
	for i := range c.layers {
		witnesses += padsOf(&c.layers[i])
		s.triples = append(s.triples, triple{witnesses - 3, witnesses - 2, witnesses - 1})
	}
	var ok bool
	s.shape, ok = newShape(witnesses, len(s.triples), rate, queries, length)
	return s, ok
}

// run is a verification whose challenges are known.
type run[E element[E]] struct {
	*system[E]
	public   []E
	proof    *proof[E]
	sumcheck sumcheckChallenges[E]
	ligero   ligeroChallenges[E]
}

// replay writes the statement and the proof to the transcript. The commitment has been written before.
func (s *system[E]) replay(t *transcript, public []E, p *proof[E]) *run[E] {
	r := &run[E]{system: s, public: public, proof: p}
	r.sumcheck = replaySumcheck(t, s.field, s.circuit, public, p.sumcheck)
	r.ligero = replayLigero(t, s.field, &s.shape, len(s.circuit.layers)+1, &p.ligero)
	return r
}

// committed reports whether the commitment has the opened columns. It takes milliseconds, and a
// change of the proof or of the statement nearly always fails here, because it changes the columns to open.
func (r *run[E]) committed() bool {
	return checkColumns(r.field, &r.shape, r.proof.root, &r.proof.ligero, r.ligero.columns)
}

// check returns the reason to reject a proof that is committed, or "".
func (r *run[E]) check() Reason {
	e := &equations[E]{factor: r.ligero.linear, witnesses: make([]E, r.shape.witnesses)}
	sumcheckEquations(r.field, r.circuit, r.public, r.proof.sumcheck, &r.sumcheck, e, newTables(r.circuit))
	return checkLigero(r.field, &r.shape, &r.proof.ligero, &r.ligero, r.triples, e)
}
