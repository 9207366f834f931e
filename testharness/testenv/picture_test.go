package testenv

import (
	"bytes"
	"image/jpeg"
	"testing"
)

func TestPicture(t *testing.T) {
	for _, size := range []int{2048, 5000, 32 << 10, 40_000, 300 << 10, 1<<20 - 1, 1 << 20} {
		picture := Picture(size)
		if _, err := jpeg.Decode(bytes.NewReader(picture)); err != nil || len(picture) != size {
			t.Errorf("a picture of %d bytes has %d: %v", size, len(picture), err)
		}
	}
	// From one comment to two: the last one always has room for its head.
	for size := 33_000; size < 35_500; size++ {
		if got := len(Picture(size)); got != size {
			t.Fatalf("a picture of %d bytes has %d", size, got)
		}
	}
}
