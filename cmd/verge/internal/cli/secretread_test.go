package cli

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/verge-id/verge/cmd/verge/internal/config"
)

// readings are texts of a secret, and the errors of rejected ones (contract 13).
var readings = []struct{ rule, before, behind, says string }{
	{rule: "contract 13: as it is"},
	{rule: "contract 13: a newline behind it", behind: "\n"},
	{rule: "contract 13: CRLF behind it", behind: "\r\n"},
	{rule: "contract 13: a byte order mark", before: "\ufeff", behind: "\n"},
	{rule: "contract 13: white space around it", before: " \t", behind: "\u00a0 "},
	{rule: "contract 13: two lines", behind: "\nsecond", says: "it has more than one line"},
	{rule: "contract 13: a zero-width space", behind: "\u200b", says: "is not printable ASCII"},
	{rule: "contract 13: a tab inside", behind: "\tx", says: "is not printable ASCII"},
	{rule: "contract 13: UTF-16", before: "\xff\xfe", says: "it is in UTF-16; save it as UTF-8"},
}

// TestSecretsFromOutside: every secret is read in the same way from every source, and --check rejects a
// faulty one in the same words.
func TestSecretsFromOutside(t *testing.T) {
	written := configFor("test", "rediss://127.0.0.1", "https://shop.example.com/hooks", "HOOK")
	inFile := strings.Replace(written, `secret_env = "HOOK"`, `secret_file = "/secret"`, 1)
	const bank = "[[methods]]\nname = \"bank\"\nkind = \"oidc\"\n[methods.oidc]\nissuer = " +
		"\"https://bank.example\"\n" +
		"client_id = \"verge\"\nproof = { claim = [\"adult\"], equals = true, age = 18 }\n"
	for _, source := range []struct {
		name, config, variable, value string // the secret is in the variable, or else in /secret
		named                         string // in the message
	}{
		{"a webhook's secret in a variable", written, "HOOK", testSecret, "secret_env: HOOK: "},
		{"a webhook's secret in a file", inFile, "", testSecret, "secret_file: /secret: "},
		{"a credential of systemd", strings.Replace(inFile, "/secret", "hook", 1), "", testSecret,
			"secret_file: /run/credentials/hook: "},
		{"the operator token in a variable", written, config.OperatorTokenVariable, testToken,
			config.OperatorTokenVariable + ": "},
		{"the operator token in a file", "operator_token_file = \"/secret\"\n" + written, "", testToken,
			"operator_token_file: /secret: "},
		{"the store's URL in a variable", written, "VERGE_KV", "rediss://:pass@127.0.0.1", "kv: VERGE_KV: "},
		{"the store's password in a variable", written, "VERGE_KV_PASSWORD", "pass word",
			"VERGE_KV_PASSWORD: "},
		{"the store's password in a file", written + "[store]\npassword_file = \"/secret\"\n", "",
			"pass word", "store.password_file: /secret: "},
		{"a client secret in a file", written + bank + "client_secret_file = \"/secret\"\n", "",
			"client-secret",
			"client_secret_file: /secret: "},
		{"a client secret in a variable", written + bank + "client_secret_env = \"CLIENT\"\n", "CLIENT",
			"client-secret", "client_secret_env: CLIENT: "},
	} {
		for _, c := range readings {
			t.Run(source.name+", "+c.rule, func(t *testing.T) {
				text := c.before + source.value + c.behind
				p := serveFiles(t, map[string]string{"/secret": text, "/run/credentials/hook": text,
					"/verge.toml": source.config})
				inherited := p.Getenv
				p.Getenv = func(name string) (string, bool) {
					switch {
					case name == source.variable:
						return text, true
					case name == "CREDENTIALS_DIRECTORY":
						return "/run/credentials", true
					case name == config.OperatorTokenVariable && strings.Contains(source.config,
						"operator_token_file"):
						return "", false
					}
					return inherited(name)
				}
				code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
				if c.says == "" && code != exitOK {
					t.Errorf("it is refused: %s", said)
				}
				if c.says != "" && (code != exitUsage || !strings.Contains(said, source.named) ||
					!strings.Contains(said, c.says) || strings.Contains(said, source.value)) {
					t.Errorf("exit code %d: %s", code, said)
				}
			})
		}
	}
}

