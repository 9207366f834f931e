package trustlist

import (
	"strings"
	"testing"
)

// Exclusive XML Canonicalization 1.0, section 3, and Canonical XML 1.0, sections 1.1 and 2.3.
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ name, document, want string }{
		{"order of attributes: by namespace, then by name",
			`<a xmlns:y="urn:1" xmlns:x="urn:2" x:b="1" y:c="2" z="3" d="4"/>`,
			`<a xmlns:x="urn:2" xmlns:y="urn:1" d="4" z="3" y:c="2" x:b="1"></a>`},
		{"unused namespaces", `<a xmlns:x="urn:x" xmlns="urn:a"><b/></a>`, `<a xmlns="urn:a"><b></b></a>`},
		{"a namespace where it is used first", `<a xmlns:x="urn:x"><x:b><x:c/></x:b><x:d/></a>`,
			`<a><x:b xmlns:x="urn:x"><x:c></x:c></x:b><x:d xmlns:x="urn:x"></x:d></a>`},
		{"a prefix that is bound again",
			`<x:a xmlns:x="urn:1"><x:b xmlns:x="urn:2"><x:c xmlns:x="urn:1"/></x:b></x:a>`,
			`<x:a xmlns:x="urn:1"><x:b xmlns:x="urn:2"><x:c xmlns:x="urn:1"></x:c></x:b></x:a>`},
		{"a default namespace that ends", `<a xmlns="urn:a"><b xmlns=""><c xmlns="urn:a"/></b></a>`,
			`<a xmlns="urn:a"><b xmlns=""><c xmlns="urn:a"></c></b></a>`},
		{"no default namespace to end", `<a xmlns=""><b xmlns=""/></a>`, `<a><b></b></a>`},
		{"the attributes of XML", `<a xml:lang="en" b="c"><d xml:space="preserve"/></a>`,
			`<a b="c" xml:lang="en"><d xml:space="preserve"></d></a>`},
		{"characters of texts", `<a>&lt;&amp;&gt;"'&#13;&#9;]]&gt;</a>`,
			"<a>&lt;&amp;&gt;\"'&#xD;\t]]&gt;</a>"},
		{"characters of attributes", `<a b='&lt;&amp;>"&apos;&#13;&#9;&#10;'/>`,
			`<a b="&lt;&amp;>&quot;'&#xD;&#x9;&#xA;"></a>`},
		{"CDATA", `<a><![CDATA[<b>&amp;]]></a>`, `<a>&lt;b&gt;&amp;amp;</a>`},
		{"line ends", "<a>\r\nb\rc\n</a>", "<a>\nb\nc\n</a>"},
		{"comments", `<!-- 1 --><a>b<!-- 2 -->c</a><!-- 3 -->`, `<a>bc</a>`},
		{"the XML declaration", "<?xml version='1.0' encoding=\"utf-8\" standalone='yes' ?>\n<a />\n",
			`<a></a>`},
		{"other letters", `<a b="ä">€𝄞</a>`, `<a b="ä">€𝄞</a>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := readXML([]byte(c.document))
			if err != nil {
				t.Fatal(err)
			}
			got, err := canonical(root, nil)
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %v, want %s", got, err, c.want)
			}
		})
	}
}

// An element's form has the namespaces that it uses from around it.
func TestCanonical_Part(t *testing.T) {
	root, err := readXML([]byte(
		`<a xmlns="urn:a" xmlns:x="urn:x" xmlns:y="urn:y"><x:b c="d"><e/></x:b><f/></a>`))
	if err != nil {
		t.Fatal(err)
	}
	part := root.children[0].element
	if got, _ := canonical(part,
		nil); string(got) != `<x:b xmlns:x="urn:x" c="d"><e xmlns="urn:a"></e></x:b>` {
		t.Errorf("part: %s", got)
	}
	if got, _ := canonical(root, part); string(got) != `<a xmlns="urn:a"><f></f></a>` {
		t.Errorf("without the part: %s", got)
	}
}

// Declarations of namespaces are repeated where they are used, so a short document could have a long form.
func TestCanonical_Limit(t *testing.T) {
	root, err := readXML([]byte(`<a xmlns:x="urn:0123456789">` + strings.Repeat("<x:b/>", 30) + `</a>`))
	if err != nil {
		t.Fatal(err)
	}
	form, err := canonical(root, nil)
	if err != nil || len(form) != 7+30*(len(`<x:b xmlns:x="urn:0123456789"></x:b>`)) {
		t.Fatalf("%d bytes: %v", len(form), err)
	}
	if _, err := canonicalWithin(root, nil, len(form)); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	if _, err := canonicalWithin(root, nil, len(form)-1); err == nil || err.Reason != TooLarge {
		t.Errorf("above the limit: %v", err)
	}
}
