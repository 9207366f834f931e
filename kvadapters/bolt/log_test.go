package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
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

// changesOf returns a layer as text, by table and key.
func changesOf(l *layer) map[string]string {
	all := map[string]string{}
	for t := range l.tables {
		l.tables[t].Scan(func(key string, value []byte) bool {
			text := "removed"
			if value != nil {
				text = fmt.Sprintf("%x", value)
			}
			all[fmt.Sprintf("%d/%x", t, key)] = text
			return true
		})
	}
	return all
}

// testLog returns a log with three records, whose sequences begin at 1, and the offset of each.
func testLog(id logID) (file []byte, at []int) {
	file = encodeHeader(id)
	for i := range 3 {
		l := &layer{}
		l.put(itemTable, fmt.Append(nil, "key", i), bytes.Repeat([]byte{byte('a' + i)}, 3000*i+10))
		l.remove(dueTable, fmt.Append(nil, "due", i))
		at = append(at, len(file))
		file = append(file, encodeRecord(id, uint64(i+1), l)...)
	}
	return file, at
}

func TestReplay_TornRecord(t *testing.T) {
	id := logID{1}
	file, at := testLog(id)
	whole, last, err := replay(id, file, 0)
	if err != nil || last != 3 || len(changesOf(whole)) != 6 {
		t.Fatalf("an undamaged log: %v, at %d, %v", changesOf(whole), last, err)
	}
	want, _, err := replay(id, file[:at[2]], 0)
	if err != nil {
		t.Fatal(err)
	}
	size := recordHeader
	for cut := at[2]; cut < len(file); cut++ {
		if _, changes, _ := decodeRecord(id, file[at[2]:]); cut == at[2] {
			size += len(changes)
		}
		torn := zeroed(file, cut, len(file))
		for name, b := range map[string][]byte{"cut off": file[:cut], "zero from": torn} {
			complete := name == "zero from" && bytes.Equal(torn, file) ||
				name == "cut off" && cut >= at[2]+size
			l, last, err := replay(id, b, 0)
			switch {
			case err != nil:
				t.Fatalf("%s byte %d of the last record: %v", name, cut-at[2], err)
			case complete && (last != 3 || !maps.Equal(changesOf(l), changesOf(whole))),
				!complete && (last != 2 || !maps.Equal(changesOf(l), changesOf(want))):
				t.Fatalf("%s byte %d of the last record: at %d, %v", name, cut-at[2], last, changesOf(l))
			}
		}
	}
}

func TestReplay_DamagedRecord(t *testing.T) {
	id := logID{1}
	file, at := testLog(id)
	for i, from := range at {
		_, changes, _ := decodeRecord(id, file[from:])
		for at := from; at < from+recordHeader+len(changes); at++ {
			b := bytes.Clone(file)
			b[at] ^= 1 << (at % 8)
			_, last, err := replay(id, b, 0)
			if i < 2 && (err == nil || !strings.Contains(err.Error(), "is unreadable")) {
				t.Fatalf("record %d with a wrong byte %d: at %d, %v", i+1, at-from, last, err)
			}
			if i == 2 && (err != nil || last != 2) {
				t.Fatalf("the last record with a wrong byte %d: at %d, %v", at-from, last, err)
			}
		}
	}
	if _, last, err := replay(id, zeroed(file, at[0], at[1]), 1); err != nil || last != 3 {
		t.Errorf("a record that the file contains is lost: at %d, %v", last, err)
	}
	if _, last, err := replay(logID{2}, file, 0); err != nil || last != 0 {
		t.Errorf("records of another log: at %d, %v", last, err)
	}
}

