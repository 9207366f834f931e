package main_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

// A Worker of the smallest plan may have 3 MiB with gzip: the platform rejects larger ones. They include the
// Worker's scripts. All kinds of methods share the rest: `make wasm` reports the size of each one.
func TestModule_Size(t *testing.T) {
	const most = 3 << 20
	names, err := filepath.Glob("../../edge/workers/src/*.js")
	if err != nil || len(names) == 0 {
		t.Fatalf("the Worker's scripts: %d, %v", len(names), err)
	}
	var scripts []byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, text...)
	}
	module := packedSize(t, testenv.Module(t))
	total := module + packedSize(t, scripts)
	t.Logf("with gzip: a module of %d bytes, %d with the scripts", module, total)
	if total > most {
		t.Errorf("the module and the scripts have %d bytes with gzip, want at most %d", total, most)
	}
}

func packedSize(t *testing.T, b []byte) int {
	t.Helper()
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Len()
}
