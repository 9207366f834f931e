package config

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90d": 90 * 24 * time.Hour, "0d": 0, "12h": 12 * time.Hour,
		"1h30m": 90 * time.Minute, "5s": 5 * time.Second,
		"": -1, "d": -1, "-1d": -1, "-1s": -1, "1.5d": -1, "90": -1, "99999d": -1, "a month": -1,
	} {
		var l Duration
		err := l.UnmarshalText([]byte(text))
		if (err != nil) != (want < 0) || err == nil && time.Duration(l) != want {
			t.Errorf("%q: %v, %v", text, time.Duration(l), err)
		}
	}
}

func FuzzDuration(f *testing.F) {
	for _, seed := range []string{"90d", "5s", "1h30m", "-1s", "65535d", "1e9h"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var l Duration
		if err := l.UnmarshalText([]byte(text)); err == nil && l < 0 {
			t.Errorf("%q is %v", text, time.Duration(l))
		}
	})
}
