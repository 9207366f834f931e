package trustlist

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// verifier verifies signatures with xmlsec1 and the key of one certificate. It does not read lists.
type verifier struct{ program, key, dir string }

func newVerifier(t testing.TB, signer *x509.Certificate) verifier {
	t.Helper()
	dir := t.TempDir()
	v := verifier{testenv.Program(t, "xmlsec1"), filepath.Join(dir, "signer.pem"), dir}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signer.Raw})
	if err := os.WriteFile(v.key, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return v
}

// accepts reports whether xmlsec1 accepts all documents. It stops at the first that it rejects.
func (v verifier) accepts(t testing.TB, documents ...[]byte) bool {
	t.Helper()
	args := []string{"--verify", "--id-attr:Id", "http://uri.etsi.org/01903/v1.3.2#:SignedProperties",
		"--pubkey-cert-pem", v.key}
	for i, document := range documents {
		file := filepath.Join(v.dir, strconv.Itoa(i)+".xml")
		if err := os.WriteFile(file, document, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.CommandContext(t.Context(), v.program, args...).CombinedOutput()
	return err == nil && bytes.Count(out, []byte("OK\n")) == len(documents)
}

// rejected returns the documents that xmlsec1 rejects.
func (v verifier) rejected(t testing.TB, documents [][]byte) (rejected [][]byte) {
	t.Helper()
	for batch := range slices.Chunk(documents, 200) {
		if v.accepts(t, batch...) {
			continue
		}
		for _, document := range batch {
			if !v.accepts(t, document) {
				rejected = append(rejected, document)
			}
		}
	}
	return rejected
}

// checkXMLSec compares with xmlsec1 if it is installed. Tests that need it ask for it themselves.
func checkXMLSec(t *testing.T, document []byte, signer *x509.Certificate, want bool) {
	t.Helper()
	if _, err := exec.LookPath("xmlsec1"); err != nil {
		return
	}
	if got := newVerifier(t, signer).accepts(t, document); got != want {
		t.Errorf("xmlsec1 accepts it: %v, want %v", got, want)
	}
}

// A document with one byte changed is rejected, or it has the same content and xmlsec1 accepts it, too. In
// the long run each byte is changed in two ways, which alternate.
func TestXMLSec_ChangedBytes(t *testing.T) {
	stride := long.Pick(t, "TestXMLSec_ChangedBytes", 199, 1)
	ways := long.Pick(t, "TestXMLSec_ChangedBytes", 100, 2)
	for _, c := range []struct {
		method string
		filter bool
	}{{"ecdsa-sha256", false}, {"rsa-sha256", true}} {
		t.Run(c.method, func(t *testing.T) {
			l := newXMLList(t)
			if c.method == "rsa-sha256" {
				l.signer = issue(t, "List signer", nil, rsaKey(t, 2048))
			}
			l.method, l.filter = c.method, c.filter
			document := l.build(t)
			v := newVerifier(t, l.signer.Certificate)
			want, err := Read(TS119612, document, l.expected(), at)
			if err != nil || !v.accepts(t, document) {
				t.Fatalf("without a change: %v", err)
			}
			var accepted [][]byte
			for i := 0; i < len(document); i += stride {
				for _, variant := range some(variants(document, i), i*ways, ways) {
					list, err := Read(TS119612, variant, l.expected(), at)
					if err != nil {
						continue
					}
					accepted = append(accepted, variant)
					if !sameList(list, want) {
						t.Errorf("byte %d: other content: %s", i, around(variant, i))
					}
				}
			}
			for _, variant := range v.rejected(t, accepted) {
				i := firstDifference(variant, document)
				t.Errorf("byte %d: xmlsec1 rejects it: %s", i, around(variant, i))
			}
			t.Logf("both accept %d changes", len(accepted))
		})
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// variants returns a document with a byte changed, removed and doubled.
func variants(document []byte, i int) (all [][]byte) {
	for _, with := range []string{
		string(document[i] ^ 1), string(document[i] ^ 0x20), string(document[i] ^ 0x80), "", " ", "\t", "\n",
		"\r",
		"\x00", "<", ">", "/", `"`, "'", "&", "#", ":", "=", "A", "-", "]", "\ufffe",
		string(document[i:i+1]) + string(document[i:i+1]), " " + string(document[i:i+1]), "<!---->" +
			string(document[i:i+1]),
	} {
		if with != string(document[i:i+1]) {
			all = append(all, []byte(string(document[:i])+with+string(document[i+1:])))
		}
	}
	return all
}

// some returns at most n of all, beginning at a place that counts round.
func some[T any](all []T, from, n int) []T {
	from %= len(all)
	return slices.Concat(all[from:], all[:from])[:min(n, len(all))]
}

func around(document []byte, i int) string {
	return string(document[max(0, i-20):min(len(document), i+20)])
}
