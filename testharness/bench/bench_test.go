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

// compare measures b.N pieces of work for the floor and as many for Verge, and reports both.
func compare(b *testing.B, busy func() time.Duration, floor, verge func(n int) error) (f, v cost) {
	b.Helper()
	f = measure(b, b.N, busy, floor)
	b.ResetTimer()
	v = measure(b, b.N, busy, verge)
	b.StopTimer()
	b.ReportMetric(f.wall, "floor-ns/op")
	b.ReportMetric(f.wall/v.wall, "ratio")
	b.ReportMetric(f.cpu/v.cpu, "cpu-ratio")
	return f, v
}

// compareCPU is compare for work whose processor time counts.
func compareCPU(b *testing.B, busy func() time.Duration, floor, verge func(n int) error) {
	b.Helper()
	f, v := compare(b, busy, floor, verge)
	b.ReportMetric(v.cpu, "cpu-ns/op")
	b.ReportMetric(f.cpu, "floor-cpu-ns/op")
}

// parallel calls do for each number below n, by a number of workers.
func parallel(workers, n int, do func(worker, i int) error) error {
	var all errgroup.Group
	var next atomic.Int64
	for worker := range workers {
		all.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
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
