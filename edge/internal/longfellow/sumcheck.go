package longfellow

// A sumcheck proof reduces, layer by layer, the claim that all outputs are zero to a claim about the inputs.
// The prover sends all of it under a one-time pad, so the verifier cannot check it. It derives linear
// equations for the pads and the private inputs instead. The prover has committed to both.

// outputChallenges is the number of challenges that select an output. They are drawn before the circuit's
// size matters.
const outputChallenges = 40

// sumcheckLayer is a layer's part of the proof.
type sumcheckLayer[E any] struct {
	// rounds has the padded values of each round's polynomial at the first and the third node. A round binds
	// one bit of one input's number: h0 and h1 take turns, and the lowest bit is first.
	rounds [][2]E
	claims [2]E // the padded values of both inputs
}

// challenges of a layer.
type layerChallenges[E any] struct {
	alpha, beta E
	rounds      [2][]E // by input of a term
}

// challenges of the sumcheck proof.
type sumcheckChallenges[E any] struct {
	output []E
	layers []layerChallenges[E]
	input  E
}

// replaySumcheck writes the statement and the proof to the transcript and returns the challenges.
func replaySumcheck[E element[E]](t *transcript, f *field[E], c *circuit[E], public []E,
	proof []sumcheckLayer[E]) sumcheckChallenges[E] {
	t.bytes(c.id[:])
	for _, p := range public {
		writeElement(t, f, p)
	}
	var zero E
	writeElement(t, f, zero)
	t.zeros(c.terms)

	sampleAll(t, f, outputChallenges) // of copies of the circuit; there is one
	all := sumcheckChallenges[E]{output: sampleAll(t, f, outputChallenges)[:log2(c.outputs)]}
	for i := range proof {
		l := layerChallenges[E]{alpha: f.sample(t), beta: f.sample(t)}
		for j, round := range proof[i].rounds {
			writeElement(t, f, round[0])
			writeElement(t, f, round[1])
			l.rounds[j%2] = append(l.rounds[j%2], f.sample(t))
		}
		writeElements(t, f, proof[i].claims[:])
		all.layers = append(all.layers, l)
	}
	all.input = f.sample(t)
	return all
}

// padsOf returns the number of pads of a layer: two per round, then those of the two claims, and their
// product.
func padsOf(l *layer) int { return 4*l.bits + 3 }

// sumcheckEquations adds the sumcheck's equations to e: one per layer, then one for the inputs.
func sumcheckEquations[E element[E]](f *field[E], c *circuit[E], public []E, proof []sumcheckLayer[E],
	ch *sumcheckChallenges[E], e *equations[E], tables *tables[E]) {
	// claims are the claims about the layer's outputs: claim i is the pad of number pads[i] plus known[i].
	var claims struct {
		padded bool // false for the outputs of the circuit, which are zero
		pads   int
		known  [2]E
	}
	out := tables.take(c.outputs)
	selector(f, out, ch.output)
	f.fold(out, out, ch.layers[0].alpha) // both claims are about the same output
	pads := c.inputs - c.public          // precede the layer's pads
	for i := range c.layers {
		l, challenge, from := &c.layers[i], &ch.layers[i], &proof[i]
		b := binding[E]{constants: withBeta(c.constants, challenge.beta), out: out}
		for side := range b.in {
			b.in[side] = tables.take(l.wires)
		}
		selectors(f, &b.in, &challenge.rounds, c.slots)
		bound := boundTerms(f, l, &b, c.slots)
		tables.give(out)

		eq := newEquation(e)
		known := claims.known[0].add(challenge.alpha.mul(claims.known[1]))
		coefficient, known, own := layerEquation(f, challenge, from, known, bound, padsOf(l))
		if claims.padded {
			eq.add(claims.pads, coefficient)
			eq.add(claims.pads+1, coefficient.mul(challenge.alpha))
		}
		for k, v := range own {
			eq.add(pads+k, v)
		}
		eq.known(known)

		claims.padded = true
		claims.pads = pads + len(own) - 3
		claims.known = from.claims
		pads += len(own)
		alpha := ch.input
		if i+1 < len(c.layers) {
			alpha = ch.layers[i+1].alpha
		}
		out = b.in[0]
		f.fold(out, b.in[1], alpha)
		tables.give(b.in[1])
	}

	eq := newEquation(e)
	var known E
	for i, p := range public {
		known = known.add(out[i].mul(p))
	}
	eq.addAll(0, out[c.public:])
	tables.give(out)
	var zero E
	eq.known(known.sub(claims.known[0]).sub(ch.input.mul(claims.known[1])))
	eq.add(claims.pads, zero.sub(f.one))
	eq.add(claims.pads+1, zero.sub(ch.input))
}

// layerEquation returns the equation of a layer. Its own pads have the factors own. The pads of both claims
// about its outputs have the factors coefficient and coefficient * alpha. claim is the known part of these
// claims, and bound is the sum of the bound terms.
func layerEquation[E element[E]](f *field[E], challenge *layerChallenges[E], from *sumcheckLayer[E],
	claim, bound E, pads int) (coefficient, known E, own []E) {
	coefficient, known, own = f.one, claim, make([]E, pads)
	for r, values := range from.rounds {
		basis := f.basis(challenge.rounds[r%2][r/2])
		// p(0) = pad + values[0], p(1) = claim - p(0), p(2) = pad + values[1]
		coefficient = coefficient.mul(basis[1])
		known = known.mul(basis[1])
		for k := range own[:2*r] {
			own[k] = own[k].mul(basis[1])
		}
		first := basis[0].sub(basis[1])
		own[2*r] = first
		own[2*r+1] = basis[2]
		known = known.add(values[0].mul(first)).add(values[1].mul(basis[2]))
	}
	// minus bound * (pad0 + claim0) * (pad1 + claim1)
	last := own[pads-3:]
	last[0] = last[0].sub(bound.mul(from.claims[1]))
	last[1] = last[1].sub(bound.mul(from.claims[0]))
	last[2] = last[2].sub(bound)
	return coefficient, known.sub(bound.mul(from.claims[0]).mul(from.claims[1])), own
}

// withBeta returns the constants with beta instead of zero.
func withBeta[E element[E]](constants []E, beta E) []E {
	c := make([]E, len(constants))
	copy(c, constants)
	var zero E
	for i := range c {
		if c[i] == zero {
			c[i] = beta
		}
	}
	return c
}

// tables lends memory for a circuit's largest layer. A verification takes three tables at a time at most, and
// its memory is theirs.
type tables[E any] struct {
	size int
	free [][]E
}

func newTables[E element[E]](c *circuit[E]) *tables[E] {
	t := &tables[E]{size: c.outputs}
	for i := range c.layers {
		t.size = max(t.size, c.layers[i].wires)
	}
	return t
}

func (t *tables[E]) take(n int) []E {
	last := len(t.free) - 1
	if last < 0 {
		return make([]E, n, t.size)
	}
	s := t.free[last][:n]
	t.free = t.free[:last]
	return s
}

func (t *tables[E]) give(s []E) { t.free = append(t.free, s) }
