package longfellow

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
)

// vectorFile returns the path of a file of the test vectors, which are not part of the repository.
func vectorFile(name string) string {
	return filepath.Join("../../../../shared/vectors/longfellow", name)
}

// vector returns a file of the test vectors.
func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(vectorFile(name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("SKIP: ../shared/vectors/longfellow/%s is missing", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// readLFC2 reads the format of the specification's own circuits: LEB128 numbers, and terms as runs of
// differences. It is for tests alone, and trusts the file.
func readLFC2[E element[E]](t testing.TB, b []byte, f *field[E]) *circuit[E] {
	t.Helper()
	r := bytes.NewReader(b)
	number := func() int {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	numbers := func() []int {
		n := make([]int, number())
		for i := range n {
			n[i] = number()
		}
		return n
	}
	difference := func() uint32 {
		n := number()
		return uint32(n>>1 ^ -(n & 1))
	}
	if _, err := r.Seek(4, 0); err != nil || !bytes.HasPrefix(b, []byte("LFC2")) {
		t.Fatal("not LFC2")
	}
	if id := number(); id != int(f.id) {
		t.Fatalf("field %d", id)
	}
	c := &circuit[E]{}
	c.outputs = number()
	number()
	c.public = number()
	number()
	c.inputs = number()
	layers := number()
	for range number() {
		e := make([]byte, f.size)
		r.Read(e)
		k, ok := f.decode(e)
		if !ok {
			t.Fatal("constant")
		}
		c.constants = append(c.constants, k)
	}
	for range layers {
		l := layer{bits: number(), wires: number()}
		table := make([]term, number())
		for i := range table {
			table[i] = term{difference(), difference(), difference(), uint32(number())}
		}
		segments := make([][]int, number())
		for i := range segments {
			segments[i] = numbers()
		}
		k := chunk{table: table}
		for _, s := range numbers() {
			for _, d := range segments[s] {
				k.terms = append(k.terms, uint16(d))
			}
		}
		l.chunks = []chunk{k}
		c.terms += len(k.terms)
		c.layers = append(c.layers, l)
	}
	r.Read(c.id[:])
	return c
}

// small is a circuit of the specification, with a proof.
type small[E element[E]] struct {
	*system[E]
	public []E
	label  string
	proof  []byte
}

func newSmall[E element[E]](t testing.TB, f *field[E], name string, rate int) *small[E] {
	t.Helper()
	c := readLFC2(t, vector(t, name+"_circuit.lfc2"), f)
	s, ok := newSystem(f, c, rate, 16, 256)
	if !ok {
		t.Fatal("parameters")
	}
	var inputs []string
	if err := json.Unmarshal(vector(t, name+"_inputs.json"), &inputs); err != nil {
		t.Fatal(err)
	}
	v := &small[E]{system: s, label: name + "_spec_test", proof: vector(t, name+"_proof.bin")}
	for _, in := range inputs[:c.public] {
		n, ok := new(big.Int).SetString(in, 10)
		b := make([]byte, f.size)
		n.FillBytes(b)
		for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
		e, ok2 := f.decode(b)
		if !ok || !ok2 {
			t.Fatalf("input %q", in)
		}
		v.public = append(v.public, e)
	}
	return v
}

func TestVerify_Specification(t *testing.T) {
	hash := newSmall(t, gfField(), "sha256", 3)
	if r := hash.verify(hash.label, hash.public, hash.proof); r != "" {
		t.Error("sha256:", r)
	}
	signature := newSmall(t, fpField(), "ecdsa2", 4)
	if r := signature.verify(signature.label, signature.public, signature.proof); r != "" {
		t.Error("ecdsa2:", r)
	}
}
