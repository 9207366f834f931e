package storehealth

import (
	"testing"
	"time"
)

func TestCheckBudget(t *testing.T) {
	for d, good := range map[time.Duration]bool{
		0: false, 99 * time.Millisecond: false, 100 * time.Millisecond: true,
		5 * time.Second: true, 12 * time.Second: true, 12*time.Second + 1: false, -time.Second: false,
	} {
		if err := CheckBudget(d); (err == nil) != good {
			t.Errorf("%s: %v", d, err)
		}
	}
}
