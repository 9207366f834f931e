package simulation

// choices makes the decisions of one history from its seed.
type choices struct {
	seed uint64

	// keep, if not nil, has the decisions that count. All others are zero.
	keep map[decision]bool

	made []decision // all that were not zero, in order
}

// decision names one decision: the nth of a stream.
type decision struct {
	stream uint64
	n      uint32
}

// stream is the decisions of one coroutine. The decisions of one stream do not depend on those of another.
type stream struct {
	c  *choices
	id uint64
	n  uint32
}

func (c *choices) stream(name string) *stream { return &stream{c: c, id: hashOf(name)} }

// sub returns another stream that depends on this stream's name and n alone.
func (s *stream) sub(n uint64) *stream { return &stream{c: s.c, id: mix(s.id + mix(n))} }

// pick returns a number below n. Zero is the quiet choice.
func (s *stream) pick(n int) int {
	if n < 2 {
		return 0
	}
	return s.decide(int(s.next() % uint64(n)))
}

// chance reports true in that many of a thousand cases.
func (s *stream) chance(permille int) bool {
	hit := 0
	if s.next()%1000 < uint64(permille) {
		hit = 1
	}
	return s.decide(hit) == 1
}

func (s *stream) next() uint64 {
	s.n++
	return mix(s.c.seed ^ mix(s.id+uint64(s.n)))
}

func (s *stream) decide(v int) int {
	if v == 0 {
		return 0
	}
	d := decision{s.id, s.n}
	if s.c.keep != nil && !s.c.keep[d] {
		return 0
	}
	s.c.made = append(s.c.made, d)
	return v
}

// mix is the finalizer of SplitMix64. It spreads each bit of x over all bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashOf is FNV-1a.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// random is the source of randomness of one instance: as many bytes as it likes, from a seed.
type random struct{ state uint64 }

func (r *random) Read(p []byte) (int, error) {
	var x uint64
	for i := range p {
		if i%8 == 0 {
			r.state++
			x = mix(r.state)
		}
		p[i], x = byte(x), x>>8
	}
	return len(p), nil
}
