package main

import (
	"fmt"
	"strings"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/kvadapters/memory"
)

// storeAt names a KV: bolt:PATH or memory.
type storeAt struct {
	kind string // bolt or memory
	path string // of the bolt file
}

// storesHere is said to whoever asks for another one.
const storesHere = "this build has bolt (one file, one process) and memory (forgets everything when it ends)"

func parseStore(s string) (storeAt, error) {
	kind, path, _ := strings.Cut(s, ":")
	switch {
	case s == "memory":
		return storeAt{kind: "memory"}, nil
	case kind == "bolt" && path != "":
		return storeAt{"bolt", path}, nil
	case kind == "bolt":
		return storeAt{}, fmt.Errorf("kv %q: it needs a file, as in bolt:/var/lib/verge/verge.db", s)
	}
	return storeAt{}, fmt.Errorf("kv %q: %s", s, storesHere)
}

func (a storeAt) open() (store kv.KV, close func() error, err error) {
	if a.kind == "memory" {
		return memory.New(memory.Config{}), func() error { return nil }, nil
	}
	b, err := bolt.Open(a.path, bolt.Config{})
	if err != nil {
		return nil, nil, err
	}
	return b, b.Close, nil
}