// TestSecretsFromOutside_Pasted has a private key in each setting that names a file with a secret. The
// message names the setting and does not repeat the key.
func TestSecretsFromOutside_Pasted(t *testing.T) {
	const pasted = "\"\"\"\n-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n\"\"\"\n"
	written := configFor("test", "rediss://127.0.0.1", "https://shop.example.com/hooks", "HOOK")
	const bank = "[[methods]]\nname = \"bank\"\nkind = \"oidc\"\n[methods.oidc]\n"
	const provider = "[oidc_provider]\nprivate_key_files = ["
	for setting, text := range map[string]string{
		"operator_token_file":             "operator_token_file = " + pasted + written,
		"password_file":                   written + "[store]\npassword_file = " + pasted,
		"client_secret_file":              written + bank + "client_secret_file = " + pasted,
		"private_key_file":                written + bank + "private_key_file = " + pasted,
		"oidc_provider.private_key_files": written + provider + pasted + "]\n",
		"secret_file": strings.Replace(written, `secret_env = "HOOK"`, "secret_file = "+pasted,
			1),
	} {
		t.Run("contract 13: "+setting, func(t *testing.T) {
			p := serveFiles(t, map[string]string{"/verge.toml": text})
			inherited := p.Getenv
			p.Getenv = func(name string) (string, bool) {
				if name == config.OperatorTokenVariable && setting == "operator_token_file" {
					return "", false
				}
				return inherited(name)
			}
			code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
			if code != exitUsage || !strings.Contains(said, setting) || strings.Contains(said, "CANARY") ||
				!strings.Contains(said, "is the secret itself") {
				t.Errorf("exit code %d: %s", code, said)
			}
		})
	}
}

// TestSecretsOfCommands: commands read secrets in the same way.
func TestSecretsOfCommands(t *testing.T) {
	for _, c := range readings {
		text := c.before + testToken + c.behind
		p := serveFiles(t, map[string]string{"/secret": text})
		p.Getenv = func(string) (string, bool) { return text, true }
		for source, read := range map[string]func() (string, error){
			"a token in a file": func() (string, error) {
				return serverFlags{TokenFile: "/secret"}.token(p)
			},
			"a token in a variable": func() (string, error) { return serverFlags{}.token(p) },
			"a webhook's secret in a file": func() (string, error) {
				return (&webhookVerifyCmd{SecretFile: "/secret"}).secret(p)
			},
			"a webhook's secret in a variable": func() (string, error) {
				return (&webhookVerifyCmd{SecretEnv: "HOOK"}).secret(p)
			},
		} {
			value, err := read()
			if c.says == "" && (err != nil || value != testToken) {
				t.Errorf("%s: %s: %q, %v", c.rule, source, value, err)
			}
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%s: %s: %q, %v", c.rule, source, value, err)
			}
		}
	}
}

// TestSecretsOfContainers mounts secrets as Kubernetes and Docker do, at their default modes, and checks a
// configuration there. The same files where every user of a machine could read them are rejected.
func TestSecretsOfContainers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("such mounts are recognised on Linux alone")
	}
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		t.Skipf("this machine allows no mount in a namespace: %v %s", err, out)
	}
	const script = `set -e
verge init made >/dev/null
tee verge.toml >/dev/null <<EOF
mode = "test"
base_url = "https://verify.example.com"
kv = "memory"
keyring = "$1/keyring.json"
operator_token_file = "$1/operator-token"
EOF
mkdir -p "$1"
[ "$2" = host ] || mount -t tmpfs tmpfs "$1"
if [ "$2" = kubernetes ]; then
	mkdir "$1/..2026_11_22" && ln -s ..2026_11_22 "$1/..data"
	for f in keyring.json operator-token; do
		cp "made/$f" "$1/..data/$f" && chmod 644 "$1/..data/$f" && ln -s "..data/$f" "$1/$f"
	done
else
	for f in keyring.json operator-token; do cp "made/$f" "$1/$f" && chmod 444 "$1/$f"; done
fi
[ "$3" = rw ] || mount -o remount,bind,ro "$1"
verge serve --config verge.toml --check`
	for _, c := range []struct{ name, kind, mount, says string }{
		{"a volume of Kubernetes", "kubernetes", "ro", "verge.toml is valid"},
		{"a directory in memory that can be written", "kubernetes", "rw",
			"can be read by others (mode 0644)"},
		{"a directory of Docker", "docker", "ro", "verge.toml is valid"},
		{"a directory of the disk", "host", "rw", "can be read by others (mode 0444)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			mounted := filepath.Join(dir, "mounted")
			cmd := exec.Command("unshare", "-rm", "sh", "-c", script, "sh", mounted, c.kind, c.mount)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			good := strings.HasSuffix(c.says, "is valid")
			if (err == nil) != good || !strings.Contains(string(out), c.says) {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
