package longfellow

import "testing"

func BenchmarkVerify(b *testing.B) {
	p := newPublished(b)
	c := openCircuit(b, p.circuit)
	for b.Loop() {
		if err := c.Verify(&p.statement, p.proof); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	p := newPublished(b)
	file := vector(b, p.circuit+".circuit.zst")
	for b.Loop() {
		if _, err := Open(p.circuit, file); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMulGF(b *testing.B) {
	x, y := gf{1234567891011, 98765432123456789}, generator
	for b.Loop() {
		x = x.mul(y)
	}
}

func BenchmarkMulFP(b *testing.B) {
	x, y := fpOf(12345), fpOf(77).mul(fpOf(1<<63))
	for b.Loop() {
		x = x.mul(y)
	}
}

func BenchmarkScaleGF(b *testing.B) {
	row := make([]gf, 1024)
	for b.Loop() {
		scaleGF(row, row, generator)
	}
}
