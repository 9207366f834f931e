package longfellow

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// gf is an element of GF(2^128) = GF(2)[x] / (x^128 + x^7 + x^2 + x + 1). Bit i of lo is the coefficient of
// x^i, and bit i of hi that of x^(64+i).
type gf struct{ lo, hi uint64 }

func (a gf) add(b gf) gf { return gf{a.lo ^ b.lo, a.hi ^ b.hi} }
func (a gf) sub(b gf) gf { return a.add(b) }
func (a gf) mul(b gf) gf { return mulGF(a, b) }

// mulGeneric multiplies without instructions for polynomials: Karatsuba's three products, and a reduction.
func mulGeneric(a, b gf) gf {
	h1, h0 := polyMul(a.hi, b.hi)
	l1, l0 := polyMul(a.lo, b.lo)
	m1, m0 := polyMul(a.lo^a.hi, b.lo^b.hi)
	m1 ^= h1 ^ l1
	m0 ^= h0 ^ l0
	return reduce(h1, h0^m1, l1^m0, l0)
}

// reduce returns the remainder of a polynomial of 256 bits, the highest word first. x^128 is 0x87.
func reduce(w3, w2, w1, w0 uint64) gf {
	w1 ^= w3 ^ w3<<1 ^ w3<<2 ^ w3<<7
	w2 ^= w3>>63 ^ w3>>62 ^ w3>>57
	w0 ^= w2 ^ w2<<1 ^ w2<<2 ^ w2<<7
	w1 ^= w2>>63 ^ w2>>62 ^ w2>>57
	return gf{w0, w1}
}

// polyMul returns the product of two polynomials over GF(2). It multiplies integers whose bits have three
// zeros between them, so that no carry reaches the next bit: a sum has at most 15 ones, because the highest
// four bits of a are added apart.
func polyMul(a, b uint64) (hi, lo uint64) {
	const m0, m1, m2, m3 = 0x1111111111111111, 0x2222222222222222, 0x4444444444444444, 0x8888888888888888
	top := a >> 60
	a0, a1, a2, a3 := a&(m0>>4), a&(m1>>4), a&(m2>>4), a&(m3>>4)
	b0, b1, b2, b3 := b&m0, b&m1, b&m2, b&m3

	h00, l00 := bits.Mul64(a0, b0)
	h13, l13 := bits.Mul64(a1, b3)
	h22, l22 := bits.Mul64(a2, b2)
	h31, l31 := bits.Mul64(a3, b1)
	hi = (h00 ^ h13 ^ h22 ^ h31) & m0
	lo = (l00 ^ l13 ^ l22 ^ l31) & m0

	h01, l01 := bits.Mul64(a0, b1)
	h10, l10 := bits.Mul64(a1, b0)
	h23, l23 := bits.Mul64(a2, b3)
	h32, l32 := bits.Mul64(a3, b2)
	hi |= (h01 ^ h10 ^ h23 ^ h32) & m1
	lo |= (l01 ^ l10 ^ l23 ^ l32) & m1

	h02, l02 := bits.Mul64(a0, b2)
	h11, l11 := bits.Mul64(a1, b1)
	h20, l20 := bits.Mul64(a2, b0)
	h33, l33 := bits.Mul64(a3, b3)
	hi |= (h02 ^ h11 ^ h20 ^ h33) & m2
	lo |= (l02 ^ l11 ^ l20 ^ l33) & m2

	h03, l03 := bits.Mul64(a0, b3)
	h12, l12 := bits.Mul64(a1, b2)
	h21, l21 := bits.Mul64(a2, b1)
	h30, l30 := bits.Mul64(a3, b0)
	hi |= (h03 ^ h12 ^ h21 ^ h30) & m3
	lo |= (l03 ^ l12 ^ l21 ^ l30) & m3

	for i := range uint(4) {
		mask := -(top >> i & 1)
		lo ^= b << (60 + i) & mask
		hi ^= b >> (4 - i) & mask
	}
	return hi, lo
}

func inverseGF(a gf) gf {
	// a^(2^128 - 2): 127 ones, then a zero.
	r := a
	for range 126 {
		r = r.mul(r).mul(a)
	}
	return r.mul(r)
}

// generator generates the multiplicative group of GF(2^16), the subfield with the points of the code. Its
// first 16 powers are the basis in which elements of the subfield are encoded.
var generator = gf{0xf1871e01b64fda4c, 0x5c5971877501d4b8}

// subfield has the arithmetic of GF(2^16). An element is a polynomial in the generator, which is how it is
// encoded, and how the code numbers its points.
type subfield struct {
	powers [16]gf     // of the generator
	exp    []uint16   // exp[i] is the generator to the i, twice
	log    []uint16   // of 1 to 65535
	bytes  [2][256]gf // of the low and the high byte of an element
}

var theSubfield = sync.OnceValue(func() *subfield {
	s := &subfield{exp: make([]uint16, 2*65535), log: make([]uint16, 65536)}
	s.powers[0] = gf{lo: 1}
	for i := 1; i < 16; i++ {
		s.powers[i] = s.powers[i-1].mul(generator)
	}
	for i := range 256 {
		for bit := range 8 {
			if i>>bit&1 == 1 {
				s.bytes[0][i] = s.bytes[0][i].add(s.powers[bit])
				s.bytes[1][i] = s.bytes[1][i].add(s.powers[8+bit])
			}
		}
	}
	modulus := s.coordinates(s.powers[15].mul(generator))
	x := uint16(1)
	for i := range 65535 {
		s.exp[i], s.exp[i+65535] = x, x
		s.log[x] = uint16(i)
		carry := x >> 15
		x = x<<1 ^ modulus&-carry
	}
	return s
})

