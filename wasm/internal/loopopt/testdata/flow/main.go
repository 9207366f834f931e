// Command flow uses every kind of control flow of a Go program and prints the results. It must print the
// same with and without the optimization.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
)

func main() {
	for _, part := range []struct {
		name string
		run  func() any
	}{
		{"loops within loops", loops},
		{"labels and goto", labels},
		{"switch", switches},
		{"a loop that calls", calling},
		{"sorting", sorting},
		{"defer and recover", recovering},
		{"panics of the runtime", runtimePanics},
		{"a panic out of a loop's middle", panicInLoop},
		{"goroutines that stop in loops", goroutines},
		{"coroutines", coroutines},
		{"ranging over functions", ranging},
		{"a stack that grows", deep},
		{"garbage", garbage},
		{"Goexit", goexit},
		{"select and time", selecting},
		{"strings, regexp, JSON, hashes", library},
		{"numbers", numbers},
	} {
		fmt.Printf("%s: %v\n", part.name, part.run())
	}
}

func loops() any {
	n, prime := 0, make([]bool, 1000)
outer:
	for i := 2; i < len(prime); i++ {
		for j := 2; j*j <= i; j++ {
			if i%j == 0 {
				continue outer
			}
			if j == 31 && i > 990 {
				break outer
			}
		}
		prime[i] = true
		n += i
	}
	for i := range prime {
		for k := i; k > 0 && prime[i]; k /= 3 {
			for m := range k % 5 {
				n ^= m << (k % 7)
			}
		}
	}
	return n
}

func labels() any {
	i, trace := 0, []int{}
again:
	i++
	trace = append(trace, i)
	if i%3 == 0 {
		goto skip
	}
	for j := range 4 {
		if j == i%4 {
			goto skip
		}
		trace = append(trace, -j)
	}
skip:
	if i < 9 {
		goto again
	}
	return trace
}

//go:noinline
func name(n int) string {
	switch {
	case n < 0:
		return "negative"
	case n == 0, n == 7:
		return "special"
	case n > 1000:
		n -= 1000
		fallthrough
	case n > 100:
		return fmt.Sprint("large ", n)
	}
	switch n {
	case 1:
		return "one"
	case 2:
		return "two"
	case 3, 5, 9:
		return "odd"
	case 4:
		return "four"
	case 6:
		return "six"
	case 8:
		return "eight"
	}
	return "?"
}

func switches() any {
	var all []string
	for _, n := range []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 101, 1101} {
		all = append(all, name(n))
	}
	return strings.Join(all, ",")
}

//go:noinline
func step(n int) (int, error) {
	if n%11 == 10 {
		return 0, errors.New("step")
	}
	return n*3 + 1, nil
}

func calling() any {
	sum, failed := 0, 0
	for i := 0; i < 200; i++ {
		n, err := step(i)
		if err != nil {
			failed++
			continue
		}
		for n > 1 {
			if n&1 == 0 {
				n >>= 1
			} else if n, err = step(n); err != nil {
				break
			}
			sum += n & 7
		}
	}
	return []int{sum, failed}
}

func sorting() any {
	s := make([]int, 3000)
	x := uint32(7)
	for i := range s {
		x = x*1664525 + 1013904223
		s[i] = int(x >> 12)
	}
	a, b := slices.Clone(s), slices.Clone(s)
	sort.Ints(a)
	sort.SliceStable(b, func(i, j int) bool { return b[i]&255 < b[j]&255 })
	return []any{sort.IntsAreSorted(a), a[0], a[1500], b[0], b[1500]}
}

func recovering() any {
	var log []string
	f := func(n int) (out string, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("recovered %v", r)
			}
			log = append(log, fmt.Sprint("end ", n))
		}()
		for i := range n {
			defer func() { log = append(log, fmt.Sprint("defer ", i)) }()
			if i == 2 {
				panic(i)
			}
		}
		return "whole", nil
	}
	for n := range 5 {
		out, err := f(n)
		log = append(log, fmt.Sprint(out, err))
	}
	func() {
		defer func() { log = append(log, fmt.Sprint(recover())) }()
		defer func() {
			defer func() { log = append(log, fmt.Sprint("inner ", recover())) }()
			panic("second")
		}()
		panic("first")
	}()
	return log
}

func runtimePanics() any {
	var none *struct{ a [4]int }
	var m map[string]int
	var s []int
	zero, five := 0, 5
	var any any = "text"
	var log []string
	for _, f := range []func(){
		func() { none.a[1]++ },
		func() { m["x"] = 1 },
		func() { s[five]++ },
		func() { _ = s[five:] },
		func() { five /= zero },
		func() { _ = any.(int) },
		func() { _ = make([]int, five-6) },
		func() { _ = [4]int(make([]int, 3)) },
		func() { close((chan int)(nil)) },
	} {
		func() {
			defer func() { log = append(log, fmt.Sprint(recover())) }()
			f()
		}()
	}
	return log
}

