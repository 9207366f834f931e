package workers_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/verge-id/verge/testharness/workerd"
)

// The JavaScript codec reads and writes the same bytes as the Go codec, and rejects incomplete messages.
func TestVectors(t *testing.T) {
	server := workerd.Shared(t)
	b, err := os.ReadFile("../../wasm/abi/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct{ Message, Hex string }
	if err := json.Unmarshal(b, &vectors); err != nil || len(vectors) < 20 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	again := func(message string, raw []byte) (int, []byte) {
		t.Helper()
		resp, err := server.Client().Post("http://control.localhost/codec/"+message, "", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, got
	}
	for _, v := range vectors {
		if v.Message == "proof" || v.Message == "proven" { // a Worker verifies no proofs
			continue
		}
		raw, err := hex.DecodeString(v.Hex)
		if err != nil {
			t.Fatal(err)
		}
		if status, got := again(v.Message, raw); status != http.StatusOK || !bytes.Equal(got, raw) {
			t.Errorf("%s: %d %x, want %x", v.Message, status, got, raw)
		}
		for _, bad := range [][]byte{raw[:len(raw)-1], append(bytes.Clone(raw), 0)} {
			if status, got := again(v.Message, bad); status != http.StatusBadRequest {
				t.Errorf("%s: %x is taken for one: %d %s", v.Message, bad, status, got)
			}
		}
	}
}
