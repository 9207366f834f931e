// Command simulate runs random histories of Verge. See package simulation, and `make simulate`.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-id/verge/testharness/internal/simulation"
)

func main() {
	from := flag.Uint64("from", 0, "the first `seed`")
	seeds := flag.Uint64("seeds", 1000, "how many seeds to run")
	replay := flag.Int64("replay", -1, "run this `seed` alone, and print its history")
	limit := flag.Duration("limit", 0, "begin no history after this time; 0: no limit")
	whole := flag.Bool("whole", false, "print the whole history of a failure, not a reduced one")
	brief := flag.Bool("brief", false, "print one line about the first failure, and nothing else")
	flag.Parse()
	simulation.CollectRarely()
	if *brief {
		os.Exit(first(*from, *seeds))
	}
	if *replay >= 0 {
		os.Exit(play(uint64(*replay), *whole))
	}
	os.Exit(runAll(*from, *seeds, *limit, *whole))
}

// play prints one history, and a reduced one if it breaks a promise.
func play(seed uint64, whole bool) int {
	var r simulation.Runner
	defer r.Close()
	got := r.Run(seed, func(line string) { fmt.Println(line) })
	fmt.Printf("seed %d: %d calls of ports in %s; broken promises: %d\n", seed, got.Steps, got.Lasts,
		len(got.Broke))
	if len(got.Broke) == 0 {
		return 0
	}
	if !whole {
		fmt.Printf("\n%s\n", r.Reduce(got))
	}
	return 1
}

// first prints the first failure in one line. It uses one processor, so that the number of seeds is exact.
func first(from, seeds uint64) int {
	var r simulation.Runner
	defer r.Close()
	for seed := from; seed < from+seeds; seed++ {
		if got := r.Run(seed, nil); len(got.Broke) > 0 {
			fmt.Printf("after %d seeds [%s] %.160s\n", seed-from+1, strings.Join(got.Switches, ", "),
				got.Broke[0])
			return 1
		}
	}
	return 0
}

// runAll runs many histories on all processors, until one breaks a promise.
func runAll(from, seeds uint64, limit time.Duration, whole bool) int {
	var (
		next, done, steps atomic.Uint64
		mu                sync.Mutex
		cover             simulation.Coverage
		bad               *simulation.Result
		workers           sync.WaitGroup
	)
	next.Store(from)
	begin := time.Now()
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			var r simulation.Runner
			defer r.Close()
			for limit == 0 || time.Since(begin) < limit {
				seed := next.Add(1) - 1
				if seed >= from+seeds {
					break
				}
				got := r.Run(seed, nil)
				done.Add(1)
				steps.Add(uint64(got.Steps))
				if len(got.Broke) > 0 {
					next.Store(from + seeds)
					mu.Lock()
					if bad == nil || got.Seed < bad.Seed {
						bad = &got
					}
					mu.Unlock()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			cover.Merge(&r.Cover)
		})
	}
	ended := make(chan struct{})
	go func() {
		workers.Wait()
		close(ended)
	}()
	show := func() {
		took := time.Since(begin)
		fmt.Fprintf(os.Stderr, "%d of %d seeds in %s, %.0f seeds/s, %d calls of ports\n", done.Load(), seeds,
			took.Round(time.Second), float64(done.Load())/took.Seconds(), steps.Load())
	}
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(5 * time.Second):
		}
		show()
	}
	fmt.Println(&cover)
	if bad == nil {
		return 0
	}
	if whole {
		return play(bad.Seed, true)
	}
	var r simulation.Runner
	defer r.Close()
	fmt.Printf("\n%s\nRepeat it by: make simulate SEED=%d\n", r.Reduce(*bad), bad.Seed)
	return 1
}
