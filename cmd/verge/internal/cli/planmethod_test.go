package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/afero"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/verge-id/verge/testharness/wallettest"
)

// pemKey returns a private key as an operator has it in a file.
func pemKey(t *testing.T, private any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// anAnchor is the certificate of an issuer of documents, in PEM.
var anAnchor = sync.OnceValue(func() string {
	return string(wallettest.NewIssuer(wallettest.IssuerConfig{}).PEM())
})

// certificateOf returns a certificate for a key and a host, in PEM.
func certificateOf(t *testing.T, key *ecdsa.PrivateKey, host string) string {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func newECKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// anRSAKey returns the same key each time: to make one takes long.
func anRSAKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// A bank and a camera that are good, as parts that a test can replace.
const (
	aBank = `
[[methods]]
name = "bank"
kind = "oidc"
level = "L2"
title = "Bank ID"
[methods.oidc]
issuer = "https://bank.example"
client_id = "verge"
client_secret_file = "/secret"
proof = { claim = ["is_over_18"], equals = true, age = 18 }
`
	aWallet = `
[[methods]]
name = "wallet"
kind = "openid4vp"
[methods.openid4vp]
profile = "mdl"
trust_anchors = ["/anchor.pem"]
private_key_file = "/ec.pem"
certificate_file = "/certificate.pem"
`
	aCamera = `
[[methods]]
name = "camera"
kind = "estimator"
[methods.estimator]
profile = "plain"
url = "https://ages.example/estimate"
token_file = "/secret"
`
	bothMethods = `methods = ["bank", "camera"]`
	canary      = "canary-secret-of-a-client"
)

// methodFilesFor writes a configuration in mode production and the files that it names.
func methodFilesFor(t *testing.T, methods, integration string) *program {
	t.Helper()
	base := configFor("production", "bolt:/data/verge.db", "https://shop.example.com/hooks", "HOOK")
	base = strings.Replace(base, `method = "sandbox"`, integration, 1)
	head, tail, _ := strings.Cut(base, "[[publishers]]")
	walletKey := newECKey(t)
	p := serveFiles(t, map[string]string{
		"/verge.toml": head + methods + "\n[[publishers]]" + tail,
		"/secret":     canary, "/open": canary, "/empty": "\n", "/empty.pem": "", "/notes": "no key",
		"/ec.pem": pemKey(t, walletKey), "/rsa.pem": pemKey(t, anRSAKey(t)),
		"/open.pem": pemKey(t, newECKey(t)), "/anchor.pem": anAnchor(),
		"/certificate.pem": certificateOf(t, walletKey, "verify.example.com"),
		"/other-key.pem":   certificateOf(t, newECKey(t), "verify.example.com"),
		"/other-host.pem":  certificateOf(t, walletKey, "verge.example"),
		"/ca.pem":          pemKey(t, newECKey(t)),
	})
	for _, open := range []string{"/open", "/open.pem"} {
		if err := p.FS.Chmod(open, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// in replaces a part of a method's settings.
func in(methods, old, new string) string {
	if !strings.Contains(methods, old) {
		panic(old + " is missing")
	}
	return strings.Replace(methods, old, new, 1)
}

// TestMethodsOfAConfiguration: every mistake names its key and what to do (contract 31, 32).
func TestMethodsOfAConfiguration(t *testing.T) {
	t.Parallel()
	const secretFile = `client_secret_file = "/secret"`
	for _, c := range []struct{ methods, says string }{
		{in(aBank, `"oidc"`, `"oicd"`), `methods.bank.kind: "oicd" is not known; this release has: sandbox, oidc, estimator`},
		{in(aBank, `kind = "oidc"`, ``), `methods.bank.kind: "" is not known`},
		{in(aBank, `name = "bank"`, ``), `methods: "" is no name; use 1 to 32 lower case letters, digits and -`},
		{in(aBank, `name = "bank"`, `name = "Bank"`), `methods: "Bank" is no name`},
		{in(aBank, `name = "bank"`, `name = 7`), "methods.1.name must be a text in quotes"},
		{aBank + aBank, "methods.bank: it occurs twice"},
		{in(aCamera, `kind = "estimator"`, "kind = \"estimator\"\nlevel = \"L2\""),
			"methods.camera.level: L2 is too high; estimator proves at most L1"},
		{in(aBank, `level = "L2"`, `level = 2`), "methods.bank.level must be a text in quotes"},
		{in(aBank, `title = "Bank ID"`, `title = 7`),
			"methods.bank.title must be a text in quotes, or a table with one for each language"},
		{in(aBank, `title = "Bank ID"`, `title.de = 7`), "methods.bank: title.de must be a text in quotes"},
		{in(aBank, `title = "Bank ID"`, `title.xx = "Bank ID"`),
			`methods.bank.title: "xx" is no language of the pages; use one of: en, de`},
		{in(aBank, `title = "Bank ID"`, `title.de = ""`), "methods.bank.title.de: it is empty"},
		{in(aBank, `title = "Bank ID"`, `titel = "Bank ID"`), `methods.bank: unknown setting "titel"`},
		{in(aBank, `[methods.oidc]`, `[methods.estimator]`),
			"the settings of a kind are in the table [methods.oidc]"},
		{in(aBank, `title = "Bank ID"`, `private_network = "yes"`),
			"methods.bank.private_network must be true or false"},
		{in(aBank, `https://bank`, `https://u:p@bank`),
			"the URL carries a user; remove the user name and password from the URL\n"},
		{in(aBank, `title = "Bank ID"`, `ca = "/none.pem"`), "methods.bank.ca: open /none.pem"},
		{in(aBank, `title = "Bank ID"`, `ca = "/ca.pem"`),
			"methods.bank.ca: block 1 is a PRIVATE KEY; only certificates"},
		{in(aBank, `issuer = "https://bank.example"`, `isuer = "https://bank.example"`),
			"methods.bank.oidc.isuer: there is no such setting; these are: "},
		{in(aBank, `issuer = "https://bank.example"`, `issuer = "http://bank.example"`),
			"methods.bank.oidc.issuer: The URL must use https."},
		{in(aBank, `issuer = "https://bank.example"`, `issuer = "bank.example"`),
			"methods.bank.oidc.issuer: The URL must be absolute, such as https://id.example.com."},
		{in(aBank, `issuer = "https://bank.example"`, ``),
			"methods.bank.oidc.issuer: it must be the https address of the provider"},
		{in(aBank, `issuer = "https://bank.example"`, `preset = "bankid"`),
			"methods.bank.oidc.preset: unknown preset; the presets are: idura-age"},
		{in(aBank, `client_id = "verge"`, ``), "methods.bank.oidc.client_id: the name of this client"},
		{in(aBank, `age = 18`, `age = "18"`), "methods.bank.oidc.proof.age: it must be the age"},
		{in(aBank, secretFile, `client_secret = "`+canary+`"`),
			"methods.bank.oidc.client_secret: do not write a secret into this file; set " +
				"client_secret_file"},
		{in(aBank, secretFile, `client_secret_file = "/none"`),
			"methods.bank.oidc.client_secret_file: open /none"},
		{in(aBank, secretFile, `client_secret_file = "/open"`),
			"methods.bank.oidc.client_secret_file: /open can be read by others (mode 0644): run " +
				"`chmod 600 /open`"},
		{in(aBank, secretFile, `client_secret_file = "/empty"`),
			"methods.bank.oidc.client_secret_file: /empty: it is empty"},
		{in(aBank, secretFile, `client_secret_env = "NONE"`),
			"methods.bank.oidc.client_secret_env: the environment variable NONE is not set"},
		{in(aBank, secretFile, secretFile+"\nclient_secret_env = \"HOOK\""),
			"methods.bank.oidc.client_secret_file and client_secret_env are both set; choose one"},
		{in(aBank, secretFile, ``), "methods.bank.oidc.client_auth: the provider must know the client; give client_secret_file or private_key_file"},
		{in(aBank, secretFile, `private_key_file = "/none.pem"`),
			"methods.bank.oidc.private_key_file: private key"},
		{in(aBank, secretFile, `private_key_file = "/open.pem"`),
			"/open.pem can be read by others (mode 0644): run `chmod 600 /open.pem`"},
		{in(aBank, secretFile, `private_key_file = "/notes"`),
			"methods.bank.oidc.private_key_file: private key \"bank_private_key\", /notes: there is no " +
				"PEM in it"},
		{in(aBank, secretFile, `private_key_file = "/rsa.pem"`),
			"methods.bank.oidc.private_key_file: the method signs with ES256: "},
		{in(aBank, secretFile, "private_key_file = \"/ec.pem\"\nkey_alg = \"PS256\""),
			"methods.bank.oidc.private_key_file: the method signs with PS256: "},
		{in(aBank, secretFile, "private_key_file = \"/rsa.pem\"\nid_token_encryption = true"),
			"methods.bank.oidc.private_key_file: the method signs with ES256: "},
		{in(aBank, secretFile, secretFile+"\nid_token_encryption = true"),
			"methods.bank.oidc.id_token_encryption: it needs private_key_file"},
		{in(aCamera, `profile = "plain"`, `profile = "fancy"`),
			`methods.camera.estimator.profile: "fancy" is not known; use one of: plain, yoti`},
		{in(aCamera, `token_file = "/secret"`, ``),
			"methods.camera.estimator.token_file: the profile plain needs a token"},
		{in(aCamera, `url = "https://ages.example/estimate"`, ``),
			"methods.camera.estimator.url: it is missing"},
		{in(aWallet, `["/anchor.pem"]`, `["/none.pem"]`), "methods.wallet.openid4vp.trust_anchors: open /none.pem"},
		{in(aWallet, `["/anchor.pem"]`, `["/empty.pem"]`), "openid4vp.trust_anchors: there is no certificate in it"},
		{in(aWallet, `["/anchor.pem"]`, `"/anchor.pem"`),
			"2 problems\n  - methods.wallet.openid4vp.trust_anchors must be a list of files\n  - int"},
		{in(aWallet, `["/anchor.pem"]`, `[1]`), "methods.wallet.openid4vp.trust_anchors: it must be a list of files"},
		{in(aWallet, `["/anchor.pem"]`, `[]`), "methods.wallet.openid4vp.trust_anchors: there is no trust anchor"},
		{in(aWallet, `["/anchor.pem"]`, `["/ec.pem"]`),
			"methods.wallet.openid4vp.trust_anchors: block 1 is a PRIVATE KEY"},
		{in(aWallet, `"/certificate.pem"`, `"/none.pem"`), "methods.wallet.openid4vp.certificate_file: open /none.pem"},
		{in(aWallet, `"/certificate.pem"`, `"/notes"`),
			"methods.wallet.openid4vp.certificate_file: there is no PEM in it"},
		{in(aWallet, `certificate_file = "/certificate.pem"`, ""), "openid4vp.certificate_file: it is missing"},
		{in(aWallet, `private_key_file = "/ec.pem"`, ``), "methods.wallet.openid4vp.private_key_file: it is missing"},
	} {
		t.Run(c.says, func(t *testing.T) {
			t.Parallel()
			wantOneProblem(t, methodFilesFor(t, c.methods, `method = "bank"`), c.says)
		})
	}
}

// TestMethodsOfAConfiguration_Wallet: keys and certificates belong together (contract 39).
func TestMethodsOfAConfiguration_Wallet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ methods, says string }{
		{strings.Replace(aWallet, `"/certificate.pem"`, `"/other-key.pem"`, 1),
			"methods.wallet.openid4vp.private_key_file: it is not the key of the first certificate in"},
		{strings.Replace(aWallet, `"/certificate.pem"`, `"/other-host.pem"`, 1),
			"methods.wallet.openid4vp.certificate_file: " +
				`openid4vp: the certificate is for ["verge.example"] and not for the host of base_url`},
		{strings.Replace(aWallet, `"/ec.pem"`, `"/rsa.pem"`, 1),
			"methods.wallet.openid4vp.private_key_file: the method signs with ES256: "},
		{strings.Replace(aWallet, `profile = "mdl"`, `profile = "av"`, 1),
			`methods.wallet.openid4vp.profile: "av" is not known; use one of`},
		{aWallet + "reader_key_file = \"/ec.pem\"\nreader_certificate_file = \"/other-key.pem\"\n",
			"methods.wallet.openid4vp.reader_key_file: it is not the key of the first certificate in reader"},
	} {
		wantOneProblem(t, methodFilesFor(t, c.methods, `method = "bank"`), c.says)
	}
}

// TestMethodsOfAConfiguration_DER: a file of certificates may be in DER, as authorities publish them.
func TestMethodsOfAConfiguration_DER(t *testing.T) {
	t.Parallel()
	methods := strings.NewReplacer(`"/anchor.pem"`, `"/anchor.der"`, `"/certificate.pem"`,
		`"/certificate.der"`).Replace(aWallet)
	p := methodFilesFor(t, methods+aBank, `method = "bank"`)
	for _, name := range []string{"/anchor", "/certificate"} {
		text, err := afero.ReadFile(p.FS, name+".pem")
		if err == nil {
			block, _ := pem.Decode(text)
			err = afero.WriteFile(p.FS, name+".der", block.Bytes, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"}); code != exitOK {
		t.Errorf("certificates in DER: %d %s", code, said)
	}
}

// TestMethodsOfAConfiguration_Agent: an SSH agent only signs, so a method that decrypts cannot use its key
// (contract 36, 59).
func TestMethodsOfAConfiguration_Agent(t *testing.T) {
	t.Parallel()
	socket, named := agentWith(t, newECKey(t))
	program := func(setting string) *program {
		p := methodFilesFor(t, strings.Replace(aBank, `client_secret_file = "/secret"`,
			`private_key_file = "`+named+"\"\n"+setting, 1), `method = "bank"`)
		useAgent(p, socket)
		return p
	}
	wantOneProblem(t, program("id_token_encryption = true"), "methods.bank.oidc.private_key_file: the "+
		`method decrypts with ECDH-ES: signing: the private key "bank_private_key" is in an SSH agent, `+
		"which only signs")
	code, said := runFor(t, program(""), []string{"serve", "--config", "/verge.toml", "--check"})
	if code != exitOK {
		t.Errorf("a key that only signs: %d %s", code, said)
	}
}

// agentWith runs an SSH agent with a key. It returns its socket, and the key's name in a configuration.
func agentWith(t *testing.T, key *ecdsa.PrivateKey) (socket, named string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	keys := agent.NewKeyring()
	public, err := ssh.NewPublicKey(key.Public())
	if err := errors.Join(err, keys.Add(agent.AddedKey{PrivateKey: key})); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			agent.ServeAgent(keys, c)
			c.Close()
		}
	}()
	return listener.Addr().String(), "agent:" + ssh.FingerprintSHA256(public)
}

// useAgent sets the socket of the agent in the environment of a program.
func useAgent(p *program, socket string) {
	env := p.Getenv
	p.Getenv = func(name string) (string, bool) {
		if name == "SSH_AUTH_SOCK" {
			return socket, true
		}
		return env(name)
	}
}

// TestMethodAddresses has addresses that no request of a method may have (contract 28).
func TestMethodAddresses(t *testing.T) {
	t.Parallel()
	const use = " is not a public address; use its public address"
	list := `trust_lists = [{ url = "https://[fe80::1]/", format = "vical", signers = ["/anchor.pem"] }]`
	for _, c := range []struct{ methods, says string }{
		{strings.Replace(aBank, "bank.example", "10.0.0.7", 1),
			"methods.bank.oidc.issuer: requests cannot reach it: destination not allowed: 10.0.0.7" + use +
				", or, if it is in your private network, set private_network = true in methods.bank"},
		{strings.Replace(aBank, "bank.example", "169.254.169.254", 1),
			"methods.bank.oidc.issuer: requests cannot reach it"},
		{strings.NewReplacer("ages.example", "127.0.0.1", "kind =", "private_network = true\nkind =").
			Replace(aCamera), "methods.camera.estimator.url: requests cannot reach it: destination not " +
			"allowed: 127.0.0.1" + use + "\n"},
		{aWallet + list, "methods.wallet.openid4vp.trust_lists.1.url: requests cannot reach it"},
	} {
		wantOneProblem(t, methodFilesFor(t, c.methods, `method = "bank"`), c.says)
	}
	private := strings.NewReplacer("bank.example", "10.0.0.7", "kind =", "private_network = true\nkind =")
	p := methodFilesFor(t, private.Replace(aBank), `method = "bank"`)
	if code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"}); code != exitOK {
		t.Errorf("a private address of a private network: %d %s", code, said)
	}
}

// wantOneProblem has --check reject the configuration with that problem. Integrations may follow with theirs.
func wantOneProblem(t *testing.T, p *program, says string) {
	t.Helper()
	code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
	if code != exitUsage || !strings.Contains(said, says) {
		t.Errorf("--check ends with %d: %s\nwant %q", code, said, says)
	}
	if strings.Contains(said, canary) {
		t.Errorf("contract 13: the message has the secret: %s", said)
	}
	// A secret or a key that cannot be read is not reported a second time as missing.
	if n := strings.Count(said, "\n  - methods."); strings.Contains(says, "_file: ") && n > 1 {
		t.Errorf("one mistake makes %d problems: %s", n, said)
	}
}

// TestMethodsOfAnIntegration: contract 32, as the configuration has it.
func TestMethodsOfAnIntegration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ integration, says string }{
		{`methods = ["bank", "retina"]`, `method is "retina"; this service has: bank, camera`},
		{`methods = ["bank", "bank"]`, `methods has "bank" twice`},
		{"method = \"bank\"\nmethods = [\"camera\"]", "it has method and methods; choose one"},
		{`methods = []`, `method is ""; this service has: bank, camera`},
		{`methods = "bank"`, "integrations.methods must be a list; each value is a text in quotes"},
		{bothMethods + "\nalert_url = \"https://10.0.0.7/\"",
			"alert_url: The URL's host must be public; events cannot reach private, loopback and " +
				"reserved addresses"},
		{bothMethods + "\nminimum_age = 26",
			"minimum_age is 26 and challenge_age is 25; an estimate by \"camera\""},
		{bothMethods + "\nminimum_age = 19", `minimum_age is 19, and "bank" proves no age above 18; lower minimum_age`},
		{bothMethods + "\nminimum_age = 0",
			"minimum_age is 0; set at least 1, or omit it for the default"},
		{bothMethods + "\nminimum_age = 100", "minimum_age is 100; it must be from 1 to 99"},
		{bothMethods + "\nattempts = 11", "attempts is 11; it must be from 1 to 10"},
		{bothMethods + "\nattempts = 0", "attempts is 0; set at least 1"},
		{bothMethods + "\nAttempts = 0", "attempts is 0; set at least 1"},
		{bothMethods + "\nattempts = \"3\"", "integrations.attempts must be a whole number"},
		{bothMethods + "\nmethod_settings = 3", "integrations.method_settings must be a table"},
		{bothMethods + "\nmethod_settings.camera = 3", "integrations.method_settings.camera must be a table"},
		{bothMethods + "\nmethod_settings.retina = { floor = 3 }",
			`method_settings has "retina", which is none of its methods`},
		{bothMethods + "\nmethod_settings.camera = { deviation = 7 }",
			"method_settings.camera.deviation: 7 is above the method's 6; an integration can only lower it"},
		{bothMethods + "\nmethod_settings.camera = { url = \"https://x.example\" }",
			"method_settings.camera.url: it is not known here"},
		{bothMethods + "\nmethod_settings.bank = { acr_values = [\"high\"] }",
			`method_settings.bank.acr_values: "high" is not one of the method's`},
	} {
		t.Run(c.says, func(t *testing.T) {
			t.Parallel()
			p := methodFilesFor(t, aBank+aCamera, c.integration)
			code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
			if code != exitUsage || !strings.Contains(said, c.says) {
				t.Errorf("--check ends with %d: %s\nwant %q", code, said, c.says)
			}
		})
	}
}

