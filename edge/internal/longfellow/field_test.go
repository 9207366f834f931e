package longfellow

import (
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// slowMul multiplies bit by bit.
func slowMul(a, b gf) gf {
	var r gf
	for i := 127; i >= 0; i-- {
		carry := r.hi >> 63
		r = gf{r.lo<<1 ^ carry*0x87, r.hi<<1 | r.lo>>63}
		word := b.lo
		if i >= 64 {
			word = b.hi
		}
		if word>>(i%64)&1 == 1 {
			r = r.add(a)
		}
	}
	return r
}

func someGF(random *rand.Rand) []gf {
	e := []gf{{}, {lo: 1}, {lo: 2}, {hi: 1 << 63}, {^uint64(0), ^uint64(0)}, {^uint64(0), 0}, {0, ^uint64(0)},
		{0x1111111111111111, 0x8888888888888888}, {0xf000000000000000, 0xf000000000000000}, generator}
	for range 40 {
		e = append(e, gf{random.Uint64(), random.Uint64()})
	}
	return e
}

func TestGF_Mul(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	all := someGF(random)
	for _, a := range all {
		for _, b := range all {
			want := slowMul(a, b)
			if got := mulGeneric(a, b); got != want {
				t.Fatalf("%x * %x = %x, want %x", a, b, got, want)
			}
			if got := a.mul(b); got != want {
				t.Fatalf("%x * %x = %x, want %x by the fast way", a, b, got, want)
			}
		}
		if a != (gf{}) && a.mul(inverseGF(a)) != (gf{lo: 1}) {
			t.Fatalf("inverse of %x", a)
		}
		dst := make([]gf, len(all))
		scaleGF(dst, all, a)
		sum := slices.Clone(all)
		foldGF(sum, dst, a)
		for i, b := range all {
			if dst[i] != slowMul(a, b) || sum[i] != b.add(slowMul(a, dst[i])) {
				t.Fatalf("rows times %x", a)
			}
		}
	}
}

// TestSubfield checks the definition of draft-google-cfrg-libzk, 2.2.2: the generator is x to the power of
// (2^128 - 1) / (2^16 - 1), and elements of the subfield are sums of its first 16 powers.
func TestSubfield(t *testing.T) {
	g := gf{lo: 1}
	exponent := new(big.Int).Div(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 128), big.NewInt(1)),
		big.NewInt(1<<16-1))
	for i := exponent.BitLen() - 1; i >= 0; i-- {
		g = g.mul(g)
		if exponent.Bit(i) == 1 {
			g = g.mul(gf{lo: 2})
		}
	}
	if g != generator {
		t.Fatalf("generator %x, want %x", generator, g)
	}
	s := theSubfield()
	seen := map[gf]bool{}
	for i := range 1 << 16 {
		e := s.element(uint16(i))
		if seen[e] || e != s.element(uint16(i&0xaaaa)).add(s.element(uint16(i&0x5555))) {
			t.Fatalf("element %d", i)
		}
		seen[e] = true
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		a, b := uint16(random.Uint32()), uint16(random.Uint32())
		if s.element(s.product(a, b)) != s.element(a).mul(s.element(b)) || s.coordinates(s.element(a)) != a {
			t.Fatalf("%d * %d", a, b)
		}
		if a != 0 && b != 0 && s.product(s.ratio(a, b), b) != a {
			t.Fatalf("%d / %d", a, b)
		}
	}
}

var prime, _ = new(big.Int).SetString("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", 16)

func bigOf(e fp) *big.Int {
	b := make([]byte, 32)
	encodeFP(b, e)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func fpOfBig(t testing.TB, n *big.Int) fp {
	t.Helper()
	b := n.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	e, ok := decodeFP(b)
	if !ok {
		t.Fatalf("%x is not in the field", n)
	}
	return e
}

func TestFP(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var all []*big.Int
	for _, n := range []int64{0, 1, 2, 3} {
		all = append(all, big.NewInt(n), new(big.Int).Sub(prime, big.NewInt(n+1)))
	}
	for i := range uint(256) {
		n := new(big.Int).Lsh(big.NewInt(1), i)
		all = append(all, n, new(big.Int).Sub(prime, n))
	}
	for range 100 {
		n := new(big.Int)
		for range 4 {
			n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(random.Uint64()))
		}
		all = append(all, n.Mod(n, prime))
	}
	for i, a := range all {
		b := all[(i*7+3)%len(all)]
		x, y := fpOfBig(t, a), fpOfBig(t, b)
		mod := func(n *big.Int) *big.Int { return n.Mod(n, prime) }
		for name, pair := range map[string][2]*big.Int{
			"mul": {bigOf(x.mul(y)), mod(new(big.Int).Mul(a, b))},
			"add": {bigOf(x.add(y)), mod(new(big.Int).Add(a, b))},
			"sub": {bigOf(x.sub(y)), mod(new(big.Int).Sub(a, b))},
		} {
			if pair[0].Cmp(pair[1]) != 0 {
				t.Fatalf("%s of %x and %x: %x, want %x", name, a, b, pair[0], pair[1])
			}
		}
		if a.Sign() != 0 && x.mul(inverseFP(x)) != fpOf(1) {
			t.Fatalf("inverse of %x", a)
		}
	}
	for _, n := range []*big.Int{prime, new(big.Int).Add(prime, big.NewInt(1)),
		new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1))} {
		b := n.FillBytes(make([]byte, 32))
		slices.Reverse(b)
		if _, ok := decodeFP(b); ok {
			t.Errorf("%x is not less than p", n)
		}
	}
}

