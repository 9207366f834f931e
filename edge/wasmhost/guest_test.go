package wasmhost

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/wasm/settings"
)

// ring returns a key ring for tests, whose nonces all differ.
func ring(t *testing.T) host.Sealer {
	t.Helper()
	file, err := keyring.Parse([]byte(`{"version":1,"keys":[{"id":"9f02ab31",` +
		`"secret":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8","created":"2026-11-20T22:10:00Z"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := file.Ring("verge.example", &counter{}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counter is a source of bytes that never repeats.
type counter struct{ n byte }

func (c *counter) Read(p []byte) (int, error) {
	c.n++
	copy(p, bytes.Repeat([]byte{c.n}, len(p)))
	return len(p), nil
}

// If the host seals, the configuration of a guest contains no secret of a method in plain text. Each guest
// gets secrets that were sealed only for it (contract 13, 41).
func TestConfig_SealedSecrets(t *testing.T) {
	c := Config{
		Guest: settings.Config{Config: core.Config{BaseURL: "https://verge.example", Methods: []method.Config{
			{Name: "bankid", Kind: "oidc", Secrets: map[string]string{"client_secret": "canary7"}},
		}}},
	}
	plain, err := c.guest()
	if err != nil || !strings.Contains(string(plain), "canary7") {
		t.Errorf("without a Sealer the guest gets %s, %v", plain, err)
	}
	c.Sealer = ring(t)
	first, err1 := c.guest()
	second, err2 := c.guest()
	if err1 != nil || err2 != nil || strings.Contains(string(first), "canary7") ||
		bytes.Equal(first, second) {
		t.Errorf("%v %v\n%s\n%s", err1, err2, first, second)
	}
	for _, sealed := range [][]byte{first, second} {
		read, err := settings.Read(sealed)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := settings.OpenSecrets(read, c.Sealer)
		if err != nil || opened.Methods[0].Secrets["client_secret"] != "canary7" {
			t.Errorf("%+v, %v", opened.Methods, err)
		}
	}

	c.Guest.Methods[0].Settings = json.RawMessage("{")
	if b, err := c.guest(); err == nil {
		t.Errorf("settings that are not JSON: %s", b)
	}
}
