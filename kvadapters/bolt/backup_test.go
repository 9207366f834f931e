package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
)

// content returns all records of a Store's file, by bucket and key, except for the file's own bucket.
func content(t *testing.T, path string) map[string]string {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := map[string]string{}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if !bytes.Equal(name, bucketVerge) {
					all[string(name)+"/"+string(k)] = string(v)
				}
				return nil
			})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The test takes backups while writers move numbers through two items each, in one commit. A backup in
// which the two differ would have been taken in the middle of a commit.
func TestBackup_ConsistentSnapshot(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, Config{})
	var stop sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		stop.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				value := []byte(strconv.Itoa(n))
				a, b := fmt.Sprint("a", w), fmt.Sprint("b", w)
				tx := kv.Tx{ID: fmt.Sprintf("%d-%d", w, n), Partition: "p",
					Puts:     []kv.Put{{Name: a, Value: value}, {Name: b, Value: value}},
					Schedule: []kv.Task{{ID: a, Due: time.Unix(int64(n), 0), Payload: value}}}
				if err := s.Commit(context.Background(), tx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for round := range 10 {
		known := map[int]int{}
		for w := range 4 {
			if it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: fmt.Sprint("a", w)}); err == nil {
				known[w], _ = strconv.Atoi(string(it.Value))
			}
		}
		path := filepath.Join(dir, fmt.Sprint(round))
		if _, err := s.Backup(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		copied, err := Open(path, Config{})
		if err != nil {
			t.Fatal("a backup must be a Store's file: ", err)
		}
		for w, n := range known {
			a, errA := copied.Get(t.Context(), kv.Key{Partition: "p", Name: fmt.Sprint("a", w)})
			b, errB := copied.Get(t.Context(), kv.Key{Partition: "p", Name: fmt.Sprint("b", w)})
			got, _ := strconv.Atoi(string(a.Value))
			if errA != nil || errB != nil || !bytes.Equal(a.Value, b.Value) || got < n {
				t.Errorf("writer %d had committed %d before the backup; it has %s and %s (%v %v)",
					w, n, a.Value, b.Value, errA, errB)
			}
		}
		if err := copied.Close(); err != nil {
			t.Error(err)
		}
	}
	close(done)
	stop.Wait()
}

