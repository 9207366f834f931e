package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// lifeSpan is a duration that people write: Go's units, and days.
type lifeSpan time.Duration

func (l lifeSpan) String() string { return time.Duration(l).String() }

// Validate is called by the flags' parser for a flag that is there.
func (l lifeSpan) Validate() error { return moreThanNothing(l) }

// moreThanNothing refuses a 0, which the rest of the program takes for the
// default: whoever writes it wants none of something, or to switch it off, and
// would get neither.
func moreThanNothing[T ~int | ~int64](written T) error {
	switch {
	case written < 0:
		return fmt.Errorf("%v is less than nothing", written)
	case written == 0:
		return fmt.Errorf("%v is too little: give more, or leave it out for the default", written)
	}
	return nil
}

// given returns what a person wrote as name, or 0, which the rest of the
// program takes for the default, where nothing is written.
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
