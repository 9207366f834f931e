package longfellow

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// fp is an integer modulo the prime of P-256, p = 2^256 - 2^224 + 2^192 + 2^96 - 1, times 2^256 (Montgomery's
// form), with the lowest word first. It is always less than p, so equal values have equal words.
type fp [4]uint64

const (
	p0 uint64 = 0xffffffffffffffff
	p1 uint64 = 0x00000000ffffffff
	p2 uint64 = 0x0000000000000000
	p3 uint64 = 0xffffffff00000001
)

// squareR is 2^512 mod p, which brings an integer into Montgomery's form.
var squareR = fp{0x0000000000000003, 0xfffffffbffffffff, 0xfffffffffffffffe, 0x00000004fffffffd}

func (a fp) add(b fp) fp {
	r0, c := bits.Add64(a[0], b[0], 0)
	r1, c := bits.Add64(a[1], b[1], c)
	r2, c := bits.Add64(a[2], b[2], c)
	r3, c := bits.Add64(a[3], b[3], c)
	return lessP(r0, r1, r2, r3, c)
}

// lessP returns r - p if r is at least p. r is less than 2p.
func lessP(r0, r1, r2, r3, r4 uint64) fp {
	s0, b := bits.Sub64(r0, p0, 0)
	s1, b := bits.Sub64(r1, p1, b)
	s2, b := bits.Sub64(r2, p2, b)
	s3, b := bits.Sub64(r3, p3, b)
	_, b = bits.Sub64(r4, 0, b)
	m := -b // all ones: r is less than p
	return fp{s0 ^ m&(s0^r0), s1 ^ m&(s1^r1), s2 ^ m&(s2^r2), s3 ^ m&(s3^r3)}
}

func (a fp) sub(b fp) fp {
	r0, c := bits.Sub64(a[0], b[0], 0)
	r1, c := bits.Sub64(a[1], b[1], c)
	r2, c := bits.Sub64(a[2], b[2], c)
	r3, c := bits.Sub64(a[3], b[3], c)
	m := -c
	r0, c = bits.Add64(r0, p0&m, 0)
	r1, c = bits.Add64(r1, p1&m, c)
	r2, c = bits.Add64(r2, p2&m, c)
	r3, _ = bits.Add64(r3, p3&m, c)
	return fp{r0, r1, r2, r3}
}

// mul multiplies word by word. -1/p mod 2^64 is 1, so the lowest word of the sum is the multiple of p that
// cancels it.
func (a fp) mul(b fp) fp {
	var t0, t1, t2, t3, t4 uint64
	for _, x := range a {
		// t += x * b
		h0, l0 := bits.Mul64(x, b[0])
		h1, l1 := bits.Mul64(x, b[1])
		h2, l2 := bits.Mul64(x, b[2])
		h3, l3 := bits.Mul64(x, b[3])
		l1, c := bits.Add64(l1, h0, 0)
		l2, c = bits.Add64(l2, h1, c)
		l3, c = bits.Add64(l3, h2, c)
		h3 += c
		t0, c = bits.Add64(t0, l0, 0)
		t1, c = bits.Add64(t1, l1, c)
		t2, c = bits.Add64(t2, l2, c)
		t3, c = bits.Add64(t3, l3, c)
		t4, c = bits.Add64(t4, h3, c)
		t5 := c
		// t = (t + t0 * p) / 2^64, with t0 * p = t0 * (2^256 - 2^224 + 2^192 + 2^96) - t0
		low, high := t0<<32, t0>>32
		mh, ml := bits.Mul64(t0, p3)
		t1, c = bits.Add64(t1, low, 0)
		t2, c = bits.Add64(t2, high, c)
		t3, c = bits.Add64(t3, ml, c)
		t4, c = bits.Add64(t4, mh, c)
		t5 += c
		t0, t1, t2, t3, t4 = t1, t2, t3, t4, t5
	}
	return lessP(t0, t1, t2, t3, t4)
}

// fpOf returns the field's element for a number.
func fpOf(n uint64) fp { return fp{n}.mul(squareR) }

func inverseFP(a fp) fp {
	// a^(p-2)
	r := fpOf(1)
	for _, w := range [4]uint64{p3, p2, p1, p0 - 2} {
		for i := 63; i >= 0; i-- {
			r = r.mul(r)
			if w>>i&1 == 1 {
				r = r.mul(a)
			}
		}
	}
	return r
}

// decodeFP reads 32 bytes, the lowest first. It rejects integers that are not less than p.
func decodeFP(b []byte) (fp, bool) {
	var a fp
	for i := range a {
		a[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	_, c := bits.Sub64(a[0], p0, 0)
	_, c = bits.Sub64(a[1], p1, c)
	_, c = bits.Sub64(a[2], p2, c)
	_, c = bits.Sub64(a[3], p3, c)
	return a.mul(squareR), c == 1
}

func encodeFP(b []byte, e fp) {
	for i, w := range e.mul(fp{1}) {
		binary.LittleEndian.PutUint64(b[8*i:], w)
	}
}

var fpField = sync.OnceValue(func() *field[fp] {
	f := &field[fp]{
		id: 1, size: 32, subSize: 32,
		one:       fpOf(1),
		nodes:     [3]fp{{}, fpOf(1), fpOf(2)},
		decode:    decodeFP,
		decodeSub: decodeFP,
		encode:    encodeFP,
		sample: func(t *transcript) fp {
			var b [32]byte
			for {
				t.random(b[:])
				if e, ok := decodeFP(b[:]); ok {
					return e
				}
			}
		},
		interpolator: newFPInterpolator,
		bind:         bindEach[fp],
		scale:        scaleEach[fp],
		fold:         foldEach[fp],
	}
	f.identity = append(binary.LittleEndian.AppendUint64(nil, 1), make([]byte, 32)...)
	encodeFP(f.identity[8:], fp{}.sub(f.one))
	return f.withWeights(inverseFP)
})

// fpInterpolator has a row of factors for each point.
type fpInterpolator struct {
	width  int
	matrix []fp
}

func newFPInterpolator(n, from, to int, points []int) interpolator[fp] {
	limit := n
	for _, p := range points {
		limit = max(limit, p+1)
	}
	factorial, inverse := make([]fp, limit), make([]fp, limit)
	factorial[0] = fpOf(1)
	for i := 1; i < limit; i++ {
		factorial[i] = factorial[i-1].mul(fpOf(uint64(i)))
	}
	// inverse[i] is 1/i!, then 1/i.
	inverse[limit-1] = inverseFP(factorial[limit-1])
	for i := limit - 1; i > 0; i-- {
		inverse[i-1] = inverse[i].mul(fpOf(uint64(i)))
	}
	m := &fpInterpolator{to - from, make([]fp, 0, (to-from)*len(points))}
	weight := make([]fp, to-from)
	for i := range weight {
		k := from + i
		weight[i] = inverse[k].mul(inverse[n-1-k])
		if (n-1-k)%2 == 1 {
			weight[i] = fp{}.sub(weight[i])
		}
	}
	for _, x := range points {
		// prod(x - k) for k < n is x! / (x-n)!. A point has x >= n.
		all := factorial[x].mul(inverse[x-n])
		for i, w := range weight {
			d := x - from - i
			m.matrix = append(m.matrix, all.mul(w).mul(inverse[d].mul(factorial[d-1])))
		}
	}
	return m
}

func (m *fpInterpolator) apply(out, values []fp) {
	for i := range out {
		row := m.matrix[i*m.width:][:len(values)]
		var sum fp
		for k, v := range values {
			sum = sum.add(v.mul(row[k]))
		}
		out[i] = sum
	}
}
