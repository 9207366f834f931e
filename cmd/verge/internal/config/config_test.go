package config

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/afero"
)

// Contract 46: the example has each setting of the file.
func TestExample_EverySetting(t *testing.T) {
	for _, name := range namesOf(reflect.TypeFor[File]()) {
		if name == "method" { // the older form of methods
			continue
		}
		if !regexp.MustCompile(`(?m)\b` + name + `( *=|\.|\])`).MatchString(Example) {
			t.Errorf("example.toml has no %s", name)
		}
	}
}

// SIGHUP reads publishers, integrations and the module again, and no other setting.
func TestNeedRestart_Settings(t *testing.T) {
	for _, c := range []struct {
		rule   string
		change func(*File)
		want   string
	}{
		{"the same values", func(f *File) { n := 3; f.Attempts = &n }, ""},
		{"a setting", func(f *File) { f.Attempts = nil }, "attempts"},
		{"settings of tables", func(f *File) { f.Listen.Public, f.Drain.Delay = ":1", "5s" },
			"listen.public drain.delay"},
		{"methods", func(f *File) { f.Methods = []map[string]any{{"name": "x"}} }, "methods"},
		{"publishers and integrations", func(f *File) {
			f.Publishers, f.Integrations = []publisherConfig{{}}, []integrationConfig{{}}
		}, ""},
		{"the module", func(f *File) { f.Engine.Module, f.Engine.MinVersion = "/m", 2 }, ""},
		{"the engine", func(f *File) { f.Engine.Name = "wasm" }, "engine.name"},
	} {
		n := 3
		running := File{Attempts: &n}
		next := running
		c.change(&next)
		if got := strings.Join(NeedRestart(running, next), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.rule, got, c.want)
		}
	}
}

// namesOf returns the names of the settings in a struct of the file.
func namesOf(of reflect.Type) (names []string) {
	for n := range of.NumField() {
		f := of.Field(n)
		if name := f.Tag.Get("toml"); name != "" && name != "-" {
			names = append(names, name)
		}
		inner := f.Type
		for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			names = append(names, namesOf(inner)...)
		}
	}
	return names
}

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
