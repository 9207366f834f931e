package longfellow

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"slices"
)

// The limits of a circuit. The largest deployed one has 9.1 million terms, 17 layers and 1,045,868 wires.
const (
	maxLayers    = 64
	maxLogWires  = 20
	maxWires     = 1 << maxLogWires
	maxTerms     = 12 << 20 // of all layers
	maxConstants = 1 << 14
	maxPublic    = 8 << 10 // inputs
	maxDeltas    = 1 << 16 // of a chunk, because its terms are numbers of 16 bits
	maxChunk     = 1 << 18 // terms; the chunks of a layer are evaluated at the same time
)

// circuit is an arithmetic circuit of layers. Layer 0 computes the outputs, which are zero if the statement
// is true, from the wires of layer 1, and so on; the last layer has the inputs.
type circuit[E element[E]] struct {
	id      digest
	outputs int
	public  int // inputs; they precede the private ones
	inputs  int
	terms   int
	layers  []layer
	// constants are the factors of terms. Zero is the factor of a term that must be zero itself.
	constants []E

	// slots has a place for each processor that may verify proofs. A nil channel allows one processor.
	slots chan struct{}
}

// layer computes its outputs by quadratic terms: out[g] is the sum of constant * in[h0] * in[h1].
type layer struct {
	bits   int // of the number of a wire
	wires  int // that the layer reads
	chunks []chunk
}

// chunk is a run of at most maxChunk terms. A term is stored as its difference from the previous one, and
// that as its number in a table, because the parts of a circuit repeat themselves: 2 bytes instead of 16.
type chunk struct {
	start term // the first term, without its own difference
	table []term
	terms []uint16
}

// term is a term, or with wrapping the difference of two.
type term struct{ g, h0, h1, constant uint32 }

var errCircuit = errors.New("longfellow: malformed circuit")

// circuitReader reads the deployed format: numbers of three bytes, the lowest first, and no lengths.
type circuitReader struct {
	r   *bufio.Reader
	err error
}

func (r *circuitReader) fail() int {
	if r.err == nil {
		r.err = errCircuit
	}
	return 0
}

// number returns the next number. It fails if that is less than low or greater than high.
func (r *circuitReader) number(low, high int) int {
	n := r.raw()
	if n < low || n > high {
		return r.fail()
	}
	return n
}

func (r *circuitReader) raw() int {
	b, err := r.r.Peek(numberSize)
	if err != nil || r.err != nil {
		return r.fail()
	}
	r.r.Discard(numberSize)
	return number(b)
}

const numberSize = 3

