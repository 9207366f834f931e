package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/wait"
)

// TestCheck_OpenIDProvider: --check prints the issuer and the keys, and the first key signs (contract 50).
func TestCheck_OpenIDProvider(t *testing.T) {
	keys := map[string]string{"/a.pem": pemKey(t, newECKey(t)), "/b.pem": pemKey(t, newECKey(t))}
	lines := regexp.MustCompile(`OpenID provider: (.*)key ([\w-]{43}) (.*)\n`)
	check := func(files string) [][]string {
		p := methodFilesFor(t, files+aBank, `method = "bank"`)
		for name, text := range keys {
			if err := afero.WriteFile(p.FS, name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
		if code != exitOK {
			t.Fatalf("--check ends with %d: %s", code, said)
		}
		return lines.FindAllStringSubmatch(said, -1)
	}
	one := check("[oidc_provider]\nprivate_key_files = [\"/a.pem\"]\n")
	if len(one) != 1 || one[0][1] != "issuer https://verify.example.com/oidc, ES256, " ||
		one[0][3] != "signs" {
		t.Fatalf("contract 50: %q", one)
	}
	two := check("[oidc_provider]\nprivate_key_files = [\"/b.pem\", \"/a.pem\"]\n")
	if len(two) != 2 || two[0][3] != "signs" || two[0][2] == one[0][2] || two[1][2] != one[0][2] ||
		two[1][3] != "is published but does not sign" {
		t.Errorf("contract 50: during a rotation: %q", two)
	}
	if none := check(""); len(none) != 0 {
		t.Errorf("contract 50: without a key: %q", none)
	}
}

// TestHangUp_ProviderKeys: changed keys need a restart, and the log warns of them (contract 50).
func TestHangUp_ProviderKeys(t *testing.T) {
	t.Parallel()
	site := newSite(t, "memory", newEvents(t).URL, unlimited)
	whole, err := os.ReadFile(site.config)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "provider.pem")
	write := func(path, text string) {
		t.Helper()
		if err := config.WritePrivate(afero.NewOsFs(), path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write(key, pemKey(t, newECKey(t)))
	with := strings.Replace(string(whole), "[[publishers]]",
		fmt.Sprintf("[oidc_provider]\nprivate_key_files = [%q]\n\n[[publishers]]", key), 1)
	write(site.config, with)
	in := site.start()
	const warning = "SIGHUP: changed keys of the OpenID provider need a restart"
	hangUp := func(warnings int, when string) {
		t.Helper()
		const done = "SIGHUP: publishers and integrations were read again"
		before := strings.Count(in.logs.String(), done)
		in.hangUp(t)
		wait.Until(t, done, func() bool { return strings.Count(in.logs.String(), done) > before })
		if got := strings.Count(in.logs.String(), warning); got != warnings {
			t.Errorf("contract 50: %s: %d warnings, want %d: %s", when, got, warnings, in.logs)
		}
	}
	hangUp(0, "the same key")
	write(key, pemKey(t, newECKey(t)))
	hangUp(1, "another key in the file")
	write(site.config, string(whole))
	if strings.Contains(in.logs.String(), "changed settings need a restart") {
		t.Errorf("a warning without a change of the file: %s", in.logs)
	}
	hangUp(2, "no key")
	if want := `"settings":"oidc_provider.private_key_files"`; !strings.Contains(in.logs.String(), want) {
		t.Errorf("the log has no %s: %s", want, in.logs)
	}
}

// TestIntegrationFlags_RedirectURIs: the flag has one address, which may have commas (contract 50).
func TestIntegrationFlags_RedirectURIs(t *testing.T) {
	for _, c := range []struct {
		rule string
		args []string
		want string
	}{
		{"contract 50: a comma is part of an address", []string{"--redirect-uris", "https://a.example/x,y"},
			`"redirect_uris":["https://a.example/x,y"]`},
		{"contract 50: the flag is repeated", []string{"--redirect-uris", "https://a.example/x",
			"--redirect-uris=https://b.example/?a=1,2"},
			`"redirect_uris":["https://a.example/x","https://b.example/?a=1,2"]`},
		{"contract 50: a list is an error",
			[]string{"--redirect-uris", "https://a.example/x,https://b.example/"}, ""},
		{"contract 50: none", []string{"--redirect-uris", ""}, `"redirect_uris":[]`},
		{"contract 42: not given", []string{"--callback-origins", "https://a.example,https://b.example"},
			`"callback_origins":["https://a.example","https://b.example"]`},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var body string
			admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				body = string(text)
				w.WriteHeader(http.StatusConflict)
			}))
			defer admin.Close()
			p := serveFiles(t, nil)
			code := run(context.Background(), append([]string{"integration", "change", testIntegration,
				"--admin-url", admin.URL}, c.args...), p)
			if !strings.Contains(body, c.want) || (c.want == "") != (body == "" && code == exitUsage) {
				t.Errorf("the request has %s, want %s; exit code %d", body, c.want, code)
			}
		})
	}
}
