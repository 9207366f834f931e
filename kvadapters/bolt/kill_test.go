package bolt_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
)

// killChild is the variable that makes the test binary the process that is killed.
const killChild = "VERGE_BOLT_KILL_CHILD"

// children maps the name of a variable to the function that the test binary calls instead of testing, if
// that variable is set.
var children = map[string]func(path string){killChild: commitForEver, compactChild: compactForEver}

func TestMain(m *testing.M) {
	for variable, child := range children {
		if path := os.Getenv(variable); path != "" {
			child(path)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// writers is the number of goroutines that commit at the same time, so that a kill interrupts groups.
const writers = 8

// commitForEver counts in each writer's own items, as fast as the disk allows, and prints each count after
// its commit returned. Each commit moves one number through two items and a task, and removes the previous
// task.
func commitForEver(path string) {
	s, err := bolt.Open(path, bolt.Config{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			n := 0
			it, err := s.Get(context.Background(), kv.Key{Partition: "p", Name: fmt.Sprintf("a%d", w)})
			if err == nil {
				n, _ = strconv.Atoi(string(it.Value))
			}
			for {
				n++
				err := s.Commit(context.Background(), countTx(w, n))
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				mu.Lock()
				fmt.Printf("%d %d\n", w, n)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func countTx(w, n int) kv.Tx {
	value := []byte(strconv.Itoa(n))
	return kv.Tx{
		ID: fmt.Sprintf("%d-%d", w, n), Partition: "p",
		Puts: []kv.Put{
			{Name: fmt.Sprintf("a%d", w), Value: value},
			{Name: fmt.Sprintf("b%d", w), Value: value, Expires: time.Now().Add(time.Hour)},
			{Name: fmt.Sprintf("log/%d/%d", w, n), Value: value},
			{Name: fmt.Sprintf("pad%d", w), Value: make([]byte, 60_000)}, // so that checkpoints run
		},
		Schedule: []kv.Task{{ID: fmt.Sprintf("t-%d-%d", w, n), Due: time.Unix(int64(1+n), 0),
			Payload: value}},
		Cancel: []string{fmt.Sprintf("t-%d-%d", w, n-1)},
	}
}

// A kill does not change the operating system's cache. So this test proves that the write precedes the
// result and that bolt's file is always consistent. It cannot prove that the data has left the cache: fsync
// promises that.
func TestStore_Kill9(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verge.db")
	rng := rand.New(rand.NewPCG(3, 5))
	acked := make([]int, writers)
	for round := range 12 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), killChild+"="+path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		// Kill after a random number of acknowledgements and a random pause, to hit every stage of a write.
		left, pause := 1+rng.IntN(300), time.Duration(rng.IntN(3000))*time.Microsecond
		var kill sync.Once
		for lines := bufio.NewScanner(out); lines.Scan(); left-- {
			var w, n int
			if _, err := fmt.Sscanf(lines.Text(), "%d %d", &w, &n); err != nil {
				break // the kill interrupted this line
			}
			if n > acked[w] {
				acked[w] = n
			}
			if left <= 0 {
				kill.Do(func() {
					time.AfterFunc(pause, func() { child.Process.Kill() })
				})
			}
		}
		kill.Do(func() { child.Process.Kill() })
		if err := child.Wait(); child.ProcessState.Exited() {
			t.Fatalf("round %d: the child ended on its own: %v", round, err)
		}
		verifyCounts(t, path, round, acked)
	}
}

func verifyCounts(t *testing.T, path string, round int, acked []int) {
	t.Helper()
	s, err := bolt.Open(path, bolt.Config{})
	if err != nil {
		t.Fatalf("round %d: opening after the kill: %v", round, err)
	}
	defer s.Close()
	value := func(name string) string {
		it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: name})
		if err != nil && !errors.Is(err, kv.ErrNotFound) {
			t.Fatal(err)
		}
		return string(it.Value)
	}
	pending := make(map[string]string)
	tasks, _, err := s.Claim(t.Context(), "p", time.Unix(1<<30, 0), time.Second, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		pending[task.ID] = string(task.Payload)
	}
	total := 0
	for w := range writers {
		a, b := value(fmt.Sprintf("a%d", w)), value(fmt.Sprintf("b%d", w))
		n, _ := strconv.Atoi(a)
		if n < acked[w] {
			t.Errorf("round %d: writer %d's commit %d returned before the kill, but the file has %d",
				round, w, acked[w], n)
		}
		if a != b {
			t.Errorf("round %d: writer %d: half a transaction: its two items hold %q and %q", round, w, a, b)
		}
		if n == 0 {
			continue
		}
		total++
		if id := fmt.Sprintf("t-%d-%d", w, n); pending[id] != a {
			t.Errorf("round %d: writer %d: half a transaction: the items hold %s, the task %s holds %q",
				round, w, a, id, pending[id])
		}
		for i := 1; i <= n; i++ {
			if value(fmt.Sprintf("log/%d/%d", w, i)) != strconv.Itoa(i) {
				t.Errorf("round %d: writer %d's commit %d is missing, though %d exists", round, w, i, n)
			}
		}
	}
	if len(pending) != total {
		t.Errorf("round %d: the file holds %d tasks of %d writers, want one of each writer",
			round, len(pending), total)
	}
}
