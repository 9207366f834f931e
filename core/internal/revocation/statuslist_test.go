package revocation_test

import (
	"bytes"
	"compress/zlib"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/revocation"
	"github.com/verge-id/verge/testharness/wallettest"
)

func TestStatusList_Status(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		name  string
		bits  int
		list  []byte
		index int64
		want  int // -1: none
	}{
		{"valid", 2, []byte{0b11_10_01_00}, 0, 0},
		{"revoked", 2, []byte{0b11_10_01_00}, 1, 1},
		{"suspended", 2, []byte{0b11_10_01_00}, 2, 2},
		{"of the application", 2, []byte{0b11_10_01_00}, 3, 3},
		{"the index after the last", 2, []byte{0b11_10_01_00}, 4, -1},
		{"a negative index", 2, []byte{0b11_10_01_00}, -1, -1},
		{"the largest index", 2, []byte{1}, 1<<63 - 1, -1},
		{"one bit: the least significant is the first", 1, []byte{0b0000_0001, 0b1000_0000}, 0, 1},
		{"one bit: the next", 1, []byte{0b0000_0001, 0b1000_0000}, 1, 0},
		{"one bit: the last of the second byte", 1, []byte{0b0000_0001, 0b1000_0000}, 15, 1},
		{"one bit: after it", 1, []byte{0b0000_0001, 0b1000_0000}, 16, -1},
		{"four bits", 4, []byte{0x21, 0x43}, 2, 3},
		{"eight bits", 8, []byte{0, 255}, 1, 255},
		{"an empty list", 1, nil, 0, -1},
	} {
		l := w.list()
		l.Bits, l.List = c.bits, c.list
		for mediaType, token := range map[string][]byte{revocation.JWT: l.JWT(), revocation.CWT: l.CWT()} {
			list, why := w.read(token, mediaType)
			if why != "" {
				t.Errorf("contract 54: %s, %s: %s", c.name, mediaType, why)
				continue
			}
			if got, ok := list.Status(c.index); ok != (c.want >= 0) || ok && got != c.want {
				t.Errorf("contract 54: %s, %s: %d, %v", c.name, mediaType, got, ok)
			}
		}
	}
}

// TestReadStatusList_Vectors has the list with 1 bit of the draft's section 4.2 and its appendix: bits by
// index.
func TestReadStatusList_Vectors(t *testing.T) {
	w := newFixture(t)
	packed, err := base64.RawURLEncoding.DecodeString("eNrbuRgAAhcBXQ")
	if err != nil {
		t.Fatal(err)
	}
	l := w.list()
	l.Change = func(_, claims map[string]any) {
		claims["status_list"] = map[string]any{"bits": 1, "lst": base64.RawURLEncoding.EncodeToString(packed)}
	}
	list, why := w.read(l.JWT(), revocation.JWT)
	if why != "" {
		t.Fatal(why)
	}
	want := []int{1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1}
	for i, status := range want {
		if got, ok := list.Status(int64(i)); !ok || got != status {
			t.Errorf("index %d: %d, %v, want %d", i, got, ok, status)
		}
	}
}

func TestReadStatusList_Dates(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		name         string
		change       func(l *wallettest.StatusList)
		fresh, until time.Duration // from now
	}{
		{"ttl and exp", func(*wallettest.StatusList) {}, 10 * time.Minute, time.Hour},
		{"a ttl of a second counts as a minute", func(l *wallettest.StatusList) { l.TTL = time.Second },
			time.Minute, time.Hour},
		{"a ttl of a year counts as a day", func(l *wallettest.StatusList) { l.TTL = 365 * 24 * time.Hour },
			24 * time.Hour, time.Hour},
		{"no ttl", func(l *wallettest.StatusList) { l.TTL = 0 }, 15 * time.Minute, time.Hour},
		{"no exp: a week after iat", func(l *wallettest.StatusList) { l.Expires = time.Time{} },
			10 * time.Minute, 7*24*time.Hour - time.Hour},
		{"no longer than the signer's certificate", func(l *wallettest.StatusList) {
			l.Expires = now.AddDate(10, 0, 0)
		}, 10 * time.Minute, now.AddDate(1, 0, 0).Sub(now)},
	} {
		l := w.list()
		c.change(&l)
		for mediaType, token := range map[string][]byte{revocation.JWT: l.JWT(), revocation.CWT: l.CWT()} {
			list, why := w.read(token, mediaType)
			if why != "" {
				t.Errorf("contract 54: %s, %s: %s", c.name, mediaType, why)
			} else if !list.Fresh.Equal(now.Add(c.fresh)) || !list.Until.Equal(now.Add(c.until)) ||
				!list.Issued.Equal(l.Issued) {
				t.Errorf("contract 54: %s, %s: %+v", c.name, mediaType, list.Dates)
			}
		}
	}
}