// TestGoodMethods: --check names the methods that production would have.
func TestGoodMethods(t *testing.T) {
	withKey := strings.Replace(aBank, `client_secret_file = "/secret"`,
		"private_key_file = \"/rsa.pem\"\nkey_alg = \"PS256\"", 1)
	fromEnv := strings.Replace(aBank, `client_secret_file = "/secret"`, `client_secret_env = "HOOK"`, 1)
	for _, c := range []struct{ methods, integration, says string }{
		{aBank, `method = "bank"`, "methods: bank (oidc, L2)\n"},
		{withKey, `method = "bank"`, "methods: bank (oidc, L2)\n"},
		{aWallet, `method = "wallet"`, "methods: wallet (openid4vp, L2)\n"},
		{fromEnv, `method = "bank"`, "methods: bank (oidc, L2)\n"},
		{strings.Replace(aBank, `title = "Bank ID"`, "title.en = \"Bank ID\"\ntitle.de = \"Bankausweis\"", 1),
			`method = "bank"`, "methods: bank (oidc, L2)\n"},
		{aBank + aCamera,
			bothMethods + "\nattempts = 5\nminimum_age = 16\nmethod_settings.camera = { floor = 12 }",
			"methods: bank (oidc, L2), camera (estimator, L1)\n"},
	} {
		p := methodFilesFor(t, c.methods, c.integration)
		code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
		if code != exitOK || !strings.Contains(said, c.says) || !strings.Contains(said,
			"is valid: mode production") {
			t.Errorf("--check ends with %d: %s\nwant %q", code, said, c.says)
		}
	}
}
