package uuid

import (
	"bytes"
	"strings"
	"testing"
)

const example = "694069ac-4d4e-475f-906b-2f11c5eca7bd"

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // the canonical form, "" if it is rejected
	}{
		{"lower case", example, example},
		{"upper case is read and written in lower case", strings.ToUpper(example), example},
		{"all zeros", "00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000000"},
		{"empty", "", ""},
		{"no hyphens", strings.ReplaceAll(example, "-", ""), ""},
		{"braces", "{" + example + "}", ""},
		{"URN", "urn:uuid:" + example, ""},
		{"prefix of events", "int_" + example, ""},
		{"too short", example[:35], ""},
		{"too long", example + "0", ""},
		{"hyphen in another place", "694069ac4-d4e-475f-906b-2f11c5eca7bd", ""},
		{"a digit for the first hyphen", "694069aca4d4e-475f-906b-2f11c5eca7bd", ""},
		{"a digit for the second hyphen", "694069ac-4d4ea475f-906b-2f11c5eca7bd", ""},
		{"a digit for the third hyphen", "694069ac-4d4e-475fa906b-2f11c5eca7bd", ""},
		{"an underscore for the last hyphen", "694069ac-4d4e-475f-906b_2f11c5eca7bd", ""},
		{"a letter that is no digit", "g94069ac-4d4e-475f-906b-2f11c5eca7bd", ""},
		{"a hyphen for a digit", "-94069ac-4d4e-475f-906b-2f11c5eca7bd", ""},
		{"space", " 94069ac-4d4e-475f-906b-2f11c5eca7bd", ""},
		{"36 bytes that are fewer characters", "694069ac-4d4e-475f-906b-2f11c5eca7é", ""},
	} {
		t.Run("spec, integration_id: "+c.name, func(t *testing.T) {
			u, err := Parse(c.text)
			if c.want == "" {
				if err == nil {
					t.Errorf("%q is read as %x", c.text, u)
				}
				return
			}
			if err != nil || Format(u) != c.want {
				t.Errorf("%q is read as %s, %v", c.text, Format(u), err)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for _, from := range []byte{0x00, 0xf0} {
		text, err := New(bytes.NewReader(bytes.Repeat([]byte{from}, 16)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(text); err != nil || text[14] != '4' || !strings.Contains("89ab", text[19:20]) {
			t.Errorf("%s is not a UUID of version 4 (%v)", text, err)
		}
	}
	if text, err := New(bytes.NewReader(nil)); err == nil {
		t.Errorf("without randomness it made %s", text)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{example, strings.ToUpper(example), "", example[1:],
		"694069ac-4d4e-475f-906b-2f11c5eca7bg"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if u, err := Parse(s); err == nil && Format(u) != strings.ToLower(s) {
			t.Errorf("%q is read as %s", s, Format(u))
		}
	})
}
