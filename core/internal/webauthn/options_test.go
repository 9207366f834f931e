package webauthn_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/internal/webauthn"
)

func TestNewRelyingParty(t *testing.T) {
	for _, c := range []struct {
		rule, id, name, origins string // the origins are separated by spaces
		ok                      bool
	}{
		{"a host", "verify.example", "V", "https://verify.example", true},
		{"a host and one below it", "verify.example", "V",
			"https://verify.example https://a.b.verify.example", true},
		{"only one below it", "verify.example", "V", "https://a.verify.example", true},
		{"a port", "verify.example", "V", "https://verify.example:8443", true},
		{"an international name as browsers write it", "xn--mller-kva.example", "V",
			"https://xn--mller-kva.example", true},
		{"http on localhost", "localhost", "V", "http://localhost:8080", true},
		{"https on localhost", "localhost", "V", "https://localhost", true},
		{"http below localhost", "a.localhost", "V", "http://a.localhost:8080", true},
		{"http elsewhere", "verify.example", "V", "http://verify.example", false},
		{"an IPv4 address", "127.0.0.1", "V", "http://127.0.0.1:8080", false},
		{"an IPv6 address", "[::1]", "V", "http://[::1]", false},
		{"an origin that is an address", "localhost", "V", "http://127.0.0.1", false},
		{"no id", "", "V", "https://verify.example", false},
		{"an id with a port", "verify.example:443", "V", "https://verify.example", false},
		{"an id with a scheme", "https://verify.example", "V", "https://verify.example", false},
		{"an id in upper case", "Verify.example", "V", "https://verify.example", false},
		{"an id with a dot behind it", "verify.example.", "V", "https://verify.example", false},
		{"an id that is not ASCII", "müller.example", "V", "https://müller.example", false},
		{"no name", "verify.example", "", "https://verify.example", false},
		{"no origin", "verify.example", "V", "", false},
		{"another host", "verify.example", "V", "https://evil.example", false},
		{"a host that ends alike", "verify.example", "V", "https://evilverify.example", false},
		{"a host above", "a.verify.example", "V", "https://verify.example", false},
		{"one wrong origin of two", "verify.example", "V", "https://verify.example https://evil.example",
			false},
		{"a path", "verify.example", "V", "https://verify.example/", false},
		{"a port that browsers do not write", "verify.example", "V", "https://verify.example:443", false},
		{"port 80 on localhost", "localhost", "V", "http://localhost:80", false},
		{"an empty port", "verify.example", "V", "https://verify.example:", false},
		{"a user", "verify.example", "V", "https://u@verify.example", false},
		{"an origin in upper case", "verify.example", "V", "https://VERIFY.example", false},
	} {
		rp, err := webauthn.NewRelyingParty(c.id, c.name, strings.Fields(c.origins)...)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.rule, err)
		}
		if _, err := webauthn.RequestOptions(rp, challenge); (err == nil) != c.ok {
			t.Errorf("%s: options: %v", c.rule, err)
		}
	}
}

// wrote compares JSON by value.
func wrote(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(want)); err != nil {
		t.Fatal(err)
	}
	if string(got) != compact.String() {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, &compact)
	}
}

func TestCreationOptions(t *testing.T) {
	const want = `{
		"rp": {"id": "verify.example", "name": "Verify"},
		"user": {"id": "aGFuZGxlLTE", "name": "ada@example", "displayName": "Ada"},
		"challenge": "xRf7PsUX-z7FF_s-xRf7PsUX-z7FF_s-xRf7PsUX-z4",
		"pubKeyCredParams": [
			{"type": "public-key", "alg": -7}, {"type": "public-key", "alg": -8}, {"type": "public-key", "alg": -257}
		],
		"timeout": 300000,
		"excludeCredentials": [%],
		"authenticatorSelection": {
			"residentKey": "required", "requireResidentKey": true, "userVerification": "required"
		},
		"attestation": "none"
	}`
	wrote(t, "nothing excluded", options(t), strings.Replace(want, "%", "", 1))
	got, err := webauthn.CreationOptions(party(t), challenge, testUser, [][]byte{{1}, {0xff, 0xfe}})
	if err != nil {
		t.Fatal(err)
	}
	wrote(t, "two excluded", got, strings.Replace(want, "%",
		`{"type": "public-key", "id": "AQ"}, {"type": "public-key", "id": "__4"}`, 1))
}

func TestRequestOptions(t *testing.T) {
	const want = `{
		"challenge": "xRf7PsUX-z7FF_s-xRf7PsUX-z7FF_s-xRf7PsUX-z4", "timeout": 300000, "rpId": "verify.example",
		"allowCredentials": [], "userVerification": "required"
	}`
	wrote(t, "any", requestOptions(t), want)
}

// Browsers reject options without a displayName.
func TestCreationOptions_DisplayName(t *testing.T) {
	got, err := webauthn.CreationOptions(party(t), challenge, webauthn.User{Handle: []byte{1}, Name: "a"},
		nil)
	if err != nil || !bytes.Contains(got, []byte(`"user":{"id":"AQ","name":"a","displayName":""}`)) {
		t.Errorf("got %s, %v", got, err)
	}
}

// Options are embedded in pages, so their text must not end an HTML element.
func TestOptions_SafeInPages(t *testing.T) {
	user := webauthn.User{Handle: []byte{1}, Name: "</script>", DisplayName: `"&'<`}
	got, err := webauthn.CreationOptions(party(t), challenge, user, nil)
	if err != nil || bytes.ContainsAny(got, "<>&") {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestOptions_Invalid(t *testing.T) {
	rp := party(t)
	for name, c := range map[string]struct {
		party     webauthn.RelyingParty
		challenge []byte
		user      webauthn.User
	}{
		"a zero relying party":  {webauthn.RelyingParty{}, challenge, testUser},
		"no challenge":          {rp, nil, testUser},
		"a short challenge":     {rp, challenge[:15], testUser},
		"a user without handle": {rp, challenge, webauthn.User{Name: "a"}},
		"a handle of 65 bytes":  {rp, challenge, webauthn.User{Handle: make([]byte, 65), Name: "a"}},
		"a user without a name": {rp, challenge, webauthn.User{Handle: []byte{1}}},
		"a zero user":           {rp, challenge, webauthn.User{}},
	} {
		if got, err := webauthn.CreationOptions(c.party, c.challenge, c.user, nil); err == nil {
			t.Errorf("%s: options %s", name, got)
		}
	}
	for name, c := range map[string][]byte{"no challenge": nil, "a short challenge": challenge[:15]} {
		if got, err := webauthn.RequestOptions(rp, c); err == nil {
			t.Errorf("%s: options %s", name, got)
		}
	}
}