// label is an item of a CWT's header or claims. A zero value removes it.
func label(n int64, value cbor.Item) []cbor.Pair {
	return []cbor.Pair{{Key: cbor.Integer(n), Value: value}}
}

// bomb returns n bytes that are 0, compressed.
func bomb(n int) []byte { return packed(make([]byte, n)) }

func packed(list []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = z.Write(list)
	_ = z.Close()
	return b.Bytes()
}

// attack is a change of a status list, and why the list is rejected then. "" if it is not.
type attack struct {
	name   string
	change func(l *wallettest.StatusList)
	want   string
}

// set gives a member of a JWT's header or claims a value. Nil removes it.
func set(name string, value any) func(*wallettest.StatusList) {
	return func(l *wallettest.StatusList) {
		l.Change = func(header, claims map[string]any) {
			into := claims
			if _, ok := header[name]; ok || name == "crit" {
				into = header
			}
			if into[name] = value; value == nil {
				delete(into, name)
			}
		}
	}
}

func list(bits any, packed []byte) func(*wallettest.StatusList) {
	return set("status_list", map[string]any{"bits": bits,
		"lst": base64.RawURLEncoding.EncodeToString(packed)})
}

// float returns a float of 64 bits.
func float(f float64) cbor.Item {
	raw := binary.BigEndian.AppendUint64([]byte{0xfb}, math.Float64bits(f))
	i, err := cbor.Read(raw, cbor.Options{Any: true})
	if err != nil {
		panic(err)
	}
	return i
}

func inClaims(n int64, value cbor.Item) func(*wallettest.StatusList) {
	return func(l *wallettest.StatusList) {
		l.ChangeCBOR = func() (header, claims []cbor.Pair) { return nil, label(n, value) }
	}
}

func inHeader(n int64, value cbor.Item) func(*wallettest.StatusList) {
	return func(l *wallettest.StatusList) {
		l.ChangeCBOR = func() (header, claims []cbor.Pair) { return label(n, value), nil }
	}
}

var small = bomb(1)

