package methodtest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/kv"
)

// stored returns all keys and values in the store.
func (w *fixture) stored() string {
	w.t.Helper()
	var all strings.Builder
	for _, p := range append(w.Service.Partitions(), integration.Partition) {
		for after := ""; ; {
			items, err := w.KV.List(context.Background(), kv.Key{Partition: p}, after, 100)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, item := range items {
				all.WriteString(item.Key.String() + "\n" + string(item.Value) + "\n")
				after = item.Key.Name
			}
			if len(items) == 0 {
				break
			}
		}
	}
	return all.String()
}

// forms returns the encodings in which a text can be stored.
func forms(text string) []string {
	b := []byte(text)
	return []string{text, url.QueryEscape(text), hex.EncodeToString(b)[:2*min(len(b), 12)],
		base64.StdEncoding.EncodeToString(b)[:min(len(b), 16)],
		base64.RawURLEncoding.EncodeToString(b)[:min(len(b), 16)]}
}

// queryOf returns a parameter of an address. It fails if there is no such parameter.
func queryOf(t testing.TB, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	value := u.Query().Get(name)
	if value == "" {
		t.Fatalf("the address has no %s", name)
	}
	return value
}

// withQuery returns an address with a parameter's value replaced.
func withQuery(t testing.TB, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}
