package longfellow

import "crypto/sha256"

// A Ligero proof shows that the committed witnesses satisfy linear and quadratic equations. The prover writes
// the witnesses into rows, extends each row by a Reed-Solomon code, and commits to the columns. It then sends
// random combinations of the rows, and opens the columns that the verifier chooses.

// shape has the dimensions of a Ligero proof.
type shape struct {
	witnesses int
	triples   int // quadratic equations
	queries   int // columns to open
	block     int // values that define a row: queries random ones, then witnesses
	double    int // values that define the product of two rows
	columns   int // that can be opened; they follow the first double ones
	perRow    int // witnesses
	rows      int // of witnesses
	tripleRow int // rows of each side of the quadratic equations
}

// blinding is the number of rows that blind the three combinations: of all rows, of the linear equations, and
// of the quadratic ones.
const blinding = 3

// newShape returns the dimensions for an inverse rate of the code, and the length of an extended row.
func newShape(witnesses, triples, rate, queries, length int) (shape, bool) {
	s := shape{witnesses: witnesses, triples: triples, queries: queries, block: (length + 1) / (2 + rate)}
	s.double = 2*s.block - 1
	s.columns = length - s.double
	s.perRow = s.block - queries
	if length >= 1<<16 || queries < 1 || s.perRow < queries || s.columns < queries {
		return shape{}, false
	}
	s.rows = (witnesses + s.perRow - 1) / s.perRow
	s.tripleRow = (triples + s.perRow - 1) / s.perRow
	return s, true
}

// combined returns the number of rows that are not blinding.
func (s *shape) combined() int { return s.rows + 3*s.tripleRow }

// ligeroProof is the prover's part. opened has the opened elements by row, queries elements each.
type ligeroProof[E any] struct {
	lowDegree  []E // block values
	linear     []E // double values
	quadLow    []E // the first queries values; those of witnesses are zero
	quadHigh   []E // the values from block to double
	nonces     []digest
	opened     []E
	merklePath []digest
}

// triple is the equation that the product of witnesses x and y is witness z.
type triple struct{ x, y, z int }

// equations are linear equations: the sum over the witnesses, plus a known value, is zero. Equation i counts
// factor[i] times, and all are one sum.
type equations[E element[E]] struct {
	factor    []E
	count     int
	witnesses []E // the factors of the witnesses in the sum
	sum       E   // of the known values
}

type equation[E element[E]] struct {
	of     *equations[E]
	factor E
}

func newEquation[E element[E]](e *equations[E]) equation[E] {
	e.count++
	return equation[E]{e, e.factor[e.count-1]}
}

func (q equation[E]) add(witness int, by E) {
	q.of.witnesses[witness] = q.of.witnesses[witness].add(by.mul(q.factor))
}

// addAll adds witnesses that no equation has yet.
func (q equation[E]) addAll(first int, by []E) {
	for i, b := range by {
		q.add(first+i, b)
	}
}

func (q equation[E]) known(value E) { q.of.sum = q.of.sum.add(value.mul(q.factor)) }

// ligeroChallenges are the verifier's choices, in their order.
type ligeroChallenges[E any] struct {
	lowDegree []E    // by row
	linear    []E    // by linear equation
	triples   [][3]E // by quadratic equation
	quadratic []E    // by row of triples
	columns   []int
}

// statementHash replaces a hash of the equations, which the transcript already determines.
var statementHash = [32]byte{0xde, 0xad, 0xbe, 0xef}

// replayLigero writes the proof to the transcript and returns the challenges. equations is the number of
// linear equations.
func replayLigero[E element[E]](t *transcript, f *field[E], s *shape, equations int,
	p *ligeroProof[E]) ligeroChallenges[E] {
	t.bytes(statementHash[:])
	c := ligeroChallenges[E]{lowDegree: sampleAll(t, f, s.combined()), linear: sampleAll(t, f, equations),
		triples: make([][3]E, s.triples)}
	for i := range c.triples {
		for side := range 3 {
			c.triples[i][side] = f.sample(t)
		}
	}
	c.quadratic = sampleAll(t, f, s.tripleRow)
	writeElements(t, f, p.lowDegree)
	writeElements(t, f, p.linear)
	writeElements(t, f, p.quadLow)
	writeElements(t, f, p.quadHigh)
	c.columns = t.choose(s.columns, s.queries)
	return c
}

// checkColumns reports whether the commitment has the opened columns.
func checkColumns[E element[E]](f *field[E], s *shape, root digest, p *ligeroProof[E], columns []int) bool {
	leaves := make(map[int]digest, s.queries)
	column := make([]byte, 0, sha256.Size+(blinding+s.combined())*f.size)
	for i, c := range columns {
		column = append(column[:0], p.nonces[i][:]...)
		for row := range blinding + s.combined() {
			column = column[:len(column)+f.size]
			f.encode(column[len(column)-f.size:], p.opened[row*s.queries+i])
		}
		leaves[c] = sha256.Sum256(column)
	}
	got, ok := merkleRoot(s.columns, leaves, p.merklePath)
	return ok && got == root
}

// checkLigero checks the three combinations against the opened columns. e has all linear equations.
func checkLigero[E element[E]](f *field[E], s *shape, p *ligeroProof[E], c *ligeroChallenges[E],
	triples []triple, e *equations[E]) Reason {
	points := make([]int, s.queries)
	for i, column := range c.columns {
		points[i] = s.double + column
	}
	row := func(i int) []E { return p.opened[i*s.queries:][:s.queries] }
	got, want := make([]E, s.queries), make([]E, s.queries)

	// All rows are in the code.
	copy(got, row(0))
	for i, by := range c.lowDegree {
		f.fold(got, row(blinding+i), by)
	}
	f.interpolator(s.block, 0, s.block, points).apply(want, p.lowDegree)
	if !same(got, want) {
		return LowDegree
	}

	// The linear equations, and those that make the rows of triples copies of witnesses.
	factors := make([]E, s.combined()*s.perRow)
	copy(factors, e.witnesses)
	side := s.tripleRow * s.perRow
	for i, t := range triples {
		for j, w := range [3]int{t.x, t.y, t.z} {
			at := s.rows*s.perRow + j*side + i
			factors[at] = factors[at].add(c.triples[i][j])
			factors[w] = factors[w].sub(c.triples[i][j])
		}
	}
	copy(got, row(1))
	single := f.interpolator(s.block, s.queries, s.block, points)
	for i := range s.combined() {
		single.apply(want, factors[i*s.perRow:][:s.perRow])
		for j, o := range row(blinding + i) {
			got[j] = got[j].add(want[j].mul(o))
		}
	}
	double := f.interpolator(s.double, 0, s.double, points)
	double.apply(want, p.linear)
	if !same(got, want) {
		return LinearRows
	}
	sum := e.sum
	for _, v := range p.linear[s.queries:s.block] {
		sum = sum.add(v)
	}
	var zero E
	if sum != zero {
		return LinearSum
	}

	// The quadratic equations.
	copy(got, row(2))
	for i, by := range c.quadratic {
		x, y, z := blinding+s.rows+i, blinding+s.rows+s.tripleRow+i, blinding+s.rows+2*s.tripleRow+i
		for j := range got {
			got[j] = got[j].add(by.mul(row(z)[j].sub(row(x)[j].mul(row(y)[j]))))
		}
	}
	quadratic := make([]E, s.double)
	copy(quadratic, p.quadLow)
	copy(quadratic[s.block:], p.quadHigh)
	double.apply(want, quadratic)
	if !same(got, want) {
		return Quadratic
	}
	return ""
}

func same[E comparable](a, b []E) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
