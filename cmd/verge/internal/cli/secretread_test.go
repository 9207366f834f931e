package cli

import (
	"strings"
	"testing"
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
	config := configFor("test", "rediss://127.0.0.1", "https://shop.example.com/hooks", "HOOK")
	inFile := strings.Replace(config, `secret_env = "HOOK"`, `secret_file = "/secret"`, 1)
	const bank = "[[methods]]\nname = \"bank\"\nkind = \"oidc\"\n[methods.oidc]\nissuer = " +
		"\"https://bank.example\"\n" +
		"client_id = \"verge\"\nproof = { claim = [\"adult\"], equals = true, age = 18 }\n"
	for _, source := range []struct {
		name, config, variable, value string // the secret is in the variable, or else in /secret
		named                         string // in the message
	}{
		{"a webhook's secret in a variable", config, "HOOK", testSecret, "secret_env: HOOK: "},
		{"a webhook's secret in a file", inFile, "", testSecret, "secret_file: /secret: "},
		{"a credential of systemd", strings.Replace(inFile, "/secret", "hook", 1), "", testSecret,
			"secret_file: /run/credentials/hook: "},
		{"the operator token in a variable", config, operatorTokenVariable, testToken, operatorTokenVariable +
			": "},
		{"the operator token in a file", "operator_token_file = \"/secret\"\n" + config, "", testToken,
			"operator_token_file: /secret: "},
		{"the store's password in a variable", config, kvPasswordVariable, "pass word", kvPasswordVariable +
			": "},
		{"the store's password in a file", config + "[store]\npassword_file = \"/secret\"\n", "", "pass word",
			"store.password_file: /secret: "},
		{"a client secret in a file", config + bank + "client_secret_file = \"/secret\"\n", "",
			"client-secret",
			"client_secret_file: /secret: "},
		{"a client secret in a variable", config + bank + "client_secret_env = \"CLIENT\"\n", "CLIENT",
			"client-secret", "client_secret_env: CLIENT: "},
	} {
		for _, c := range readings {
			t.Run(source.name+", "+c.rule, func(t *testing.T) {
				text := c.before + source.value + c.behind
				p := serveFiles(t, map[string]string{"/secret": text, "/run/credentials/hook": text,
					"/verge.toml": source.config})
				inherited := p.getenv
				p.getenv = func(name string) (string, bool) {
					switch {
					case name == source.variable:
						return text, true
					case name == credentials:
						return "/run/credentials", true
					case name == operatorTokenVariable && strings.Contains(source.config,
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

// TestSecretsOfCommands: commands read secrets in the same way.
func TestSecretsOfCommands(t *testing.T) {
	for _, c := range readings {
		text := c.before + testToken + c.behind
		p := serveFiles(t, map[string]string{"/secret": text})
		p.getenv = func(string) (string, bool) { return text, true }
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
