package workers_test

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/settings"
)

// A private key signs by the algorithms of its kind, as edge/signing does natively, and golang-jwt accepts
// the signature (contract 41). It signs by no other algorithm.
func TestSignatures(t *testing.T) {
	encode := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkcs8 := func(k any) string {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		return encode("PRIVATE KEY", der, err)
	}
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	wide, err2 := rsa.GenerateKey(rand.Reader, 2048)
	_, ed, err3 := ed25519.GenerateKey(rand.Reader)
	t.Setenv("GODEBUG", "rsa1024min=0") // or no such key could be made
	narrow, err4 := rsa.GenerateKey(rand.Reader, 1024)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	guest := settings.Config{Config: core.Config{Dev: true}, Keyring: newKeyring(t), Host: "x"}
	site := workerd.Shared(t).Site(t, workerd.Config{Guest: guest,
		Keys: map[string]string{
			"ec": pkcs8(ec), "rsa": pkcs8(wide), "ed": pkcs8(ed), "narrow": pkcs8(narrow),
			"sec1":    encode("EC PRIVATE KEY", sec1, err),
			"damaged": encode("PRIVATE KEY", []byte("hush"), nil),
			"two":     pkcs8(ec) + pkcs8(ec), "text": "hush", "self-test": pkcs8(ec),
		}})
	message := []byte("head.claims")
	for _, c := range []struct {
		key        string
		public     crypto.PublicKey
		algorithms string
		says       string // of the other algorithms
	}{
		{"ec", &ec.PublicKey, "ES256", "does not sign with "},
		{"rsa", &wide.PublicKey, "RS256 PS256", "does not sign with "},
		{"ed", ed.Public(), "EdDSA", "does not sign with "},
		{"narrow", nil, "", ""}, // RSA that is too short, or not RSA
		{"sec1", nil, "", "is no PKCS#8 in PEM"},
		{"damaged", nil, "", "or is damaged"},
		{"two", nil, "", "is no PKCS#8 in PEM"},
		{"text", nil, "", "is no PKCS#8 in PEM"},
	} {
		for _, algorithm := range []string{"ES256", "RS256", "PS256", "EdDSA"} {
			for range 2 { // the second time the key has been imported
				status, reply := site.Effect(abi.Sign,
					abi.Append.Sign(nil, abi.SignRequest{Key: c.key, Algorithm: algorithm, Message: message}))
				if !strings.Contains(" "+c.algorithms+" ", " "+algorithm+" ") {
					text := string(reply)
					if status != abi.Unavailable || !strings.Contains(text, c.says) ||
						strings.Contains(text, "hush") ||
						!strings.HasPrefix(text, `signing: the private key "`+c.key+`" `) {
						t.Errorf("%s, %s: status %d, %q, want %q", c.key, algorithm, status, reply, c.says)
					}
					continue
				}
				if status != abi.OK {
					t.Errorf("%s, %s: status %d, %s", c.key, algorithm, status, reply)
				} else if err := jwt.GetSigningMethod(algorithm).Verify(string(message), reply,
					c.public); err != nil {
					t.Errorf("%s, %s: %v", c.key, algorithm, err)
				}
			}
		}
	}
	testDecryption(t, site, ec, wide)
	for name, q := range map[string]abi.SignRequest{
		"an unknown key":                   {Key: "unknown", Algorithm: "ES256"},
		"a name that every object has":     {Key: "constructor", Algorithm: "ES256"},
		"no name":                          {Algorithm: "ES256"},
		"the self-test's, which no key is": {Key: abi.TestKey, Algorithm: "ES256"},
	} {
		status, reply := site.Effect(abi.Sign, abi.Append.Sign(nil, q))
		if status != abi.NotFound || len(reply) > 0 {
			t.Errorf("%s: status %d, %s", name, status, reply)
		}
		status, reply = site.Effect(abi.Decrypt, abi.Append.Sign(nil, q))
		if status != abi.NotFound || len(reply) > 0 {
			t.Errorf("%s, to decrypt: status %d, %s", name, status, reply)
		}
	}
	for name, body := range map[string][]byte{
		"malformed":         {1, 2},
		"another algorithm": abi.Append.Sign(nil, abi.SignRequest{Key: "ec", Algorithm: "toString"}),
	} {
		if status, reply := site.Effect(abi.Sign, body); status != abi.Unavailable {
			t.Errorf("%s: status %d, %s", name, status, reply)
		}
	}
}

