package main_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/verge-id/verge/testharness/kit"
)

// A Worker of the smallest plan may have 3 MB with gzip. This bound takes a megabyte as a million bytes, and
// leaves 50,000 for the glue. So it holds however the platform counts, and all kinds of methods share it:
// `make wasm` says what each one adds.
func TestTheModuleIsSmall(t *testing.T) {
	const most = 3_000_000 - 50_000
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
