package signature

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/internal/coretest"
	"github.com/verge-id/verge/edge/signing"
)

// number returns a number of that many bits with these last bits.
func number(bits, last uint) []byte {
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return n.Add(n, new(big.Int).SetUint64(uint64(last))).Bytes()
}

func ecKey(t testing.TB, curve elliptic.Curve) (private *ecdsa.PrivateKey, x, y []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	coretest.Must(t, err)
	point, err := private.PublicKey.Bytes()
	coretest.Must(t, err)
	size := (len(point) - 1) / 2
	return private, point[1 : 1+size], point[1+size:]
}

// A key has the bytes that crypto/x509 writes.
func TestKey_DER(t *testing.T) {
	check := func(name string, k Key, ok bool, public any) {
		want, err := x509.MarshalPKIXPublicKey(public)
		if err != nil || !ok || !bytes.Equal(k.der, want) {
			t.Errorf("%s: %x, %v, want %x, %v", name, k.der, ok, want, err)
		}
	}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		private, x, y := ecKey(t, curve)
		k, ok := EC(curve, x, y)
		check(curve.Params().Name, k, ok, private.Public())
		k, ok = OfECDSA(&private.PublicKey)
		check(curve.Params().Name+" of a certificate", k, ok, private.Public())
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	coretest.Must(t, err)
	k, ok := Ed25519(public)
	check("Ed25519", k, ok, public)
	for _, bits := range []uint{2048, 2049, 2055, 2056, 3072, 4096, 8185, 8192} {
		for _, e := range []int{3, 17, 255, 257, 65537, 1<<24 + 1, 1<<31 - 3} {
			n := number(bits, 1)
			public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: e}
			exponent := big.NewInt(int64(e)).Bytes()
			k, ok := RSA(n, exponent)
			check("RSA", k, ok, public)
			if bits < 8185 {
				k, ok = RSA(append([]byte{0}, n...), exponent)
				check("RSA with a zero before it", k, ok, public)
			}
		}
	}
}