// The test compares a backup with the file, record by record.
func TestBackup_Content(t *testing.T) {
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "verge.db"), filepath.Join(dir, "backup")
	writing(filled(t))(t, path)
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	s, err := Open(path, Config{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.Repeat("was-deleted ", 20)
	large := kv.Tx{ID: "large", Partition: "p",
		Puts: []kv.Put{{Name: "large", Value: make([]byte, kv.MaxValue)}}}
	for _, tx := range []kv.Tx{
		{ID: "1", Partition: "p", Puts: []kv.Put{{Name: "gone", Value: []byte(secret)}}},
		{ID: "2", Partition: "p", Deletes: []string{"gone"}},
		large,
	} {
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	c, err := s.Backup(t.Context(), backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(backup)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Copy{Taken: now, Items: 251, Tasks: 250, Bytes: info.Size()}); c != want {
		t.Errorf("Backup says %+v, want %+v", c, want)
	}
	if info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the backup has mode %o, and contains data that only Verge may read", info.Mode().Perm())
	}
	want, got := content(t, path), content(t, backup)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("the backup has %.20q at %q, want %.20q", got[key], key, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the backup has %d records, want %d", len(got), len(want))
	}
	raw, err := os.ReadFile(backup)
	if err != nil || bytes.Contains(raw, []byte("was-deleted")) {
		t.Errorf("contract 19: the backup contains deleted data (%v)", err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("there are %v next to the file and its backup (%v)", all, err)
	}
}

// The test restores over a valid file, a damaged one, one with a log and a missing one.
func TestRestore_Content(t *testing.T) {
	good := filled(t)
	file, log := logged(t)
	for _, c := range []struct {
		name string
		make func(t *testing.T, path string)
		kept []byte
	}{
		{"the file is missing", func(*testing.T, string) {}, nil},
		{"a valid file exists, and is kept", writing(good), good},
		{"a damaged file exists, and is kept", writing([]byte("damaged")), []byte("damaged")},
		{"a file with a log exists, and both are kept", func(t *testing.T, path string) {
			writing(file)(t, path)
			writing(log)(t, path+logSuffix)
		}, file},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path, backup := filepath.Join(dir, "verge.db"), filepath.Join(dir, "backup")
			taken := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
			s := testStore(t, Config{Now: func() time.Time { return taken }})
			if err := s.Commit(t.Context(), putTx("ours", "ours")); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Backup(t.Context(), backup); err != nil {
				t.Fatal(err)
			}
			c.make(t, path)
			if runtime.GOOS != "windows" && c.kept != nil {
				if err := os.Chmod(path, 0o640); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Restore(t.Context(), backup, path, taken.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			if !r.Taken.Equal(taken) || r.Items != 1 || r.Tasks != 0 {
				t.Errorf("Restore says %+v", r)
			}
			mode := os.FileMode(0o600)
			if c.kept != nil {
				mode = 0o640
			}
			if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != mode {
				t.Errorf("the file is %v (%v), want mode %v", info, err, mode)
			}
			kept, _ := os.ReadFile(r.Replaced)
			keptLog, _ := os.ReadFile(r.Replaced + logSuffix)
			if wanted := bytes.Equal(c.kept, file); bytes.Equal(keptLog, log) != wanted {
				t.Errorf("a log was kept with %d bytes, want it: %v", len(keptLog), wanted)
			}
			if !bytes.Equal(kept, c.kept) || (c.kept == nil) != (r.Replaced == "") {
				t.Errorf("the previous file is at %q with %d bytes, want %d", r.Replaced, len(kept),
					len(c.kept))
			}
			restored, err := Open(path, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer restored.Close()
			if it, err := restored.Get(t.Context(), kv.Key{Partition: "p", Name: "ours"}); err != nil ||
				it.Tx != "ours" {
				t.Errorf("the item of the backup is %+v (%v)", it, err)
			}
			if items, err := restored.List(t.Context(), kv.Key{Partition: "p"}, "", 10); err != nil ||
				len(items) != 1 {
				t.Errorf("there are %d items (%v), want only the backup's", len(items), err)
			}
			second, err := restored.Backup(t.Context(), filepath.Join(dir, "second"))
			if err != nil || second.Taken.Equal(taken) {
				t.Errorf("a backup of the restored store has the time %v (%v)", second.Taken, err)
			}
		})
	}
}

// The cases are the errors of Restore.
func TestRestore_Errors(t *testing.T) {
	good := filled(t)
	file, _ := logged(t)
	open := func(t *testing.T, path string) {
		s, err := Open(path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
	}
	cut := func(t *testing.T, path string) {
		writing(good)(t, path)
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if err := os.Truncate(path, int64(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name         string
		backup, live func(t *testing.T, path string)
		want         string
	}{
		{"a service uses the store", writing(good), open, "another process has it open"},
		{"a service uses the store, and its file is cut off", writing(good), cut,
			"another process has it open"},
		{"the backup is a store in use", open, writing(good), "another process has it open"},
		{"the backup is missing", func(*testing.T, string) {}, writing(good), "no such file"},
		{"the backup is cut off", writing(good[:len(good)/2]), writing(good), "cut off"},
		{"the backup is damaged", writing(zeroed(good, 2*os.Getpagesize(), len(good))), writing(good),
			"damaged"},
		{"the backup lacks its log", writing(file), writing(good), "the latest commits"},
		{"the backup is empty", writing(nil), writing(good), "is empty"},
		{"the backup is a directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, writing(good), "a directory or a device"},
		{"the backup is something else", writing([]byte(strings.Repeat("text ", 1e4))), writing(good),
			"not a bolt file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path, backup := filepath.Join(dir, "verge.db"), filepath.Join(dir, "backup")
			c.live(t, path)
			c.backup(t, backup)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Restore(t.Context(), backup, path, time.Now())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the store's file has changed (%v)", err)
			}
			if all, err := filepath.Glob(filepath.Join(dir, "*[^l]")); err != nil || len(all) > 2 {
				t.Errorf("%v are left", all)
			}
			if all, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(all) > 0 {
				t.Errorf("%v are left", all)
			}
		})
	}
}

func TestRestore_Directory(t *testing.T) {
	dir := t.TempDir()
	backup := filepath.Join(dir, "backup")
	writing(filled(t))(t, backup)
	if _, err := Restore(t.Context(), backup, t.TempDir(), time.Now()); !errors.Is(err, errNotFile) {
		t.Errorf("a store that is a directory: %v", err)
	}
}

func TestBackup_Errors(t *testing.T) {
	s := testStore(t, Config{})
	for i := range 3 {
		if err := s.Commit(t.Context(), putTx(fmt.Sprint(i), fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	writing([]byte("mine"))(t, there)
	if _, err := s.Backup(t.Context(), there); err == nil || !strings.Contains(err.Error(), "not changed") {
		t.Errorf("an existing file: %v", err)
	}
	if b, err := os.ReadFile(there); err != nil || string(b) != "mine" {
		t.Errorf("the file has become %q (%v)", b, err)
	}
	if _, err := s.Backup(t.Context(), filepath.Join(there, "backup")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the server stops"))
	path := filepath.Join(dir, "backup")
	if _, err := s.Backup(ctx, path); err == nil || !strings.Contains(err.Error(), "the server stops") {
		t.Errorf("a cancelled backup: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left a file: %v", err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v are left (%v)", all, err)
	}
}

// The file of a killed process is a backup together with its log.
func TestRestore_WithLog(t *testing.T) {
	file, log := logged(t)
	dir := t.TempDir()
	path, backup := filepath.Join(dir, "verge.db"), filepath.Join(dir, "snapshot")
	writing(file)(t, backup)
	writing(log)(t, backup+logSuffix)
	r, err := Restore(t.Context(), backup, path, time.Now())
	if err != nil || r.Items != 2 {
		t.Fatalf("Restore says %+v, %v", r, err)
	}
	s := openAt(t, path)
	if err := errors.Join(get(t, s, "one"), get(t, s, "two")); err != nil {
		t.Error(err)
	}
	items := 0
	if _, err := ReadBackup(t.Context(), backup, time.Now(), func(r Records) error {
		items += len(r.Items)
		return nil
	}); err != nil || items != 2 {
		t.Errorf("ReadBackup returns %d items, %v", items, err)
	}
}

// A link stays one: the data stay on the disk that the operator chose.
func TestRestore_SymbolicLink(t *testing.T) {
	backup := filepath.Join(t.TempDir(), "backup")
	writing(filled(t))(t, backup)
	file, log := logged(t)
	for _, opened := range []string{"link", "file"} {
		dir := t.TempDir()
		path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
		writing(file)(t, path)
		writing(log)(t, filepath.Join(dir, opened)+logSuffix)
		if err := os.Symlink(path, link); err != nil {
			t.Skipf("this system has no symbolic links: %v", err)
		}
		r, err := Restore(t.Context(), backup, link, time.Now())
		if err != nil || filepath.Dir(r.Replaced) != dir {
			t.Errorf("opened by the %s: %+v, %v", opened, r, err)
			continue
		}
		if to, err := os.Readlink(link); err != nil || to != path {
			t.Errorf("opened by the %s: the link has become %q, %v", opened, to, err)
		}
		if !maps.Equal(content(t, path), content(t, backup)) {
			t.Errorf("opened by the %s: the file behind the link is not the backup", opened)
		}
		if logs, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix)); err != nil || len(logs) != 1 ||
			!strings.Contains(logs[0], opened+".replaced-") {
			t.Errorf("opened by the %s: the logs are %v, %v", opened, logs, err)
		}
	}
}
