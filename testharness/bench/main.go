// Command bench measures Verge beside a floor in one run: `make bench`.
//
// Every throughput is a closed loop over loopback with 32 connections, the
// median of 5 rounds, and what is claimed is its ratio to the floor of the
// same round: a bare net/http handler that reads the body and writes as many
// bytes, and for a line about Redis also marks a name there with SET NX, over
// as many connections as the service may have. Load, floor and service share
// one process and its two cores, and the load generator writes prepared
// bytes, so that little but the servers is measured. "of CPU" is the same
// ratio by the processors' time for an answer, Redis' included: it says what
// the other one would say on a machine where nothing else runs.
//
// Redis and PostgreSQL are servers of the bench's own; where they are not
// installed, their lines are left out.
//
// The floor of webhook delivery is a forwarder, which posts prepared events to the
// same receiver and does nothing else but mark a name in the store's Redis.
//
// The lines about wasm have the core run as a guest, and natively for a floor.
//
// The lines about methods count processor time alone. What an OpenID provider or an estimator takes is not
// counted: they are in another process.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
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
	if len(os.Args) == 2 && os.Args[1] == "other-side" {
		if err := serveOtherSide(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	length := flag.Duration("round", time.Second, "length of a round")
	binary := flag.String("verge", "",
		"verge binary to time from exec to first answer; empty: leave that out")
	module := flag.String("module", "", "WebAssembly module to run the core from; empty: leave its lines out")
	only := flag.String("only", "", "measure just what has this in its name: "+
		"an endpoint or a store, delivery, claims, idle, footprint, parked, method, edge, startup; "+
		"flat and console, which take minutes, are measured only so")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the run to this file")
	flag.Parse()
	debug.SetGCPercent(400) // as cmd/verge/internal/cli does; the floor has it too
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
	if err := run(*length, *binary, *module, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		pprof.StopCPUProfile()
		os.Exit(1)
	}
}

func run(length time.Duration, binary, module, only string) error {
	var wasm []byte
	if module != "" {
		var err error
		if wasm, err = os.ReadFile(module); err != nil {
			return err
		}
	}
	redis, err := startRedis()
	if err != nil && !errors.Is(err, errNoRedis) {
		return err
	}
	var aof *redisServer
	if redis != nil {
		defer redis.stop()
		if aof, err = startRedis("--appendonly", "yes", "--appendfsync", "everysec"); err != nil {
			return err
		}
		defer aof.stop()
	} else {
		fmt.Println("nothing is measured on Redis:", err)
	}
	parts := []struct {
		name string
		run  func() error
	}{
		{"delivery, memory", func() error { return delivery("memory", onMemory, nil) }},
		{"delivery, bolt", func() error { return delivery("bolt", onBolt, nil) }},
		{"delivery, redis", func() error {
			return onRedis(redis, func() error { return delivery("redis", redis.storage, redis) })
		}},
		{"claims", func() error { return allClaims(redis) }},
		{"idle", func() error { return onRedis(redis, redis.idle) }},
		{"footprint", footprint},
		{"parked", func() error {
			if wasm == nil {
				return nil
			}
			return parked(wasm)
		}},
		{methodNames(), func() error { return methods(length, wasm, only) }},
		{edgeNames(), func() error {
			if wasm == nil {
				return nil
			}
			return onWorkerd(length, wasm, only)
		}},
		{"startup", func() error {
			if binary == "" {
				return nil
			}
			return startup(binary)
		}},
	}
	if err := throughput(length, only, redis, aof); err != nil {
		return err
	}
	if wasm != nil {
		if err := engines(length, only, wasm); err != nil {
			return err
		}
		if only == "flat" {
			return flat(wasm, 1_000_000)
		}
	}
	if only == "console" {
		return consolePages()
	}
	for _, part := range parts {
		if strings.Contains(part.name, only) {
			if err := part.run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// onRedis leaves a part out where there is no Redis.
func onRedis(s *redisServer, part func() error) error {
	if s == nil {
		return nil
	}
	return part()
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
