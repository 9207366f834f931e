package mdoc_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/testharness/wallettest"
)

func newKey(t testing.TB) *ecdh.PrivateKey {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func jwkOf(public *ecdh.PublicKey) map[string]any {
	point := public.Bytes()
	encode := base64.RawURLEncoding.EncodeToString
	return map[string]any{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}
}

// reasonOf is the reason of a rejection, "" for none.
func reasonOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	return outcome(t, mdoc.Proof{}, err)
}

func TestOpenJWE(t *testing.T) {
	key := newKey(t)
	with := func(jwk map[string]any, name string, value any) map[string]any {
		jwk[name] = value
		return jwk
	}
	ephemeral := func() map[string]any { return jwkOf(newKey(t).PublicKey()) }
	for _, c := range []struct {
		name   string
		header map[string]any // beside enc and kid
		edit   func(parts []string)
		want   string
	}{
		{name: "as it must be"},
		{name: "with A256GCM", header: map[string]any{"enc": "A256GCM"}},
		{name: "with apu and apv", header: map[string]any{"apu": "YQ", "apv": "Yg"}},
		{name: "with an unknown header", header: map[string]any{"x": 1}},

		{name: "another algorithm", header: map[string]any{"alg": "ECDH-ES+A128KW"}, want: "jwe_algorithm"},
		{name: "a password", header: map[string]any{"alg": "PBES2-HS256+A128KW"}, want: "jwe_algorithm"},
		{name: "a direct key", header: map[string]any{"alg": "dir"}, want: "jwe_algorithm"},
		{name: "another encryption", header: map[string]any{"enc": "A128CBC-HS256"}, want: "jwe_algorithm"},
		{name: "no encryption", header: map[string]any{"enc": nil}, want: "jwe_algorithm"},
		{name: "compressed by another algorithm", header: map[string]any{"zip": "GZIP"}, want: "jwe_header"},
		{name: "zip that is no text", header: map[string]any{"zip": 1}, want: "jwe_header"},
		{name: "zip without a value", header: map[string]any{"zip": nil}, want: "jwe_header"},
		{name: "critical", header: map[string]any{"crit": []string{"exp"}, "exp": 1}, want: "jwe_header"},
		{name: "critical, but empty", header: map[string]any{"crit": []string{}}, want: "jwe_header"},
		{name: "apu that is no text", header: map[string]any{"apu": 1}, want: "jwe_header"},
		{name: "apv with padding", header: map[string]any{"apv": "YQ=="}, want: "jwe_header"},
		{name: "another key's id", header: map[string]any{"kid": "other"}, want: "jwe_key_id"},
		{name: "no key's id", header: map[string]any{"kid": nil}, want: "jwe_key_id"},

		{name: "no ephemeral key", header: map[string]any{"epk": nil}, want: "jwe_ephemeral_key"},
		{name: "our own key", header: map[string]any{"epk": jwkOf(key.PublicKey())},
			want: "jwe_ephemeral_key"},
		{name: "a key off the curve", header: map[string]any{
			"epk": with(ephemeral(), "y", base64.RawURLEncoding.EncodeToString(make([]byte, 32)))},
			want: "jwe_ephemeral_key"},
		{name: "another curve", header: map[string]any{"epk": with(ephemeral(), "crv", "P-384")},
			want: "jwe_ephemeral_key"},
		{name: "another type of key", header: map[string]any{"epk": with(ephemeral(), "kty", "OKP")},
			want: "jwe_ephemeral_key"},
		{name: "a coordinate of 31 bytes", header: map[string]any{
			"epk": with(ephemeral(), "x", base64.RawURLEncoding.EncodeToString(make([]byte, 31)))},
			want: "jwe_ephemeral_key"},
		{name: "another ephemeral key", header: map[string]any{"epk": ephemeral()}, want: "jwe_not_opened"},

		{name: "a member twice", edit: func(p []string) {
			header, _ := base64.RawURLEncoding.DecodeString(p[0])
			p[0] = base64.RawURLEncoding.EncodeToString([]byte(`{"enc":"A256GCM",` + string(header[1:])))
		}, want: "jwe_algorithm"},
		{name: "an altered header", edit: func(p []string) {
			header, _ := base64.RawURLEncoding.DecodeString(p[0])
			p[0] = base64.RawURLEncoding.EncodeToString(append(header, ' '))
		}, want: "jwe_not_opened"},
		{name: "an encrypted key", edit: func(p []string) { p[1] = "AAAA" }, want: "jwe_form"},
		{name: "an IV of 16 bytes", edit: func(p []string) { p[2] = strings.Repeat("A", 22) },
			want: "jwe_form"},
		{name: "a tag of 12 bytes", edit: func(p []string) { p[4] = p[4][:16] }, want: "jwe_form"},
		{name: "an altered tag", edit: func(p []string) { p[4] = strings.Repeat("A", 22) },
			want: "jwe_not_opened"},
		{name: "an altered text", edit: func(p []string) { p[3] = "AAAA" + p[3][4:] },
			want: "jwe_not_opened"},
		{name: "padding", edit: func(p []string) { p[4] += "==" }, want: "jwe_form"},
		{name: "a line end", edit: func(p []string) { p[3] += "\n" }, want: "jwe_form"},
		{name: "six parts", edit: func(p []string) { p[4] += ".AA" }, want: "jwe_form"},
		{name: "three parts", edit: func(p []string) { p[0] = "e30.e30.AA"; copy(p[1:], make([]string, 4)) },
			want: "jwe_form"},
		{name: "1 MiB and more", edit: func(p []string) { p[3] += strings.Repeat("A", 1<<20) },
			want: "too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := map[string]any{"enc": "A128GCM", "kid": "key-1"}
			maps.Copy(header, c.header)
			jwe, err := wallettest.SealJWE([]byte(`{"vp_token":{}}`), key.PublicKey(), header)
			if err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(jwe, ".")
			if c.edit != nil {
				c.edit(parts)
			}
			for _, zip := range []bool{false, true} {
				payload, err := mdoc.OpenJWE(strings.Join(parts, "."), key, "key-1", zip)
				if got := reasonOf(t, err); got != c.want || got == "" && string(payload) != `{"vp_token":{}}` {
					t.Errorf("zip %v: %s, refused as %q, want %q", zip, payload, got, c.want)
				}
			}
		})
	}
}

