package trustlist

import (
	"bytes"
	"slices"
	"testing"

	"github.com/verge-id/verge/core/cbor"
)

// FuzzRead changes signed lists. No one has the key, so an accepted document has the content of the signed
// one.
func FuzzRead(f *testing.F) {
	x, j, v := newXMLList(f), newJSONList(f), newVICAL(f)
	signed := map[Format]struct {
		document []byte
		expected Expected
	}{
		TS119612: {x.build(f), x.expected()}, TS119602: {j.build(f), j.expected()}, VICAL: {v.build(f),
			v.expected()},
	}
	want := map[Format]List{}
	for format, s := range signed {
		list, err := Read(format, s.document, s.expected, at)
		if err != nil {
			f.Fatal(err)
		}
		want[format] = list
		f.Add(string(format), s.document)
	}
	f.Add(string(TS119612),
		[]byte(`<?xml version="1.0"?><!DOCTYPE a><a xmlns="urn:a" b="c">d<!-- e --><![CDATA[f]]></a>`))
	f.Add(string(TS119602), []byte(`{"payload":"","signatures":[{"protected":"e30","signature":""}]}`))
	f.Fuzz(func(t *testing.T, format string, document []byte) {
		s := signed[Format(format)]
		before := slices.Clone(document)
		list, err := Read(Format(format), document, s.expected, at)
		if !bytes.Equal(document, before) {
			t.Fatal("Read has changed the document")
		}
		if reasonOf(t, err) == "" && !sameList(list, want[Format(format)]) {
			t.Fatalf("accepted: %+v", list)
		}
	})
}

// FuzzContent reads content as if its signature were right.
func FuzzContent(f *testing.F) {
	x, j, v := newXMLList(f), newJSONList(f), newVICAL(f)
	f.Add(string(TS119612), []byte(rootStart+x.schemeAndProviders()+rootEnd))
	_, payload, _ := j.parts(f)
	lote, _ := decodeBase64URL(payload)
	f.Add(string(TS119602), lote)
	vicalPayload, _ := v.parts(f)[2].Bytes()
	f.Add(string(VICAL), vicalPayload)
	f.Fuzz(func(t *testing.T, format string, content []byte) {
		var list List
		var err *Error
		switch Format(format) {
		case TS119612:
			var root *element
			if root, err = readXML(content); err == nil {
				list, err = readXMLList(root, []string{typePAA}, at)
			}
		case TS119602:
			var payload object
			if payload, err = readJSON(content); err == nil {
				list, err = readLoTE(payload, []string{typePID}, at)
			}
		default:
			payload, problem := cbor.Read(content, vicalOptions)
			if problem != nil {
				return
			}
			list, err = readVICALPayload(payload, docTypeMDL, at)
		}
		if err != nil {
			return
		}
		for _, e := range list.Entries {
			if e == nil || at.After(e.NotAfter) {
				t.Fatalf("entry: %+v", e)
			}
		}
	})
}

// FuzzCanonical checks that the canonical form of a canonical form is the same.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(rootStart + newXMLList(f).schemeAndProviders() + rootEnd))
	f.Add([]byte(
		`<a:b xmlns:a="urn:a" xmlns="urn:b" c='&lt;"&#10;' a:d=""><e xmlns="">]]&gt;&#13;</e><f/></a:b>`))
	f.Fuzz(func(t *testing.T, document []byte) {
		root, err := readXML(document)
		if err != nil {
			return
		}
		form, err := canonical(root, nil)
		if err != nil {
			return
		}
		again, err := readXML(form)
		if err != nil {
			t.Fatalf("the canonical form cannot be read: %s", form)
		}
		second, err := canonical(again, nil)
		if err != nil || !bytes.Equal(form, second) {
			t.Fatalf("canonical forms differ:\n%s\n%s", form, second)
		}
	})
}
