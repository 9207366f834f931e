package mdoc_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/testharness/wallettest"
)

// FuzzVerify: no response of a wallet causes a panic. The keys of the vectors are not known to the fuzzer, so
// an accepted response must prove the same as a vector, for the same request.
func FuzzVerify(f *testing.F) {
	for _, v := range vectors(f).Cases {
		f.Add(unhex(f, v.Response))
	}
	ask := askOfVectors(f)
	ask.Elements = []string{element, "age_over_21"}
	f.Fuzz(func(t *testing.T, response []byte) {
		before := slices.Clone(response)
		p, err := mdoc.Verify(t.Context(), response, ask)
		if !bytes.Equal(response, before) {
			t.Fatal("it has changed the response")
		}
		if err != nil {
			reasonOf(t, err)
			return
		}
		if !bytes.Contains(response, ask.Anchors[0].Certificate.RawSubject) {
			t.Fatalf("accepted: %+v", p)
		}
		for name := range p.Elements {
			if !slices.Contains(ask.Elements, name) {
				t.Fatalf("%s is accepted", name)
			}
		}
	})
}

// FuzzParseAnchors: what is read can be used.
func FuzzParseAnchors(f *testing.F) {
	issuer := newIssuer(nil)
	f.Add(issuer.PEM())
	f.Add(issuer.Root.Raw)
	f.Add(slices.Concat(issuer.PEM(), inPEM(issuer.Chain[0])))
	f.Fuzz(func(t *testing.T, file []byte) {
		anchors, err := mdoc.ParseAnchors(file)
		if (err == nil) != (len(anchors) > 0) {
			t.Fatalf("%d anchors, %v", len(anchors), err)
		}
		for _, a := range anchors {
			if again, err := mdoc.ParseAnchors(a.Certificate.Raw); err != nil || len(again) != 1 {
				t.Fatalf("%d anchors, %v", len(again), err)
			}
		}
	})
}

// FuzzOpenJWE: the encrypted response of the vector cannot be altered.
func FuzzOpenJWE(f *testing.F) {
	x := readExchange(f, "exchange-jwt.json")
	key := privateKey(f, x.PrivateKey)
	f.Add(x.Response)
	f.Add("e30..AAAAAAAAAAAAAAAA.AA.AAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, compact string) {
		if _, err := mdoc.OpenJWE(compact, key, x.JWK.Kid, true); err != nil {
			reasonOf(t, err)
		} else if compact != x.Response {
			t.Fatalf("opened %s", compact)
		}
	})
}

// FuzzOpenHPKE: if a message opens, its plaintext is the sealed one.
func FuzzOpenHPKE(f *testing.F) {
	x := readExchange(f, "exchange-dcapi.json")
	key, transcript := privateKey(f, x.PrivateKey), unhex(f, x.SessionTranscript)
	f.Add(fromBase64(f, x.Response))
	sealed, err := wallettest.SealHPKE([]byte("short"), key.PublicKey(), transcript)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, response []byte) {
		plain, err := mdoc.OpenHPKE(response, key, transcript)
		if err != nil {
			reasonOf(t, err)
			return
		}
		if string(plain) != "short" && !bytes.Equal(plain, unhex(t, x.DeviceResponse)) {
			t.Fatalf("opened %x", plain)
		}
	})
}
