package revocation_test

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/revocation"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/npmwallet"
	"github.com/verge-id/verge/testharness/testenv"
)

// TestReadStatusList_Peers reads the lists of two libraries, and has the libraries read ours.
func TestReadStatusList_Peers(t *testing.T) {
	long.Skip(t, "TestReadStatusList_Peers")
	w := newFixture(t)
	for _, c := range []struct {
		bits     int
		statuses []int
		list     []byte
	}{
		{1, []int{1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1}, []byte{0b10111001, 0b10000000}},
		{2, []int{0, 1, 2, 3, 3, 0, 0, 1}, []byte{0b11_10_01_00, 0b01_00_00_11}},
		{4, []int{1, 15, 0, 9}, []byte{0xf1, 0x90}},
		{8, []int{0, 255, 1}, []byte{0, 255, 1}},
	} {
		l := w.list()
		l.Bits, l.List = c.bits, c.list
		// @owf/token-status-list 0.3.0 reads no list without this member, which is optional.
		l.ChangeCBOR = func() (header, claims []cbor.Pair) {
			return nil, label(65533, cbor.Map(
				cbor.Pair{Key: cbor.Text("bits"), Value: cbor.Integer(int64(c.bits))},
				cbor.Pair{Key: cbor.Text("lst"), Value: cbor.Bytes(packed(c.list))},
				cbor.Pair{
					Key:   cbor.Text("aggregation_uri"),
					Value: cbor.Text("https://issuer.example/lists"),
				},
			))
		}
		theirs := npmwallet.Status(t, l, c.statuses)
		for i, read := range theirs.Read {
			if !reflect.DeepEqual(read, c.statuses) {
				t.Errorf("contract 54: %d bits: library %d reads %v, want %v", c.bits, i, read, c.statuses)
			}
		}
		cwt, err := hex.DecodeString(theirs.OWFCWT)
		if err != nil {
			t.Fatal(err)
		}
		for name, token := range map[string]struct {
			mediaType string
			bytes     []byte
		}{
			"@owf JWT":    {revocation.JWT, []byte(theirs.OWFJWT)},
			"@sd-jwt JWT": {revocation.JWT, []byte(theirs.SDJWT)},
			"@owf CWT":    {revocation.CWT, cwt},
		} {
			list, why := w.read(token.bytes, token.mediaType)
			if why != "" {
				t.Errorf("contract 54: %s with %d bits: %s", name, c.bits, why)
				continue
			}
			for i, want := range c.statuses {
				if got, ok := list.Status(int64(i)); !ok || got != want {
					t.Errorf("contract 54: %s with %d bits: index %d is %d, %v", name, c.bits, i, got, ok)
				}
			}
			if !list.Until.Equal(l.Expires) || !list.Fresh.Equal(now.Add(l.TTL)) ||
				!list.Issued.Equal(l.Issued) {
				t.Errorf("contract 54: %s: %+v", name, list.Dates)
			}
		}
	}
}

// TestReadCRL_OpenSSL reads a list that OpenSSL has made.
func TestReadCRL_OpenSSL(t *testing.T) {
	openssl := testenv.Program(t, "openssl")
	w := newFixture(t)
	key, err := x509.MarshalPKCS8PrivateKey(w.issuer.RootKey())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"ca.pem":  w.issuer.PEM(),
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		// The database of openssl ca: the document signer's certificate, with the serial number 100, revoked.
		"index.txt": []byte("R\t271121220000Z\t261121210000Z,keyCompromise\t64\tunknown\t" +
			"/CN=Test document signer\n"),
		"number": []byte("01\n"),
		"ca.cnf": []byte("[ca]\ndefault_ca=a\n[a]\ndatabase=index.txt\ncrlnumber=number\n" +
			"default_md=sha256\n" +
			"crl_extensions=e\n[e]\nauthorityKeyIdentifier=keyid:always\n" +
			"issuingDistributionPoint=critical,@point\n[point]\nfullname=URI:" + crl + "\nonlyuser=TRUE\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	openSSL := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), openssl, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl: %v\n%s", err, out)
		}
	}
	openSSL("ca", "-config", "ca.cnf", "-gencrl", "-cert", "ca.pem", "-keyfile", "key.pem", "-out", "crl.pem",
		"-crl_lastupdate", "20261121210000Z", "-crl_nextupdate", "20261221210000Z")
	openSSL("crl", "-in", "crl.pem", "-outform", "DER", "-out", "crl.der")
	der, err := os.ReadFile(filepath.Join(dir, "crl.der"))
	if err != nil {
		t.Fatal(err)
	}
	lists := w.lists()
	list, err := revocation.ReadCRL(t.Context(), der, lists, 0, now)
	if err != nil {
		t.Fatal(err)
	}
	signer := *lists.Path()[0]
	signer.CRLDistributionPoints = []string{crl}
	if revoked, ok := list.Revoked(&signer); !revoked || !ok {
		t.Errorf("contract 54: the signer's certificate: %v, %v", revoked, ok)
	}
	if want := time.Date(2026, 12, 21, 21, 0, 0, 0, time.UTC); !list.Until.Equal(want) {
		t.Errorf("contract 54: %+v", list.Dates)
	}
	// OpenSSL accepts the lists of the tests' own issuer.
	if err := os.WriteFile(filepath.Join(dir, "ours.der"), w.issuer.CRL(revoked()), 0o600); err != nil {
		t.Fatal(err)
	}
	openSSL("crl", "-in", "ours.der", "-inform", "DER", "-CAfile", "ca.pem", "-noout", "-verify")
}
