package webhook

import (
	"math"
	"testing"
	"time"
)

func TestScheduleIsTheContracts(t *testing.T) {
	var s Schedule
	want := []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 4 * time.Hour, 8 * time.Hour,
	}
	for i, base := range want {
		for _, tc := range []struct {
			rule string
			rnd  uint64
			want time.Duration
		}{
			{"contract 26: 20 % less at most", 0, base * 80 / 100},
			{"contract 26: the named delay in the middle", 1 << 63, base},
			{"contract 26: 20 % more at most", math.MaxUint64, base * 120 / 100},
		} {
			got, more := s.Next(i+1, tc.rnd)
			if !more || got != tc.want {
				t.Errorf("%s: attempt %d: %v %v, want %v true", tc.rule, i+1, got, more, tc.want)
			}
		}
	}
	for _, attempts := range []int{10, 11, math.MaxInt} {
		if d, more := s.Next(attempts, 0); more || d != 0 {
			t.Errorf("contract 26: attempt %d failed: %v %v, want dead", attempts, d, more)
		}
	}
	if got := len(s.Waits()) + 1; got != 10 {
		t.Errorf("contract 26: %d attempts, want 10", got)
	}
}

func TestScheduleSettings(t *testing.T) {
	one := []time.Duration{time.Minute}
	for _, tc := range []struct {
		rule  string
		s     Schedule
		rnd   uint64
		delay time.Duration
		more  bool
	}{
		{"own delays, the contract's jitter", Schedule{Delays: one}, 0, 48 * time.Second, true},
		{"own jitter", Schedule{Delays: one, JitterPercent: 50}, 0, 30 * time.Second, true},
		{"no jitter", Schedule{Delays: one, JitterPercent: -1}, 12345, time.Minute, true},
		{"jitter never makes a delay negative", Schedule{Delays: one, JitterPercent: 400}, 0, 0, true},
		{"no retries", Schedule{Delays: []time.Duration{}}, 0, 0, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if d, more := tc.s.Next(1, tc.rnd); d != tc.delay || more != tc.more {
				t.Errorf("%v %v, want %v %v", d, more, tc.delay, tc.more)
			}
		})
	}
}
