// Command bench measures Verge beside a floor in one run: `make bench`.
//
// Every throughput is a closed loop over loopback with 32 connections, the
// median of 5 rounds, and what is claimed is its ratio to the floor of the
// same round: a bare net/http handler that reads the body and writes as many
// bytes. Load, floor and service share one process and its two cores, and the
// load generator writes prepared bytes, so that little but the servers is
// measured.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"time"
)

const (
	connections = 32
	rounds      = 5
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "bare-server" {
		bareServer(os.Args[2])
		return
	}
	length := flag.Duration("round", time.Second, "length of a round")
	binary := flag.String("verge", "", "verge binary to time from exec to first answer; empty: leave that out")
	only := flag.String("only", "", "measure just the endpoints whose name contains this")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the run to this file")
	flag.Parse()
	debug.SetGCPercent(400) // as cmd/verge does; the floor has it too
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer f.Close()
		defer pprof.StopCPUProfile()
	}
	fmt.Printf("%s, %d processors, %d connections, median of %d rounds of %s\n\n",
		runtime.Version(), runtime.GOMAXPROCS(0), connections, rounds, *length)
	if err := run(*length, *binary, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		pprof.StopCPUProfile()
		os.Exit(1)
	}
}

func run(length time.Duration, binary, only string) error {
	if only != "" {
		return throughput(length, only)
	}
	if err := throughput(length, ""); err != nil {
		return err
	}
	for _, part := range []func() error{delivery, footprint} {
		if err := part(); err != nil {
			return err
		}
	}
	if binary == "" {
		return nil
	}
	return startup(binary)
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
