package longfellow

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/testharness/long"
)

// deployed returns the statement of the proofs in google/longfellow-zk for deployed circuits. All are about
// the same document.
func deployed(t testing.TB, elements int) *Statement {
	t.Helper()
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	date := func(s string) []byte { return cbor.Tagged(1004, cbor.Text(s)).Raw() }
	return &Statement{
		Issuer: unhex("04" + "dc1c1f55cff4cd5c76cf4169278f7217667f86ee81d8669b63f2e19bc12a0c9f" +
			"12355dd0385fed3bc33bedc9781b9aad47b33e4c24704b8d14288b1b3cb45c28"),
		SessionTranscript: unhex("" +
			"83f6f6847142726f7773657248616e646f76657276315820f93ebac4ce4d9901b9aea472145ae542" +
			"1f8fbecbe5f0389683f59f08fcf90e455833a363636174016474797065016764657461696c73a167" +
			"6261736555726c75687474703a2f2f6c6f63616c686f73743a3830383058203c79914b7f81a1c255" +
			"8fc81619dd4a074d32143e6cf6895fe47da156d1c5b0ae"),
		DocType: "org.iso.18013.5.1.mDL",
		Attributes: []Attribute{
			{"family_name", cbor.Text("Mustermann").Raw()}, {"birth_date", date("1971-09-01")},
			{"issue_date", date("2024-03-15")}, {"height", cbor.Integer(175).Raw()},
		}[:elements],
		Time: time.Date(2024, 10, 1, 9, 0, 0, 0, time.UTC),
	}
}

// The circuits of the vectors, for one attribute.
const (
	circuit6 = "137e5a75ce72735a37c8a72da1a8a0a5df8d13365c2ae3d2c2bd6a0e7197c7c6"
	circuit7 = "8d079211715200ff06c5109639245502bfe94aa869908d31176aae4016182121"
)

// falseStatements returns statements that the proof of a deployed one does not show.
func falseStatements(t testing.TB, good *Statement) map[string]*Statement {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Statement{}
	for name, change := range map[string]func(s *Statement){
		"another value":      func(s *Statement) { s.Attributes[0].Value = cbor.Text("Mustermenn").Raw() },
		"a longer value":     func(s *Statement) { s.Attributes[0].Value = cbor.Text("Mustermann1").Raw() },
		"another element":    func(s *Statement) { s.Attributes[0].Identifier = "given_name" },
		"another time":       func(s *Statement) { s.Time = s.Time.Add(time.Second) },
		"another type":       func(s *Statement) { s.DocType = "org.iso.18013.5.1.mDK" },
		"another session":    func(s *Statement) { s.SessionTranscript[len(s.SessionTranscript)-1] ^= 1 },
		"another issuer key": func(s *Statement) { s.Issuer = pointOf(t, &key.PublicKey) },
	} {
		s := *good
		s.Attributes = slices.Clone(s.Attributes)
		s.SessionTranscript = slices.Clone(s.SessionTranscript)
		change(&s)
		all[name] = &s
	}
	return all
}

// TestCircuit_Vectors verifies the vectors of versions 6 and 7, and statements that they do not show.
func TestCircuit_Vectors(t *testing.T) {
	long.Skip(t, "TestCircuit_Vectors")
	for _, name := range []string{circuit6, circuit7} {
		c, proof, s := openCircuit(t, name), vector(t, name+".proof"), deployed(t, 1)
		if err := c.Verify(s, proof); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for what, s := range falseStatements(t, s) {
			if err := c.Verify(s, proof); err != Commitment {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
	if err := openCircuit(t, circuit6).Verify(deployed(t, 1), vector(t, circuit7+".proof")); err == nil {
		t.Error("a proof of version 7 was accepted by the circuits of version 6")
	}
	if err := openCircuit(t, circuit7).Verify(deployed(t, 1), vector(t, circuit6+".proof")); err == nil {
		t.Error("a proof of version 6 was accepted by the circuits of version 7")
	}
}

// TestCircuit_Deployed verifies the proofs for all deployed circuits that Google's repository has, if
// VERGE_LONGFELLOW is a working copy of it.
func TestCircuit_Deployed(t *testing.T) {
	root := os.Getenv("VERGE_LONGFELLOW")
	if root == "" {
		t.Skip("SKIP: VERGE_LONGFELLOW is not set to a working copy of google/longfellow-zk")
	}
	file := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, "rust/applications/mdoc_zk/artifacts", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, params := range host.Circuits() {
		name := params.Name
		t.Run(fmt.Sprintf("v%d with %d", params.Version, params.Elements), func(t *testing.T) {
			start := processorTime(t)
			c, err := Open(name, file("circuits/"+name))
			if err != nil {
				t.Fatal(err)
			}
			opened := processorTime(t)
			s, proof := deployed(t, params.Elements), file("proofs/"+name+".bin")
			if err := c.Verify(s, proof); err != nil {
				t.Error(err)
			}
			t.Log("processor time: opened in", opened-start, "verified in", processorTime(t)-opened)
			last := &s.Attributes[params.Elements-1]
			last.Identifier += "s"
			if err := c.Verify(s, proof); err == nil {
				t.Error("accepted with another element")
			}
		})
	}
}
