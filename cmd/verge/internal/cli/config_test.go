package cli

import (
	"testing"

	"github.com/spf13/afero"
)

// FuzzConfig shows that no file makes the check panic, and that it refuses every file with a problem.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(exampleConfig))
	f.Add([]byte(configFor("test", "memory", "https://shop.example.com/hooks", "HOOK")))
	f.Add([]byte("mode = \"test\"\n[listen]\nadmin = \":::\"\n[[integrations]]\nwebhook_off = true\n"))
	f.Add([]byte("trusted_proxies = [\"::ffff:0.0.0.0/0\", \"fe80::1%eth0\"]"))
	f.Add([]byte("unknown = 1\n[unknown2]\na.b = 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, _, _ := testProgram()
		p.getenv = func(string) (string, bool) { return "", false }
		if err := afero.WriteFile(p.fs, "/verge.toml", b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := (&configFlags{Config: "/verge.toml"}).plan(p)
		if err == nil {
			t.Errorf("accepted without a key ring: %s", b)
		}
		if err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
	})
}