func number(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

func (r *circuitReader) full(b []byte) {
	if r.err == nil {
		if _, err := io.ReadFull(r.r, b); err != nil {
			r.fail()
		}
	}
}

// termSize is the size of a term: three differences and the number of a constant.
const termSize = 4 * numberSize

// term returns the term that follows another. A wire is stored as the difference from the last one, shifted
// by a bit for the sign.
func (r *circuitReader) term(last term, outputs, wires, constants int) (t term) {
	b, err := r.r.Peek(termSize)
	if err != nil || r.err != nil {
		r.fail()
		return term{}
	}
	index := func(b []byte, last uint32, limit int) uint32 {
		d := number(b)
		n := int(last) + d>>1
		if d&1 == 1 {
			n = int(last) - d>>1
		}
		if n < 0 || n >= limit {
			return uint32(r.fail())
		}
		return uint32(n)
	}
	t = term{g: index(b, last.g, outputs), h0: index(b[numberSize:], last.h0, wires),
		h1: index(b[2*numberSize:], last.h1, wires), constant: uint32(number(b[3*numberSize:]))}
	if int(t.constant) >= constants {
		r.fail()
	}
	r.r.Discard(termSize)
	return t
}

// readCircuit reads a circuit and computes its identity, a hash of the numbers in it and all terms. The
// identity in the file must be the same.
func readCircuit[E element[E]](in *bufio.Reader, f *field[E]) (*circuit[E], error) {
	r := &circuitReader{r: in}
	var version [1]byte
	r.full(version[:])
	if version[0] != 1 {
		r.fail()
	}
	r.number(int(f.id), int(f.id))
	c := &circuit[E]{}
	c.outputs = r.number(1, maxWires)
	r.number(1, 1) // copies
	c.public = r.number(1, maxPublic)
	subfield := r.number(0, maxWires)
	c.inputs = r.number(c.public, maxWires)
	layers := r.number(1, maxLayers)
	constants := r.number(1, maxConstants)
	if r.err != nil || subfield > c.inputs {
		return nil, errCircuit
	}
	encoded := make([]byte, constants*f.size)
	r.full(encoded)
	c.constants = make([]E, constants)
	for i := range c.constants {
		e, ok := f.decode(encoded[i*f.size:])
		if !ok {
			return nil, errCircuit
		}
		c.constants[i] = e
	}

	id := identity{Hash: sha256.New()}
	id.append(f.identity)
	id.numbers(c.outputs, log2(c.outputs), 1, 0, layers, c.inputs, c.public, subfield)
	outputs := c.outputs
	for range layers {
		var l layer
		l.bits = r.number(1, maxLogWires)
		l.wires = r.number(1, maxWires)
		terms := r.number(1, maxTerms-c.terms)
		if r.err != nil || log2(l.wires) > l.bits {
			return nil, errCircuit
		}
		id.numbers(l.wires, l.bits, terms)
		l.chunks = readTerms(r, &id, terms, outputs, l.wires, encoded, f.size)
		if r.err != nil {
			return nil, r.err
		}
		c.layers = append(c.layers, l)
		c.terms += terms
		outputs = l.wires
	}
	if outputs != c.inputs {
		return nil, errCircuit
	}
	r.full(c.id[:])
	if r.err != nil || id.sum() != c.id {
		return nil, errCircuit
	}
	return c, nil
}

// readTerms reads the terms of a layer.
func readTerms(r *circuitReader, id *identity, n, outputs, wires int, constants []byte, size int) []chunk {
	var chunks []chunk
	var table []term
	var last term
	open := 0 // the first chunk whose table is not complete
	complete := func() {
		table = slices.Clone(table) // without room to grow: circuits live as long as the process
		for i := range chunks[open:] {
			chunks[open+i].table = table
		}
		open, table = len(chunks), nil
	}
	numbers := map[term]uint16{}
	// recent has the numbers of some differences, because a map takes longer than all the rest.
	type entry struct {
		d      term
		number uint16
		used   bool
	}
	var recent [1 << 12]entry
	var terms []uint16 // of the last chunk, until it ends
	end := func() {
		if len(terms) > 0 {
			chunks[len(chunks)-1].terms = slices.Clone(terms)
			terms = terms[:0]
		}
	}
	for range n {
		t := r.term(last, outputs, wires, len(constants)/size)
		if r.err != nil {
			return nil
		}
		id.term(t, constants[int(t.constant)*size:][:size])
		d := term{t.g - last.g, t.h0 - last.h0, t.h1 - last.h1, t.constant}
		at := &recent[(d.g*0x9e3779b1^d.h0*0x85ebca6b^d.h1*0xc2b2ae35^d.constant*0x27d4eb2f)>>20]
		if !at.used || at.d != d {
			number, seen := numbers[d]
			if !seen {
				if len(table) == maxDeltas {
					end()
					complete()
					clear(numbers)
					clear(recent[:])
				}
				number = uint16(len(table))
				numbers[d] = number
				table = append(table, d)
			}
			*at = entry{d, number, true}
		}
		if len(terms) == 0 {
			chunks = append(chunks, chunk{start: last})
		}
		terms = append(terms, at.number)
		if len(terms) == maxChunk {
			end()
		}
		last = t
	}
	end()
	complete()
	return chunks
}

// identity hashes numbers of eight bytes, the lowest first.
type identity struct {
	hash.Hash
	buffer [4096]byte
	used   int
}

func (i *identity) append(b []byte) {
	if i.used+len(b) > len(i.buffer) {
		i.flush()
	}
	i.used += copy(i.buffer[i.used:], b)
}

// term adds a term with the encoded constant.
func (i *identity) term(t term, constant []byte) {
	if i.used+24+len(constant) > len(i.buffer) {
		i.flush()
	}
	b := i.buffer[i.used:]
	binary.LittleEndian.PutUint64(b, uint64(t.g))
	binary.LittleEndian.PutUint64(b[8:], uint64(t.h0))
	binary.LittleEndian.PutUint64(b[16:], uint64(t.h1))
	i.used += 24 + copy(b[24:], constant)
}

func (i *identity) flush() {
	i.Hash.Write(i.buffer[:i.used])
	i.used = 0
}

func (i *identity) numbers(n ...int) {
	var b [8]byte
	for _, x := range n {
		binary.LittleEndian.PutUint64(b[:], uint64(x))
		i.append(b[:])
	}
}

func (i *identity) sum() digest {
	i.flush()
	return digest(i.Hash.Sum(nil))
}
