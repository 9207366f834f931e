package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/long"
)

// published returns a file of the published responses, which are not part of the repository.
func published(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../../../shared/vectors/longfellow", name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("SKIP: ../shared/vectors/longfellow/%s is missing", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// contract 56: the response of a wallet that Google has published is accepted, and changed ones are rejected.
func TestMethodProof(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestMethodProof")
	const circuit = "137e5a75ce72735a37c8a72da1a8a0a5df8d13365c2ae3d2c2bd6a0e7197c7c6"
	response := published(t, "post1.json")
	files := map[string][]byte{
		"/response.json": response, "/certs.pem": published(t, "certs.pem"),
		"/circuits/" + circuit + ".circuit.zst": published(t, circuit+".circuit.zst"),
		"/changed.json":                         changeTranscript(t, response),
		"/broken.json":                          []byte("{"),
		"/empty.json":                           []byte("{}"),
		"/large.json":                           make([]byte, maxRecorded+1),
		"/none.pem":                             []byte("none"),
		"/none/README":                          []byte("none"),
	}
	const (
		at   = "--at 2026-04-20T00:00:00Z "
		good = "--anchors /certs.pem --circuits /circuits "
	)
	for _, tt := range []struct {
		name, arguments string
		exit            int
		want            []string
	}{
		{"accepted", at + good + "/response.json", 0,
			[]string{"age_over_18 = true", "Payground Document Signer", "2025-12-01T23:59:59Z",
				"org.iso.18013.5.1.mDL", "accepted"}},
		{"accepted in JSON", at + good + "--json /response.json", 0,
			[]string{`"accepted":true`, `"value":"true"`, circuit}},
		{"another session", at + good + "/changed.json", 1,
			[]string{"rejected (zk_proof: a column is not in the commitment)"}},
		{"expired signer", "--at 2026-06-01T00:00:00Z " + good + "/response.json", 1,
			[]string{"rejected (certificate_validity)"}},
		{"no response", at + good + "/empty.json", 1, []string{"rejected (cbor)"}},
		{"no circuit", at + "--anchors /certs.pem --circuits /none /response.json", 1,
			[]string{"there is no file for this circuit"}},
		{"no anchors", at + "--anchors /none.pem --circuits /circuits /response.json", 1,
			[]string{"there is no certificate"}},
		{"no JSON", at + good + "/broken.json", 2,
			[]string{"is not a recorded response"}},
		{"too large", at + good + "/large.json", 2, []string{"is larger than"}},
		{"no folder", at + "--anchors /certs.pem --circuits /missing /response.json", 2,
			[]string{"/missing"}},
		{"no file", at + good + "/missing.json", 2, []string{"/missing.json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, out, errs := testProgram()
			for name, b := range files {
				if err := afero.WriteFile(p.FS, name, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			exit := run(t.Context(), append([]string{"method", "proof"}, strings.Fields(tt.arguments)...), p)
			if exit != tt.exit {
				t.Errorf("exit code %d, want %d", exit, tt.exit)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String()+errs.String(), want) {
					t.Errorf("no %q in %s%s", want, out, errs)
				}
			}
		})
	}
}

// changeTranscript returns a recorded response with another session transcript.
func changeTranscript(t *testing.T, response []byte) []byte {
	t.Helper()
	var recorded struct{ Transcript, ZKDeviceResponseCBOR []byte }
	if err := json.Unmarshal(response, &recorded); err != nil {
		t.Fatal(err)
	}
	recorded.Transcript = bytes.Clone(recorded.Transcript)
	recorded.Transcript[len(recorded.Transcript)-1] ^= 1
	b, err := json.Marshal(recorded)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
