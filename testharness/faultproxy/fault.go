package faultproxy

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

// Fault is the fault of a new connection, or of one exchange.
type Fault int

// The faults. A connection that is being made can only meet Reject, HangRequest
// and Delay. For an exchange, Reject is the same as DropRequest.
const (
	pass        Fault = iota
	Delay             // the request waits before it is sent on
	Slow              // request and reply trickle
	Reject            // the connection is reset as soon as it is accepted
	DropRequest       // the connection is cut, and the server never gets the request
	DropReply         // the server responds, and the connection is cut instead of passing the reply on
	HangRequest       // half-open: the server never gets the request, and the client is not notified
	HangReply         // half-open: the server gets the request, and its reply is not passed on
	faults            // how many there are
)

var faultNames = [faults]string{"pass", "delay", "slow", "refuse", "drop request", "drop reply",
	"hang request", "hang reply"}

func (f Fault) String() string {
	if f >= 0 && f < faults {
		return faultNames[f]
	}
	return fmt.Sprint("fault ", int(f))
}

// exchange is the input of a decision.
type exchange struct {
	Conn int // number of the connection, from 1
	N    int // number of the exchange in it, from 1; 0: the connection is being made
}

// decide returns the fault of an exchange. It is called concurrently.
type decide func(exchange) Fault

// Odds are the chances of faults, together at most 1. The rest is the chance that
// nothing happens.
type Odds map[Fault]float64

// seeded decides by odds. Reject happens only to connections, every other fault
// only to exchanges.
func seeded(seed uint64, odds Odds) decide {
	sum := 0.0
	for f, chance := range odds {
		if f < 0 || f >= faults || chance < 0 {
			panic(fmt.Sprintf("faultproxy: odds of %v for %v", chance, f))
		}
		sum += chance
	}
	if sum > 1 {
		panic(fmt.Sprintf("faultproxy: odds of %v together", sum))
	}
	return func(x exchange) Fault {
		at := rand.New(rand.NewPCG(seed, uint64(x.Conn)<<32|uint64(x.N))).Float64()
		if x.N == 0 {
			if at < odds[Reject] {
				return Reject
			}
			return pass
		}
		for f := range faults { // in their order: a map has none
			if f == Reject {
				continue
			}
			if at < odds[f] {
				return f
			}
			at -= odds[f]
		}
		return pass
	}
}

// Script decides the first exchanges in the order in which they come, counted
// over all connections. Later ones pass.
func Script(all ...Fault) decide {
	next := make(chan Fault, len(all))
	for _, f := range all {
		next <- f
	}
	return func(x exchange) Fault {
		if x.N == 0 {
			return pass
		}
		select {
		case f := <-next:
			return f
		default:
			return pass
		}
	}
}

// Always decides f for every exchange, and for every connection if f is a fault
// that a connection can meet.
func Always(f Fault) decide {
	return func(x exchange) Fault {
		if x.N == 0 && !slices.Contains([]Fault{Reject, HangRequest, Delay}, f) {
			return pass
		}
		return f
	}
}

// Seed returns the seed of a test's random decisions: VERGE_SEED if it is set, otherwise n. If the test
// fails, it logs how to repeat them.
func Seed(t testing.TB, n uint64) uint64 {
	t.Helper()
	if s := os.Getenv("VERGE_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("VERGE_SEED=%q is no seed: %v", s, err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to replay: VERGE_SEED=%d go test -run '^%s$'", n, t.Name())
		}
	})
	return n
}
