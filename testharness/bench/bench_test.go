package bench

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const connections = 32

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "bare-server":
		bareServer(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "providers":
		serveProviders()
	default:
		debug.SetGCPercent(400) // as cmd/verge/internal/cli does; the floor has it too
		os.Exit(m.Run())
	}
}

// cost is the time and the processor time of one piece of work, in nanoseconds.
type cost struct{ wall, cpu float64 }

// work does the pieces of work from up to, but not including, to. No two calls have a piece in common.
type work func(from, to int) error

// measure returns the cost of one of n pieces of work.
func measure(b *testing.B, n int, busy func() time.Duration, work func(n int) error) cost {
	b.Helper()
	cpu, begin := busy(), time.Now()
	if err := work(n); err != nil {
		b.Fatal(err)
	}
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(n) }
	return cost{each(time.Since(begin)), each(busy() - cpu)}
}

// turns is the number of times that the floor and Verge take turns. A machine that is busy with other
// programs changes its speed within a benchmark.
const turns = 16

// compare measures b.N pieces of work for the floor and as many for Verge, in turns, and reports both.
func compare(b *testing.B, busy func() time.Duration, floor, verge work) (f, v cost) {
	b.Helper()
	b.StopTimer()
	b.ResetTimer()
	for turn := range turns {
		from, to := b.N*turn/turns, b.N*(turn+1)/turns
		if from == to {
			continue
		}
		take := func(sum *cost, do work) {
			c := measure(b, b.N, busy, func(int) error { return do(from, to) })
			sum.wall, sum.cpu = sum.wall+c.wall, sum.cpu+c.cpu
		}
		take(&f, floor)
		b.StartTimer()
		take(&v, verge)
		b.StopTimer()
	}
	b.ReportMetric(f.wall, "floor-ns/op")
	b.ReportMetric(f.wall/v.wall, "ratio")
	b.ReportMetric(f.cpu/v.cpu, "cpu-ratio")
	return f, v
}

// compareCPU is compare for work whose processor time counts.
func compareCPU(b *testing.B, busy func() time.Duration, floor, verge work) {
	b.Helper()
	f, v := compare(b, busy, floor, verge)
	b.ReportMetric(v.cpu, "cpu-ns/op")
	b.ReportMetric(f.cpu, "floor-cpu-ns/op")
}

// parallel calls do for each number below n, by a number of workers.
func parallel(workers, n int, do func(worker, i int) error) error {
	return parallelFrom(workers, 0, n, do)
}

// parallelFrom calls do for each number from up to, but not including, to.
func parallelFrom(workers, from, to int, do func(worker, i int) error) error {
	var all errgroup.Group
	var next atomic.Int64
	next.Store(int64(from))
	for worker := range workers {
		all.Go(func() error {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				if err := do(worker, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

// busy is the processor time of this process.
func busy() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// busyOf is the processor time of the threads of a process.
func busyOf(pid int) (busy time.Duration) {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	for _, thread := range threads {
		text, _ := os.ReadFile(thread) // a thread may have ended
		first, _, _ := strings.Cut(string(text), " ")
		ns, _ := strconv.ParseInt(first, 10, 64)
		busy += time.Duration(ns)
	}
	return busy
}
