package longfellow

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/testharness/long"
)

// smallPair is a pair of small circuits with the public inputs of version 7 for one attribute. Each proves
// little, but its proofs need all of Circuit.Verify: both transcripts and commitments, the codes, and the
// public inputs. The signature circuit shows s*t = the device's hash, and s = the first coordinate of the
// issuer's key. The hash circuit shows that the first code is the code of x with the key of both parties, and
// that a private bit is the lowest bit of the attribute's value: 0xf4 is false, and 0xf5 true.
type smallPair struct {
	*Circuit
	random *mathrand.Rand
}

// Public inputs of the pair.
const (
	valueAt     = 1 + 32*8           // the lowest bit of the value
	codesAt     = 1 + (98+20)*8      // after the attribute and the time
	hashPublic  = codesAt + macs + 1 // with the verifier's part of the key
	signPublic  = 1 + 3 + (macs+1)*128
	smallRate   = 4
	smallOpened = 6
	smallLength = 120
)

func newSmallPair(t testing.TB) *smallPair {
	t.Helper()
	return &smallPair{random: mathrand.New(mathrand.NewPCG(1, 2)), Circuit: &Circuit{
		params: params(host.Circuit{Version: 7, Elements: 1}),
		// private: s, t
		signature: smallSystem(t, fpField(), signPublic, 2, 2,
			term{0, signPublic, signPublic + 1, one}, term{0, 0, 3, minus},
			term{1, 0, signPublic, one}, term{1, 0, 1, minus}),
		// private: the prover's part of the key, x, the bit
		hash: smallSystem(t, gfField(), hashPublic, 3, 2,
			term{0, hashPublic, hashPublic + 1, one}, term{0, codesAt + macs, hashPublic + 1, one},
			term{0, 0, codesAt, minus},
			term{1, 0, hashPublic + 2, one}, term{1, 0, valueAt, minus}),
	}}
}

// The constants of smallSystem.
const (
	one   = 0
	minus = 1
)

// smallSystem returns a circuit of one layer.
func smallSystem[E element[E]](t testing.TB, f *field[E], public, private, outputs int,
	terms ...term) *system[E] {
	t.Helper()
	var zero E
	inputs := public + private
	c := &circuit[E]{outputs: outputs, public: public, inputs: inputs,
		constants: []E{f.one, zero.sub(f.one)}, layers: []layer{newLayer(log2(inputs), inputs, terms...)}}
	read, err := readCircuit(bufio.NewReader(bytes.NewReader(writeCircuit(f, c))), f)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := newSystem(f, read, smallRate, smallOpened, smallLength)
	if !ok {
		t.Fatal("parameters")
	}
	return s
}

// secrets are the private inputs of a proof.
type secrets struct {
	keyPart, x, bit gf
	s, t            fp
	code            gf // the first code
}

// prove returns a proof of a statement. edit, if not nil, changes the private inputs and the code.
func (p *smallPair) prove(t testing.TB, s *Statement, edit func(*secrets)) []byte {
	t.Helper()
	hash := &prover[gf]{system: p.hash, random: p.random}
	signature := &prover[fp]{system: p.signature, random: p.random}
	var codes [macs + 1]gf
	for i := range codes {
		codes[i] = hash.element()
	}
	inSignature, ok := signatureInputs(s, &codes)
	if !ok {
		t.Fatal("statement")
	}
	known := secrets{keyPart: hash.element(), x: hash.element(), s: inSignature[1],
		t: inSignature[3].mul(inverseFP(inSignature[1]))}
	if s.Attributes[0].Value[0]&1 == 1 {
		known.bit = gfField().one
	}
	if edit != nil {
		edit(&known)
	}
	// The public inputs are known after the commitments, which do not depend on them.
	private := func(public int, of ...gf) []gf { return append(make([]gf, public), of...) }
	hashDone := hash.commit(private(hashPublic, known.keyPart, known.x, known.bit))
	signatureDone := signature.commit(append(make([]fp, signPublic), known.s, known.t))
	start := func() *transcript {
		t := newTranscript(s.SessionTranscript)
		hashRoot, signatureRoot := hashDone.root(), signatureDone.root()
		t.bytes(hashRoot[:])
		t.bytes(signatureRoot[:])
		codes[macs] = gfField().sample(t)
		return t
	}
	start()
	codes[0] = known.keyPart.add(codes[macs]).mul(known.x).add(known.code)
	public, ok := p.hashInputs(s, &codes)
	if !ok || len(public) != hashPublic {
		t.Fatalf("%d public inputs", len(public))
	}
	copy(hashDone.inputs, public)
	hashProof := hashDone.prove(start)
	publicSignature, _ := signatureInputs(s, &codes)
	if len(publicSignature) != signPublic {
		t.Fatalf("%d public inputs", len(publicSignature))
	}
	copy(signatureDone.inputs, publicSignature)
	signatureProof := signatureDone.prove(func() *transcript {
		t := start()
		p.hash.replay(t, public, hashProof)
		return t
	})
	b := make([]byte, macs*16)
	for i, c := range codes[:macs] {
		gfField().encode(b[i*16:], c)
	}
	b = append(b, writeProof(gfField(), hashProof)...)
	return append(b, writeProof(fpField(), signatureProof)...)
}

