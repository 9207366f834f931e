package cli

import (
	"crypto/ecdsa"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/wallettest"
)

// TestGuide_Configuration: --check accepts the configurations that OPERATING.md shows. The first is complete.
// The others are methods, which replace its own.
func TestGuide_Configuration(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, part := range strings.Split(string(b), "```toml\n")[1:] {
		block, _, closed := strings.Cut(part, "```")
		if !closed {
			t.Fatal("a block does not end")
		}
		shown = append(shown, strings.ReplaceAll(block, "\n   ", "\n")) // one in a list is indented
	}
	if len(shown) < 3 {
		t.Fatalf("the guide shows %d configurations", len(shown))
	}
	for _, block := range append(shown, firstConfig) {
		if strings.Contains(block, "claim =") && !strings.Contains(block, "scope =") {
			t.Errorf("contract 36: most providers return a claim only with its scope, which is not in %s",
				block)
		}
	}
	complete := shown[0]
	walletKey, readerKey := newECKey(t), newECKey(t)
	from, to := strings.Index(complete, "[[methods]]"), strings.Index(complete, "[[publishers]]")
	if from < 0 || to < from {
		t.Fatalf("the first configuration is not complete: %s", complete)
	}
	for n, block := range shown {
		written, says := complete, "methods: bankid (oidc, L2)"
		switch {
		case strings.Contains(block, "[tls]"): // instead of the proxy's settings
			proxy := strings.Index(complete, "trusted_proxies")
			written = complete[:proxy] + block + complete[from:]
		case strings.Contains(block, "[report]"):
			written += block
		case n > 0:
			written = complete[:from] + block + complete[to:]
			_, name, _ := strings.Cut(block, "name = \"")
			name, _, _ = strings.Cut(name, `"`)
			says = "methods: " + name + " ("
			written = strings.ReplaceAll(strings.ReplaceAll(written, `"bankid"`, `"`+name+`"`), `"L2"`,
				`"L1"`)
		}
		p := serveFiles(t, map[string]string{
			"/etc/verge/bankid-secret": canary, "/etc/verge/webhook-secret": testSecret,
			"/etc/verge/operator-token": testToken, "/etc/verge/yoti.pem": pemKey(t, anRSAKey(t)),
			"/etc/verge/mitid.pem": pemKey(t, newECKey(t)), "/etc/verge/wallets.pem": pemKey(t, walletKey),
			"/etc/verge/wallets-certificate.pem": certificateOf(t, walletKey, "verify.example.com"),
			"/etc/verge/reader.pem":              pemKey(t, readerKey),
			"/etc/verge/reader-certificate.pem":  certificateOf(t, readerKey, "verify.example.com"),
			"/etc/verge/google-metadata.json":    `{"gw_rp_metadata_bytes":"2BhYKA"}`,
			"/etc/verge/eu-av-issuers.pem":       anAnchor(), "/etc/verge/mdl-issuers.pem": anAnchor(),
			"/etc/verge/eu-list-signer.pem": anAnchor(), "/etc/verge/swiyu.pem": pemKey(t, walletKey),
			"/etc/verge/report.pem":            pemKey(t, newECKey(t)),
			"/etc/verge/swiss-issuer.json":     didKeys(t, &readerKey.PublicKey),
			"/etc/verge/swiyu-statements.json": `[{"format":"jwt","data":"eyJ"}]`,
		})
		if err := p.FS.Rename("/ring.json", "/etc/verge/keyring.json"); err != nil {
			t.Fatal(err)
		}
		if err := config.WritePrivate(p.FS, "/verge.toml", []byte(written)); err != nil {
			t.Fatal(err)
		}
		code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
		if code != exitOK || !strings.Contains(said, says) || strings.Contains(said, "warning") {
			t.Errorf("--check ends with %d: %s\nof %s", code, said, written)
		}
	}
}