func TestKey_Rejected(t *testing.T) {
	_, x, y := ecKey(t, elliptic.P256())
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	coretest.Must(t, err)
	flipped := bytes.Clone(y)
	flipped[31] ^= 1
	good := number(2048, 1)
	ec := func(curve elliptic.Curve, x, y []byte) func() (Key, bool) {
		return func() (Key, bool) { return EC(curve, x, y) }
	}
	ed := func(x []byte) func() (Key, bool) { return func() (Key, bool) { return Ed25519(x) } }
	rsa := func(n []byte, e ...byte) func() (Key, bool) { return func() (Key, bool) { return RSA(n, e) } }
	zeros := make([]byte, 256)
	for name, made := range map[string]func() (Key, bool){
		"no curve":                           ec(nil, x, y),
		"another curve":                      ec(elliptic.P384(), x, y),
		"P-224":                              ec(elliptic.P224(), x[:28], y[:28]),
		"P-224 of a certificate":             func() (Key, bool) { return OfECDSA(&p224.PublicKey) },
		"no coordinates":                     ec(elliptic.P256(), nil, nil),
		"a short coordinate":                 ec(elliptic.P256(), x[1:], y),
		"a long coordinate":                  ec(elliptic.P256(), append([]byte{0}, x...), y),
		"a point that is not on the curve":   ec(elliptic.P256(), x, flipped),
		"zeros for a point":                  ec(elliptic.P256(), zeros[:32], zeros[:32]),
		"Ed25519 with 31 bytes":              ed(x[:31]),
		"Ed25519 with 33 bytes":              ed(append([]byte{0}, x...)),
		"RSA without a modulus":              rsa(nil, 1, 0, 1),
		"RSA with zeros":                     rsa(zeros, 1, 0, 1),
		"RSA of 2,047 bits":                  rsa(number(2047, 1), 1, 0, 1),
		"RSA of 2,040 bits, zeros before it": rsa(append([]byte{0}, number(2040, 1)...), 1, 0, 1),
		"RSA of 8,193 bits":                  rsa(number(8193, 1), 1, 0, 1),
		"RSA with an even modulus":           rsa(number(2048, 2), 1, 0, 1),
		"RSA without an exponent":            rsa(good),
		"RSA with the exponent 0":            rsa(good, 0),
		"RSA with the exponent 1":            rsa(good, 1),
		"RSA with an even exponent":          rsa(good, 1, 0, 0),
		"RSA with the exponent 2³¹-1":        rsa(good, 0x7f, 0xff, 0xff, 0xff),
		"RSA with an exponent of 5 bytes":    rsa(good, 0, 0, 1, 0, 1),
	} {
		if k, ok := made(); ok || k.algorithms != nil {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

// A key, an algorithm or a signature that does not fit costs no verification.
func TestVerify_AsksOnlyWhatFits(t *testing.T) {
	private, x, y := ecKey(t, elliptic.P256())
	k, _ := EC(elliptic.P256(), x, y)
	sum := sha256.Sum256([]byte("message"))
	der, err := ecdsa.SignASN1(rand.Reader, private, sum[:])
	coretest.Must(t, err)
	flat, ok := flatten(der, 32)
	if !ok {
		t.Fatalf("%x is not read", der)
	}
	asked := 0
	verify := func(ctx context.Context, algorithm string, key, message, signature []byte) (bool, error) {
		asked++
		return signing.Verify(ctx, algorithm, key, message, signature)
	}
	for _, c := range []struct {
		name      string
		key       Key
		algorithm string
		signature []byte
		want      bool
		asks      int
	}{
		{"a good signature", k, "ES256", flat, true, 1},
		{"by an algorithm of X.509", k, "ecdsa-with-SHA256", flat, true, 1},
		{"by another hash", k, "ecdsa-with-SHA384", flat, false, 1},
		{"a forged signature", k, "ES256", make([]byte, 64), false, 1},
		{"a key that was rejected", Key{}, "ES256", flat, false, 0},
		{"an empty signature of a key that was rejected", Key{}, "", nil, false, 0},
		{"an algorithm for another curve", k, "ES384", flat, false, 0},
		{"an algorithm for RSA", k, "RS256", flat, false, 0},
		{"no algorithm", k, "", flat, false, 0},
		{"a short signature", k, "ES256", flat[1:], false, 0},
		{"a long signature", k, "ES256", append([]byte{0}, flat...), false, 0},
		{"a signature in DER", k, "ES256", der, false, 0},
		{"no signature", k, "ES256", nil, false, 0},
	} {
		asked = 0
		got, err := c.key.Verify(t.Context(), verify, c.algorithm, []byte("message"), c.signature)
		if got != c.want || err != nil || asked != c.asks {
			t.Errorf("%s: %v, %v, asked %d times, want %v, %d", c.name, got, err, asked, c.want, c.asks)
		}
	}
	asked = 0
	if ok, err := k.VerifyASN1(t.Context(), verify, "ES256", []byte("message"), der); !ok || err != nil {
		t.Errorf("a signature in DER: %v, %v", ok, err)
	}
	for name, signature := range map[string][]byte{"a flat signature": flat, "none": nil} {
		ok, err := k.VerifyASN1(t.Context(), verify, "ES256", []byte("message"), signature)
		if ok || err != nil || asked != 1 {
			t.Errorf("%s instead of DER: %v, %v, asked %d times", name, ok, err, asked-1)
		}
	}
}

// The host's error comes back, and never as a verdict.
func TestVerify_HostError(t *testing.T) {
	_, x, y := ecKey(t, elliptic.P256())
	k, _ := EC(elliptic.P256(), x, y)
	away := errors.New("away")
	verify := func(context.Context, string, []byte, []byte, []byte) (bool, error) { return false, away }
	if ok, err := k.Verify(t.Context(), verify, "ES256", nil, make([]byte, 64)); ok || !errors.Is(err, away) {
		t.Errorf("%v, %v", ok, err)
	}
	der := []byte{0x30, 6, 2, 1, 1, 2, 1, 1}
	if ok, err := k.VerifyASN1(t.Context(), verify, "ES256", nil, der); ok || !errors.Is(err, away) {
		t.Errorf("in DER: %v, %v", ok, err)
	}
}

// flatten reads exactly the signatures that encoding/asn1 writes, of numbers that are not negative and fit.
func FuzzFlatten(f *testing.F) {
	half := append([]byte{2, 0x40, 1}, make([]byte, 63)...)
	long := slices.Concat([]byte{0x30, 0x81, 0x84}, half, half)
	for _, b := range [][]byte{nil, {0x30, 0}, {0x30, 6, 2, 1, 1, 2, 1, 1}, {0x30, 6, 2, 1, 0, 2, 1, 0},
		{0x30, 7, 2, 2, 0, 0x80, 2, 1, 1}, {0x30, 7, 2, 2, 0, 1, 2, 1, 1}, {0x30, 6, 2, 1, 0x80, 2, 1, 1},
		{0x30, 6, 2, 1, 1, 2, 1, 1, 0}, {0x30, 7, 2, 1, 1, 2, 1, 1, 0}, {0x30, 0x81, 6, 2, 1, 1, 2, 1, 1},
		{0x30, 0x80, 2, 1, 1, 2, 1, 1, 0, 0}, {0x30, 5, 2, 0, 2, 1, 1}, {0x30, 3, 2, 1, 1},
		{0x31, 6, 2, 1, 1, 2, 1, 1}, {0x30, 6, 3, 1, 1, 2, 1, 1},
		{0x30, 0x82, 0, 6, 2, 1, 1, 2, 1, 1}, long} {
		f.Add(b, 32)
		f.Add(b, 66)
	}
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		if !slices.Contains([]int{0, 32, 48, 66}, size) {
			return
		}
		var n struct{ R, S *big.Int }
		rest, err := asn1.Unmarshal(b, &n)
		var want []byte
		if err == nil && len(rest) == 0 && n.R.Sign() >= 0 && n.S.Sign() >= 0 &&
			len(n.R.Bytes()) <= size && len(n.S.Bytes()) <= size {
			if again, err := asn1.Marshal(n); err == nil && bytes.Equal(again, b) {
				want = slices.Concat(n.R.FillBytes(make([]byte, size)), n.S.FillBytes(make([]byte, size)))
			}
		}
		got, ok := flatten(b, size)
		if ok != (want != nil) || ok && !bytes.Equal(got, want) {
			t.Errorf("%x: %x, %v, want %x", b, got, ok, want)
		}
	})
}
