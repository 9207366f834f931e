package main_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

// A Worker gives the guest the functions in wasi.js and no others. An added library must not need files or
// a network: crypto/x509 reads directories as soon as a path is built with it.
func TestModule_ImportsOfWorkers(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "..", "edge", "workers", "src", "wasi.js"))
	if err != nil {
		t.Fatal(err)
	}
	var offered []string
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z]+_[a-z_]+)[(:]`).FindAllSubmatch(source, -1) {
		offered = append(offered, string(m[1]))
	}
	imported := 0
	for _, i := range imports(t, testenv.Module(t)) {
		if i.module != "wasi_snapshot_preview1" {
			continue
		}
		if imported++; !slices.Contains(offered, i.name) {
			t.Errorf("the module imports %s, and wasi.js has only %v", i.name, offered)
		}
	}
	if imported < 10 || len(offered) < 10 {
		t.Errorf("%d functions are imported and %d offered: are they still written as this test reads them?",
			imported, len(offered))
	}
}

type imported struct{ module, name string }

// imports reads the import section of a module, in which every import is a function.
func imports(t *testing.T, module []byte) (all []imported) {
	t.Helper()
	const section = 2
	at := 8 // after the magic number and the version
	number := func() int {
		n, size := binary.Uvarint(module[at:])
		if size <= 0 {
			t.Fatalf("no number at byte %d", at)
		}
		at += size
		return int(n)
	}
	name := func() string {
		n := number()
		at += n
		return string(module[at-n : at])
	}
	for at < len(module) {
		id := module[at]
		at++
		size := number()
		if id != section {
			at += size
			continue
		}
		for range number() {
			all = append(all, imported{name(), name()})
			if module[at] != 0 {
				t.Fatalf("%v is no function", all[len(all)-1])
			}
			at++
			number() // its type
		}
		return all
	}
	t.Fatal("the module has no imports")
	return nil
}
