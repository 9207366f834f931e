package longfellow

import "sync"

// The verifier evaluates each layer's terms at random points: the sum of constant * out[g] * h0[h0] * h1[h1],
// where the three tables have the values of a multilinear polynomial that selects one wire. This is nearly
// all of its work.

// binding has the tables of a layer.
type binding[E any] struct {
	constants []E // zero is replaced by the challenge for terms that must be zero
	out       []E // by wire that the layer computes
	in        [2][]E
}

// boundTerms returns the sum over a layer's terms.
func boundTerms[E element[E]](f *field[E], l *layer, b *binding[E], slots chan struct{}) E {
	sums := [2]E{}
	half := func(h int) func() {
		return func() {
			for i := h; i < len(l.chunks); i += 2 {
				sums[h] = sums[h].add(f.bind(&l.chunks[i], b))
			}
		}
	}
	both(slots, len(l.chunks) > 1, half(0), half(1))
	return sums[0].add(sums[1])
}

// both calls two functions. It calls them at the same time if they have enough to do and a slot is free. The
// caller holds one slot for its own processor, and both takes another one.
func both(slots chan struct{}, large bool, a, b func()) {
	if large {
		select {
		case slots <- struct{}{}:
			var wait sync.WaitGroup
			wait.Go(a)
			b()
			wait.Wait()
			<-slots
			return
		default:
		}
	}
	a()
	b()
}

// selectors sets both tables of a layer.
func selectors[E element[E]](f *field[E], tables, challenges *[2][]E, slots chan struct{}) {
	side := func(i int) func() { return func() { selector(f, tables[i], challenges[i]) } }
	both(slots, len(tables[0]) > 1<<14, side(0), side(1))
}

// bindEach is a field's bind without an own loop. Terms with the same inputs follow each other.
func bindEach[E element[E]](c *chunk, b *binding[E]) E {
	var sum, group E
	t := c.start
	for _, n := range c.terms {
		d := &c.table[n]
		if d.h0 != 0 || d.h1 != 0 {
			sum = sum.add(group.mul(b.in[0][t.h0].mul(b.in[1][t.h1])))
			var zero E
			group = zero
			t.h0 += d.h0
			t.h1 += d.h1
		}
		t.g += d.g
		group = group.add(b.constants[d.constant].mul(b.out[t.g]))
	}
	return sum.add(group.mul(b.in[0][t.h0].mul(b.in[1][t.h1])))
}

// selector sets table[i] to the product over the bits of i: of the challenge if the bit is one, and of one
// minus the challenge if not. The first challenge belongs to the lowest bit. The table may end before the
// last number of so many bits.
func selector[E element[E]](f *field[E], table, challenges []E) {
	var zero E
	n := len(table)
	table[0] = f.one
	for bit, r := range challenges {
		// The table has the numbers of the lower bits. The numbers with this bit follow.
		have := min(1<<bit, n)
		low := table[:have]
		high := table[have:min(2*have, n)]
		f.scale(high, low[:len(high)], r)
		for i, h := range high {
			low[i] = low[i].sub(h)
		}
		rest := low[len(high):]
		f.fold(rest, rest, zero.sub(r))
	}
}
