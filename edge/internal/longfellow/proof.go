package longfellow

import "encoding/binary"

// proof is a proof for one circuit.
type proof[E any] struct {
	root     digest
	sumcheck []sumcheckLayer[E]
	ligero   ligeroProof[E]
}

// proofReader reads a proof. The circuit determines all sizes but two: how many of the opened elements are
// encoded as elements of the subfield, and the length of the Merkle tree's path.
type proofReader[E element[E]] struct {
	f   *field[E]
	b   []byte
	bad bool
}

func (r *proofReader[E]) next(n int) []byte {
	if n > len(r.b) {
		r.bad = true
	}
	if r.bad {
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *proofReader[E]) digests(n int) []digest {
	b := r.next(n * len(digest{}))
	if r.bad {
		return nil
	}
	d := make([]digest, n)
	for i := range d {
		d[i] = digest(b[i*len(digest{}):])
	}
	return d
}

// elements appends n elements of the field, or of its subfield.
func (r *proofReader[E]) elements(to []E, n int, inSubfield bool) []E {
	size, decode := r.f.size, r.f.decode
	if inSubfield {
		size, decode = r.f.subSize, r.f.decodeSub
	}
	b := r.next(n * size)
	if r.bad {
		return to
	}
	for i := range n {
		e, ok := decode(b[i*size:][:size])
		if !ok {
			r.bad = true
			return to
		}
		to = append(to, e)
	}
	return to
}

func (r *proofReader[E]) length() int {
	b := r.next(4)
	if r.bad {
		return 0
	}
	return int(binary.LittleEndian.Uint32(b))
}

// readProof reads a proof for the circuit and returns the rest.
func readProof[E element[E]](b []byte, f *field[E], c *circuit[E], s *shape) (*proof[E], []byte, bool) {
	r := &proofReader[E]{f: f, b: b}
	p := &proof[E]{}
	copy(p.root[:], r.next(len(p.root)))
	for i := range c.layers {
		rounds := 2 * c.layers[i].bits
		var l sumcheckLayer[E]
		// The values of both inputs at the first node precede those at the third.
		values := r.elements(make([]E, 0, 2*rounds+2), 2*rounds+2, false)
		if r.bad {
			return nil, nil, false
		}
		l.rounds = make([][2]E, rounds)
		for j := range l.rounds {
			first := 4*(j/2) + j%2
			l.rounds[j] = [2]E{values[first], values[first+2]}
		}
		l.claims = [2]E(values[2*rounds:])
		p.sumcheck = append(p.sumcheck, l)
	}

	l := &p.ligero
	l.lowDegree = r.elements(nil, s.block, false)
	l.linear = r.elements(nil, s.double, false)
	l.quadLow = r.elements(nil, s.queries, false)
	l.quadHigh = r.elements(nil, s.double-s.block, false)
	l.nonces = r.digests(s.queries)
	opened := (blinding + s.combined()) * s.queries
	if len(r.b) < opened*f.subSize {
		return nil, nil, false
	}
	l.opened = make([]E, 0, opened)
	for inSubfield := false; len(l.opened) < opened && !r.bad; inSubfield = !inSubfield {
		n := r.length()
		// Only the first run may be empty. Two encodings of one proof would be harmless, but useless.
		if n > opened-len(l.opened) || n == 0 && inSubfield || n == 0 && len(l.opened) > 0 {
			return nil, nil, false
		}
		l.opened = r.elements(l.opened, n, inSubfield)
	}
	// No opened column needs more than one sibling per level.
	n := r.length()
	if n > s.queries*(log2(s.columns)+1) {
		return nil, nil, false
	}
	l.merklePath = r.digests(n)
	return p, r.b, !r.bad
}