// A payload may be compressed where proofs are requested (contract 56), to the size of any other response.
func TestOpenJWE_Compressed(t *testing.T) {
	key, plain := newKey(t), []byte(`{"vp_token":{}}`)
	small, full := wallettest.Deflate(plain), wallettest.Deflate(make([]byte, 1<<20))
	for _, c := range []struct {
		name   string
		sealed []byte
		want   string
	}{
		{"as it must be", small, ""},
		{"1 MiB", full, ""},
		{"1 MiB and a byte", wallettest.Deflate(make([]byte, 1<<20+1)), "too_large"},
		{"64 MiB", wallettest.Deflate(make([]byte, 64<<20)), "too_large"},
		{"not compressed", plain, "jwe_not_opened"},
		{"cut", small[:len(small)-1], "jwe_not_opened"},
		{"a byte behind it", append(slices.Clone(small), 0), "jwe_not_opened"},
		{"nothing", nil, "jwe_not_opened"},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := map[string]any{"enc": "A128GCM", "zip": "DEF"}
			jwe, err := wallettest.SealJWE(c.sealed, key.PublicKey(), header)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			payload, err := mdoc.OpenJWE(jwe, key, "", true)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
				t.Errorf("%d bytes were allocated", used)
			}
			if got := reasonOf(t, err); got != c.want || got == "" && !slices.Equal(payload, plain) &&
				!slices.Equal(payload, make([]byte, 1<<20)) {
				t.Errorf("%.20q, rejected as %q, want %q", payload, got, c.want)
			}
			if _, err := mdoc.OpenJWE(jwe, key, "", false); reasonOf(t, err) != "jwe_header" {
				t.Errorf("no proof was requested: %v", err)
			}
			if _, err := mdoc.OpenJWE(jwe, newKey(t), "", true); reasonOf(t, err) != "jwe_not_opened" {
				t.Errorf("with another key: %v", err)
			}
		})
	}
}

