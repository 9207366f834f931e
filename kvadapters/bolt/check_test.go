package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/verge-id/verge/core/kv"
)

func TestCheck_WrongLinks(t *testing.T) {
	good := filled(t)
	m, ok := latestMeta(bytes.NewReader(good))
	if !ok {
		t.Fatal("no meta page in a good file")
	}
	if err := check(bytes.NewReader(good), m); err != nil {
		t.Fatalf("a good file: %v", err)
	}
	order := binary.NativeEndian
	size := int(m.pageSize)
	branch := itemsRoot(t, good)
	if order.Uint16(good[branch*size+8:]) != branchPage {
		t.Fatal("the items fit one leaf: the file has no branch page to damage")
	}
	firstChild := branch*size + pageHeader + 8
	leaf := int(order.Uint64(good[firstChild:])) * size
	for _, c := range []struct {
		name   string
		damage func(b []byte)
		want   string
	}{
		{"a branch that leads to itself", func(b []byte) {
			order.PutUint64(b[firstChild:], uint64(branch))
		}, "two ways lead to page"},
		{"two elements that lead to one leaf", func(b []byte) {
			order.PutUint64(b[firstChild+elementSize:], order.Uint64(b[firstChild:]))
		}, "two ways lead to page"},
		{"a child beyond the end", func(b []byte) {
			order.PutUint64(b[firstChild:], m.pages)
		}, "is outside of the file"},
		{"a child that is a meta page", func(b []byte) {
			order.PutUint64(b[firstChild:], 0)
		}, "is outside of the file"},
		{"a leaf in another's place", func(b []byte) { order.PutUint64(b[leaf:], 99) }, "holds page 99"},
		{"a page of another kind", func(b []byte) { order.PutUint16(b[leaf+8:], 0x10) },
			"has the flags 0x10"},
		{"a leaf that runs over the end", func(b []byte) {
			order.PutUint32(b[leaf+12:], 1<<31)
		}, "runs over the end"},
		{"an empty branch", func(b []byte) { order.PutUint16(b[branch*size+10:], 0) }, "without children"},
		{"a branch with more elements than fit", func(b []byte) {
			order.PutUint16(b[branch*size+10:], 0xffff)
		}, "damaged"},
		{"a root with more elements than fit", func(b []byte) {
			order.PutUint16(b[int(m.root)*size+10:], 0xffff)
		}, "damaged"},
		{"a root with an element outside", func(b []byte) {
			order.PutUint32(b[int(m.root)*size+pageHeader+4:], 1<<31)
		}, "is outside of it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bytes.Clone(good)
			c.damage(b)
			if err := check(bytes.NewReader(b), m); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("check: %v, want %q", err, c.want)
			}
			path := filepath.Join(t.TempDir(), "verge.db")
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := Open(path, Config{}); err == nil {
				s.Close()
				t.Error("open accepted the damaged file")
			} else if !strings.Contains(err.Error(), path) {
				t.Errorf("open: %v, want the path in it", err)
			}
		})
	}
}

// itemsRoot returns the page number of the root of the items' tree.
func itemsRoot(t *testing.T, file []byte) (id int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error {
		id = int(tx.Bucket(bucketItems).Root())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestStore_DamagedRecord(t *testing.T) {
	s := testStore(t, Config{})
	if err := s.Commit(t.Context(), putTx("1", "good")); err != nil {
		t.Fatal(err)
	}
	damage := func(tx *bbolt.Tx) error {
		return tx.Bucket(bucketItems).Put(itemKey("p", "bad"), []byte("cut"))
	}
	if err := s.db.Update(damage); err != nil {
		t.Fatal(err)
	}
	check := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: %v, want ErrUnavailable with the word damaged", call, err)
		}
	}
	check("get", second(s.Get(t.Context(), kv.Key{Partition: "p", Name: "bad"})))
	check("list", second(s.List(t.Context(), kv.Key{Partition: "p"}, "", 9)))
	check("commit", s.Commit(t.Context(), putTx("2", "bad")))
	if err := s.Commit(t.Context(), putTx("3", "good")); err != nil {
		t.Errorf("a commit elsewhere: %v", err)
	}
	if it, err := s.Get(t.Context(), kv.Key{Partition: "p", Name: "good"}); err != nil || it.Tx != "3" {
		t.Errorf("an item elsewhere: %v, %v", it, err)
	}
}