// Attacks on JWTs and on CWTs.
var (
	jwtAttacks = []attack{
		{"alg none", set("alg", "none"),
			"the token is signed by another algorithm than ES256, ES384 and ES512"},
		{"an HMAC", set("alg", "HS256"),
			"the token is signed by another algorithm than ES256, ES384 and ES512"},
		{"the algorithm of another curve", set("alg", "ES384"), "cose_algorithm"},
		{"a critical header", set("crit", []string{"x"}),
			"the token has a critical header, and none is known"},
		{"another typ", set("typ", "jwt"), "the token is of another type than a status list token"},
		{"no typ", set("typ", nil), "the token is of another type than a status list token"},
		{"no sub", set("sub", nil), "the status list token is of another list (sub)"},
		{"no iat", set("iat", nil), "the status list token has no usable dates"},
		{"exp is a text", set("exp", "soon"), "the status list token has no usable dates"},
		{"ttl is 0", set("ttl", 0), "the status list token has no usable dates"},
		{"ttl is negative", set("ttl", -1), "the status list token has no usable dates"},
		{"iat after the year 9999", set("iat", int64(1)<<62),
			"the status list token has no usable dates"},
		{"not valid yet (nbf)", set("nbf", now.Add(time.Minute).Unix()),
			"the list is dated in the future"},
		{"a fraction in exp", set("exp", float64(now.Unix())+9.5), ""},
		{"3 bits", list(3, small),
			"the status list has none of 1, 2, 4 and 8 bits for each document"},
		{"0 bits", list(0, small), "the status list has none of 1, 2, 4 and 8 bits for each document"},
		{"bits as a text", list("1", small),
			"the status list has none of 1, 2, 4 and 8 bits for each document"},
		{"a list that is too large when it is decompressed", list(1, bomb(4<<20+1)),
			"the status list is too large when it is decompressed"},
		{"the largest list", list(1, bomb(4<<20)), ""},
		{"data behind the list", list(1, append(bomb(1), 0)),
			"the status list cannot be decompressed"},
		{"a list that is cut off", list(1, small[:len(small)-1]),
			"the status list cannot be decompressed"},
		{"no compression", list(1, []byte{0, 0, 0}), "the status list cannot be decompressed"},
		{"padding", set("status_list", map[string]any{"bits": 1, "lst": "eNpjYAAAAAIAAQ=="}), ""},
		{"padding that is not needed", set("status_list", map[string]any{"bits": 1,
			"lst": "eNpjAAAAAQAB=="}), "the status list token is malformed"},
		{"no list", set("status_list", nil), "the status list token is malformed"},
		{"sub twice", set("", json.RawMessage(`{"sub":"`+uri+`","sub":"`+uri+`","iat":1,`+
			`"status_list":{"bits":1,"lst":"eNpjAAAAAQAB"}}`)), "the status list token is of another list (sub)"},
		{"exp twice", set("", json.RawMessage(`{"sub":"`+uri+`","iat":1,"exp":1,"exp":99999999999,`+
			`"status_list":{"bits":1,"lst":"eNpjAAAAAQAB"}}`)), "the status list token has no usable dates"},
		{"bits twice", set("", json.RawMessage(`{"sub":"`+uri+`","iat":1795000000,"exp":99999999999,`+
			`"status_list":{"bits":1,"bits":2,"lst":"eNpjAAAAAQAB"}}`)),
			"the status list has none of 1, 2, 4 and 8 bits for each document"},
	}

	cwtAttacks = []attack{
		{"another type", inHeader(16, cbor.Text("application/cwt")),
			"the token is of another type than a status list token"},
		{"the type of earlier drafts", inHeader(16, cbor.Text("statuslist+cwt")), ""},
		{"no type", inHeader(16, cbor.Item{}),
			"the token is of another type than a status list token"},
		{"a critical header", inHeader(2, cbor.Array(cbor.Integer(9))), "cose_critical"},
		{"an HMAC", inHeader(1, cbor.Integer(5)), "cose_algorithm"},
		{"the algorithm of another curve", inHeader(1, cbor.Integer(-35)), "cose_algorithm"},
		{"no sub", inClaims(2, cbor.Item{}), "the status list token is of another list (sub)"},
		{"sub as bytes", inClaims(2, cbor.Bytes([]byte(uri))),
			"the status list token is of another list (sub)"},
		{"no iat", inClaims(6, cbor.Item{}), "the status list token has no usable dates"},
		{"exp is a text", inClaims(4, cbor.Text("soon")), "the status list token has no usable dates"},
		{"iat is a float", inClaims(6, float(float64(now.Unix())-0.5)), ""},
		{"exp is a float that is past", inClaims(4, float(float64(now.Unix())-0.5)), "the list has expired"},
		{"exp is no number", inClaims(4, float(math.NaN())), "the status list token has no usable dates"},
		{"iat is infinite", inClaims(6, float(math.Inf(1))), "the status list token has no usable dates"},
		{"ttl is 0", inClaims(65534, cbor.Integer(0)), "the status list token has no usable dates"},
		{"not valid yet (nbf)", inClaims(5, cbor.Integer(now.Unix()+60)),
			"the list is dated in the future"},
		{"3 bits", inClaims(65533, cbor.Map(cbor.Pair{Key: cbor.Text("bits"), Value: cbor.Integer(3)},
			cbor.Pair{Key: cbor.Text("lst"), Value: cbor.Bytes(small)})),
			"the status list has none of 1, 2, 4 and 8 bits for each document"},
		{"a list that is too large when it is decompressed", inClaims(65533,
			cbor.Map(cbor.Pair{Key: cbor.Text("bits"), Value: cbor.Integer(1)},
				cbor.Pair{Key: cbor.Text("lst"), Value: cbor.Bytes(bomb(4<<20 + 1))})),
			"the status list is too large when it is decompressed"},
		{"the list is CBOR in bytes", inClaims(65533, cbor.Bytes(cbor.Map().Raw())),
			"the status list token is malformed"},
	}
)

// TestReadStatusList_Attacks is the list of attacks on status lists.
func TestReadStatusList_Attacks(t *testing.T) {
	w := newFixture(t)
	for _, a := range jwtAttacks {
		l := w.list()
		a.change(&l)
		if _, why := w.read(l.JWT(), revocation.JWT); why != a.want {
			t.Errorf("contract 54: JWT: %s: %q, want %q", a.name, why, a.want)
		}
	}
	for _, a := range cwtAttacks {
		l := w.list()
		a.change(&l)
		if _, why := w.read(l.CWT(), revocation.CWT); why != a.want {
			t.Errorf("contract 54: CWT: %s: %q, want %q", a.name, why, a.want)
		}
	}
}