// testInterpolator compares with the values of a random polynomial. point returns the x of a point.
func testInterpolator[E element[E]](t *testing.T, f *field[E], point func(i int) E) {
	random := rand.New(rand.NewPCG(3, 4))
	value := func(coefficients []E, i int) E {
		var v E
		x := point(i)
		for k := len(coefficients) - 1; k >= 0; k-- {
			v = v.mul(x).add(coefficients[k])
		}
		return v
	}
	for _, n := range []int{1, 2, 7, 8, 9, 33} {
		coefficients := make([]E, n)
		for i := range coefficients {
			coefficients[i] = elementOf(f, random.IntN(255)+1).mul(elementOf(f, random.IntN(255)+1))
		}
		known := make([]E, n)
		for i := range known {
			known[i] = value(coefficients, i)
		}
		points := []int{n, n + 1, 2*n + 5, 300}
		out := make([]E, len(points))
		m := f.interpolator(n, 0, n, points)
		for range 2 { // it may be used again
			m.apply(out, known)
			for i, p := range points {
				if want := value(coefficients, p); out[i] != want {
					t.Fatalf("n = %d: value at %d: %v, want %v", n, p, out[i], want)
				}
			}
		}
		// A range of the values is all of them with zeros outside.
		from, to := n/3, n-n/4
		ranged := make([]E, n)
		copy(ranged[from:to], known[from:to])
		want := make([]E, len(points))
		m.apply(want, ranged)
		f.interpolator(n, from, to, points).apply(out, known[from:to])
		if !slices.Equal(out, want) {
			t.Fatalf("n = %d: range %d to %d", n, from, to)
		}
	}
}

func TestInterpolator(t *testing.T) {
	t.Run("GF(2^128)", func(t *testing.T) {
		testInterpolator(t, gfField(), func(i int) gf { return theSubfield().element(uint16(i)) })
	})
	t.Run("P-256", func(t *testing.T) {
		testInterpolator(t, fpField(), func(i int) fp { return fpOf(uint64(i)) })
	})
}

// TestField_Basis checks that a polynomial of degree two is the combination of its values at the nodes.
func testBasis[E element[E]](t *testing.T, f *field[E]) {
	a, b, c := elementOf(f, 3), elementOf(f, 5), elementOf(f, 7)
	p := func(x E) E { return a.mul(x).add(b).mul(x).add(c) }
	r := elementOf(f, 99)
	var sum E
	for i, l := range f.basis(r) {
		sum = sum.add(l.mul(p(f.nodes[i])))
	}
	if sum != p(r) {
		t.Errorf("%v, want %v", sum, p(r))
	}
}

func TestField_Basis(t *testing.T) {
	testBasis(t, gfField())
	testBasis(t, fpField())
}

func testSelector[E element[E]](t *testing.T, f *field[E]) {
	challenges := []E{elementOf(f, 3), elementOf(f, 5), elementOf(f, 7), elementOf(f, 11)}
	for n := 1; n <= 16; n++ {
		bit := bits.Len(uint(n - 1))
		table := make([]E, n)
		selector(f, table, challenges[:bit])
		for i, got := range table {
			want := f.one
			for k, c := range challenges[:bit] {
				if i>>k&1 == 0 {
					c = f.one.sub(c)
				}
				want = want.mul(c)
			}
			if got != want {
				t.Fatalf("n = %d: entry %d", n, i)
			}
		}
	}
}

func TestSelector(t *testing.T) {
	testSelector(t, gfField())
	testSelector(t, fpField())
}
