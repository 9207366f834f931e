package mdoc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/edge/signing"
	"github.com/verge-id/verge/testharness/wallettest"
)

const zkTime = "2026-11-21T23:59:59Z"

// zkResponse is a DeviceResponse with a proof, by its members. A nil member is missing.
type zkResponse struct {
	top, document, data map[string]cbor.Item
}

func zkItem(identifier string, value cbor.Item) cbor.Item {
	return zkMap(map[string]cbor.Item{"elementIdentifier": cbor.Text(identifier), "elementValue": value})
}

func zkMap(members map[string]cbor.Item) cbor.Item {
	var pairs []cbor.Pair
	for name, value := range members {
		if value.Present() {
			pairs = append(pairs, cbor.Pair{Key: cbor.Text(name), Value: value})
		}
	}
	return cbor.Map(pairs...)
}

func zkNamespace(name string, items ...cbor.Item) cbor.Item {
	return cbor.Map(cbor.Pair{Key: cbor.Text(name), Value: cbor.Array(items...)})
}

// newZKResponse returns a response that ReadZKDocument accepts.
func newZKResponse(chain ...[]byte) *zkResponse {
	one := cbor.Bytes(chain[0])
	if len(chain) > 1 {
		var all []cbor.Item
		for _, c := range chain {
			all = append(all, cbor.Bytes(c))
		}
		one = cbor.Array(all...)
	}
	return &zkResponse{
		top:      map[string]cbor.Item{"version": cbor.Text("1.1"), "status": cbor.Integer(0)},
		document: map[string]cbor.Item{"proof": cbor.Bytes([]byte("proof"))},
		data: map[string]cbor.Item{
			"docType": cbor.Text(docType), "zkSystemId": cbor.Text("circuit"),
			"timestamp": cbor.Tagged(0, cbor.Text(zkTime)), "msoX5chain": one,
			"issuerSigned": zkNamespace(docType, zkItem(element, cbor.Bool(true))),
		},
	}
}

func (r *zkResponse) encode() []byte {
	if !r.document["documentData"].Present() {
		r.document["documentData"] = cbor.Tagged(24, cbor.Bytes(zkMap(r.data).Raw()))
	}
	if !r.top["zkDocuments"].Present() {
		r.top["zkDocuments"] = cbor.Array(zkMap(r.document))
	}
	return zkMap(r.top).Raw()
}

