package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/verge-id/verge/cmd/verge/internal/config"
)

// chain is a certificate for verify.example.com, the one of its issuer, and the root of both.
type chain struct {
	leaf, between, root string // PEM
	key                 string
	roots               *x509.CertPool
}

func newChain(t *testing.T) (c chain) {
	t.Helper()
	var above *x509.Certificate
	var aboveKey *ecdsa.PrivateKey
	for n, name := range []string{"Root", "Between", "Leaf"} {
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(n + 1)),
			Subject:   pkix.Name{CommonName: name},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: name != "Leaf",
			BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
		if name == "Leaf" {
			template.DNSNames, template.KeyUsage = []string{"verify.example.com"},
				x509.KeyUsageDigitalSignature
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if above == nil {
			above, aboveKey = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, above, key.Public(), aboveKey)
		if err != nil {
			t.Fatal(err)
		}
		if above, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		aboveKey = key
		text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		switch name {
		case "Root":
			c.root, c.roots = text, x509.NewCertPool()
			c.roots.AddCert(above)
		case "Between":
			c.between = text
		default:
			c.leaf, c.key = text, pemKey(t, key)
		}
	}
	return c
}

func inUTF16(s string) string {
	b := []byte{0xff, 0xfe}
	for _, unit := range utf16.Encode([]rune(s)) {
		b = append(b, byte(unit), byte(unit>>8))
	}
	return string(b)
}

func withCRLF(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }

const encryptedKey = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"

// TestCertificateFiles: `--check` names the errors in the files of a certificate, and warns of a chain
// that browsers may not accept.
func TestCertificateFiles(t *testing.T) {
	c := newChain(t)
	damaged := strings.Replace(c.between, "-----END", "!\n-----END", 1)
	oldEncrypted := "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: " +
		"AES-128-CBC,00\n\nAAAA\n" +
		"-----END EC PRIVATE KEY-----\n"
	for _, row := range []struct{ rule, cert, key, rejected, warned string }{
		{"contract 13: a chain", c.leaf + c.between, c.key, "", ""},
		{"contract 13: a chain with its root", c.leaf + c.between + c.root, c.key, "", ""},
		{"contract 13: a byte order mark and CRLF", "\ufeff" + withCRLF(c.leaf+c.between), "\ufeff" +
			withCRLF(c.key), "",
			""},
		{"contract 13: text between the blocks", "subject=a\n" + c.leaf + "\nissuer=b\n" + c.between, c.key,
			"", ""},
		{"contract 13: certificate and key in one file", c.leaf + c.between + c.key, c.leaf + c.key, "", ""},
		{"contract 13: the issuer's certificate first", c.between + c.leaf, c.key,
			"tls: /tls.crt: the certificates are in the wrong order: the key in /tls.key belongs to " +
				"certificate 2", ""},
		{"contract 13: the root first", c.root + c.between + c.leaf, c.key, "belongs to certificate 3", ""},
		{"contract 13: the issuer's certificate alone", c.between, c.key,
			"are not a certificate and its key: private key does not match", ""},
		{"contract 13: an encrypted key", c.leaf + c.between, encryptedKey,
			"tls: /tls.key: the key is encrypted: there is no one to type the password", ""},
		{"contract 13: an encrypted key of the old form", c.leaf, oldEncrypted,
			"tls: /tls.key: the key is encrypted", ""},
		{"contract 13: UTF-16", inUTF16(c.leaf), c.key, "tls: /tls.crt: the file is in UTF-16; save it as " +
			"UTF-8", ""},
		{"contract 13: a key in UTF-16", c.leaf, inUTF16(c.key), "tls: /tls.key: the file is in UTF-16", ""},
		{"contract 13: the files are swapped", c.key, c.leaf, "are not a certificate and its key: ", ""},
		{"contract 13: no PEM", "no certificate", c.key, "tls: /tls.crt: there is no PEM in it", ""},
		{"contract 13: the first block is damaged", strings.Replace(c.leaf, "-----END", "!\n-----END", 1),
			c.key,
			"tls: /tls.crt: one of its PEM blocks is damaged; 0 can be read", ""},
		{"contract 13: the intermediate is missing", c.leaf, c.key, "",
			"tls: /tls.crt: the certificate of CN=Between, the issuer of the last one, is missing"},
		{"contract 13: the root instead of the intermediate", c.leaf + c.root, c.key, "",
			"certificate 1 was not issued by certificate 2 (CN=Root); the certificate of its issuer, " +
				"CN=Between"},
		{"contract 13: the intermediate is damaged", c.leaf + damaged, c.key, "",
			"the certificate of CN=Between, the issuer of the last one, is missing"},
	} {
		t.Run(row.rule, func(t *testing.T) {
			p := serveFiles(t, map[string]string{"/tls.crt": row.cert, "/tls.key": row.key,
				"/verge.toml": configFor("test", "bolt:/verge.db", "https://shop.example.com/hooks", "HOOK")})
			p.Roots = func() (*x509.CertPool, error) { return c.roots, nil }
			code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--tls-cert", "/tls.crt",
				"--tls-key", "/tls.key", "--check"})
			if (code != exitOK) != (row.rejected != "") || !strings.Contains(said, row.rejected) {
				t.Errorf("exit code %d: %s", code, said)
			}
			if strings.Contains(said, "warning: ") != (row.warned != "") || !strings.Contains(said,
				row.warned) {
				t.Errorf("want the warning %q: %s", row.warned, said)
			}
		})
	}
}

