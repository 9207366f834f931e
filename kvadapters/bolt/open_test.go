package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
)

// filled returns the bytes of a closed file with 500 items and tasks.
func filled(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verge.db")
	s, err := Open(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		tx := kv.Tx{ID: fmt.Sprint(i), Partition: "p"}
		for j := range 25 {
			id := fmt.Sprintf("%d-%d", i, j)
			tx.Puts = append(tx.Puts, kv.Put{Name: id, Value: make([]byte, 200),
				Expires: time.Unix(1<<33, 0)})
			tx.Schedule = append(tx.Schedule, kv.Task{ID: id, Due: time.Unix(int64(i), 0),
				Payload: make([]byte, 200)})
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// writing returns a function that writes a file with this content.
func writing(b []byte) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// zeroed returns a copy of a file in which a range is lost.
func zeroed(good []byte, from, to int) []byte {
	b := append([]byte(nil), good...)
	clear(b[from:to])
	return b
}

// flipped returns good with another byte at a place.
func flipped(good []byte, at int) []byte {
	b := bytes.Clone(good)
	b[at] = ^b[at]
	return b
}

func TestOpen_OneMetaPage(t *testing.T) {
	good, page := filled(t), os.Getpagesize()
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
	}{
		{"a missing file is created", func(*testing.T, string) {}},
		{"an empty file is filled", writing(nil)},
		{"a good file is opened", writing(good)},
		{"the first meta page may be lost, as by a power cut during its write",
			writing(zeroed(good, 0, page))},
		{"the second meta page may be lost", writing(zeroed(good, page, 2*page))},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "verge.db")
			c.make(t, path)
			s, err := Open(path, Config{LockTimeout: 60 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), putTx("x", "x")); err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// noStore is a file that Open must reject, and the error's text besides the path.
type noStore struct {
	name string
	make func(t *testing.T, path string)
	want string
}

func (c noStore) isRejected(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verge.db")
	c.make(t, path)
	s, err := Open(path, Config{LockTimeout: 60 * time.Millisecond})
	if err == nil {
		s.Close()
		t.Fatal("open succeeded, want an error")
	}
	if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
		t.Errorf("got  %v\nwant the path and %q", err, c.want)
	}
}

func TestOpen_Damaged(t *testing.T) {
	good, page := filled(t), os.Getpagesize()
	for _, c := range []noStore{
		{"both meta pages are lost", writing(zeroed(good, 0, 2*page)),
			"neither of its two meta pages is valid"},
		{"the file is a short text", writing([]byte("hello")), "too few for a bolt file"},
		{
			"the file is a long text",
			writing([]byte(strings.Repeat("hello, I am no database\n", 5000))),
			"not a bolt file, or damaged",
		},
		{"the file is cut off after the first page", writing(good[:page]), "cut off"},
		{"cut off after the meta pages", writing(good[:2*page]), "cut off"},
		{"the file is cut off inside a page", writing(good[:3*page+100]), "cut off"},
		{"all data after the meta pages is lost", writing(zeroed(good, 2*page, len(good))), "damaged"},
	} {
		t.Run(c.name, c.isRejected)
	}
}

func TestOpen_Errors(t *testing.T) {
	withBolt := func(f func(*bbolt.Tx) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			db, err := bbolt.Open(path, 0o600, nil)
			if err == nil {
				err = errors.Join(db.Update(f), db.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []noStore{
		{"the file is another program's", withBolt(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket([]byte("theirs"))
			return err
		}), `another program (it begins with bucket "theirs")`},
		{"the file has a later format", withBolt(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(bucketVerge)
			if err != nil {
				return err
			}
			return b.Put(keyFormat, []byte("3"))
		}), `written in format "3", this version reads formats "1" and "2" only`},
		{"a bucket is missing", withBolt(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket(bucketVerge)
			if err != nil {
				return err
			}
			return b.Put(keyFormat, []byte("1"))
		}), "is missing"},
		{"the file is a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		{"another process has the file open", func(t *testing.T, path string) {
			s, err := Open(path, Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
		}, "another process has it open"},
	} {
		t.Run(c.name, c.isRejected)
	}
	t.Run("a directory above it is a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		writing(nil)(t, path)
		_, err := Open(filepath.Join(path, "verge.db"), Config{})
		if err == nil || !strings.Contains(err.Error(), path+" is not a directory") {
			t.Errorf("got %v, want an error that names %s", err, path)
		}
	})
}

// Any call can read a damaged page. The process must survive it, regardless of bbolt's reaction. A call may
// return an error or a wrong result, because bbolt keeps no checksums of data pages.
func TestStore_DamagedPage(t *testing.T) {
	good := filled(t)
	rng := rand.New(rand.NewPCG(1, 2))
	page := os.Getpagesize()
	for round := range 150 {
		b := append([]byte(nil), good...)
		used := len(b)
		for used > 0 && b[used-1] == 0 {
			used--
		}
		for range 1 + rng.IntN(8) {
			at := rng.IntN(used/page) * page
			switch round % 3 {
			case 0: // a header
				b[at+rng.IntN(16)] ^= byte(1 + rng.IntN(255))
			case 1: // anywhere
				b[at+rng.IntN(page)] ^= byte(1 + rng.IntN(255))
			case 2: // a page at the wrong position
				from := rng.IntN(used/page) * page
				copy(b[at:at+page], good[from:from+page])
			}
		}
		path := filepath.Join(t.TempDir(), "verge.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path, Config{})
		if err != nil {
			continue
		}
		for i := range 10 {
			// The calls only have to return.
			_ = s.Commit(t.Context(), putTx(fmt.Sprint("new-", i), fmt.Sprintf("%d-%d", i, i)))
			_, _ = s.Get(t.Context(), kv.Key{Partition: "p", Name: fmt.Sprintf("%d-%d", i, 2*i)})
			_, _ = s.List(t.Context(), kv.Key{Partition: "p"}, "", 1000)
			_, _, _ = s.Claim(t.Context(), "p", time.Unix(int64(i), 0), time.Second, 100)
		}
		_ = s.Close()
	}
}

func TestOpen_FileModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "verge.db")
	s, err := Open(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, want := range map[string]os.FileMode{path: 0o600, dir: 0o700, filepath.Dir(dir): 0o700} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestOpenError_Permission(t *testing.T) {
	err := openError("verge.db", &os.PathError{Op: "open", Path: "verge.db", Err: os.ErrPermission})
	if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "`chown verge: verge.db`") {
		t.Error(err)
	}
}
