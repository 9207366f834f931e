package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/method/openid4vp"
)

const recordedDID = "did:webvh:QmdRkbenqHP2kZo39CVBMFYqF35dPqFr1cqYs53F7PGMJe:registry.example:api:v1:did:1"

// The printed keys are a file for issuer_keys.
func TestMethodDIDKeys(t *testing.T) {
	log, err := os.ReadFile("../webvh/testdata/didwebvh-ts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	p, out, errs := testProgram()
	for path, b := range map[string][]byte{"/did.jsonl": log, "/other.jsonl": log[:len(log)/2]} {
		if err := afero.WriteFile(p.FS, path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	didKeys := func(args ...string) int {
		return run(t.Context(), append([]string{"method", "did-keys"}, args...), p)
	}
	if code := didKeys(recordedDID, "--from", "/did.jsonl"); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if !strings.Contains(errs.String(), "3 entries") || !strings.Contains(errs.String(), "2 keys") {
		t.Errorf("contract 39: it reports %q", errs)
	}
	settings, err := json.Marshal(map[string]any{"profile": "swiyu", "issuer_keys": []string{out.String()},
		"vct_values": []string{"urn:ch.admin.fedpol.eid"}, "key_id": recordedDID + "#a"})
	if err != nil {
		t.Fatal(err)
	}
	if wrong := openid4vp.Kind.Check(method.Config{Name: "w", Kind: "openid4vp", Settings: settings,
		Keys: []string{"private_key"}}); len(wrong) > 0 {
		t.Errorf("contract 39: the settings do not accept the keys: %v", wrong)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"another DID": {[]string{strings.Replace(recordedDID, "did:1", "did:2", 1), "--from", "/did.jsonl"},
			1, "the document is of"},
		"a damaged log": {[]string{recordedDID, "--from", "/other.jsonl"}, 1, "entry 2"},
		"no file":       {[]string{recordedDID, "--from", "/none"}, 1, "/none"},
		"no DID":        {[]string{"did:web:registry.example"}, 2, "no DID such as"},
		"a private one": {[]string{"did:webvh:Qm:127.0.0.1:a"}, 1, "fetching https://127.0.0.1/a/did.jsonl"},
	} {
		out.Reset()
		errs.Reset()
		if code := didKeys(c.args...); code != c.code || !strings.Contains(errs.String(), c.want) ||
			out.String() != "" {
			t.Errorf("contract 39: %s: exit %d, %s%s", name, code, errs, out)
		}
	}
}
