package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.wasm")
	for _, c := range []struct {
		name    string
		content string
		args    []string
		wrong   string
	}{
		{"no module is named", "", nil, "usage: postlink MODULE"},
		{"two are", "", []string{file, file}, "usage: postlink MODULE"},
		{"it is not there", "", []string{file + "x"}, "no such file"},
		{"it is something else", "#!/bin/sh\nexit", []string{file},
			"x.wasm: loopopt: not a WebAssembly module"},
		{"an empty module stays one", "\x00asm\x01\x00\x00\x00", []string{file}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run(c.args)
			if c.wrong == "" && err != nil ||
				c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != c.content {
				t.Errorf("the file has become %q (%v)", got, err)
			}
		})
	}
}
