package kvadapters_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/kvadapters"
)

func TestOpen(t *testing.T) {
	for _, named := range []string{"memory", "miniredis", "bolt:" + filepath.Join(t.TempDir(), "verge.db")} {
		at, err := kvadapters.ParseAddress(named)
		if err != nil {
			t.Fatal(err)
		}
		store, closeStore, err := at.Open(t.Context(), kvadapters.OpenConfig{})
		if err != nil {
			t.Fatalf("%s: %v", named, err)
		}
		key := kv.Key{Partition: "p", Name: "a"}
		put := kv.Put{Name: key.Name, Value: []byte("1"), Expires: time.Now().Add(time.Hour)}
		err = store.Commit(t.Context(), kv.Tx{ID: "first", Partition: key.Partition, Puts: []kv.Put{put}})
		if err != nil {
			t.Errorf("%s: %v", named, err)
		}
		if found, err := store.Get(t.Context(), key); err != nil || string(found.Value) != "1" {
			t.Errorf("%s: it has %q, %v", named, found.Value, err)
		}
		if err := closeStore(); err != nil {
			t.Errorf("%s: close: %v", named, err)
		}
	}
}

func TestOpen_Errors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at   kvadapters.Address
		says string
	}{
		{kvadapters.Address{}, "make the address with ParseAddress"},
		{kvadapters.Address{Kind: kvadapters.Bolt, Path: filepath.Join(file, "verge.db")}, "not a directory"},
		{kvadapters.Address{Kind: kvadapters.Redis, URL: "redis://:canary7@127.0.0.1:1"},
			"connection refused"},
		{kvadapters.Address{Kind: kvadapters.Postgres, URL: "postgres://u:canary7@127.0.0.1:1/verge"},
			"connection refused"},
		{kvadapters.Address{Kind: kvadapters.Postgres, URL: "postgres://u:canary7@127.0.0.1:1/d"},
			"connection refused"},
	} {
		store, _, err := c.at.Open(t.Context(), kvadapters.OpenConfig{})
		text := fmt.Sprint(err)
		if err == nil || store != nil || !strings.Contains(text, c.says) ||
			strings.Contains(text, "canary7") {
			t.Errorf("%s: %v, %v, want %q", c.at, store, err, c.says)
		}
	}
}

// An operator sets the store in one line of text.
func ExampleAddress_Open() {
	ctx := context.Background()
	at, err := kvadapters.ParseAddress("memory") // or "redis://10.0.0.5:6379"
	if err != nil {
		fmt.Println(err)
		return
	}
	store, closeStore, err := at.Open(ctx, kvadapters.OpenConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer closeStore()
	_, err = store.Get(ctx, kv.Key{Partition: "p0", Name: "nothing"})
	fmt.Println(at, "has it:", !errors.Is(err, kv.ErrNotFound))
	// Output: memory has it: false
}