// testDecryption: the Worker decrypts as edge/signing does natively.
func testDecryption(t *testing.T, site *workerd.Site, ec *ecdsa.PrivateKey, wide *rsa.PrivateKey) {
	t.Helper()
	other, err1 := ecdh.P256().GenerateKey(rand.Reader)
	own, err2 := ec.ECDH()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	shared, err1 := other.ECDH(own.PublicKey())
	sealed, err2 := rsa.EncryptOAEP(sha256.New(), rand.Reader, &wide.PublicKey, []byte("secret"), nil)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	point := other.PublicKey().Bytes()
	off := slices.Clone(point)
	off[64] ^= 1
	for _, c := range []struct {
		name, key, algorithm string
		message              []byte
		status               abi.Status
		want                 string // of the secret, or in the text
	}{
		{"a point", "ec", "ECDH-ES", point, abi.OK, string(shared)},
		{"a point again", "ec", "ECDH-ES", point, abi.OK, string(shared)},
		{"a point off the curve", "ec", "ECDH-ES", off, abi.OK, ""},
		{"no point", "ec", "ECDH-ES", nil, abi.OK, ""},
		{"a key", "rsa", "RSA-OAEP-256", sealed, abi.OK, "secret"},
		{"a short key", "rsa", "RSA-OAEP-256", sealed[1:], abi.OK, ""},
		{"RSA that is too short", "narrow", "RSA-OAEP-256", sealed, abi.Unavailable,
			"has fewer than 2048 bits"},
		{"a damaged key", "damaged", "ECDH-ES", point, abi.Unavailable, "does not decrypt with ECDH-ES"},
		{"an algorithm of signatures", "ec", "ES256", point, abi.Unavailable,
			"decrypts by no such algorithm"},
	} {
		status, reply := site.Effect(abi.Decrypt,
			abi.Append.Sign(nil, abi.SignRequest{Key: c.key, Algorithm: c.algorithm, Message: c.message}))
		if status != c.status || status == abi.OK && string(reply) != c.want ||
			!strings.Contains(string(reply), c.want) {
			t.Errorf("%s: status %d, %q", c.name, status, reply)
		}
	}
	// A fault of the platform is not an error of the message.
	for function, q := range map[string]abi.SignRequest{
		"importKey":  {Key: "ec", Algorithm: "ECDH-ES", Message: point},
		"deriveBits": {Key: "ec", Algorithm: "ECDH-ES", Message: point},
		"decrypt":    {Key: "rsa", Algorithm: "RSA-OAEP-256", Message: sealed},
	} {
		site.BreakCrypto(function)
		status, reply := site.Effect(abi.Decrypt, abi.Append.Sign(nil, q))
		if status != abi.Unavailable || !strings.Contains(string(reply), "(NotSupportedError)") {
			t.Errorf("without %s: status %d, %q", function, status, reply)
		}
		if status, reply := site.Effect(abi.Decrypt, abi.Append.Sign(nil, q)); status != abi.OK {
			t.Errorf("with %s again: status %d, %q", function, status, reply)
		}
	}
	for _, c := range [][2]string{{"rsa", "ECDH-ES"}, {"ed", "ECDH-ES"}, {"ec", "RSA-OAEP-256"}} {
		status, reply := site.Effect(abi.Decrypt,
			abi.Append.Sign(nil, abi.SignRequest{Key: c[0], Algorithm: c[1], Message: point}))
		if status != abi.Unavailable {
			t.Errorf("%s with a key of another type: status %d, %q", c[1], status, reply)
		}
	}
}

// The fetches of a method are measured, and may ask for less time than others have.
func TestFetchesOfMethods(t *testing.T) {
	release := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	defer receiver.Close()
	defer close(release)
	guest := settings.Config{Config: core.Config{Dev: true}, Keyring: newKeyring(t), Host: "x"}
	site := workerd.Shared(t).Site(t, workerd.Config{Guest: guest, FetchTimeout: 30 * time.Second})
	hasty := workerd.Shared(t).Site(t, workerd.Config{Guest: guest, FetchTimeout: 2 * time.Second})
	fetch := func(site *workerd.Site, q host.FetchRequest) abi.Status {
		q.Method = "GET"
		status, _ := site.Effect(abi.Fetch, abi.Append.Fetch(nil, q))
		return status
	}
	if s := fetch(site, host.FetchRequest{URL: receiver.URL}); s != abi.OK {
		t.Errorf("a webhook: status %d", s)
	}
	s := fetch(site, host.FetchRequest{URL: receiver.URL, For: "bankid", Timeout: time.Hour})
	if s != abi.OK {
		t.Errorf("a method: status %d", s)
	}
	for asks, of := range map[time.Duration]struct {
		site *workerd.Site
		most time.Duration
	}{
		200 * time.Millisecond: {site, 20 * time.Second}, time.Nanosecond: {site, 20 * time.Second},
		0: {hasty, 5 * time.Minute}, time.Hour: {hasty, 5 * time.Minute},
	} {
		begin := time.Now()
		s := fetch(of.site, host.FetchRequest{URL: receiver.URL + "/hang", For: "bankid", Timeout: asks})
		if took := time.Since(begin); s != abi.NoResponse || took > of.most {
			t.Errorf("one that hangs, asked for %s: status %d after %s", asks, s, took)
		}
	}
	if s := fetch(site, host.FetchRequest{URL: "https://10.0.0.1/", For: "face"}); s != abi.NoResponse {
		t.Errorf("a private address: status %d", s)
	}
	counts := map[string]int{}
	for _, m := range append(site.Measured(), hasty.Measured()...) {
		if m.Seconds < 0 || m.Seconds > 30 {
			t.Errorf("measured %+v", m)
		}
		counts[strings.Join([]string{m.Method, m.Event, m.Reason}, " ")]++
	}
	for want, n := range map[string]int{
		"bankid fetched ": 1, "bankid fetch_failed timeout": 4,
		"face fetch_failed destination_not_allowed": 1,
	} {
		if counts[want] != n {
			t.Errorf("measured %q %d times, want %d", want, counts[want], n)
		}
		delete(counts, want)
	}
	if len(counts) > 0 {
		t.Errorf("measured %v as well", counts)
	}
}
