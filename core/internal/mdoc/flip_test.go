package mdoc_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/cbor"
	"github.com/verge-id/verge/core/internal/mdoc"
	"github.com/verge-id/verge/testharness/long"
)

// Every changed bit of a response is rejected, except in unprotected headers that are not read. The responses
// are from three programs: @owf/mdoc, @auth0/mdl and our own wallet.
func TestVerify_FlippedBits(t *testing.T) {
	byOWF := askOfVectors(t)
	x := readExchange(t, "exchange-jwt.json")
	byOWF.Transcript = unhex(t, x.SessionTranscript)
	auth0 := recordedAuth0(t)
	p, ours := present(t, newIssuer(between(1)))
	own, err := p.Response()
	if err != nil {
		t.Fatal(err)
	}
	stride := long.Pick(t, "TestVerify_FlippedBits", 31, 1)
	for _, c := range []struct {
		name     string
		response []byte
		ask      mdoc.Ask
		exempt   bool // whether there are headers that are not read
	}{
		{"@owf/mdoc", unhex(t, x.DeviceResponse), byOWF, false},
		{"@auth0/mdl", unhex(t, auth0.Asked), askOfAuth0(t, auth0), true},
		{"@auth0/mdl, with other elements", unhex(t, auth0.Licences), askOfAuth0(t, auth0), true},
		{"ours", own, ours, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := mdoc.Verify(t.Context(), c.response, c.ask)
			if outcome(t, p, err) != "" {
				t.Fatalf("without a change: %v", err)
			}
			exempt := unread(t, c.response)
			if (len(exempt) > 0) != c.exempt {
				t.Errorf("%d bytes are exempt", len(exempt))
			}
			changed := slices.Clone(c.response)
			for bit := 0; bit < 8*len(changed); bit += stride {
				if exempt[bit/8] {
					continue
				}
				changed[bit/8] ^= 1 << (bit % 8)
				second := bytes.Contains(changed, []byte("version\x631.1")) // which counts, too
				p, err := mdoc.Verify(t.Context(), changed, c.ask)
				if err == nil && len(p.Elements) > 0 && !second {
					t.Errorf("with bit %d of byte %d (%x) it is accepted", bit%8, bit/8, changed[bit/8])
				}
				changed[bit/8] ^= 1 << (bit % 8)
			}
		})
	}
}

// unread returns the places of all bytes of unprotected headers other than x5chain.
func unread(t *testing.T, response []byte) map[int]bool {
	t.Helper()
	const chain = 33
	top, err := cbor.Read(response, cbor.Options{Any: true})
	if err != nil {
		t.Fatal(err)
	}
	documents, _ := top.Member("documents").List()
	places := map[int]bool{}
	for _, signature := range []cbor.Item{
		documents[0].Member("issuerSigned").Member("issuerAuth"),
		documents[0].Member("deviceSigned").Member("deviceAuth").Member("deviceSignature"),
	} {
		parts, _ := signature.List()
		headers, _ := parts[1].Pairs()
		at := bytes.Index(response, signature.Raw()) + 1 + len(parts[0].Raw()) + 1 // behind the heads of both
		for _, h := range headers {
			size := len(h.Key.Raw()) + len(h.Value.Raw())
			if label, _ := h.Key.Integer(); label != chain {
				for n := range size {
					places[at+n] = true
				}
			}
			at += size
		}
	}
	return places
}
