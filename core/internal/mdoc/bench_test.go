package mdoc_test

import (
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
)

// BenchmarkVerify verifies a wallet's response with one element: three signatures by ES256.
func BenchmarkVerify(b *testing.B) {
	response, ask := unhex(b, readExchange(b, "exchange-jwt.json").DeviceResponse), askOfVectors(b)
	ask.Transcript = unhex(b, readExchange(b, "exchange-jwt.json").SessionTranscript)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mdoc.Verify(b.Context(), response, ask); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenJWE(b *testing.B) {
	x := readExchange(b, "exchange-jwt.json")
	key := privateKey(b, x.PrivateKey)
	for b.Loop() {
		if _, err := mdoc.OpenJWE(x.Response, key, x.JWK.Kid, false); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpenHPKE(b *testing.B) {
	x := readExchange(b, "exchange-dcapi.json")
	key, transcript := privateKey(b, x.PrivateKey), unhex(b, x.SessionTranscript)
	response := fromBase64(b, x.Response)
	for b.Loop() {
		if _, err := mdoc.OpenHPKE(response, key, transcript); err != nil {
			b.Fatal(err)
		}
	}
}
