package longfellow

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
)

// The limits of a statement and of files.
const (
	// MaxCircuitFile is the maximum size of a file with circuits. The deployed ones have up to 330 KiB.
	MaxCircuitFile = 1 << 20

	maxDocType = 255         // bytes, as a text with a length of one byte
	maxWindow  = 16 << 20    // of the compression, which is the memory of its reader
	maxFile    = 130_000_000 // bytes of the circuits without compression
)

// params are the parameters of a pair of circuits. The public inputs depend on the version, too.
type params host.Circuit

// code returns the inverse rate of the code, and the number of columns that are opened.
func (p params) code() (rate, queries int) {
	if p.Version < 7 {
		return 4, 128
	}
	return 7, 132
}

// Circuit verifies the proofs of a pair of circuits. One, over the prime field of P-256, has the signatures
// of the issuer and of the device. The other, over GF(2^128), has the hashes and the content of the document.
// A message authentication code over GF(2^128), whose key both parties choose, shows that both are about the
// same document. A Circuit may be used concurrently.
type Circuit struct {
	params    params
	signature *system[fp]
	hash      *system[gf]
}

// Open reads the compressed file with the circuits of a name. It takes about a second.
func Open(name string, file []byte) (*Circuit, error) {
	known, ok := host.CircuitOf(name)
	if !ok {
		return nil, errors.New("longfellow: unknown circuit")
	}
	if len(file) > MaxCircuitFile {
		return nil, errors.New("longfellow: circuit file too large")
	}
	z, err := zstd.NewReader(
		bytes.NewReader(file),
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(
			true,
		),
		zstd.WithDecoderMaxWindow(maxWindow),
		zstd.WithDecoderMaxMemory(maxFile),
	)
	if err != nil {
		return nil, fmt.Errorf("longfellow: %w", err)
	}
	defer z.Close()
	r := bufio.NewReaderSize(z, 64<<10)
	signature, err := readCircuit(r, fpField())
	if err != nil {
		return nil, err
	}
	hash, err := readCircuit(r, gfField())
	if err != nil {
		return nil, err
	}
	if _, err := r.ReadByte(); err == nil {
		return nil, errCircuit
	}
	if id := sha256.Sum256(slices.Concat(signature.id[:], hash.id[:])); hex.EncodeToString(id[:]) != name {
		return nil, errors.New("longfellow: the file has other circuits")
	}
	p := params(known)
	c := &Circuit{params: p}
	rate, queries := p.code()
	var ok1, ok2 bool
	c.signature, ok1 = newSystem(fpField(), signature, rate, queries, p.Signature)
	c.hash, ok2 = newSystem(gfField(), hash, rate, queries, p.Hash)
	if !ok1 || !ok2 {
		return nil, errCircuit
	}
	return c, nil
}

// Attribute is an element of the document, as the issuer has signed it.
type Attribute struct {
	Identifier string
	Value      []byte // CBOR
}

// Statement is the claim that a proof shows: the issuer has signed a document that has the attributes and is
// valid at the time, and the document's device has signed the session transcript and the document type.
//
// The circuits do not read the namespaces of the attributes, and they do not compare the document type with
// the issuer's. So a caller must trust the issuer's key for the document type alone, and an identifier must
// mean the same in all namespaces of the issuer's documents.
type Statement struct {
	Issuer            []byte // point on P-256, uncompressed
	SessionTranscript []byte // CBOR
	DocType           string
	Attributes        []Attribute
	Time              time.Time // in whole seconds
}

// Verify reports whether the proof shows the statement. If not, the error is a [Reason].
func (c *Circuit) Verify(s *Statement, proof []byte) error {
	if r := c.verify(s, proof); r != "" {
		return r
	}
	return nil
}

// macs is the size of the codes that precede the proofs: two per number of 256 bits. These are the hash that
// the issuer signed, and both coordinates of the device's key.
const macs = 6

func (c *Circuit) verify(s *Statement, b []byte) Reason {
	if len(b) > host.MaxProof || len(b) < macs*16 {
		return Malformed
	}
	var codes [macs + 1]gf // and the verifier's part of the key
	for i := range macs {
		codes[i], _ = gfField().decode(b[i*16:])
	}
	hashProof, b, ok := readProof(b[macs*16:], c.hash.field, c.hash.circuit, &c.hash.shape)
	if !ok {
		return Malformed
	}
	signatureProof, b, ok := readProof(b, c.signature.field, c.signature.circuit, &c.signature.shape)
	if !ok || len(b) > 0 {
		return Malformed
	}

	if len(s.SessionTranscript) == 0 || len(s.SessionTranscript) > host.MaxTranscript {
		return Unsupported
	}
	t := newTranscript(s.SessionTranscript)
	t.bytes(hashProof.root[:])
	t.bytes(signatureProof.root[:])
	codes[macs] = gfField().sample(t)

	hashInputs, ok := c.hashInputs(s, &codes)
	if !ok || len(hashInputs) != c.hash.circuit.public {
		return Unsupported
	}
	signatureInputs, ok := signatureInputs(s, &codes)
	if !ok || len(signatureInputs) != c.signature.circuit.public {
		return Unsupported
	}
	hash := c.hash.replay(t, hashInputs, hashProof)
	signature := c.signature.replay(t, signatureInputs, signatureProof)

	if !hash.committed() || !signature.committed() {
		return Commitment
	}
	// The tables of the previous verification are garbage, and double the memory.
	runtime.GC()
	hashReason := hash.check()
	signatureReason := signature.check()
	if hashReason != "" {
		return hashReason
	}
	return signatureReason
}

