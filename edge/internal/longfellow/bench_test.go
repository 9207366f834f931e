package longfellow

import (
	"syscall"
	"testing"
	"time"
)

// processorTime returns the time that this process has used, on all processors. Other processes on the
// machine change it less than the time that passes.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU reports the processor time per operation.
func reportCPU(b *testing.B) {
	b.Helper()
	before := processorTime(b)
	b.Cleanup(func() {
		used := processorTime(b) - before
		b.ReportMetric(float64(used)/float64(b.N)/float64(time.Millisecond), "cpu-ms/op")
	})
}

func BenchmarkVerify(b *testing.B) {
	p := newPublished(b)
	c := openCircuit(b, p.circuit)
	reportCPU(b)
	for b.Loop() {
		if err := c.Verify(&p.statement, p.proof); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	p := newPublished(b)
	file := vector(b, p.circuit+".circuit.zst")
	reportCPU(b)
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
