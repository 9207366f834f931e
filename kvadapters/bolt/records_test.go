package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
)

// A backup that is read and written again has the same records.
func TestWriteBackup_RoundTrip(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := testStore(t, Config{Now: func() time.Time { return now }})
	for n := range 1200 {
		expires := time.Time{}
		switch n % 3 {
		case 1:
			expires = now.Add(time.Hour)
		case 2:
			expires = now.Add(-time.Second)
		}
		tx := kv.Tx{ID: fmt.Sprint("tx", n), Partition: kv.Partition(fmt.Sprint("p", n%2)),
			Puts: []kv.Put{{Name: fmt.Sprintf("i/%04d", n), Value: make([]byte, n), Expires: expires}},
			Schedule: []kv.Task{
				{ID: fmt.Sprint("t", n), Due: now.Add(time.Duration(n)), Payload: []byte{byte(n)}},
			}}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	from := filepath.Join(t.TempDir(), "from")
	if _, err := s.Backup(t.Context(), from); err != nil {
		t.Fatal(err)
	}
	var all []Records
	read, err := ReadBackup(t.Context(), from, now, func(r Records) error {
		all = append(all, r)
		return nil
	})
	if err != nil || read.Items != 800 || read.Tasks != 1200 || !read.Taken.Equal(now) || len(all) < 4 {
		t.Fatalf("%+v in %d parts, %v", read, len(all), err)
	}
	// Rows that a later part replaces or removes.
	first := Records{Partition: "p0", Items: []kv.Item{
		{
			Key:     kv.Key{Partition: "p0", Name: "i/0000"},
			Tx:      "old",
			Value:   []byte("old"),
			Expires: now.Add(time.Minute),
		},
		{Key: kv.Key{Partition: "p0", Name: "gone"}, Tx: "old", Expires: now.Add(time.Minute)},
	}, Tasks: []kv.Task{{ID: "t0", Due: now.Add(-time.Hour)}, {ID: "gone", Due: now}}}
	last := Records{Partition: "p0", RemovedItems: []string{"gone", "never"}, RemovedTasks: []string{"gone"}}
	all = append(append([]Records{first}, all...), last)
	to := filepath.Join(t.TempDir(), "to")
	next := func() (*Records, error) {
		if len(all) == 0 {
			return nil, nil
		}
		r := all[0]
		all = all[1:]
		return &r, nil
	}
	wrote, err := WriteBackup(t.Context(), to, next, func() time.Time { return now })
	if err != nil || wrote.Items != 800 || wrote.Tasks != 1200 {
		t.Fatalf("%+v, %v", wrote, err)
	}
	want := content(t, from)
	got := content(t, to)
	for key := range want {
		if _, is := got[key]; !is && !expiredKey(key, want[key], now) {
			t.Errorf("%q is missing", key)
		}
	}
	for key, value := range got {
		if want[key] != value {
			t.Errorf("%q is %q, want %q", key, value, want[key])
		}
	}
	if _, err := Restore(t.Context(), to, filepath.Join(t.TempDir(), "store"), now); err != nil {
		t.Error(err)
	}
}

// expiredKey reports whether a record of content belongs to an expired item.
func expiredKey(key, value string, now time.Time) bool {
	if rest, is := cutBucket(key, bucketItems); is && rest != "" {
		return decodeItem([]byte(value)).expired(now)
	}
	rest, is := cutBucket(key, bucketExpiry)
	return is && rest[:8] <= expiryText(now)
}

func cutBucket(key string, bucket []byte) (string, bool) {
	n := len(bucket) + 1
	if len(key) < n || key[:n] != string(bucket)+"/" {
		return "", false
	}
	return key[n:], true
}

func expiryText(now time.Time) string { return string(expiryKey(sortable(now), nil)) }

// If the rows end with an error, no file is left.
func TestWriteBackup_Error(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "backup")
	broken := errors.New("broken")
	for name, next := range map[string]func() (*Records, error){
		"an error": func() (*Records, error) { return nil, broken },
		"an invalid name": func() (*Records, error) {
			return &Records{Partition: "p", Items: []kv.Item{{Tx: "x"}}}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := WriteBackup(t.Context(), path, next, time.Now); err == nil {
				t.Error("no error")
			}
		})
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func() (*Records, error) { return nil, nil }
	if _, err := WriteBackup(t.Context(), path, none, time.Now); err == nil {
		t.Error("an existing file was replaced")
	}
	if b, err := os.ReadFile(path); err != nil || !slices.Equal(b, []byte("kept")) {
		t.Errorf("%q, %v", b, err)
	}
}