// A wallet need not name a key that the request has not named.
func TestOpenJWEWithoutAKeyID(t *testing.T) {
	key := newKey(t)
	jwe, err := wallettest.SealJWE(nil, key.PublicKey(), map[string]any{"enc": "A128GCM"})
	if err != nil {
		t.Fatal(err)
	}
	if payload, err := mdoc.OpenJWE(jwe, key, "", false); err != nil || len(payload) != 0 {
		t.Errorf("%s, %v", payload, err)
	}
	if _, err := mdoc.OpenJWE(jwe, newKey(t), "", false); reasonOf(t, err) != "jwe_not_opened" {
		t.Errorf("with another key: %v", err)
	}
}

func TestOpenHPKE(t *testing.T) {
	key, transcript := newKey(t), mdoc.DCAPITranscript("info", "https://verify.example")
	sealed, err := wallettest.SealHPKE([]byte("plain"), key.PublicKey(), transcript)
	if err != nil {
		t.Fatal(err)
	}
	item, err := cbor.Read(sealed, cbor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	parts, _ := item.List()
	enc, _ := parts[1].Member("enc").Bytes()
	text, _ := parts[1].Member("cipherText").Bytes()
	remade := func(name string, enc, text cbor.Item) []byte {
		parts := wallettest.With(wallettest.With(cbor.Map(), "enc", enc), "cipherText", text)
		return cbor.Array(cbor.Text(name), parts).Raw()
	}
	offCurve := slices.Clone(enc)
	offCurve[64] ^= 1
	for _, c := range []struct {
		name       string
		response   []byte
		key        *ecdh.PrivateKey
		transcript []byte
		want       string
	}{
		{"as it must be", sealed, key, transcript, ""},
		{"another origin", sealed, key, mdoc.DCAPITranscript("info", "https://evil.example"),
			"hpke_not_opened"},
		{"another request", sealed, key, mdoc.DCAPITranscript("other", "https://verify.example"),
			"hpke_not_opened"},
		{"another key", sealed, newKey(t), transcript, "hpke_not_opened"},
		{"a key off the curve", remade("dcapi", cbor.Bytes(offCurve), cbor.Bytes(text)), key, transcript,
			"hpke_not_opened"},
		{"an empty key", remade("dcapi", cbor.Bytes(nil), cbor.Bytes(text)), key, transcript,
			"hpke_not_opened"},
		{"a key of X25519", remade("dcapi", cbor.Bytes(enc[:32]), cbor.Bytes(text)), key, transcript,
			"hpke_not_opened"},
		{"a key in text", remade("dcapi", cbor.Text("enc"), cbor.Bytes(text)), key, transcript, "hpke_form"},
		{"no key", remade("dcapi", cbor.Item{}, cbor.Bytes(text)), key, transcript, "hpke_form"},
		{"a text that is cut", remade("dcapi", cbor.Bytes(enc), cbor.Bytes(text[1:])), key, transcript,
			"hpke_not_opened"},
		{"no text", remade("dcapi", cbor.Bytes(enc), cbor.Item{}), key, transcript, "hpke_form"},
		{"an empty text", remade("dcapi", cbor.Bytes(enc), cbor.Bytes(nil)), key, transcript,
			"hpke_not_opened"},
		{"another name", remade("dcapi2", cbor.Bytes(enc), cbor.Bytes(text)), key, transcript, "hpke_form"},
		{"a byte behind", append(slices.Clone(sealed), 0), key, transcript, "hpke_form"},
		{"no CBOR", []byte("{}"), key, transcript, "hpke_form"},
		{"nothing", nil, key, transcript, "hpke_form"},
		{"1 MiB and more", make([]byte, 1<<20+1), key, transcript, "too_large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, err := mdoc.OpenHPKE(c.response, c.key, c.transcript)
			if got := reasonOf(t, err); got != c.want || got == "" && string(plain) != "plain" {
				t.Errorf("%s, refused as %q, want %q", plain, got, c.want)
			}
		})
	}
}