func TestReadZKDocument(t *testing.T) {
	top := func(name string, value cbor.Item) func(*zkResponse) {
		return func(r *zkResponse) { r.top[name] = value }
	}
	data := func(name string, value cbor.Item) func(*zkResponse) {
		return func(r *zkResponse) { r.data[name] = value }
	}
	elements := func(items ...cbor.Item) func(*zkResponse) {
		return data("issuerSigned", zkNamespace(docType, items...))
	}
	at := func(s string) func(*zkResponse) { return data("timestamp", cbor.Tagged(0, cbor.Text(s))) }
	long := string(slices.Repeat([]byte("a"), 256))
	item := zkItem(element, cbor.Bool(true))
	none := cbor.Item{}
	for _, tt := range []struct {
		name   string
		change func(r *zkResponse)
		want   string
	}{
		{"good", func(*zkResponse) {}, ""},
		{"four elements", elements(item, zkItem("a", cbor.Null()), zkItem("b", cbor.Integer(1)),
			zkItem("c", cbor.Tagged(1004, cbor.Text("2000-01-01")))), ""},
		{"version of the first edition", top("version", cbor.Text("1.0")), ""},
		{"other version", top("version", cbor.Text("1.2")), "version"},
		{"other major version", top("version", cbor.Text("2.0")), "version"},
		{"no version", top("version", none), "version"},
		{"status", func(r *zkResponse) { r.top["status"] = cbor.Integer(10) }, "status"},
		{"no status", func(r *zkResponse) { r.top["status"] = none }, "status"},
		{"no documents", func(r *zkResponse) { r.top["zkDocuments"] = cbor.Array() }, "documents"},
		{"two documents", func(r *zkResponse) {
			r.encode()
			r.top["zkDocuments"] = cbor.Array(zkMap(r.document), zkMap(r.document))
		}, "documents"},
		{"another document", func(r *zkResponse) { r.top["documents"] = cbor.Array() }, "documents"},
		{"errors", func(r *zkResponse) { r.top["documentErrors"] = cbor.Array() }, "documents"},
		{"no proof", func(r *zkResponse) { r.document["proof"] = none }, "member"},
		{"proof a text", func(r *zkResponse) { r.document["proof"] = cbor.Text("a") }, "member"},
		{"data not embedded", func(r *zkResponse) { r.document["documentData"] = zkMap(r.data) }, "member"},
		{"data no map", func(r *zkResponse) {
			r.document["documentData"] = cbor.Tagged(24, cbor.Bytes(cbor.Array().Raw()))
		}, "member"},
		{"no type", data("docType", none), "member"},
		{"empty type", data("docType", cbor.Text("")), "member"},
		{"long type", data("docType", cbor.Text(long)), "member"},
		{"no circuit", data("zkSystemId", none), "member"},
		{"long circuit", data("zkSystemId", cbor.Text(long)), "member"},
		{"no time", data("timestamp", none), "member"},
		{"time without a tag", data("timestamp", cbor.Text(zkTime)), "member"},
		{"time with another tag", data("timestamp", cbor.Tagged(1, cbor.Text(zkTime))), "member"},
		{"time with an offset", at("2026-11-21T23:59:59+00:00"), "member"},
		{"time with a fraction", at("2026-11-21T23:59:59.0Z"), "member"},
		{"time in lower case", at("2026-11-21t23:59:59z"), "member"},
		{"no day of a calendar", at("2026-02-30T23:59:59Z"), "member"},
		{"leap second", at("2026-11-21T23:59:60Z"), "member"},
		{"no chain", data("msoX5chain", none), "member"},
		{"empty chain", data("msoX5chain", cbor.Array()), "member"},
		{"chain of texts", data("msoX5chain", cbor.Array(cbor.Text(""))), "member"},
		{"no namespace", data("issuerSigned", cbor.Map()), "member"},
		{"two namespaces", data("issuerSigned", cbor.Map(
			cbor.Pair{Key: cbor.Text("a"), Value: cbor.Array(item)},
			cbor.Pair{Key: cbor.Text("b"), Value: cbor.Array(item)})), "member"},
		{"no elements", elements(), "too_many_elements"},
		{"five elements", elements(item, zkItem("a", item), zkItem("b", item), zkItem("c", item),
			zkItem("d", item)), "too_many_elements"},
		{"element twice", elements(item, item), "element_twice"},
		{"element without a value", elements(zkItem("a", none)), "item"},
		{"element without a name", elements(zkItem("", item)), "item"},
		{"element no map", elements(cbor.Null()), "item"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newZKResponse([]byte("certificate"))
			tt.change(r)
			d, err := mdoc.ReadZKDocument(r.encode())
			if got := reasonOf(t, err); got != tt.want {
				t.Fatalf("refused for %q, want %q", got, tt.want)
			}
			if err == nil && (d.DocType != docType || d.Namespace != docType || d.Circuit != "circuit" ||
				d.Time.Format(time.RFC3339) != zkTime || string(d.Proof) != "proof" ||
				d.Elements[0].Identifier != element) {
				t.Errorf("read as %+v", d)
			}
		})
	}
	if _, err := mdoc.ReadZKDocument(make([]byte, mdoc.MaxZKResponse+1)); reasonOf(t, err) != "too_large" {
		t.Error(err)
	}
	if _, err := mdoc.ReadZKDocument([]byte{0xff}); reasonOf(t, err) != "cbor" {
		t.Error(err)
	}
}

