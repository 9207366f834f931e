package wait

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFor(t *testing.T) {
	full := make(chan int, 1)
	full <- 7
	if got := For(full); got != 7 {
		t.Errorf("a channel with a value: %d, want 7", got)
	}
	closed := make(chan string)
	close(closed)
	if got := For(closed); got != "" {
		t.Errorf("a closed channel: %q, want the zero value", got)
	}
}

func TestWithin_NoValue(t *testing.T) {
	defer func() {
		const want = "no value of type int arrived within 1ns"
		if got, _ := recover().(string); !strings.Contains(got, want) {
			t.Errorf("panic %q, want %q", got, want)
		}
	}()
	within(time.Nanosecond, make(chan int))
	t.Error("the wait ended without a value")
}

// failing is a test that stops at its first failure and keeps the text.
type failing struct {
	testing.TB
	text string
}

func (*failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.text = fmt.Sprintf(format, args...)
	panic(f)
}

func TestUntil(t *testing.T) {
	calls := 0
	Until(t, "the third call", func() bool { calls++; return calls == 3 })
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
}

func TestUntil_NeverDone(t *testing.T) {
	f := &failing{TB: t}
	defer func() {
		const want = "not within 1ns: a miracle"
		if recover() != f || f.text != want {
			t.Errorf("the test failed with %q, want %q", f.text, want)
		}
	}()
	until(f, time.Nanosecond, "a miracle", func() bool { return false })
	t.Error("the wait ended")
}