func FuzzRecord(f *testing.F) {
	file, at := testLog(logID{1})
	f.Add(file[at[0]:], uint64(7))
	f.Add([]byte{byte(dueTable) | removedFlag, 1, 'k'}, uint64(0))
	f.Add([]byte{0, 1, 'k', 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, uint64(1))
	f.Fuzz(func(t *testing.T, b []byte, sequence uint64) {
		decodeRecord(logID{1}, b)
		if _, err := decodeHeader(b); err == nil && !bytes.HasPrefix(b, []byte(logMagic)) {
			t.Error("a header without its first bytes is valid")
		}
		l := &layer{}
		if err := decodeChanges(l, b); err != nil {
			return
		}
		id := logID(bytes.Repeat([]byte{byte(sequence)}, 16))
		record := encodeRecord(id, sequence, l)
		got, changes, size := decodeRecord(id, record)
		again := &layer{}
		err := decodeChanges(again, changes)
		if err != nil || got != sequence || size != len(record) || size%logBlock != 0 ||
			!maps.Equal(changesOf(l), changesOf(again)) {
			t.Errorf("%v has become %v in record %d of %d bytes, %v", changesOf(l), changesOf(again), got,
				size, err)
		}
	})
}

// The largest group fits into one half of the log, and its size is not underestimated.
func TestCommit_LargestRecord(t *testing.T) {
	long := func(i int) string { return fmt.Sprintf("%0*d", kv.MaxName, i) }
	partition := kv.Partition(long(0))
	for name, add := range map[string]func(*kv.Tx, int){
		"puts": func(tx *kv.Tx, i int) {
			tx.Puts = append(tx.Puts,
				kv.Put{Name: long(i), Value: make([]byte, kv.MaxValue), Expires: time.Unix(1<<32, 0)})
		},
		"deletes": func(tx *kv.Tx, i int) { tx.Deletes = append(tx.Deletes, long(i)) },
		"tasks": func(tx *kv.Tx, i int) {
			tx.Schedule = append(tx.Schedule,
				kv.Task{ID: long(i), Due: time.Unix(1<<32, 0), Payload: make([]byte, kv.MaxValue)})
		},
		"cancels": func(tx *kv.Tx, i int) { tx.Cancel = append(tx.Cancel, long(i)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t, Config{})
			before := kv.Tx{ID: "before", Partition: partition}
			tx := kv.Tx{ID: long(1)[kv.MaxName-64:], Partition: partition}
			for i := range kv.MaxTx {
				put := kv.Put{Name: long(i), Expires: time.Unix(1<<33, 0)}
				if name == "tasks" || name == "cancels" {
					before.Schedule = append(before.Schedule, kv.Task{ID: long(i), Due: time.Unix(1<<33, 0)})
				} else {
					before.Puts = append(before.Puts, put)
				}
				add(&tx, i)
			}
			if err := s.Commit(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			c := prepared(tx)
			g := groupState{changes: &layer{}, touched: map[string]bool{}}
			if err := s.read(g.changes, func(st state) error {
				g.write(st, c)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			record, estimated := s.log.record(g.changes), blocks(recordHeader+c.bytes)
			if len(record) > estimated {
				t.Errorf("the record has %d bytes, estimated %d", len(record), estimated)
			}
			if err := s.Commit(t.Context(), tx); err != nil {
				t.Fatal(err)
			}
			if most := maxGroupBytes + estimated; most > logHalf {
				t.Errorf("a group may have %d bytes, more than a half of the log", most)
			}
		})
	}
}

// logged returns a file and its log as after a crash, with two commits in the log.
func logged(t *testing.T) (file, log []byte) {
	t.Helper()
	s := testStore(t, Config{})
	for _, name := range []string{"one", "two"} {
		if err := s.Commit(t.Context(), putTx(name, name)); err != nil {
			t.Fatal(err)
		}
	}
	crashed := crashedCopy(t, s.path)
	file, err := os.ReadFile(crashed)
	if err != nil {
		t.Fatal(err)
	}
	if log, err = os.ReadFile(crashed + logSuffix); err != nil {
		t.Fatal(err)
	}
	return file, log
}

func TestOpen_AfterCrash(t *testing.T) {
	file, log := logged(t)
	clean := filled(t)
	for _, c := range []struct {
		name      string
		file, log []byte
		want      string // of the error; empty: the commits of the log are read
	}{
		{"the log has the commits", file, log, ""},
		{"the log has other data after its records", file, append(bytes.Clone(log), "text"...), ""},
		{"the log is missing", file, nil, "it is missing, and it has the latest commits"},
		{"the log is empty", file, []byte{}, "not a log of Verge"},
		{"the log is another file", file, clean, "not a log of Verge"},
		{"its header is damaged", file, flipped(log, 20), "its header is damaged"},
		{"its first record is damaged", file, flipped(log, logBlock), "is unreadable"},
		{"it is the log of another file", file, append(encodeHeader(logID{1}), log[logBlock:]...),
			"belongs to another file"},
		{"the file needs no log, and one with commits is there", clean, log, "has commits of another file"},
		{"the file needs no log, and another file is there", clean, clean, "move it away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "verge.db")
			writing(c.file)(t, path)
			if c.log != nil {
				writing(c.log)(t, path+logSuffix)
			}
			s, err := Open(path, Config{})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if err := errors.Join(get(t, s, "one"), get(t, s, "two")); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				s.Close()
				t.Fatal("open succeeded, want an error")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path+logSuffix) {
				t.Errorf("got  %v\nwant the path of the log and %q", err, c.want)
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(after, c.file) {
				t.Errorf("the file has changed (%v)", err)
			}
			if log, err := os.ReadFile(path + logSuffix); c.log != nil && !bytes.Equal(log, c.log) ||
				c.log == nil && err == nil {
				t.Errorf("the log has changed (%v)", err)
			}
		})
	}
}

// A file in use has a format that versions without a log reject, and a closed one is complete without a log.
func TestClose_CompleteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verge.db")
	formatOf := func() (format string) {
		t.Helper()
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
		if err == nil {
			err = errors.Join(db.View(func(tx *bbolt.Tx) error {
				format = string(tx.Bucket(bucketVerge).Get(keyFormat))
				return nil
			}), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		return format
	}
	s, err := Open(path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), putTx("one", "one")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path + logSuffix)
	if err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("the log has the mode %v (%v)", info.Mode(), err)
	}
	used := crashedCopy(t, path)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := formatOf(); got != "1" {
		t.Errorf("a closed file has format %q", got)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("after Close there are %v", left)
	}
	if all := content(t, path); len(all) != 1 {
		t.Errorf("the closed file has %v", all)
	}
	path = used
	if got := formatOf(); got != "2" {
		t.Errorf("a file in use has format %q", got)
	}
	// A crash before Close has removed the log leaves a log without newer commits.
	log, err := os.ReadFile(used + logSuffix)
	if err != nil {
		t.Fatal(err)
	}
	if err := openAt(t, used).Close(); err != nil {
		t.Fatal(err)
	}
	writing(log)(t, used+logSuffix)
	if err := get(t, openAt(t, used), "one"); err != nil {
		t.Error(err)
	}
}

// The state is a merge of the file and its layers.
func TestState_MatchesModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 7))
	for round := range 30 {
		db, err := bbolt.Open(filepath.Join(t.TempDir(), "file"), 0o600, &bbolt.Options{NoSync: true})
		if err != nil {
			t.Fatal(err)
		}
		model := map[string]string{}
		layers := []*layer{{}, {}, {}, {}}
		for n, l := range layers {
			for range rng.IntN(30) {
				key, value := fmt.Sprint("k", rng.IntN(20)), fmt.Sprint(n, rng.IntN(100))
				if rng.IntN(3) == 0 {
					l.remove(dueTable, []byte(key))
					delete(model, key)
				} else {
					l.put(dueTable, []byte(key), []byte(value))
					model[key] = value
				}
			}
		}
		if err := db.Update(func(tx *bbolt.Tx) error {
			for _, name := range tableBuckets {
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			return layers[0].writeTo(tx)
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.View(func(tx *bbolt.Tx) error {
			st := state{tx: tx, layers: []*layer{layers[3], layers[2], layers[1]}}
			for i := range 20 {
				key := fmt.Sprint("k", i)
				if got, is := st.get(dueTable, []byte(key)), model[key]; string(got) != is {
					t.Errorf("round %d: %s is %q, want %q", round, key, got, is)
				}
				got, last := map[string]string{}, ""
				c := st.seek(dueTable, []byte(key))
				for k, v := c.next(); k != nil; k, v = c.next() {
					if string(k) <= last || string(k) < key {
						t.Errorf("round %d: %q after %q, from %q", round, k, last, key)
					}
					last, got[string(k)] = string(k), string(v)
				}
				want := maps.Clone(model)
				maps.DeleteFunc(want, func(k, _ string) bool { return k < key })
				if !maps.Equal(got, want) {
					t.Errorf("round %d: from %q there are %v, want %v", round, key, got, want)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
