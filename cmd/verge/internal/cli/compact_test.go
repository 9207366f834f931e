package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters/bolt"
)

func TestKVCompact(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "verge.db")
	store, err := bolt.Open(path, bolt.Config{SweepEvery: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		name := fmt.Sprint("a", i)
		put := kv.Tx{ID: fmt.Sprint(i), Partition: "p",
			Puts: []kv.Put{{Name: name, Value: make([]byte, 30_000)}}}
		if err := store.Commit(t.Context(), put); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 190 {
		gone := kv.Tx{ID: fmt.Sprint("d", i), Partition: "p", Deletes: []string{fmt.Sprint("a", i)}}
		if err := store.Commit(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	invoke := func(args ...string) (code int, out string) {
		var b bytes.Buffer
		p := onDisk()
		p.stdout, p.stderr = &b, &b
		code = run(t.Context(), args, p)
		return code, b.String()
	}
	code, out := invoke("kv", "compact", "bolt:"+path)
	if code != exitFailed || !strings.Contains(out, "another process has it open") {
		t.Errorf("a store in use: exit code %d: %s", code, out)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var done struct {
		Before int64 `json:"bytes_before"`
		After  int64 `json:"bytes_after"`
		Items  int
	}
	code, out = invoke("kv", "compact", "bolt:"+path, "--json")
	if code != exitOK || json.Unmarshal([]byte(out), &done) != nil {
		t.Fatalf("exit code %d: %s", code, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if done.Before <= done.After || done.After != info.Size() || done.Items != 10 {
		t.Errorf("%+v; the file has %d bytes", done, info.Size())
	}
	code, out = invoke("kv", "compact", "bolt:"+path)
	if code != exitOK || !strings.Contains(out, "10 items and 0 tasks.") {
		t.Errorf("again: exit code %d: %s", code, out)
	}
	crashed := filepath.Join(t.TempDir(), "crashed.db")
	if store, err = bolt.Open(path, bolt.Config{}); err != nil {
		t.Fatal(err)
	}
	last := kv.Tx{ID: "last", Partition: "p", Puts: []kv.Put{{Name: "last"}}}
	if err := store.Commit(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", ".wal"} {
		b, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(crashed+suffix, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	code, out = invoke("kv", "compact", "bolt:"+crashed)
	if code != exitOK || !strings.Contains(out, "11 items and 0 tasks.") {
		t.Errorf("a store whose process was killed: exit code %d: %s", code, out)
	}
	missing := filepath.Join(filepath.Dir(path), "missing.db")
	if code, out = invoke("kv", "compact", "bolt:"+missing); code != exitFailed {
		t.Errorf("a missing file: exit code %d: %s", code, out)
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a missing file was created")
	}
}
