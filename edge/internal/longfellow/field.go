package longfellow

import "math/bits"

// element is a value of a field. Its zero value is the field's zero.
type element[E any] interface {
	comparable
	add(E) E
	sub(E) E
	mul(E) E
}

// field has the constants and encodings of a field, and the operations that are worth an own loop.
type field[E element[E]] struct {
	id       uint32 // in circuits
	size     int    // of an encoded element, in bytes
	subSize  int    // of an encoded element of the subfield
	identity []byte // begins the hash that is a circuit's identity

	one     E
	nodes   [3]E // the points at which the proof has a round's polynomial
	weights [3]E // 1 / ((nodes[i] - nodes[j]) * (nodes[i] - nodes[k]))

	decode    func(b []byte) (E, bool)
	decodeSub func(b []byte) (E, bool)
	encode    func(b []byte, e E)
	sample    func(t *transcript) E
	// interpolator returns the matrix that extends rows of n elements to points of the code.
	interpolator func(n, from, to int, points []int) interpolator[E]
	// bind adds up the terms of a chunk; see boundTerms.
	bind func(c *chunk, b *binding[E]) E
	// scale sets dst[i] to src[i] * by.
	scale func(dst, src []E, by E)
	// fold sets a[i] to a[i] + b[i] * by.
	fold func(a, b []E, by E)
}

// interpolator evaluates polynomials at points of the Reed-Solomon code. A polynomial is given by its values
// at the first points of the code; those outside of a range that the interpolator was made for are zero.
type interpolator[E any] interface {
	// apply sets out[i] to the value at the i-th point. values has the values in the range.
	apply(out, values []E)
}

// basis returns the Lagrange polynomials of the three nodes at r.
func (f *field[E]) basis(r E) [3]E {
	d := [3]E{r.sub(f.nodes[0]), r.sub(f.nodes[1]), r.sub(f.nodes[2])}
	return [3]E{
		d[1].mul(d[2]).mul(f.weights[0]),
		d[0].mul(d[2]).mul(f.weights[1]),
		d[0].mul(d[1]).mul(f.weights[2]),
	}
}

// withWeights completes the field's constants.
func (f *field[E]) withWeights(inverse func(E) E) *field[E] {
	for i := range 3 {
		j, k := (i+1)%3, (i+2)%3
		f.weights[i] = inverse(f.nodes[i].sub(f.nodes[j]).mul(f.nodes[i].sub(f.nodes[k])))
	}
	return f
}

// scaleEach is a field's scale without an own loop.
func scaleEach[E element[E]](dst, src []E, by E) {
	for i := range dst {
		dst[i] = src[i].mul(by)
	}
}

// foldEach is a field's fold without an own loop.
func foldEach[E element[E]](a, b []E, by E) {
	for i := range a {
		a[i] = a[i].add(b[i].mul(by))
	}
}

// log2 returns the number of bits that count n values: the least l with n <= 1<<l.
func log2(n int) int {
	if n <= 1 {
		return 0
	}
	return bits.Len(uint(n - 1))
}
