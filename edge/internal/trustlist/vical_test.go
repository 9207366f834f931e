package trustlist

import (
	"crypto"
	"crypto/elliptic"
	"maps"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

const docTypeMDL = "org.iso.18013.5.1.mDL"

// vical is a VICAL.
type vical struct {
	signer      identity
	chain       cbor.Item // x5chain; zero: the signer
	algorithm   int64
	protected   []cbor.Pair // next to the algorithm
	unprotected []cbor.Pair // next to x5chain
	noAlgorithm bool
	payload     map[string]cbor.Item // replaces and adds members; zero items remove them
	infos       []cbor.Item
}

func newVICAL(t testing.TB) vical {
	return vical{
		signer: issue(t, "VICAL signer", nil, nil), algorithm: -7,
		infos: []cbor.Item{certificateInfo(issue(t, "IACA", nil, nil, authority), docTypeMDL)},
	}
}

func (v vical) expected() Expected {
	return Expected{DocType: docTypeMDL, Signers: certificates(v.signer)}
}

func tdate(t time.Time) cbor.Item { return cbor.Tagged(0, cbor.Text(t.Format(time.RFC3339))) }

func certificateInfo(c identity, docTypes ...string) cbor.Item {
	var types []cbor.Item
	for _, d := range docTypes {
		types = append(types, cbor.Text(d))
	}
	return cbor.Map(
		cbor.Pair{Key: cbor.Text("certificate"), Value: cbor.Bytes(c.Raw)},
		cbor.Pair{Key: cbor.Text("serialNumber"), Value: cbor.Tagged(2, cbor.Bytes(c.SerialNumber.Bytes()))},
		cbor.Pair{Key: cbor.Text("docType"), Value: cbor.Array(types...)},
		cbor.Pair{Key: cbor.Text("issuingAuthority"), Value: cbor.Text("Authority")},
		cbor.Pair{Key: cbor.Text("issuingCountry"), Value: cbor.Text("US")},
		cbor.Pair{Key: cbor.Text("stateOrProvinceName"), Value: cbor.Text("US-UT")},
	)
}

// parts returns the elements of the COSE_Sign1.
func (v vical) parts(t testing.TB) []cbor.Item {
	t.Helper()
	named := map[string]cbor.Item{
		"version": cbor.Text("1.0"), "vicalProvider": cbor.Text("Operator"),
		"date": tdate(at.AddDate(0, 0, -1)), "nextUpdate": tdate(at.AddDate(0, 0, 6)),
		"vicalIssueID": cbor.Integer(42), "certificateInfos": cbor.Array(v.infos...),
	}
	maps.Copy(named, v.payload)
	var pairs []cbor.Pair
	for name, value := range named {
		if value.Present() {
			pairs = append(pairs, cbor.Pair{Key: cbor.Text(name), Value: value})
		}
	}
	payload := cbor.Map(pairs...).Raw()
	protected := v.protected
	if !v.noAlgorithm {
		protected = append(protected, cbor.Pair{Key: cbor.Integer(1), Value: cbor.Integer(v.algorithm)})
	}
	header := cbor.Bytes(cbor.Map(protected...).Raw())
	signed := cbor.Array(cbor.Text("Signature1"), header, cbor.Bytes(nil), cbor.Bytes(payload))
	hash := coseAlgorithms[v.algorithm].hash
	if hash == 0 {
		hash = crypto.SHA256
	}
	chain := v.chain
	if !chain.Present() {
		chain = cbor.Bytes(v.signer.Raw)
	}
	unprotected := append(v.unprotected, cbor.Pair{Key: cbor.Integer(33), Value: chain})
	return []cbor.Item{header, cbor.Map(unprotected...), cbor.Bytes(payload),
		cbor.Bytes(v.signer.sign(t, hash, false, signed.Raw()))}
}

func (v vical) build(t testing.TB) []byte {
	t.Helper()
	return cbor.Array(v.parts(t)...).Raw()
}

func TestVICAL(t *testing.T) {
	v := newVICAL(t)
	list, err := Read(VICAL, v.build(t), v.expected(), at)
	if err != nil {
		t.Fatal(err)
	}
	if list.Sequence != 42 || list.Issuer != "Operator" ||
		!list.Issued.Equal(at.AddDate(0, 0, -1)) || !list.NextUpdate.Equal(at.AddDate(0, 0, 6)) ||
		!list.Signer.Equal(v.signer.Certificate) || len(list.Entries) != 1 {
		t.Fatalf("list: %+v", list)
	}
	if name := list.Entries[0].Subject.CommonName; name != "IACA" {
		t.Errorf("entry: %s", name)
	}
}

func TestVICAL_Cases(t *testing.T) {
	root := issue(t, "Root", nil, nil, authority)
	signer := issue(t, "Signer", &root, nil, signsLists(usageVICAL))
	one := issue(t, "One", nil, nil, authority)
	payload := func(name string, value cbor.Item) func(*vical) {
		return func(v *vical) { v.payload = map[string]cbor.Item{name: value} }
	}
	curve := func(c elliptic.Curve, number int64) func(*vical) {
		return func(v *vical) { v.signer, v.algorithm = issue(t, "VICAL signer", nil, ecKey(t, c)), number }
	}
	by := func(i identity, chain ...identity) func(*vical) {
		return func(v *vical) {
			v.signer = i
			if len(chain) > 0 {
				var list []cbor.Item
				for _, c := range chain {
					list = append(list, cbor.Bytes(c.Raw))
				}
				v.chain = cbor.Array(list...)
			}
		}
	}
	for _, c := range []struct {
		name    string
		change  func(*vical)
		signers []identity // nil: the signer
		want    Reason
	}{
		{"ES384", curve(elliptic.P384(), -35), nil, ""},
		{"ES512", curve(elliptic.P521(), -36), nil, ""},
		{"ESP256", curve(elliptic.P256(), -9), nil, ""},
		{"ES384 of a key on P-256", curve(elliptic.P256(), -35), nil, Unsupported},
		{"ES256 of a key on P-384", curve(elliptic.P384(), -7), nil, Unsupported},
		{"an RSA key", func(v *vical) { v.signer = issue(t, "VICAL signer", nil, rsaKey(t, 2048)) }, nil,
			Unsupported},
		{"HMAC", func(v *vical) { v.algorithm = 5 }, nil, Unsupported},
		{"algorithm 0", func(v *vical) { v.algorithm = 0 }, nil, Unsupported},
		{"no algorithm", func(v *vical) { v.noAlgorithm = true }, nil, Unsupported},
		{"an algorithm that is not protected", func(v *vical) {
			v.noAlgorithm = true
			v.unprotected = []cbor.Pair{{Key: cbor.Integer(1), Value: cbor.Integer(-7)}}
		}, nil, Unsupported},
		{"two algorithms", func(v *vical) {
			v.unprotected = []cbor.Pair{{Key: cbor.Integer(1), Value: cbor.Integer(-7)}}
		}, nil, Unsupported},
		{"a critical header", func(v *vical) {
			v.protected = []cbor.Pair{{Key: cbor.Integer(2), Value: cbor.Array(cbor.Integer(99))}}
		}, nil, Unsupported},
		{"a chain that is protected", func(v *vical) {
			v.protected = []cbor.Pair{{Key: cbor.Integer(33), Value: cbor.Bytes(v.signer.Raw)}}
		}, nil, Unsupported}, // the unprotected chain is present as well
		{"an issued signer", by(signer), []identity{root}, ""},
		{"an issued signer with its chain", by(signer, signer, root), []identity{root}, ""},
		{"an issued signer without the key usage", by(issue(t, "Plain", &root, nil)), []identity{root},
			SignerInvalid},
		{"an issued signer of ETSI lists", by(issue(t, "ETSI", &root, nil, signsLists(usageETSI))),
			[]identity{root},
			SignerInvalid},
		{"another signer", by(signer), []identity{one}, SignerUnknown},
		{"a signer that has expired", by(issue(t, "Old", nil, nil, expired)), nil, SignerExpired},
		{"a chain of another key", by(signer, root), []identity{root}, WrongSignature},
		{"a chain without certificates", func(v *vical) { v.chain = cbor.Array() }, nil, Malformed},
		{"a chain of texts", func(v *vical) { v.chain = cbor.Array(cbor.Text("a")) }, nil, Malformed},
		{"another version", payload("version", cbor.Text("2.0")), nil, Malformed},
		{"a later version", payload("version", cbor.Text("1.1")), nil, ""},
		{"no version", payload("version", cbor.Item{}), nil, Malformed},
		{"no provider", payload("vicalProvider", cbor.Item{}), nil, Malformed},
		{"no date", payload("date", cbor.Item{}), nil, Malformed},
		{"a date without a tag", payload("date", cbor.Text("2026-10-01T00:00:00Z")), nil, Malformed},
		{"issued in the future", payload("date", tdate(at.Add(time.Hour))), nil, IssuedInFuture},
		{"stale", payload("nextUpdate", tdate(at.Add(-time.Hour))), nil, ""},
		{"no next update", payload("nextUpdate", cbor.Item{}), nil, ""},
		{"a next update that is no date", payload("nextUpdate", cbor.Text("soon")), nil, Malformed},
		{"no number", payload("vicalIssueID", cbor.Item{}), nil, ""},
		{"a negative number", payload("vicalIssueID", cbor.Integer(-1)), nil, Malformed},
		{"no certificates", payload("certificateInfos", cbor.Item{}), nil, Malformed},
		{"a certificate without a document type", func(v *vical) {
			v.infos = []cbor.Item{cbor.Map(cbor.Pair{Key: cbor.Text("certificate"),
				Value: cbor.Bytes(one.Raw)})}
		}, nil, Malformed},
		{"other members", payload("extensions", cbor.Map()), nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVICAL(t)
			c.change(&v)
			expected := v.expected()
			if c.signers != nil {
				expected.Signers = certificates(c.signers...)
			}
			_, err := Read(VICAL, v.build(t), expected, at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

func TestVICAL_Entries(t *testing.T) {
	v := newVICAL(t)
	one, two := issue(t, "One", nil, nil, authority), issue(t, "Two", nil, nil, authority)
	v.infos = []cbor.Item{
		certificateInfo(one, "org.example.other", docTypeMDL), certificateInfo(two, "org.example.other"),
		certificateInfo(one, docTypeMDL), certificateInfo(issue(t, "Old", nil, nil, expired), docTypeMDL),
		certificateInfo(two),
	}
	list, err := Read(VICAL, v.build(t), v.expected(), at)
	if err != nil {
		t.Fatal(err)
	}
	want := map[Skip]int{SkipType: 2, SkipDuplicate: 1, SkipExpired: 1}
	if len(list.Entries) != 1 || list.Entries[0].Subject.CommonName != "One" ||
		!maps.Equal(list.Skipped, want) {
		t.Errorf("list: %+v", list)
	}
	// More than core/cbor reads of a wallet.
	for range 200 {
		v.infos = append(v.infos, certificateInfo(issue(t, "More", nil, nil), docTypeMDL))
	}
	if list, err = Read(VICAL, v.build(t), v.expected(), at); err != nil || len(list.Entries) != 201 {
		t.Errorf("%d entries: %v", len(list.Entries), err)
	}
}

func TestVICAL_Forms(t *testing.T) {
	v := newVICAL(t)
	parts := v.parts(t)
	document := cbor.Array(parts...)
	protectedChain := newVICAL(t)
	protectedChain.protected = []cbor.Pair{{Key: cbor.Integer(33),
		Value: cbor.Bytes(protectedChain.signer.Raw)}}
	p := protectedChain.parts(t)
	p[1] = cbor.Map()
	for _, c := range []struct {
		name     string
		document []byte
		signer   identity
		want     Reason
	}{
		{"without a tag", document.Raw(), v.signer, ""},
		{"tag 18", cbor.Tagged(18, document).Raw(), v.signer, ""},
		{"tag 98", cbor.Tagged(98, document).Raw(), v.signer, Malformed},
		{"a protected chain", cbor.Array(p...).Raw(), protectedChain.signer, ""},
		{"three elements", cbor.Array(parts[:3]...).Raw(), v.signer, Malformed},
		{"a null payload", cbor.Array(parts[0], parts[1], cbor.Null(), parts[3]).Raw(), v.signer, Malformed},
		{"another payload", cbor.Array(parts[0], parts[1], cbor.Bytes([]byte{0xa0}), parts[3]).Raw(),
			v.signer,
			WrongSignature},
		{"a shorter signature", cbor.Array(parts[0], parts[1], parts[2], cbor.Bytes(make([]byte, 63))).Raw(),
			v.signer,
			WrongSignature},
		{"a signature of zeros", cbor.Array(parts[0], parts[1], parts[2], cbor.Bytes(make([]byte, 64))).Raw(),
			v.signer,
			WrongSignature},
		{"no chain", cbor.Array(parts[0], cbor.Map(), parts[2], parts[3]).Raw(), v.signer, Malformed},
		{"truncated", document.Raw()[:len(document.Raw())/2], v.signer, Malformed},
		{"data after it", append(document.Raw(), 0), v.signer, Malformed},
		{"empty", nil, v.signer, Malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			expected := Expected{DocType: docTypeMDL, Signers: certificates(c.signer)}
			_, err := Read(VICAL, c.document, expected, at)
			if got := reasonOf(t, err); got != c.want {
				t.Errorf("rejected as %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// Each byte counts: what is signed, the chain and the signature.
func TestVICAL_ChangedBytes(t *testing.T) {
	v := newVICAL(t)
	document := v.build(t)
	for i := range document {
		changed := []byte(string(document))
		changed[i] ^= 1
		if _, err := Read(VICAL, changed, v.expected(), at); err == nil {
			t.Errorf("byte %d: accepted", i)
		}
	}
}