// TestVerifyZK checks that a proof counts for the statement of the response alone, and that the certificates
// are checked before the proof, which costs more.
func TestVerifyZK(t *testing.T) {
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{Now: testNow, EKU: mdlDS})
	ask := mdoc.Ask{DocType: docType, Namespace: docType, Elements: []string{element}, EKU: []string{mdlDS},
		Anchors: []mdoc.Anchor{{Certificate: issuer.Root}}, Transcript: vectorTranscript, Now: testNow,
		Verify: signing.Verify, Issued: new(mdoc.Issued)}
	failed := errors.New("no circuit")
	for _, tt := range []struct {
		name     string
		change   func(a *mdoc.Ask)
		shown    bool
		rejected string
		err      error
		want     string
		asked    bool
	}{
		{"good", nil, true, "", nil, "", true},
		{"proof rejected", nil, false, "a row is not in the code", nil, "zk_proof", true},
		{"proof rejected without a reason", nil, false, "", nil, "zk_proof", true},
		{"host fails", nil, false, "", failed, "", true},
		{"host fails and accepts", nil, true, "", failed, "", true},
		{"another document type", func(a *mdoc.Ask) { a.DocType = "other" }, true, "", nil,
			"document_type", false},
		{"another namespace", func(a *mdoc.Ask) { a.Namespace = "other" }, true, "", nil, "member", false},
		{"no anchor", func(a *mdoc.Ask) { a.Anchors = nil }, true, "", nil, "untrusted", false},
		{"signer for other documents", func(a *mdoc.Ask) { a.EKU = []string{"1.2.3"} }, true, "", nil,
			"certificate_eku", false},
		{"signer expired", func(a *mdoc.Ask) { a.Now = a.Now.AddDate(20, 0, 0) }, true, "", nil,
			"certificate_validity", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := ask
			if tt.change != nil {
				tt.change(&a)
			}
			r := newZKResponse(issuer.Chain...)
			r.data["issuerSigned"] = zkNamespace(docType, zkItem(element, cbor.Bool(true)),
				zkItem("not_asked_for", cbor.Bool(true)))
			d, err := mdoc.ReadZKDocument(r.encode())
			if err != nil {
				t.Fatal(err)
			}
			asked := false
			p, rejected, err := a.VerifyZK(t.Context(), d,
				func(_ context.Context, s host.ProofStatement, proof []byte) (bool, string, error) {
					asked = true
					checkStatement(t, s, proof, &issuer.Key.PublicKey)
					return tt.shown, tt.rejected, tt.err
				})
			if asked != tt.asked || rejected != tt.rejected {
				t.Errorf("asked: %v; rejected: %q", asked, rejected)
			}
			if tt.err != nil {
				if !errors.Is(err, tt.err) || p.Elements != nil {
					t.Errorf("%v, %v", p, err)
				}
				return
			}
			if got := reasonOf(t, err); got != tt.want {
				t.Fatalf("refused for %q, want %q", got, tt.want)
			}
			if err != nil {
				return
			}
			if value, ok := p.Elements[element].Bool(); !ok || !value || len(p.Elements) != 1 ||
				p.Anchor.Certificate != issuer.Root || len(p.Path) != 1 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// checkStatement checks that the host receives the whole statement of the response.
func checkStatement(t *testing.T, s host.ProofStatement, proof []byte, issuer *ecdsa.PublicKey) {
	t.Helper()
	key, err := x509.ParsePKIXPublicKey(s.Issuer)
	if err != nil || !issuer.Equal(key) {
		t.Errorf("issuer %x", s.Issuer)
	}
	if s.Circuit != "circuit" || s.DocType != docType || s.Time.Format(time.RFC3339) != zkTime ||
		!slices.Equal(s.SessionTranscript, vectorTranscript) || string(proof) != "proof" {
		t.Errorf("%+v", s)
	}
	if len(s.Elements) != 2 || s.Elements[0].Identifier != element || s.Elements[0].Value[0] != 0xf5 ||
		s.Elements[1].Identifier != "not_asked_for" {
		t.Errorf("elements %+v", s.Elements)
	}
}

// FuzzReadZKDocument checks that no input breaks the reader, and that each result is within the limits.
func FuzzReadZKDocument(f *testing.F) {
	f.Add(newZKResponse([]byte("certificate")).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := mdoc.ReadZKDocument(b)
		if err != nil {
			reasonOf(t, err)
			return
		}
		if len(d.Elements) < 1 || len(d.Elements) > 4 || d.DocType == "" || d.Time.Nanosecond() != 0 {
			t.Fatalf("%+v", d)
		}
	})
}
