package jws_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/jws"
	"github.com/verge-id/verge/core/internal/signature"
	"github.com/verge-id/verge/edge/signing"
)

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// token returns a token without a real signature.
func token(header string) string { return encode(header) + "." + encode(`{}`) + "." + encode("s") }

var rules = jws.Rules{Size: 300, Algorithms: []string{"ES256", "EdDSA"}, Types: []string{"JWT", ""}}

const good = `{"alg":"ES256","kid":"k","typ":"JWT"}`

func TestRead_Forms(t *testing.T) {
	whole := token(good)
	parts := strings.Split(whole, ".")
	for _, c := range []struct {
		name, token string
		want        error
	}{
		{"nothing is changed", whole, nil},
		{"empty", "", jws.ErrForm},
		{"one part", parts[0], jws.ErrForm},
		{"two parts", parts[0] + "." + parts[1], jws.ErrForm},
		{"four parts", whole + ".YQ", jws.ErrForm},
		{"five parts: encrypted", whole + ".YQ.YQ", jws.ErrForm},
		{"a dot at the end", whole + ".", jws.ErrForm},
		{"a dot in front", "." + whole, jws.ErrForm},
		{"a detached payload", parts[0] + ".." + parts[2], jws.ErrForm},
		{"no signature", parts[0] + "." + parts[1] + ".", jws.ErrForm},
		{"no header", "." + parts[1] + "." + parts[2], jws.ErrForm},
		{"padding", parts[0] + "." + parts[1] + "." + parts[2] + "==", jws.ErrForm},
		{"bits that mean nothing", parts[0] + "." + parts[1] + ".YR", jws.ErrForm},
		{"the other alphabet", parts[0] + "." + parts[1] + ".+/+/", jws.ErrForm},
		{"a line break", whole + "\n", jws.ErrForm},
		{"a space in front", " " + whole, jws.ErrForm},
		{"the JSON form", `{"protected":"` + parts[0] + `"}`, jws.ErrForm},
		{"the largest token", strings.Repeat("a", 300), jws.ErrForm},
		{"a larger one", strings.Repeat("a", 301), jws.ErrSize},
	} {
		if _, err := jws.Read(c.token, rules); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRead_Headers(t *testing.T) {
	for _, c := range []struct {
		name, header string
		want         error
	}{
		{"no kid and no typ", `{"alg":"EdDSA"}`, nil},
		{"members that are not used", `{"alg":"ES256","jwk":{},"jku":1,"x5u":[],"a":1,"a":2}`, nil},
		{"a typ with application/", `{"alg":"ES256","typ":"APPLICATION/jwt"}`, nil},
		{"no JSON", `x`, jws.ErrHeader},
		{"a list", `["ES256"]`, jws.ErrHeader},
		{"an empty kid", `{"alg":"ES256","kid":""}`, jws.ErrHeader},
		{"a kid that is a number", `{"alg":"ES256","kid":1}`, jws.ErrHeader},
		{"kid twice", `{"alg":"ES256","kid":"a","kid":"a"}`, jws.ErrHeader},
		{"crit", `{"alg":"ES256","crit":["x"],"x":1}`, jws.ErrCritical},
		{"an empty crit", `{"alg":"ES256","crit":[]}`, jws.ErrCritical},
		{"crit is null", `{"alg":"ES256","crit":null}`, jws.ErrCritical},
		{"b64", `{"alg":"ES256","b64":true}`, jws.ErrCritical},
		{"another typ", `{"alg":"ES256","typ":"at+jwt"}`, jws.ErrType},
		{"an empty typ", `{"alg":"ES256","typ":""}`, jws.ErrType},
		{"a typ that is a list", `{"alg":"ES256","typ":["JWT"]}`, jws.ErrType},
		{"typ twice", `{"alg":"ES256","typ":"JWT","typ":"JWT"}`, jws.ErrType},
		{"no alg", `{}`, jws.ErrAlgorithm},
		{"alg none", `{"alg":"none"}`, jws.ErrAlgorithm},
		{"an HMAC", `{"alg":"HS256"}`, jws.ErrAlgorithm},
		{"an algorithm in lower case", `{"alg":"es256"}`, jws.ErrAlgorithm},
		{"an algorithm of another list", `{"alg":"RS256"}`, jws.ErrAlgorithm},
		{"alg twice", `{"alg":"ES256","alg":"ES256"}`, jws.ErrAlgorithm},
		{"alg that is a list", `{"alg":["ES256"]}`, jws.ErrAlgorithm},
	} {
		if _, err := jws.Read(token(c.header), rules); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for name, empty := range map[string]jws.Rules{
		"size":       {Algorithms: rules.Algorithms, Types: rules.Types},
		"algorithms": {Size: rules.Size, Types: rules.Types},
		"types":      {Size: rules.Size, Algorithms: rules.Algorithms},
	} {
		if _, err := jws.Read(token(good), empty); err == nil {
			t.Errorf("rules without %s accept a token", name)
		}
	}
}

func TestToken_Chain(t *testing.T) {
	for _, c := range []struct {
		name, x5c string
		want      int // -1: not ok
	}{
		{"two certificates", `["YWI=","YWJj"]`, 2},
		{"none", `[]`, 0},
		{"null", `null`, -1},
		{"a text", `"YWI="`, -1},
		{"a number in it", `["YWI=",1]`, -1},
		{"an empty text", `[""]`, -1},
		{"base64url", `["_-8="]`, -1},
		{"no padding", `["YWI"]`, -1},
	} {
		got, err := jws.Read(token(`{"alg":"ES256","x5c":`+c.x5c+`}`), rules)
		if err != nil {
			t.Fatal(err)
		}
		chain, ok := got.Chain()
		if ok != (c.want >= 0) || ok && len(chain) != c.want {
			t.Errorf("%s: %q, %v", c.name, chain, ok)
		}
	}
}

func TestToken_Verify(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, _ := signature.OfECDSA(&private.PublicKey)
	signed := encode(good) + "." + encode(`{"a":1}`)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, private, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	text := signed + "." + encode(string(r.FillBytes(make([]byte, 32)))+string(s.FillBytes(make([]byte, 32))))
	got, err := jws.Read(text, rules)
	if err != nil || got.KeyID != "k" || got.Algorithm != "ES256" || string(got.Payload) != `{"a":1}` ||
		string(got.Signed) != signed {
		t.Fatalf("%+v, %v", got, err)
	}
	if ok, err := got.Verify(t.Context(), signing.Verify, public); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	got.Signed = bytes.Replace(got.Signed, []byte("."), []byte(".e"), 1)
	if ok, err := got.Verify(t.Context(), signing.Verify, public); ok || err != nil {
		t.Errorf("another message: %v, %v", ok, err)
	}
	broken := errors.New("broken")
	_, err = got.Verify(t.Context(), func(context.Context, string, []byte, []byte, []byte) (bool, error) {
		return false, broken
	}, public)
	if !errors.Is(err, broken) {
		t.Errorf("the host's error: %v", err)
	}
}

// FuzzRead: one token has one text, and the signing input is a part of that text.
func FuzzRead(f *testing.F) {
	f.Add(token(good))
	f.Add(token(`{"alg":"ES256","x5c":["YWI="],"x":[[[1]]]}`))
	f.Add("e30.e30.e30")
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := jws.Read(text, rules)
		if err != nil {
			return
		}
		if text != string(got.Signed)+"."+base64.RawURLEncoding.EncodeToString(got.Signature) {
			t.Errorf("another text for the same token: %q", text)
		}
		if got.Algorithm != "ES256" && got.Algorithm != "EdDSA" {
			t.Errorf("the algorithm %q", got.Algorithm)
		}
		got.Chain()
	})
}
