package testenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Source is called by a test that runs the go command on packages of this module. Go caches the results of a
// package whose files are unchanged, and considers only files that the test imports or opens. Source
// therefore opens every directory with source, so that Go sees each change of a file in it.
func Source(t testing.TB) {
	t.Helper()
	if err := openSource(); err != nil {
		t.Fatal(err)
	}
}

func openSource() error {
	root, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(root) == root {
			return nil // this is not the module's own test
		}
		root = filepath.Dir(root)
	}
	for _, top := range []string{"core", "edge", "kvadapters", "wasm", "cmd", "testharness"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
