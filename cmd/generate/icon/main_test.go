package main

import (
	"bytes"
	"encoding/binary"
	"image/png"
	"os"
	"testing"
)

func TestIconIsWhatIsEmbedded(t *testing.T) {
	made, err := icon(32)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../../core/internal/hosted/pages/favicon.ico")
	if err != nil {
		t.Fatal(err)
	}
	at, size := binary.LittleEndian.Uint32(made[18:]), binary.LittleEndian.Uint32(made[14:])
	if int(at+size) != len(made) {
		t.Errorf("the picture is said to have %d bytes from %d, the file has %d", size, at, len(made))
	}
	// Another version of Go may compress the same picture to other bytes.
	a, errA := png.Decode(bytes.NewReader(made[at:]))
	b, errB := png.Decode(bytes.NewReader(kept[at:]))
	if errA != nil || errB != nil || a.Bounds() != b.Bounds() || a.Bounds().Dx() != 32 {
		t.Fatalf("%v, %v", errA, errB)
	}
	for y := range 32 {
		for x := range 32 {
			if a.At(x, y) != b.At(x, y) {
				t.Fatalf("favicon.ico is not current: run make generate (pixel %d, %d)", x, y)
			}
		}
	}
}