func newStatement(t testing.TB) Statement {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return Statement{Issuer: pointOf(t, &key.PublicKey), SessionTranscript: cbor.Text("session").Raw(),
		DocType: "eu.europa.ec.av.1", Attributes: []Attribute{{"age_over_18", []byte{0xf5}}},
		Time: time.Date(2026, 1, 1, 23, 59, 59, 0, time.UTC)}
}

// TestCircuit_Small proves true and false statements with our own circuits and prover, so it needs no files
// of others.
func TestCircuit_Small(t *testing.T) {
	p := newSmallPair(t)
	good := newStatement(t)
	proof := p.prove(t, &good, nil)
	if err := p.Verify(&good, proof); err != nil {
		t.Fatal(err)
	}
	other := newStatement(t)
	for name, change := range map[string]func(*Statement){
		"false age":     func(s *Statement) { s.Attributes = []Attribute{{"age_over_18", []byte{0xf4}}} },
		"other element": func(s *Statement) { s.Attributes = []Attribute{{"age_over_21", []byte{0xf5}}} },
		"other issuer":  func(s *Statement) { s.Issuer = other.Issuer },
		"other session": func(s *Statement) { s.SessionTranscript = cbor.Text("other").Raw() },
		"other type":    func(s *Statement) { s.DocType = "org.iso.18013.5.1.mDL" },
		"other time":    func(s *Statement) { s.Time = s.Time.Add(-time.Second) },
	} {
		s := good
		change(&s)
		if err := p.Verify(&s, proof); err != Commitment {
			t.Errorf("%s: %v", name, err)
		}
		// A prover can also prove the other statement, with the values of the first one.
		own := p.prove(t, &s, nil)
		if err := p.Verify(&s, own); err != nil {
			t.Errorf("%s, with an own proof: %v", name, err)
		}
		if err := p.Verify(&good, own); err != Commitment {
			t.Errorf("%s, exchanged: %v", name, err)
		}
	}
	for name, edit := range map[string]func(*secrets){
		"a document with another value": func(s *secrets) { s.bit = gf{} },
		"a code with another key":       func(s *secrets) { s.code = gfField().one },
		"another issuer's signature":    func(s *secrets) { s.s = s.s.add(fpField().one) },
		"another session's signature":   func(s *secrets) { s.t = s.t.add(fpField().one) },
	} {
		if err := p.Verify(&good, p.prove(t, &good, edit)); err != LinearSum {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCircuit_SmallChanges changes each byte of a small proof, or in the short run some, and exchanges the
// parts of two good ones.
func TestCircuit_SmallChanges(t *testing.T) {
	p := newSmallPair(t)
	s := newStatement(t)
	first, second := p.prove(t, &s, nil), p.prove(t, &s, nil)
	for i := 0; i < len(first); i += long.Pick(t, "TestCircuit_SmallChanges", 97, 1) {
		changed := slices.Clone(first)
		changed[i] ^= 1 << (i % 8)
		if p.Verify(&s, changed) == nil {
			t.Fatalf("accepted with another byte %d", i)
		}
	}
	_, rest, _ := readProof(first[macs*16:], p.hash.field, p.hash.circuit, &p.hash.shape)
	at := len(first) - len(rest)
	_, rest, _ = readProof(second[macs*16:], p.hash.field, p.hash.circuit, &p.hash.shape)
	for name, b := range map[string][]byte{
		"the signature of another proof": slices.Concat(first[:at], rest),
		"the codes of another proof":     slices.Concat(second[:macs*16], first[macs*16:]),
		"truncated":                      first[:len(first)-1],
		"a byte more":                    append(slices.Clone(first), 0),
	} {
		if p.Verify(&s, b) == nil {
			t.Errorf("accepted with %s", name)
		}
	}
}
