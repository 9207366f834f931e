package formdata

import (
	"maps"
	"net/url"
	"slices"
	"testing"
)

func TestReadParameters(t *testing.T) {
	for _, c := range []struct {
		rule, text string
		want       url.Values // nil: a ParameterError of code
	}{
		{"parameters", "code=a&state=b", url.Values{"code": {"a"}, "state": {"b"}}},
		{"percent encoding and a plus", "code=a%26b+c%2B%C3%A9", url.Values{"code": {"a&b c+é"}}},
		{"an encoded name", "c%6Fde=a", url.Values{"code": {"a"}}},
		{"an empty value", "code=&state", url.Values{"code": {""}, "state": {""}}},
		{"none", "", url.Values{}},
		{"empty pairs", "&&code=a&", url.Values{"code": {"a"}}},
		{"an equals sign in the value", "code=a=b", url.Values{"code": {"a=b"}}},
		{"RFC 6749, 4.1.2: an unknown parameter", "code=a&session_state=b", url.Values{"code": {"a"}}},
		{"RFC 6749, 4.1.2: an unknown parameter twice", "code=a&x=1&x=2&x=1", url.Values{"code": {"a"}}},
		{"RFC 6749, 4.1.2: an unknown parameter with a semicolon", "code=a&x=b;c&;&x;y=1",
			url.Values{"code": {"a"}}},
		{"RFC 6749, 4.1.2: an unknown parameter in bad encoding", "code=a&x=%zz&y=%&z=%e9&%zz=1&%=2",
			url.Values{"code": {"a"}}},
		{"RFC 6749, 4.1.2: an unknown parameter that begins like ours",
			"code=a&code[]=b&code[0]=c&Code=d&code%00=e",
			url.Values{"code": {"a"}}},
		{"a semicolon separates nothing", "code=a;state=b", url.Values{"code": {"a;state=b"}}},
		{"contract 22: our parameter twice", "code=a&code=b", nil},
		{"contract 22: our parameter twice with one value", "code=a&x=1&code=a", nil},
		{"contract 22: our parameter twice, once empty", "code&code=a", nil},
		{"contract 22: our parameter twice, once with an encoded name", "code=a&%63ode=b", nil},
		{"contract 22: our parameter in bad encoding", "code=%zz", nil},
		{"contract 22: our parameter cut in an escape", "state=b&code=a%4", nil},
		{"contract 22: our parameter in no UTF-8", "code=%e9", nil},
		{"contract 22: our parameter in raw bytes", "code=\xe9", nil},
	} {
		got, err := ReadParameters(c.text, "code", "state")
		if c.want == nil {
			if err != error(ParameterError("code")) || got != nil {
				t.Errorf("%s: %q gives %v, %v", c.rule, c.text, got, err)
			}
			continue
		}
		if err != nil || !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: %q gives %v, %v, want %v", c.rule, c.text, got, err, c.want)
		}
	}
}

func TestReadOAuth(t *testing.T) {
	for _, c := range []struct {
		rule, text string
		want       url.Values // nil: a ParameterError of code
	}{
		{"RFC 6749, 3.1: without a value", "code=a&state=", url.Values{"code": {"a"}}},
		{"RFC 6749, 3.1: without an equals sign", "state&code=a", url.Values{"code": {"a"}}},
		{"a space is a value", "code=a&state=+", url.Values{"code": {"a"}, "state": {" "}}},
		{"contract 22: our parameter twice, once empty", "code&code=a", nil},
		{"contract 22: our parameter in bad encoding", "code=%zz", nil},
	} {
		got, err := ReadOAuth(c.text, "code", "state")
		bad := err == error(ParameterError("code"))
		if (c.want == nil) != bad || !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: %q gives %v, %v, want %v", c.rule, c.text, got, err, c.want)
		}
	}
}
