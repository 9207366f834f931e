package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lifeSpan is a duration that people write: Go's units, and days.
type lifeSpan time.Duration

// UnmarshalText reads 90d, 12h, 1h30m or 5s; the flags' parser and the
// configuration's use it alike. Nothing is negative here.
func (l *lifeSpan) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is no duration: write it like 90d, 12h or 5s", s)
		}
		*l = lifeSpan(time.Duration(n) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is no duration: write it like 90d, 12h or 5s", s)
	}
	*l = lifeSpan(d)
	return nil
}