// coordinates returns the element of the subfield as a polynomial in the generator. It reduces by one basis
// vector per bit; the powers are independent, so the bits are unique.
func (s *subfield) coordinates(e gf) uint16 {
	var pivots [16]gf
	var combined [16]uint16
	leading := func(g gf) int {
		if g.hi != 0 {
			return 64 + bits.Len64(g.hi)
		}
		return bits.Len64(g.lo)
	}
	eliminate := func(g gf, bit uint16) (gf, uint16) {
		for i, p := range pivots {
			if p != (gf{}) && leading(p) == leading(g) {
				g, bit = g.add(p), bit^combined[i]
			}
		}
		return g, bit
	}
	for i, p := range s.powers {
		g, bit := p, uint16(1)<<i
		for changed := true; changed; {
			next, b := eliminate(g, bit)
			changed = next != g
			g, bit = next, b
		}
		pivots[i], combined[i] = g, bit
	}
	g, bit := e, uint16(0)
	for g != (gf{}) {
		g, bit = eliminate(g, bit)
	}
	return bit
}

func (s *subfield) element(x uint16) gf { return s.bytes[0][x&0xff].add(s.bytes[1][x>>8]) }

func (s *subfield) product(a, b uint16) uint16 {
	if a == 0 || b == 0 {
		return 0
	}
	return s.exp[int(s.log[a])+int(s.log[b])]
}

// logRatio returns log(a) - log(b) modulo 65535, for a and b that are not zero.
func (s *subfield) ratio(a, b uint16) uint16 { return s.exp[int(s.log[a])+65535-int(s.log[b])] }

var gfField = sync.OnceValue(func() *field[gf] {
	f := &field[gf]{
		id: 4, size: 16, subSize: 2,
		identity: binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, 2), 128),
		one:      gf{lo: 1},
		nodes:    [3]gf{{}, {lo: 1}, generator},
		decode: func(b []byte) (gf, bool) {
			return gf{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, true
		},
		decodeSub: func(b []byte) (gf, bool) {
			return theSubfield().element(binary.LittleEndian.Uint16(b)), true
		},
		encode: func(b []byte, e gf) {
			binary.LittleEndian.PutUint64(b, e.lo)
			binary.LittleEndian.PutUint64(b[8:], e.hi)
		},
		sample: func(t *transcript) gf {
			var b [16]byte
			t.random(b[:])
			return gf{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
		},
		interpolator: newGFInterpolator,
		bind:         bindGF,
		scale:        scaleGF,
		fold:         foldGF,
	}
	return f.withWeights(inverseGF)
})

// gfInterpolator multiplies by a matrix over GF(2^16), one bit of its entries after the other. Eight columns
// have one table of the 256 sums of their values, and each bit of a row selects one of these.
type gfInterpolator struct {
	points int
	masks  []byte // by group of eight columns, point, and bit of the entry
	sums   []gf   // by point and bit
}

func newGFInterpolator(n, from, to int, points []int) interpolator[gf] {
	s := theSubfield()
	// weight[k] is the logarithm of 1 / prod(k - m) for m != k.
	groups := (to - from + 7) / 8
	m := &gfInterpolator{points: len(points), masks: make([]byte, groups*len(points)*16),
		sums: make([]gf, len(points)*16)}
	weight := make([]uint16, to-from)
	for i := range weight {
		weight[i] = s.exp[(65535-s.logProduct(n, from+i))%65535]
	}
	for p, point := range points {
		all := s.exp[s.logProduct(n, point)]
		for i, w := range weight {
			entry := s.ratio(s.product(all, w), uint16(point^(from+i)))
			row := m.masks[(i/8*len(points)+p)*16:][:16]
			for bit := range row {
				row[bit] |= byte(entry>>bit&1) << (i % 8)
			}
		}
	}
	return m
}

// logProduct returns the logarithm of prod(x - m) for m < n and m != x.
func (s *subfield) logProduct(n, x int) int {
	sum := 0
	for m := range n {
		if m != x {
			sum += int(s.log[x^m])
		}
	}
	return sum % 65535
}

func (m *gfInterpolator) apply(out, values []gf) {
	clear(m.sums)
	var table [256]gf
	width := m.points * 16
	for g := 0; g*8 < len(values); g++ {
		column := values[g*8 : min(g*8+8, len(values))]
		for i, v := range column {
			half := table[:1<<i]
			for j, t := range half {
				table[len(half)+j] = t.add(v)
			}
		}
		masks := m.masks[g*width:][:width]
		sums := m.sums[:width]
		for i, mask := range masks {
			t := &table[mask]
			sums[i].lo ^= t.lo
			sums[i].hi ^= t.hi
		}
	}
	for p := range m.points {
		row := m.sums[p*16:][:16]
		r := row[15]
		for bit := 14; bit >= 0; bit-- {
			r = r.mul(generator).add(row[bit])
		}
		out[p] = r
	}
}
