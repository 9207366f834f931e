package wait

import (
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
