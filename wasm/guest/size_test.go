package main_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

// A Worker of the smallest plan may have 3 MiB with gzip: the platform rejects larger ones. 50,000 bytes
// are left for the glue. All kinds of methods share the rest: `make wasm` reports the size of each one.
func TestModule_Size(t *testing.T) {
	const most = 3<<20 - 50_000
	module := testenv.Module(t)
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
