package runner

import "testing"

func TestCheckPartitions(t *testing.T) {
	for n, good := range map[int]bool{-1: false, 0: false, 1: true, 256: true, 257: false} {
		if err := CheckPartitions(n); (err == nil) != good {
			t.Errorf("%d: %v", n, err)
		}
	}
}
