package bolt

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/testharness/wait"
)

// expiredFile returns a Store's file from which most items have been removed after their expiry.
func expiredFile(t *testing.T, items int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verge.db")
	now := time.Now()
	s, err := Open(path, Config{Now: func() time.Time { return now }, SweepEvery: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < items; {
		tx := kv.Tx{ID: fmt.Sprint(i), Partition: "p",
			Puts:     []kv.Put{{Name: fmt.Sprint("stays", i), Value: make([]byte, 500)}},
			Schedule: []kv.Task{{ID: fmt.Sprint("t", i), Due: now.Add(time.Hour), Payload: []byte("x")}}}
		for ; len(tx.Puts) < kv.MaxTx-1; i++ {
			tx.Puts = append(tx.Puts, kv.Put{Name: fmt.Sprint("ends", i), Value: make([]byte, 2000),
				Expires: now.Add(time.Minute)})
		}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	later := func() time.Time { return now.Add(time.Hour) }
	s, err = Open(path, Config{Now: later, SweepEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the expired items are removed", func() bool { return !s.anyExpired() })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Content and ExpiredFile are for tests outside of the package.
var (
	Content     = content
	ExpiredFile = expiredFile
)

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestCompact_AfterExpiry(t *testing.T) {
	path := expiredFile(t, 5000)
	before, records := sizeOf(t, path), content(t, path)
	if runtime.GOOS != "windows" {
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	space, err := s.Measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if space.Size < before || space.Unused < before*8/10 {
		t.Errorf("the store reports %+v, of a file of %d bytes that is almost unused", space, before)
	}
	if _, err := Compact(t.Context(), path); !errors.Is(err, ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := Compact(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	after := sizeOf(t, path)
	t.Logf("%d bytes before, %d after", before, after)
	if after > before/10 || c.Before != before || c.Bytes != after || c.Tasks == 0 || c.Items == 0 {
		t.Errorf("%d bytes before, %d after, result %+v", before, after, c)
	}
	if !maps.Equal(content(t, path), records) {
		t.Error("the records have changed")
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, want 0640", info.Mode())
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(names) != 1 {
		t.Errorf("files are left: %v", names)
	}
	if s, err = Open(path, Config{}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Commit(t.Context(), putTx("later", "later")), s.Close()); err != nil {
		t.Error(err)
	}
}

// After a crash, the log is next to the name that the Store had opened.
func TestCompact_SymbolicLink(t *testing.T) {
	file, log := logged(t)
	for _, opened := range []string{"link", "file"} {
		dir := t.TempDir()
		path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
		writing(file)(t, path)
		if err := os.Symlink(path, link); err != nil {
			t.Skipf("this system has no symbolic links: %v", err)
		}
		writing(log)(t, filepath.Join(dir, opened)+logSuffix)
		if _, err := Compact(t.Context(), link); err != nil {
			t.Errorf("opened by the %s: %v", opened, err)
			continue
		}
		if to, err := os.Readlink(link); err != nil || to != path {
			t.Errorf("opened by the %s: the link has become %q, %v", opened, to, err)
		}
		if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 2 {
			t.Errorf("opened by the %s: files are left: %v, %v", opened, names, err)
		}
		s, err := Open(link, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(get(t, s, "one"), get(t, s, "two"), s.Close()); err != nil {
			t.Errorf("opened by the %s: %v", opened, err)
		}
	}
}

func TestCompact_Errors(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing.db")
	if _, err := Compact(t.Context(), missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for name, text := range map[string]string{"empty": "", "text": string(make([]byte, 1<<16))} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Compact(t.Context(), path); err == nil {
			t.Errorf("%s: no error", name)
		}
		if sizeOf(t, path) != int64(len(text)) {
			t.Errorf("%s: the file has changed", name)
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, ".*")); len(names) != 0 {
		t.Errorf("files are left: %v", names)
	}
}

// A store that waits for the lock opens the file that has the name then, not the replaced file.
func TestOpen_WaitsForCompact(t *testing.T) {
	path := expiredFile(t, 100)
	db, err := openExclusively(path)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	var s *Store
	go func() {
		var err error
		s, err = Open(path, Config{LockTimeout: 10 * time.Second})
		opened <- err
	}()
	time.Sleep(200 * time.Millisecond) // it waits for the lock of the old file
	copied := path + ".copy"
	if _, err := compactTo(t.Context(), db, copied); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(copied, path), db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := wait.For(opened); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Commit(t.Context(), putTx("later", "later")), s.Close()); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(path, Config{}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "later"}); err != nil {
		t.Errorf("a commit after the compaction: %v", err)
	}
}
