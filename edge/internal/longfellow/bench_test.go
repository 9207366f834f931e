package longfellow

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
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

// BenchmarkVerify_Google verifies the same proof in turns with Google's verifier, so that both have the same
// machine at the same time, and reports the ratio of processor times: ours, with the circuits read once, to
// theirs without the time to read the circuits. The wall times are the least ones, because other processes
// lengthen the others. VERGE_LONGFELLOW_VERIFIER is the program of testdata/verify.cc.
func BenchmarkVerify_Google(b *testing.B) {
	program := os.Getenv("VERGE_LONGFELLOW_VERIFIER")
	if program == "" {
		b.Skip("SKIP: VERGE_LONGFELLOW_VERIFIER is not set to a program that measures google/longfellow-zk")
	}
	for name, circuit := range map[string]string{"v6": circuit6, "v7": circuit7} {
		b.Run(name, func(b *testing.B) {
			c, s, proof := openCircuit(b, circuit), deployed(b, 1), vector(b, circuit+".proof")
			next := startGoogle(b, program, circuit, s, proof)
			var ours, whole, reading measured
			var peaks [2]int // of us and of Google, in kilobytes
			resetPeak(b)
			for b.Loop() {
				used, began := processorTime(b), time.Now()
				if err := c.Verify(s, proof); err != nil {
					b.Fatal(err)
				}
				ours.add(measured{processorTime(b) - used, time.Since(began)})
				all, read, kilobytes := next()
				whole.add(all)
				reading.add(read)
				peaks = [2]int{peak(b), kilobytes}
			}
			theirs := measured{whole.cpu - reading.cpu, whole.wall - reading.wall}
			for unit, m := range map[string]measured{"ours": ours, "theirs": theirs, "reading": reading} {
				b.ReportMetric(m.cpu.Seconds()*1000/float64(b.N), unit+"-cpu-ms")
				b.ReportMetric(m.wall.Seconds()*1000, unit+"-wall-ms")
			}
			b.ReportMetric(ours.cpu.Seconds()/theirs.cpu.Seconds(), "ratio-cpu")
			b.ReportMetric(float64(peaks[0])*1024/1e6, "ours-peak-MB")
			b.ReportMetric(float64(peaks[1])*1024/1e6, "theirs-peak-MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measured is the processor time of all runs, and the least wall time of one.
type measured struct{ cpu, wall time.Duration }

func (m *measured) add(n measured) {
	m.cpu += n.cpu
	if m.wall == 0 || n.wall < m.wall {
		m.wall = n.wall
	}
}

// resetPeak resets peak, which then omits the memory used so far, for example to open circuits.
func resetPeak(b *testing.B) {
	b.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
}

// peak returns the most memory that this process has had since resetPeak, in kilobytes of 1,024 bytes.
func peak(b *testing.B) int {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		b.Fatal(err)
	}
	return kilobytes
}

// startGoogle starts Google's verifier. next returns the times of one verification, and those of reading the
// circuits, which are a part of the first, and the most memory of the process in kilobytes.
func startGoogle(b *testing.B, program, circuit string, s *Statement, proof []byte) (
	next func() (whole, reading measured, kilobytes int),
) {
	b.Helper()
	file, err := filepath.Abs(vectorFile(circuit + ".circuit.zst"))
	if err != nil {
		b.Fatal(err)
	}
	run := exec.Command(program)
	in, err := run.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := run.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := run.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); _ = run.Wait() })
	var lines strings.Builder
	for _, line := range [][]byte{[]byte(file), []byte(circuit), fmt.Appendf(nil, "0x%x", s.Issuer[1:33]),
		fmt.Appendf(nil, "0x%x", s.Issuer[33:]), s.SessionTranscript, []byte(s.DocType),
		[]byte(s.Attributes[0].Identifier), s.Attributes[0].Value, []byte(s.Time.Format(time.RFC3339)),
		proof} {
		lines.WriteString(hex.EncodeToString(line) + "\n")
	}
	if _, err := io.WriteString(in, lines.String()); err != nil {
		b.Fatal(err)
	}
	results := bufio.NewReader(out)
	return func() (whole, reading measured, kilobytes int) {
		if _, err := io.WriteString(in, "1\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := fmt.Fscanln(results, &whole.cpu, &whole.wall, &reading.cpu, &reading.wall,
			&kilobytes); err != nil {
			b.Fatal(err)
		}
		return whole, reading, kilobytes
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
