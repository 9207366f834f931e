package egress

import (
	"testing"
	"time"
)

func TestValidate(t *testing.T) {
	for member, c := range map[string]Config{
		"":               {},
		"ConnectTimeout": {ConnectTimeout: -1},
		"Timeout":        {Timeout: 2*time.Minute + 1},
		"IdleTimeout":    {IdleTimeout: -1},
		"MaxBody":        {MaxBody: -1},
		"MaxHeader":      {MaxHeader: -1},
		"IdlePerHost":    {IdlePerHost: -1},
	} {
		wrong := c.Validate()
		if member == "" && wrong != nil || member != "" && (len(wrong) != 1 || wrong[0].Member != member) {
			t.Errorf("%+v: %v, want one problem with %q", c, wrong, member)
		}
	}
	if wrong := (Config{Timeout: 2 * time.Minute, MaxBody: 1}).Validate(); wrong != nil {
		t.Errorf("the longest timeout and the smallest response are rejected: %v", wrong)
	}
	if wrong := (Config{Timeout: -1, MaxBody: -1}).Validate(); len(wrong) != 2 {
		t.Errorf("two errors, but got %v", wrong)
	}
}