// TestReadStatusList_Signers: of all signers, only those of the document's issuer count.
func TestReadStatusList_Signers(t *testing.T) {
	w := newFixture(t)
	other := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now})
	named := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now, Change: func(n int, c *x509.Certificate) {
		c.Subject.CommonName += " of another country"
	}})
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w.trust = append(w.trust, named.PEM()...) // another issuer that the operator trusts
	signedBy := func(i *wallettest.Issuer, eku string,
		change func(*x509.Certificate)) func(*wallettest.StatusList) {
		return func(l *wallettest.StatusList) {
			l.Chain = [][]byte{i.Certify(&w.signer.PublicKey, eku, change)}
		}
	}
	for _, a := range []attack{
		{"nothing", func(*wallettest.StatusList) {}, ""},
		{"by the document signer's extended key usage", signedBy(w.issuer, wallettest.AgeSigner,
			nil), ""},
		{"without an extended key usage", signedBy(w.issuer, "none", nil), ""},
		{"by the document signer itself", func(l *wallettest.StatusList) {
			l.Key, l.Chain = w.issuer.Key, w.issuer.Chain
		}, ""},
		{"the anchor in the chain", func(l *wallettest.StatusList) {
			l.Chain = append(l.Chain, w.issuer.Root.Raw)
		}, ""},
		{"another issuer of the same name", signedBy(other, wallettest.StatusSigner, nil),
			"untrusted"},
		{"another trusted issuer", signedBy(named, wallettest.StatusSigner, nil), "untrusted"},
		{"another key than the certificate's", func(l *wallettest.StatusList) { l.Key = stranger },
			"list_signature"},
		{"a reader's certificate", signedBy(w.issuer, "1.0.18013.5.1.6", nil), "certificate_eku"},
		{"a certificate that may not sign", signedBy(w.issuer, wallettest.StatusSigner,
			func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }), "certificate_usage"},
		{"an expired certificate", signedBy(w.issuer, wallettest.StatusSigner,
			func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }), "certificate_validity"},
		{"no certificate", func(l *wallettest.StatusList) { l.Chain = [][]byte{} }, "chain"},
		{"too many certificates", func(l *wallettest.StatusList) {
			l.Chain = append(l.Chain, l.Chain[0], l.Chain[0], l.Chain[0])
		}, "chain"},
		{"another list (sub)", func(l *wallettest.StatusList) { l.URI += "0" },
			"the status list token is of another list (sub)"},
		{"expired", func(l *wallettest.StatusList) { l.Expires = now }, "the list has expired"},
		{"a week old without exp", func(l *wallettest.StatusList) {
			l.Expires, l.Issued = time.Time{}, now.AddDate(0, 0, -7)
		}, "the list has expired"},
		{"of the future", func(l *wallettest.StatusList) { l.Issued = now.Add(31 * time.Second) },
			"the list is dated in the future"},
	} {
		l := w.list()
		a.change(&l)
		if _, why := w.read(l.JWT(), revocation.JWT); why != a.want {
			t.Errorf("contract 54: JWT: %s: %q, want %q", a.name, why, a.want)
		}
		if _, why := w.read(l.CWT(), revocation.CWT); why != a.want {
			t.Errorf("contract 54: CWT: %s: %q, want %q", a.name, why, a.want)
		}
	}
}