func panicInLoop() any {
	n := 0
	for i := range 50 {
		func() {
			defer func() {
				if recover() != nil {
					n += 100
				}
			}()
			for j := 0; ; j++ {
				if n++; j == i%5 {
					if i%2 == 0 {
						return
					}
					var s []int
					n += s[j]
				}
			}
		}()
	}
	return n
}

func goroutines() any {
	var wg sync.WaitGroup
	var mu sync.Mutex
	out, back := make(chan int), make(chan int, 3)
	sum := 0
	for w := range 8 {
		wg.Go(func() {
			for n := range out {
				for i := range n % 6 {
					if i == w%3 {
						runtime.Gosched()
					}
				}
				mu.Lock()
				sum += n
				mu.Unlock()
				back <- n * w / 8
			}
		})
	}
	got := 0
	go func() {
		for i := range 400 {
			out <- i
		}
		close(out)
		wg.Wait()
		close(back)
	}()
	for range back {
		got++
	}
	return []int{sum, got}
}

func coroutines() any {
	next, stop := iter.Pull2(maps.All(map[string]int{"only": 1}))
	k, v, ok := next()
	_, _, more := next()
	stop()
	fib, end := iter.Pull(func(yield func(int) bool) {
		for a, b := 0, 1; yield(a); a, b = b, a+b {
		}
	})
	sum := 0
	for range 40 {
		n, _ := fib()
		sum += n
	}
	end()
	return []any{k, v, ok, more, sum}
}

func tree(n int, yield func(int) bool) bool {
	return n == 0 || tree(n/2, yield) && yield(n) && tree(n/3, yield)
}

func ranging() any {
	seen := []int{}
	for n := range func(yield func(int) bool) { tree(100, yield) } {
		if n%2 == 1 {
			continue
		}
		if len(seen) == 20 {
			break
		}
		seen = append(seen, n)
	}
	return seen
}

func depth(n int, pad [16]int) int {
	if n == 0 {
		return pad[3]
	}
	pad[n%16] += n
	return depth(n-1, pad) + pad[(n+3)%16]&1
}

func deep() any {
	done := make(chan int)
	go func() { done <- depth(20000, [16]int{}) }()
	return <-done
}

func garbage() any {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	type node struct {
		left, right *node
		name        string
	}
	var grow func(n int) *node
	grow = func(n int) *node {
		if n == 0 {
			return nil
		}
		return &node{grow(n - 1), grow(n - 1), strings.Repeat("x", n)}
	}
	var count func(n *node) int
	count = func(n *node) int {
		if n == nil {
			return 0
		}
		return len(n.name) + count(n.left) + count(n.right)
	}
	keep, sum := grow(12), 0
	for range 30 {
		sum += count(grow(9))
	}
	return []int{sum, count(keep)}
}

func goexit() any {
	log := make(chan string, 3)
	go func() {
		defer close(log)
		defer func() { log <- fmt.Sprint("deferred ", recover()) }()
		for i := 0; ; i++ {
			if i == 5 {
				runtime.Goexit()
			}
		}
	}()
	return []any{<-log, len(log)}
}

func selecting() any {
	a, b, quit := make(chan int), make(chan string), make(chan struct{})
	go func() {
		for i := range 20 {
			if i%3 == 0 {
				b <- fmt.Sprint(i)
			} else {
				a <- i
			}
		}
		time.Sleep(time.Millisecond)
		close(quit)
	}()
	sum, text := 0, ""
	for {
		select {
		case n := <-a:
			sum += n
		case s := <-b:
			text += s
		case <-quit:
			return []any{sum, text}
		case <-time.After(time.Minute):
			return "late"
		}
	}
}

func library() any {
	var v any
	text := `{"a":[1,2.5,{"b":"\u00e9\n"}],"c":null,"d":true,"e":"` + strings.Repeat("long", 50) + `"}`
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	out, err := json.Marshal(v)
	bad := json.Unmarshal([]byte(`{"a":[1,2`), &v)
	words := regexp.MustCompile(`(\w)(\d+|[^\s,]*?)x`).FindAllString("abcx, d12x ex  nope zz9x", -1)
	return []any{
		len(out),
		err,
		bad,
		words,
		fmt.Sprintf("%x", sha256.Sum256(out)),
		strings.Fields(" a  b c "),
		strings.ToUpper("größe"),
	}
}

func numbers() any {
	f, u := 1.0, uint64(1)
	for i := range 60 {
		f = math.Sqrt(f*float64(i+2)) + math.Floor(f)/3
		u = u*6364136223846793005 + uint64(int64(f)) | u>>7
	}
	return []any{
		fmt.Sprintf("%.9g", f),
		u,
		int32(int64(u)) >> 3,
		uint8(u) << 1,
		math.MaxInt64 / (int64(u%97) + 1),
		int64(u) % 1009,
	}
}
