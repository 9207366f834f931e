package settings

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/method"
)

// mask is a Sealer for tests. It hides the claims after the purpose, so that another purpose does not open
// them.
type mask struct{ host.Sealer }

func (mask) Seal(purpose string, claims []byte) ([]byte, error) {
	out := append([]byte(purpose), claims...)
	for i := range out {
		out[i] ^= 0x55
	}
	return out, nil
}

func (mask) Open(purpose string, sealed []byte) ([]byte, time.Time, error) {
	out := bytes.Clone(sealed)
	for i := range out {
		out[i] ^= 0x55
	}
	claims, ok := bytes.CutPrefix(out, []byte(purpose))
	if !ok {
		return nil, time.Time{}, host.ErrNotAuthentic
	}
	return claims, time.Time{}, nil
}

// broken is a Sealer that cannot seal.
type broken struct{ host.Sealer }

func (broken) Seal(string, []byte) ([]byte, error) { return nil, errors.New("no key") }

func twoMethods() Config {
	return Config{Config: core.Config{BaseURL: "https://verge.example", Methods: []method.Config{
		{Name: "a", Kind: "oidc", Secrets: map[string]string{"client_secret": "canary7", "other": "canary8"}},
		{Name: "b", Kind: "oidc", Secrets: map[string]string{"client_secret": "canary9"}},
		{Name: "c", Kind: "sandbox"},
	}}}
}

func TestSealSecrets_RoundTrip(t *testing.T) {
	plain := twoMethods()
	sealed, err := SealSecrets(plain, mask{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(sealed)
	if err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("a secret is in the configuration: %s, %v", text, err)
	}
	if !reflect.DeepEqual(plain, twoMethods()) {
		t.Errorf("the original configuration has changed: %+v", plain)
	}
	if opened, err := OpenSecrets(sealed, mask{}); err != nil || !reflect.DeepEqual(opened, plain) {
		t.Errorf("%+v, %v", opened, err)
	}

	beside := twoMethods()
	beside.Keyring = json.RawMessage(`{}`)
	for name, f := range map[string]func(Config, host.Sealer) (Config, error){
		"sealed": SealSecrets, "opened": OpenSecrets,
	} {
		if got, err := f(beside, mask{}); err != nil || !reflect.DeepEqual(got, beside) {
			t.Errorf("next to a key ring they are %s: %+v, %v", name, got, err)
		}
	}
	if c, err := SealSecrets(plain, broken{}); err == nil || len(c.Methods) > 0 {
		t.Errorf("a host that cannot seal: %+v, %v", c, err)
	}
}

func TestOpenSecrets_Errors(t *testing.T) {
	sealed := func(purpose, method, name string) string {
		claims, err := json.Marshal(secret{method, name, "canary7"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := mask{}.Seal(purpose, claims)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	for _, c := range []struct{ name, secret, says string }{
		{"plain", "canary7", "not authentic"},
		{"of another purpose", sealed("webhook-secret", "a", "client_secret"), "not authentic"},
		{"of another method", sealed(host.MethodSecret, "b", "client_secret"), "another method or name"},
		{"of another name", sealed(host.MethodSecret, "a", "other"), "another method or name"},
		{"with padding", sealed(host.MethodSecret, "a", "client_secret") + "=", "not authentic"},
	} {
		config := Config{Config: core.Config{Methods: []method.Config{{Name: "a",
			Secrets: map[string]string{"client_secret": c.secret}}}}}
		got, err := OpenSecrets(config, mask{})
		if err == nil || !strings.Contains(err.Error(), "methods.a.secrets.client_secret: ") ||
			!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %+v, %v, want %q", c.name, got, err, c.says)
		}
	}
}
