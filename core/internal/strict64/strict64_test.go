package strict64

import (
	"encoding/base64"
	"testing"
)

func TestDecode(t *testing.T) {
	for _, b := range []string{"", "a", "ab", "abc", "\xff\xfe\xfd"} {
		text := base64.RawURLEncoding.EncodeToString([]byte(b))
		if got, ok := Decode(text); !ok || string(got) != b {
			t.Errorf("%s: %q, %v, want %q", text, got, ok, b)
		}
	}
	for _, text := range []string{"YQ==", "YR", "Y", "Y Q", "YQ\n", "\nYQ", "Y\r\nWI", "_/", "+_", "YWJ="} {
		if got, ok := Decode(text); ok {
			t.Errorf("%q became %q, want it refused", text, got)
		}
	}
}

func TestDecodePadded(t *testing.T) {
	for text, want := range map[string]string{"": "", "YQ==": "a", "YQ": "a", "YWI=": "ab", "YWI": "ab",
		"YWJj": "abc"} {
		if got, ok := DecodePadded(text); !ok || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"YQ=", "YQ===", "YWI==", "YWJj=", "YWJj====", "=", "====", "Y===", "YR==",
		"YQ==\n", "YQ==YQ=="} {
		if got, ok := DecodePadded(text); ok {
			t.Errorf("%q became %q, want it refused", text, got)
		}
	}
}
