// Command corpus records what the core does with some thousands of requests,
// good and bad. It writes transcripts to testdata, by which engines are compared.
// Each recording is one service and one file, packed by gzip; `verge replay` shows
// the first difference of any engine from it.
//
// They change whenever the core answers or asks for something else. Look at the
// difference before you run `go generate` here and commit them: the test shows
// the first one.
package main

//go:generate go run .

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/verge-id/verge/edge/transcript"
)

func main() {
	dir := flag.String("dir", "testdata", "where the transcripts go")
	flag.Parse()
	for _, s := range recordings {
		changed, err := write(filepath.Join(*dir, s.name+suffix), s.record())
		if err != nil {
			fmt.Fprintln(os.Stderr, "corpus:", err)
			os.Exit(1)
		}
		if changed {
			fmt.Println("wrote", s.name+suffix)
		}
	}
}

const suffix = ".jsonl.gz"

// write does not touch a file that has the same content: another version of Go
// may pack it differently.
func write(path string, t *transcript.Transcript) (changed bool, err error) {
	var text bytes.Buffer
	if err := t.Write(&text); err != nil {
		return false, err
	}
	before, err := unpack(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err == nil && bytes.Equal(before, text.Bytes()) {
		return false, nil
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return false, err
	}
	if _, err := z.Write(text.Bytes()); err != nil {
		return false, err
	}
	if err := z.Close(); err != nil {
		return false, err
	}
	return true, os.WriteFile(path, packed.Bytes(), 0o644)
}

func unpack(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
