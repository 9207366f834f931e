package longfellow

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
)

// published is a response of Google's wallet that Google has published.
type published struct {
	statement Statement
	circuit   string
	proof     []byte
}

func newPublished(t testing.TB) *published {
	t.Helper()
	var file struct{ Transcript, ZKDeviceResponseCBOR []byte }
	if err := json.Unmarshal(vector(t, "post1.json"), &file); err != nil {
		t.Fatal(err)
	}
	response, err := cbor.Read(file.ZKDeviceResponseCBOR, cbor.Options{Any: true, Size: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	documents, _ := response.Member("zkDocuments").List()
	proof, ok := documents[0].Member("proof").Bytes()
	if !ok {
		t.Fatal("proof")
	}
	_, wrapped, _ := documents[0].Member("documentData").Tag()
	encoded, _ := wrapped.Bytes()
	data, err := cbor.Read(encoded, cbor.Options{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	p := &published{proof: proof}
	p.circuit, _ = data.Member("zkSystemId").Text()
	p.statement.SessionTranscript = file.Transcript
	p.statement.DocType, _ = data.Member("docType").Text()
	_, at, _ := data.Member("timestamp").Tag()
	now, _ := at.Text()
	if p.statement.Time, err = time.Parse(time.RFC3339, now); err != nil {
		t.Fatal(err)
	}
	namespaces, _ := data.Member("issuerSigned").Pairs()
	elements, _ := namespaces[0].Value.List()
	for _, e := range elements {
		id, _ := e.Member("elementIdentifier").Text()
		p.statement.Attributes = append(p.statement.Attributes,
			Attribute{Identifier: id, Value: e.Member("elementValue").Raw()})
	}
	chain, ok := data.Member("msoX5chain").Bytes()
	if !ok {
		first, _ := data.Member("msoX5chain").List()
		chain, _ = first[0].Bytes()
	}
	certificate, err := x509.ParseCertificate(chain)
	if err != nil {
		t.Fatal(err)
	}
	p.statement.Issuer = certificate.PublicKey.(*ecdsa.PublicKey)
	return p
}

var circuits sync.Map // by name

// openCircuit opens each circuit once for all tests.
func openCircuit(t testing.TB, name string) *Circuit {
	t.Helper()
	if c, ok := circuits.Load(name); ok {
		return c.(*Circuit)
	}
	c, err := Open(name, vector(t, name+".circuit.zst"))
	if err != nil {
		t.Fatal(err)
	}
	circuits.Store(name, c)
	return c
}

func TestCircuit_PublishedResponse(t *testing.T) {
	p := newPublished(t)
	start := time.Now()
	c := openCircuit(t, p.circuit)
	t.Log("version", c.params.version, "opened in", time.Since(start), p.statement.DocType, p.statement.Attributes)
	start = time.Now()
	if err := c.Verify(&p.statement, p.proof); err != nil {
		t.Fatal(err)
	}
	t.Log("verified in", time.Since(start))
}
