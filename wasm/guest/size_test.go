package main_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/verge-id/verge/testharness/kit"
)

// What edge platforms take as one script is counted compressed.
func TestTheModuleIsSmall(t *testing.T) {
	const most = 3_000_000
	module := kit.Module(t)
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(module); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d with gzip", len(module), packed.Len())
	if packed.Len() > most {
		t.Errorf("the module has %d bytes with gzip, want at most %d", packed.Len(), most)
	}
}
