package mdoc_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/verge-id/verge/core/internal/mdoc"
)

// The transcript that OpenID4VP 1.0 gives as an example in appendix B.2.6.1.
func TestTranscriptOfTheSpecification(t *testing.T) {
	thumbprint := unhex(t, "4283ec927ae0f208daaa2d026a814f2b22dca52cf85ffa8f3f8626c6bd669047")
	const nonce = "exc7gBkxjx1rdc9udRrveKvSsJIq80avlXeLHhGwqtA"
	const want = "83f6f682714f70656e494434565048616e646f7665725820" +
		"048bc053c00442af9b8eed494cefdd9d95240d254b046b11b68013722aad38ac"
	got := mdoc.OpenID4VPTranscript("x509_san_dns:example.com", nonce, thumbprint,
		"https://example.com/response")
	if !bytes.Equal(got, unhex(t, want)) {
		t.Errorf("%x, want %s", got, want)
	}
}

// The transcript that OpenID4VP 1.0 gives as an example in appendix B.2.6.2.
func TestTranscriptOfTheSpecification_DCAPI(t *testing.T) {
	thumbprint := unhex(t, "4283ec927ae0f208daaa2d026a814f2b22dca52cf85ffa8f3f8626c6bd669047")
	const nonce = "exc7gBkxjx1rdc9udRrveKvSsJIq80avlXeLHhGwqtA"
	const want = "83f6f682764f70656e4944345650444341504948616e646f7665725820" +
		"fbece366f4212f9762c74cfdbf83b8c69e371d5d68cea09cb4c48ca6daab761a"
	got := mdoc.OpenID4VPDCAPITranscript("https://example.com", nonce, thumbprint)
	if !bytes.Equal(got, unhex(t, want)) {
		t.Errorf("%x, want %s", got, want)
	}
}

// exchange is a whole exchange with an encrypted answer, and the private key for it. Wallets of npm packages
// have made the answers.
type exchange struct {
	PrivateKey                  string // in hex, like all fields without another comment
	SessionTranscript, Response string
	DeviceResponse              string

	// Of OpenID4VP with direct_post.jwt. Response is the JWE.
	ClientID, ResponseURI, Nonce string
	Thumbprint                   string
	JWK                          struct{ Kid string }

	// Of the Digital Credentials API. Response, DeviceRequest and EncryptionInfo are base64url.
	Origin, DeviceRequest, EncryptionInfo string
}

func readExchange(t testing.TB, name string) (x exchange) {
	t.Helper()
	readJSON(t, name, &x)
	return x
}

func fromBase64(t testing.TB, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestExchangeByJWE(t *testing.T) {
	x := readExchange(t, "exchange-jwt.json")
	key := privateKey(t, x.PrivateKey)
	thumbprint := mdoc.Thumbprint(key.PublicKey())
	if !bytes.Equal(thumbprint, unhex(t, x.Thumbprint)) {
		t.Errorf("the thumbprint is %x, want %s", thumbprint, x.Thumbprint)
	}
	ask := askOfVectors(t)
	ask.Transcript = mdoc.OpenID4VPTranscript(x.ClientID, x.Nonce, thumbprint, x.ResponseURI)
	if !bytes.Equal(ask.Transcript, unhex(t, x.SessionTranscript)) {
		t.Errorf("the transcript is %x, want %s", ask.Transcript, x.SessionTranscript)
	}
	payload, err := mdoc.OpenJWE(x.Response, key, x.JWK.Kid, false)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Token map[string][]string `json:"vp_token"`
	}
	if err := json.Unmarshal(payload, &answer); err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
	response := fromBase64(t, answer.Token["proof_of_age"][0])
	if !bytes.Equal(response, unhex(t, x.DeviceResponse)) {
		t.Errorf("the response is %x", response)
	}
	if p, err := mdoc.Verify(t.Context(), response, ask); outcome(t, p, err) != "" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestExchangeByHPKE(t *testing.T) {
	x := readExchange(t, "exchange-dcapi.json")
	key := privateKey(t, x.PrivateKey)
	items := mdoc.Items{DocType: docType, Namespace: docType, Elements: []string{element}}
	request := base64.RawURLEncoding.EncodeToString(mdoc.DeviceRequest(items, nil))
	if request != x.DeviceRequest {
		t.Errorf("the request is %s, want %s", request, x.DeviceRequest)
	}
	nonce := unhex(t, "000102030405060708090a0b0c0d0e0f")
	info := base64.RawURLEncoding.EncodeToString(mdoc.EncryptionInfo(nonce, key.PublicKey()))
	if info != x.EncryptionInfo {
		t.Errorf("the encryption info is %s, want %s", info, x.EncryptionInfo)
	}
	ask := askOfVectors(t)
	ask.Transcript = mdoc.DCAPITranscript(info, x.Origin)
	if !bytes.Equal(ask.Transcript, unhex(t, x.SessionTranscript)) {
		t.Errorf("the transcript is %x, want %s", ask.Transcript, x.SessionTranscript)
	}
	response, err := mdoc.OpenHPKE(fromBase64(t, x.Response), key, ask.Transcript)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(response, unhex(t, x.DeviceResponse)) {
		t.Errorf("the response is %x", response)
	}
	if p, err := mdoc.Verify(t.Context(), response, ask); outcome(t, p, err) != "" {
		t.Errorf("%+v, %v", p, err)
	}
}
