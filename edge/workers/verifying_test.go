package workers_test

import (
	"testing"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/testharness/verifytest"
	"github.com/verge-id/verge/testharness/workerd"
	"github.com/verge-id/verge/wasm/abi"
	"github.com/verge-id/verge/wasm/effect"
	"github.com/verge-id/verge/wasm/settings"
)

// WebCrypto verifies the same signatures as the standard library (contract 41).
func TestVerify(t *testing.T) {
	guest := settings.Config{Config: core.Config{Dev: true}, Keyring: newKeyring(t), Host: "x"}
	site := workerd.Shared(t).Site(t, workerd.Config{Guest: guest})
	verifytest.Run(t, effect.Verifier(site.Effect).Verify)
	for name, body := range map[string][]byte{"empty": nil, "malformed": {1, 2}} {
		if status, reply := site.Effect(abi.Verify, body); status != abi.Unavailable {
			t.Errorf("%s: status %d, %q", name, status, reply)
		}
	}
}