func TestReadStatusList_Form(t *testing.T) {
	w := newFixture(t)
	l := w.list()
	jwt, cwt := l.JWT(), l.CWT()
	parts := strings.Split(string(jwt), ".")
	twice := append(cbor.Map(cbor.Pair{Key: cbor.Integer(1), Value: cbor.Integer(-7)}).Raw(), 0)
	for _, c := range []struct {
		name, mediaType string
		token           []byte
		want            string
	}{
		{"a JWT as a CWT", revocation.CWT, jwt, "cbor"},
		{"a CWT as a JWT", revocation.JWT, cwt, "the status list token is malformed"},
		{"another media type", "application/jwt", jwt,
			"the list has another media type than a status list token"},
		{"no media type", "", jwt, "the list has another media type than a status list token"},
		{"nothing", revocation.JWT, nil, "the status list token is malformed"},
		{"nothing", revocation.CWT, nil, "cbor"},
		{"no signature", revocation.JWT, []byte(parts[0] + "." + parts[1] + "."),
			"the status list token is malformed"},
		{"two parts", revocation.JWT, []byte(parts[0] + "." + parts[1]),
			"the status list token is malformed"},
		{"four parts", revocation.JWT, append(jwt, ".YQ"...), "the status list token is malformed"},
		{"a line break", revocation.JWT, append(jwt, "\r\n"...), ""},
		{"a line break in a part", revocation.JWT, []byte(parts[0] + ".\n" + parts[1] + "." + parts[2]),
			"the status list token is malformed"},
		{"another payload", revocation.JWT, []byte(parts[0] + "." + parts[1][:8] + "A" + parts[1][9:] + "." +
			parts[2]), "list_signature"},
		{"data behind it", revocation.CWT, append(bytes.Clone(cwt), 0), "cbor"},
		{"the tag of a CWT", revocation.CWT, cbor.Tagged(61, mustRead(t, cwt)).Raw(), ""},
		{"the tag of a CWT alone", revocation.CWT, cbor.Tagged(61, mustRead(t, cwt[1:])).Raw(), ""},
		{"the tag of a CWT twice", revocation.CWT,
			cbor.Tagged(61, cbor.Tagged(61, mustRead(t, cwt))).Raw(), "cose"},
		{"the tag of a CWT inside", revocation.CWT,
			cbor.Tagged(18, cbor.Tagged(61, mustRead(t, cwt[1:]))).Raw(), "cose"},
		{"the tag of a MAC", revocation.CWT, append([]byte{0xd1}, cwt[1:]...), "cose"},
		{"no tag", revocation.CWT, cwt[1:], ""},
		{"two items in the header", revocation.CWT, cbor.Array(cbor.Bytes(twice), cbor.Map(),
			cbor.Bytes(nil), cbor.Bytes(nil)).Raw(), "cose"},
		{"the largest token", revocation.JWT, bytes.Repeat([]byte("a"), revocation.MaxSize-1),
			"the status list token is malformed"},
		{"a larger one", revocation.JWT, make([]byte, revocation.MaxSize), "the list is too large"},
		{"a larger one", revocation.CWT, make([]byte, revocation.MaxSize), "the list is too large"},
	} {
		if _, why := w.read(c.token, c.mediaType); why != c.want {
			t.Errorf("contract 54: %s: %q, want %q", c.name, why, c.want)
		}
	}
}

func mustRead(t *testing.T, b []byte) cbor.Item {
	t.Helper()
	i, err := cbor.Read(b, cbor.Options{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestReadStatusList_NamedAuthority: a document may name the authority of its list's signer, and then no
// other one counts.
func TestReadStatusList_NamedAuthority(t *testing.T) {
	w := newFixture(t)
	other := wallettest.NewIssuer(wallettest.IssuerConfig{Now: now})
	reference := func(der []byte) cbor.Item {
		list := w.status.Member("status_list")
		return cbor.Map(cbor.Pair{Key: cbor.Text("status_list"),
			Value: wallettest.With(list, "certificate", cbor.Bytes(der))})
	}
	own := w.list().JWT()
	theirs := w.list()
	theirs.Chain = [][]byte{other.Certify(&w.signer.PublicKey, wallettest.StatusSigner, nil)}
	for _, c := range []struct {
		name  string
		named []byte
		token []byte
		want  string
	}{
		{"of the named authority", other.Root.Raw, theirs.JWT(), ""},
		{"of the document's authority", other.Root.Raw, own, "untrusted"},
		{"a certificate that is no authority's", w.issuer.Chain[0], own, "untrusted"},
		{"bytes that are no certificate", []byte("x"), own, "untrusted"},
	} {
		w.status = reference(c.named)
		if _, why := w.read(c.token, revocation.JWT); why != c.want {
			t.Errorf("contract 54: %s: %q, want %q", c.name, why, c.want)
		}
	}
}

func FuzzReadStatusList(f *testing.F) {
	w := newFixture(f)
	l := w.list()
	lists := w.lists()
	f.Add(l.JWT(), true)
	f.Add(l.CWT(), false)
	f.Add([]byte("e30.e30."), true)
	f.Add([]byte{0xd2, 0x84, 0x40, 0xa0, 0x40, 0x40}, false)
	f.Fuzz(func(t *testing.T, token []byte, isJWT bool) {
		mediaType := revocation.CWT
		if isJWT {
			mediaType = revocation.JWT
		}
		list, err := revocation.ReadStatusList(t.Context(), token, mediaType, uri, lists, now)
		if (list == nil) == (err == nil) {
			t.Fatalf("%v, %v", list, err)
		}
		if err == nil {
			if _, ok := list.Status(0); !ok || !list.Until.After(now) {
				t.Errorf("another list of the same signer: %+v", list.Dates)
			}
		}
	})
}