// didKeys returns a file of an issuer's keys.
func didKeys(t *testing.T, key *ecdsa.PublicKey) string {
	t.Helper()
	one := wallettest.JWK(key, "did:webvh:QmIssuer:a.example#assert-1")
	text, err := json.Marshal(map[string]any{"keys": []any{one}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGuide_Manifests: --check takes the configuration in the manifests for Kubernetes.
func TestGuide_Manifests(t *testing.T) {
	t.Parallel()
	manifests := readText(t, "../../../../edge/deploy/kubernetes/verge.yaml")
	_, config, _ := strings.Cut(manifests, "verge.toml: |\n")
	config, _, _ = strings.Cut(config, "\n---\n")
	p := serveFiles(t, map[string]string{"/etc/verge/secret/operator-token": testToken,
		"/etc/verge/secret/webhook-secret": testSecret,
		"/verge.toml":                      strings.ReplaceAll(config, "\n    ", "\n")})
	if err := p.FS.Rename("/ring.json", "/etc/verge/secret/keyring.json"); err != nil {
		t.Fatal(err)
	}
	code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--kv", "memory", "--check"})
	if code != exitOK || !strings.Contains(said, "1 publisher, 1 integration") {
		t.Errorf("--check ends with %d: %s", code, said)
	}
}

// TestGuide_Commands runs the commands of OPERATING.md's first part and of README.md unchanged, on
// a separate machine, with its own directories and network. It leaves out commands that ask another
// service.
func TestGuide_Commands(t *testing.T) {
	t.Parallel()
	needOwnMachine(t, "useradd")
	binary, err := exec.LookPath("verge")
	if err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Abs("../../../../edge/deploy/systemd")
	if err != nil {
		t.Fatal(err)
	}
	operating := readText(t, "../../OPERATING.md")
	_, walk, _ := strings.Cut(operating, "\n## From nothing to a first session\n")
	walk, _, _ = strings.Cut(walk, "\n## ")
	_, config, _ := strings.Cut(walk, "```toml\n")
	config, _, _ = strings.Cut(config, "```")
	before, after, _ := strings.Cut(walk, "```toml\n")
	_, real, _ := strings.Cut(readText(t, "../../../../README.md"), "\n## Run it for real\n")
	real, _, _ = strings.Cut(real, "\n## ")
	for name, c := range map[string]struct {
		script string
		says   []string
	}{
		"OPERATING.md": {commands(t, before, asksAnother...) + "cat >/etc/verge/verge.toml <<'EOF'\n" +
			strings.ReplaceAll(config, "\n   ", "\n") + "EOF\n" + commands(t, after, asksAnother...) +
			"kill $!\nwait\n",
			[]string{"Made in /etc/verge (mode 0640, for you and the group verge)",
				"verge.toml is valid: mode test", "verge.toml is valid: mode production", "pub_first",
				"pub_example",
				"5f0c6f0e-3c1c-4c6e-9a52-0d6a3a2f9b11"}},
		"README.md": {commands(t, real, asksAnother...) + "kill $!\nwait\n",
			[]string{"Made in ", "verge.toml is valid: mode test", "pub_first"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine := `set -e
mkdir -p etc lib bin dist edge/deploy
cp -r "` + units + `" edge/deploy
cp -a /etc/. etc && cp "` + binary + `" dist/verge
printf '#!/bin/sh\n' >bin/make && chmod 755 bin/make
for d in etc:/etc lib:/var/lib bin:/usr/local/bin; do mount --bind "${d%%:*}" "${d#*:}"; done
ip link set lo up
serves() { for n in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/8081) 2>/dev/null &&
	return; sleep .1; done; false; }
` + c.script
			dir := t.TempDir()
			cmd := exec.Command("unshare", "-mn", "bash", "-c", machine)
			cmd.Dir, cmd.Stdin = dir, strings.NewReader(canary+"\n")
			cmd.Env = append(os.Environ(),
				"PATH=/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s\nof %s", err, out, c.script)
			}
			for _, says := range c.says {
				if !strings.Contains(string(out), says) {
					t.Errorf("nothing says %q: %s", says, out)
				}
			}
		})
	}
}

// needOwnMachine skips a test that needs its own directories and network, if these or one of the
// programs are not available.
func needOwnMachine(t *testing.T, programs ...string) {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("SKIP: only root on Linux can have its own directories and network")
	}
	for _, program := range append(programs, "unshare", "runuser", "ip", "bash") {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIP: there is no %s here: %v", program, err)
		}
	}
	if out, err := exec.Command("unshare", "-mnpf", "true").CombinedOutput(); err != nil {
		t.Skipf("SKIP: this machine does not let root have namespaces: %v %s", err, out)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// asksAnother are parts of commands that ask another side, or need a whole machine.
var asksAnother = []string{" method check ", " integration test ", "curl https://", "apt-get ", "systemctl "}

// continued matches a command that continues in the next line.
var continued = regexp.MustCompile(`(?: \\)?\n *> +`)

// commands returns the commands of a text's console blocks, except those that have one of the parts in
// without. After one that stays in the background, it waits until that serves.
func commands(t *testing.T, text string, without ...string) string {
	t.Helper()
	var b strings.Builder
	for _, block := range strings.Split(text, "```console\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		block = continued.ReplaceAllString(block, " ")
		for line := range strings.Lines(block) {
			command := strings.TrimSpace(line)
			if len(command) > 2 && (command[:2] == "$ " || command[:2] == "# ") {
				command = command[2:]
			} else if command != "" {
				t.Errorf("%q is no command; it has no prompt", command)
			}
			if slices.ContainsFunc(without,
				func(part string) bool { return strings.Contains(command, part) }) {
				continue
			}
			b.WriteString(command + "\n")
			if strings.HasSuffix(command, "&") {
				b.WriteString("serves\n")
			}
		}
	}
	if b.Len() == 0 {
		t.Error("the text has no commands")
	}
	return b.String()
}