// TestFilesWithByteOrderMark: a byte order mark is no part of a configuration, a key ring, a private
// authority, a store's certificate or a method's key.
func TestFilesWithByteOrderMark(t *testing.T) {
	c := newChain(t)
	key := pemKey(t, newECKey(t))
	written := strings.Replace(configFor("test", "rediss://127.0.0.1", "https://shop.example.com/hooks",
		"HOOK"),
		"/ring.json", "/marked.json", 1)
	written += "[store]\nca = \"/ca.pem\"\n[[methods]]\nname = \"bank\"\nkind = \"oidc\"\n" +
		"ca = \"/ca.pem\"\n" +
		"[methods.oidc]\nissuer = \"https://bank.example\"\nclient_id = \"verge\"\nprivate_key_file = " +
		"\"/key.pem\"\n" +
		"proof = { claim = [\"adult\"], equals = true, age = 18 }\n"
	files := map[string]string{"/verge.toml": written, "/ca.pem": c.root, "/key.pem": key}
	for mark, change := range map[string]func(string) string{
		"CRLF":              withCRLF,
		"a byte order mark": func(s string) string { return "\ufeff" + s },
		"both":              func(s string) string { return "\ufeff" + withCRLF(s) },
	} {
		changed := map[string]string{}
		for name, text := range files {
			changed[name] = change(text)
		}
		p := serveFiles(t, changed)
		ring, err := p.ReadSecretFile("/ring.json")
		if err != nil {
			t.Fatal(err)
		}
		if err := config.WritePrivate(p.FS, "/marked.json", []byte(change(string(ring)))); err != nil {
			t.Fatal(err)
		}
		if code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml",
			"--check"}); code != exitOK {
			t.Errorf("contract 13: %s: exit code %d: %s", mark, code, said)
		}
	}
	for file, says := range map[string]string{"/verge.toml": "/verge.toml: the file is in UTF-16",
		"/ca.pem": "the file is in UTF-16", "/key.pem": "private_key_file: ",
		"/marked.json": "/marked.json: "} {
		p := serveFiles(t, files)
		ring, err := p.ReadSecretFile("/ring.json")
		if err != nil {
			t.Fatal(err)
		}
		files["/marked.json"] = string(ring)
		for name, text := range files {
			if name == file {
				text = inUTF16(text)
			}
			if err := config.WritePrivate(p.FS, name, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		code, said := runFor(t, p, []string{"serve", "--config", "/verge.toml", "--check"})
		if code == exitOK || !strings.Contains(said, says) || !strings.Contains(said, "UTF-16") {
			t.Errorf("contract 13: %s in UTF-16: exit code %d: %s", file, code, said)
		}
	}
}
