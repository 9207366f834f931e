package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Duration is a duration in Go's units, or in days, such as 90d, 12h or 5s. A flag of
// this type must be more than 0.
type Duration time.Duration

func (l Duration) String() string { return time.Duration(l).String() }

// Validate rejects a 0 in a flag. The parser calls it only for a flag that was given.
func (l Duration) Validate() error { return moreThanNothing(l) }

// moreThanNothing rejects a 0. A 0 probably means "off", but the rest of the program would use the default.
func moreThanNothing[T ~int | ~int64](written T) error {
	if written > 0 {
		return nil
	}
	least := "at least 1"
	if _, ok := any(written).(Duration); ok {
		least = "more than 0s"
	}
	return fmt.Errorf("%v is too little; it must be %s; omit it for the default", written, least)
}

// notNegative rejects a number below 0. It is for settings that can be 0.
func notNegative(ps *problems, name string, n int) bool {
	if n < 0 {
		ps.add("%s: %d is negative; it must be at least 0", name, n)
	}
	return n >= 0
}

// given returns the configured value of name. If the value is missing or rejected, given returns 0, which
// means the default in the rest of the program.
func given[T ~int | ~int64](ps *problems, name string, written *T) T {
	if written == nil {
		return 0
	}
	if err := moreThanNothing(*written); err != nil {
		ps.add("%s: %v", name, err)
		return 0
	}
	return *written
}

// givenSpan is like given, for a duration.
func givenSpan(ps *problems, name string, written *span) time.Duration {
	if written == nil {
		return 0
	}
	d, ok := readSpan(ps, name, *written)
	if !ok {
		return 0
	}
	l := Duration(d)
	return time.Duration(given(ps, name, &l))
}

// readSpan reads a duration that may be 0.
func readSpan(ps *problems, name string, written span) (d time.Duration, ok bool) {
	var l Duration
	if err := l.UnmarshalText([]byte(written)); err != nil {
		ps.add("%s: %v", name, err)
		return 0, false
	}
	return time.Duration(l), true
}

// UnmarshalText reads a text such as 90d, 12h, 1h30m or 5s. Flags and the configuration both use it.
// It rejects negative durations.
func (l *Duration) UnmarshalText(text []byte) error {
	d, err := parseSpan(string(text))
	switch {
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%q is too long; it must be at most 65535d", text)
	case err != nil:
		return fmt.Errorf("%q is not a duration: write it like 90d, 12h or 5s", text)
	case d < 0:
		return fmt.Errorf("%q is negative; write it like 90d, 12h or 5s", text)
	}
	*l = Duration(d)
	return nil
}

// parseSpan is time.ParseDuration with days, up to 65535.
func parseSpan(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseInt(days, 10, 17)
	return time.Duration(n) * 24 * time.Hour, err
}

// Decode reads the value of a flag. It also accepts a word that begins with a hyphen: kong would parse -1h as
// a flag and report that the value is missing.
func (l *Duration) Decode(c *kong.DecodeContext) error {
	word := c.Scan.Pop()
	if word.IsEOL() {
		return errors.New("it needs a duration, like 90d, 12h or 5s")
	}
	return l.UnmarshalText([]byte(word.String()))
}

// Delay is a Duration that may be 0.
type Delay time.Duration

func (w Delay) String() string { return time.Duration(w).String() }

// Decode reads the value of a flag.
func (w *Delay) Decode(c *kong.DecodeContext) error { return (*Duration)(w).Decode(c) }