// bitsOf appends the bits of bytes, the lowest of each byte first.
func bitsOf[E element[E]](to []E, one E, b []byte) []E {
	for _, x := range b {
		for i := range 8 {
			var e E
			if x>>i&1 == 1 {
				e = one
			}
			to = append(to, e)
		}
	}
	return to
}

// timeFormat is the format of times in documents. The circuit's input has the same length.
const timeFormat = "2006-01-02T15:04:05Z"

// hashInputs returns the public inputs of the hash circuit.
func (c *Circuit) hashInputs(s *Statement, codes *[macs + 1]gf) ([]gf, bool) {
	one := gfField().one
	in := []gf{one}
	if len(s.Attributes) != c.params.Elements {
		return nil, false
	}
	for _, a := range s.Attributes {
		b, ok := c.params.attribute(a)
		if !ok {
			return nil, false
		}
		in = bitsOf(in, one, b)
	}
	now := s.Time.UTC().Format(timeFormat)
	if len(now) != len(timeFormat) || s.Time.Nanosecond() != 0 {
		return nil, false
	}
	in = bitsOf(in, one, []byte(now))
	return append(in, codes[:]...), true
}

const (
	identifierKey = "elementIdentifier"
	valueKey      = "elementValue"
)

// attribute returns the bytes of an attribute in the public inputs. It rejects values that are not one CBOR
// item: the circuits of version 6 compare only the bytes that are given, and a prefix of the signed bytes
// would be another value.
func (p params) attribute(a Attribute) ([]byte, bool) {
	const maxValue = 64
	// A longer identifier has a head of two bytes, which version 7 does not count.
	const maxIdentifier = 23
	if len(a.Identifier) == 0 || len(a.Identifier) > maxIdentifier || len(a.Value) > maxValue {
		return nil, false
	}
	if _, err := cbor.Read(a.Value, cbor.Options{Any: true}); err != nil {
		return nil, false
	}
	identifier := append([]byte{0x60 | byte(len(a.Identifier))}, a.Identifier...)
	if p.Version < 7 {
		const size = 96
		b := append(identifier, 0x60|byte(len(valueKey)))
		b = append(b, valueKey...)
		b = append(b, a.Value...)
		n := len(b)
		if n > size {
			return nil, false
		}
		return append(append(b, make([]byte, size-n)...), byte(n)), true
	}
	b := make([]byte, 32+maxValue, 32+maxValue+2)
	copy(b, identifier)
	copy(b[32:], a.Value)
	return append(b, byte(1+len(identifierKey)+len(identifier)), byte(1+len(valueKey)+len(a.Value))), true
}

// signatureInputs returns the public inputs of the signature circuit.
func signatureInputs(s *Statement, codes *[macs + 1]gf) ([]fp, bool) {
	one := fpField().one
	in := []fp{one}
	// The circuit does not check that the key is on the curve.
	if _, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), s.Issuer); err != nil {
		return nil, false
	}
	hash, ok := deviceHash(s.SessionTranscript, s.DocType)
	if !ok {
		return nil, false
	}
	for _, b := range [][]byte{s.Issuer[1:33], s.Issuer[33:], hash[:]} {
		b = slices.Clone(b)
		slices.Reverse(b)
		// A hash is not less than the prime with a probability of 2^-32. It is never zero.
		e, ok := decodeFP(b)
		if !ok || e == (fp{}) {
			return nil, false
		}
		in = append(in, e)
	}
	var b [16]byte
	for _, c := range codes {
		gfField().encode(b[:], c)
		in = bitsOf(in, one, b[:])
	}
	return in, true
}

// deviceHash returns the hash that the device signs: that of the COSE Sig_structure with the
// DeviceAuthentication of ISO 18013-5, 9.1.3.4. There are no elements that the device signs.
func deviceHash(session []byte, docType string) (digest, bool) {
	if len(docType) == 0 || len(docType) > maxDocType || !utf8.ValidString(docType) {
		return digest{}, false
	}
	transcript, err := cbor.Read(session, cbor.Options{Any: true})
	if err != nil {
		return digest{}, false
	}
	authentication := cbor.Array(cbor.Text("DeviceAuthentication"), transcript, cbor.Text(docType),
		cbor.Tagged(24, cbor.Bytes(cbor.Map().Raw())))
	algorithm := cbor.Map(cbor.Pair{Key: cbor.Integer(1), Value: cbor.Integer(-7)})
	return sha256.Sum256(cbor.Array(cbor.Text("Signature1"), cbor.Bytes(algorithm.Raw()), cbor.Bytes(nil),
		cbor.Bytes(cbor.Tagged(24, cbor.Bytes(authentication.Raw())).Raw())).Raw()), true
}
