package longfellow

// bindGF is bindEach for GF(2^128). Most terms have the factor one, and half of them the wire 0, which
// carries the constant one: they need one product per group of terms, not two.
func bindGF(c *chunk, b *binding[gf]) gf {
	var sum, linear, group gf
	t := c.start
	in0, in1, out := b.in[0], b.in[1], b.out
	for _, n := range c.terms {
		d := &c.table[n]
		if d.h0 != 0 || d.h1 != 0 {
			if t.h0 == 0 {
				linear = linear.add(mulGF(group, in1[t.h1]))
			} else {
				sum = sum.add(mulGF(group, mulGF(in0[t.h0], in1[t.h1])))
			}
			group = gf{}
			t.h0 += d.h0
			t.h1 += d.h1
		}
		t.g += d.g
		v := out[t.g]
		if k := b.constants[d.constant]; k.lo != 1 || k.hi != 0 {
			v = mulGF(k, v)
		}
		group.lo ^= v.lo
		group.hi ^= v.hi
	}
	sum = sum.add(mulGF(group, mulGF(in0[t.h0], in1[t.h1])))
	return sum.add(mulGF(linear, in0[0]))
}
