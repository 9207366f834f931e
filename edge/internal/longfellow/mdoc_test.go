package longfellow

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/testharness/long"
)

// published is a response of Google's wallet that Google has published.
type published struct {
	statement Statement
	circuit   string
	proof     []byte
}

func newPublished(t testing.TB) *published {
	t.Helper()
	var file struct{ Transcript, ZKDeviceResponseCBOR []byte }
	if err := json.Unmarshal(vector(t, "post1.json"), &file); err != nil {
		t.Fatal(err)
	}
	response, err := cbor.Read(file.ZKDeviceResponseCBOR, cbor.Options{Any: true, Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	documents, _ := response.Member("zkDocuments").List()
	proof, ok := documents[0].Member("proof").Bytes()
	if !ok {
		t.Fatal("proof")
	}
	_, wrapped, _ := documents[0].Member("documentData").Tag()
	encoded, _ := wrapped.Bytes()
	data, err := cbor.Read(encoded, cbor.Options{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	p := &published{proof: proof}
	p.circuit, _ = data.Member("zkSystemId").Text()
	p.statement.SessionTranscript = file.Transcript
	p.statement.DocType, _ = data.Member("docType").Text()
	_, at, _ := data.Member("timestamp").Tag()
	now, _ := at.Text()
	if p.statement.Time, err = time.Parse(time.RFC3339, now); err != nil {
		t.Fatal(err)
	}
	namespaces, _ := data.Member("issuerSigned").Pairs()
	elements, _ := namespaces[0].Value.List()
	for _, e := range elements {
		id, _ := e.Member("elementIdentifier").Text()
		p.statement.Attributes = append(p.statement.Attributes,
			Attribute{Identifier: id, Value: e.Member("elementValue").Raw()})
	}
	chain, ok := data.Member("msoX5chain").Bytes()
	if !ok {
		first, _ := data.Member("msoX5chain").List()
		chain, _ = first[0].Bytes()
	}
	certificate, err := x509.ParseCertificate(chain)
	if err != nil {
		t.Fatal(err)
	}
	p.statement.Issuer = pointOf(t, certificate.PublicKey.(*ecdsa.PublicKey))
	return p
}

func pointOf(t testing.TB, key *ecdsa.PublicKey) []byte {
	t.Helper()
	b, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var circuits sync.Map // by name

// openCircuit opens each circuit once for all tests.
func openCircuit(t testing.TB, name string) *Circuit {
	t.Helper()
	if c, ok := circuits.Load(name); ok {
		return c.(*Circuit)
	}
	c, err := Open(name, vector(t, name+".circuit.zst"))
	if err != nil {
		t.Fatal(err)
	}
	circuits.Store(name, c)
	return c
}

func TestCircuit_PublishedResponse(t *testing.T) {
	long.Skip(t, "TestCircuit_PublishedResponse")
	p := newPublished(t)
	c := openCircuit(t, p.circuit)
	if err := c.Verify(&p.statement, p.proof); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(s *Statement)
		want   Reason
	}{
		{"false age", func(s *Statement) { s.Attributes[0].Value = []byte{0xf4} }, Commitment},
		{"other element", func(s *Statement) { s.Attributes[0].Identifier = "age_over_21" }, Commitment},
		{"later", func(s *Statement) { s.Time = s.Time.Add(time.Second) }, Commitment},
		{"other document type", func(s *Statement) { s.DocType = "org.iso.18013.5.1.mDK" }, Commitment},
		{"other session", func(s *Statement) {
			s.SessionTranscript[len(s.SessionTranscript)-1] ^= 1
		}, Commitment},
		{"other issuer", func(s *Statement) { s.Issuer = pointOf(t, &key.PublicKey) }, Commitment},
		{"no issuer", func(s *Statement) { s.Issuer = nil }, Unsupported},
		{"issuer on another curve", func(s *Statement) {
			s.Issuer = pointOf(t, &weak.PublicKey)
		}, Unsupported},
		{"issuer not on the curve", func(s *Statement) { s.Issuer[64] ^= 1 }, Unsupported},
		{"issuer compressed", func(s *Statement) { s.Issuer = s.Issuer[:33] }, Unsupported},
		{"no session", func(s *Statement) { s.SessionTranscript = nil }, Unsupported},
		{"session too long", func(s *Statement) {
			s.SessionTranscript = make([]byte, host.MaxTranscript+1)
		}, Unsupported},
		{"session not CBOR", func(s *Statement) { s.SessionTranscript = []byte{0xff} }, Unsupported},
		{"two elements", func(s *Statement) {
			s.Attributes = append(s.Attributes, s.Attributes[0])
		}, Unsupported},
		{"no elements", func(s *Statement) { s.Attributes = nil }, Unsupported},
		{"value not CBOR", func(s *Statement) { s.Attributes[0].Value = []byte{0x62, 'a'} }, Unsupported},
		{"two values", func(s *Statement) { s.Attributes[0].Value = []byte{0xf5, 0xf5} }, Unsupported},
		{"no value", func(s *Statement) { s.Attributes[0].Value = nil }, Unsupported},
		{"value too long", func(s *Statement) {
			s.Attributes[0].Value = cbor.Bytes(make([]byte, 63)).Raw()
		}, Unsupported},
		{"identifier too long", func(s *Statement) {
			s.Attributes[0].Identifier = "abcdefghijklmnopqrstuvwx"
		}, Unsupported},
		{"no identifier", func(s *Statement) { s.Attributes[0].Identifier = "" }, Unsupported},
		{"part of a second", func(s *Statement) { s.Time = s.Time.Add(1) }, Unsupported},
		{"year of five digits", func(s *Statement) { s.Time = s.Time.AddDate(9000, 0, 0) }, Unsupported},
		{"no document type", func(s *Statement) { s.DocType = "" }, Unsupported},
		{"document type not UTF-8", func(s *Statement) { s.DocType = "\xff" }, Unsupported},
		{"document type too long", func(s *Statement) { s.DocType = string(make([]byte, 256)) }, Unsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := p.statement
			s.Issuer = slices.Clone(s.Issuer)
			s.SessionTranscript = slices.Clone(s.SessionTranscript)
			s.Attributes = slices.Clone(s.Attributes)
			tt.change(&s)
			if err := c.Verify(&s, p.proof); err != tt.want {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
	for name, proof := range map[string][]byte{
		"empty":       nil,
		"codes alone": p.proof[:macs*16],
		"truncated":   p.proof[:len(p.proof)-1],
		"a byte more": append(slices.Clone(p.proof), 0),
		"too long":    make([]byte, host.MaxProof+1),
	} {
		if err := c.Verify(&p.statement, proof); err != Malformed {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCircuit_ChangedProof changes bytes of the published proof, and of proofs of both versions.
func TestCircuit_ChangedProof(t *testing.T) {
	long.Skip(t, "TestCircuit_ChangedProof")
	p := newPublished(t)
	for _, of := range []published{*p, {*deployed(t, 1), circuit6, vector(t, circuit6+".proof")},
		{*deployed(t, 1), circuit7, vector(t, circuit7+".proof")}} {
		c := openCircuit(t, of.circuit)
		random := mathrand.New(mathrand.NewPCG(1, 2))
		for range 2000 {
			proof := slices.Clone(of.proof)
			i := random.IntN(len(proof))
			proof[i] ^= byte(1 + random.IntN(255))
			if err := c.Verify(&of.statement, proof); err == nil {
				t.Fatalf("%s: accepted with another byte %d", of.circuit, i)
			}
		}
	}
}

// testSmallChanges changes each byte of a proof, or in the short run some.
func testSmallChanges[E element[E]](t *testing.T, v *small[E]) {
	t.Helper()
	step := long.Pick(t, "TestVerify_ChangedProof", 997, 1)
	for i := 0; i < len(v.proof); i += step {
		proof := slices.Clone(v.proof)
		proof[i] ^= 1 << (i % 8)
		if v.verify(v.label, v.public, proof) == "" {
			t.Fatalf("accepted with another byte %d", i)
		}
	}
	for i := range v.public {
		public := slices.Clone(v.public)
		public[i] = public[i].add(v.field.one)
		if v.verify(v.label, public, v.proof) == "" {
			t.Fatalf("accepted with another input %d", i)
		}
	}
}

func TestVerify_ChangedProof(t *testing.T) {
	t.Run("sha256", func(t *testing.T) {
		t.Parallel()
		testSmallChanges(t, newSmall(t, gfField(), "sha256", 3))
	})
	t.Run("ecdsa2", func(t *testing.T) {
		t.Parallel()
		testSmallChanges(t, newSmall(t, fpField(), "ecdsa2", 4))
	})
}
