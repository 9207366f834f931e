package config

import (
	"testing"

	"github.com/spf13/afero"
)

// FuzzConfig shows that no file makes the check panic, and that it rejects every file with a problem.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(Example))
	f.Add([]byte("mode = \"test\"\nbase_url = \"https://verify.example.com\"\nkv = \"memory\"\n" +
		"keyring = \"/ring.json\"\n[[publishers]]\nid = \"pub_example\"\n[[integrations]]\n" +
		"id = \"0198c5f2-7a4e-7c31-9b0f-2f1d4c8e6a01\"\npublisher = \"pub_example\"\nlevel = \"L1\"\n" +
		"challenge_age = 25\nmethod = \"sandbox\"\nwebhook_url = \"https://shop.example.com/hooks\"\n" +
		"secret_env = \"HOOK\"\n"))
	f.Add([]byte("mode = \"test\"\n[listen]\nadmin = \":::\"\n[[integrations]]\nwebhook_off = true\n"))
	f.Add([]byte("trusted_proxies = [\"::ffff:0.0.0.0/0\", \"fe80::1%eth0\"]"))
	f.Add([]byte("unknown = 1\n[unknown2]\na.b = 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sys := testSystem()
		if err := afero.WriteFile(sys.FS, "/verge.toml", b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := (&Flags{Config: "/verge.toml"}).Plan(sys)
		if err == nil {
			t.Errorf("accepted without a key ring: %s", b)
		}
		if err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
	})
}
