package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// aCertificate returns a certificate that is valid for the host of configFor and for loopback.
func aCertificate() *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		DNSNames:     []string{"verify.example.com"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:         true, BasicConstraintsValid: true,
	}
}

func selfSigned(t *testing.T, template *x509.Certificate) (certPEM, keyPEM string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	keyPEM = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(certPEM))
	return certPEM, keyPEM, pool
}

// TestServeRejectsACertificateThatNobodyAccepts: `--check` and `serve` name the wrong file, the fault in it
// and its date, and the remedy.
func TestServeRejectsACertificateThatNobodyAccepts(t *testing.T) {
	_, otherKey, _ := selfSigned(t, aCertificate())
	expiredFor := func(d time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-d) }
	}
	behindProxy := []string{"--trusted-proxies", "10.0.0.0/8"}
	for _, c := range []struct {
		name     string
		change   func(*x509.Certificate)
		key      string      // instead of its own
		mode     os.FileMode // of the key's file; 0: 0600
		flags    []string
		rejected []string // what is said; none: accepted
		warned   string
	}{
		{name: "a good one"},
		{name: "a wildcard", change: func(c *x509.Certificate) { c.DNSNames = []string{"*.example.com"} }},
		{name: "expired", change: expiredFor(50 * time.Hour),
			rejected: []string{"tls: /tls.crt expired at ", "Z: install a new certificate"}},
		{name: "expired a minute ago", change: expiredFor(time.Minute),
			rejected: []string{"tls: /tls.crt expired at "}},
		{name: "not valid yet", change: func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(3*time.Hour), time.Now().Add(9*time.Hour)
		}, rejected: []string{"tls: /tls.crt is not valid before ", "Z: wait, ", "set this machine's clock"}},
		{name: "for another host", change: func(c *x509.Certificate) {
			c.DNSNames = []string{"www.example.com", "example.com"}
		},
			rejected: []string{"tls: /tls.crt is for www.example.com, example.com, 127.0.0.1, " +
				"not for verify.example.com, the host of base_url"}},
		{name: "for no host", change: func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, nil },
			rejected: []string{"is for no name, not for verify.example.com"}},
		{name: "for another host, behind a proxy", change: func(c *x509.Certificate) {
			c.DNSNames = []string{"verge.internal"}
		},
			flags:  behindProxy,
			warned: "tls: /tls.crt is for verge.internal, 127.0.0.1, not for verify.example.com"},
		{name: "expired, behind a proxy", change: expiredFor(time.Minute),
			flags: behindProxy, rejected: []string{"tls: /tls.crt expired at "}},
		{name: "a key that the group can read", mode: 0o640,
			rejected: []string{"tls: /tls.key can be read by others (mode 0640): run `chmod 600 /tls.key`"}},
		{name: "a key that everybody can read", mode: 0o644,
			rejected: []string{"tls: /tls.key can be read by others (mode 0644)"}},
		{name: "another certificate's key", key: otherKey,
			rejected: []string{"tls: /tls.crt and /tls.key are not a certificate and its key: " +
				"private key does not match public key"}},
		{name: "a file that holds no key", key: "no key",
			rejected: []string{"tls: /tls.key: there is no PEM in it; PEM begins with -----BEGIN PRIVATE " +
				"KEY-----"}},
		{name: "expired and for another host", change: func(c *x509.Certificate) {
			c.NotAfter, c.DNSNames = time.Now().Add(-time.Minute), nil
		},
			rejected: []string{"2 problems", "expired at", "is for 127.0.0.1, not for"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			template := aCertificate()
			if c.change != nil {
				c.change(template)
			}
			cert, key, _ := selfSigned(t, template)
			if c.key != "" {
				key = c.key
			}
			p := serveFiles(t, map[string]string{"/tls.crt": cert, "/tls.key": key,
				"/verge.toml": configFor("test", "bolt:/verge.db", "https://shop.example.com/hooks", "HOOK")})
			if c.mode != 0 {
				if err := p.FS.Chmod("/tls.key", c.mode); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"serve", "--config", "/verge.toml",
				"--tls-cert", "/tls.crt", "--tls-key", "/tls.key"}, c.flags...)
			runs, want := [][]string{append(args, "--check")}, exitOK
			if c.rejected != nil { // otherwise it would serve
				runs, want = append(runs, args), exitUsage
			}
			first := ""
			for n, args := range runs {
				code, said := runFor(t, p, args)
				if n == 0 {
					first = said
				} else if undated(said) != undated(first) {
					t.Errorf("%v says %s\nand %v says %s", args, said, runs[0], first)
				}
				if code != want { // it would serve next
					t.Fatalf("%v: exit code %d: %s", args, code, said)
				}
				for _, text := range c.rejected {
					if !strings.Contains(said, text) {
						t.Errorf("%v does not say %q: %s", args, text, said)
					}
				}
				if strings.Contains(said, "warning: ") != (c.warned != "") ||
					!strings.Contains(said, c.warned) {
					t.Errorf("%v: want the warning %q: %s", args, c.warned, said)
				}
			}
		})
	}
}

// The command also rejects a client certificate that a store's servers would reject.
func TestServeRejectsAStoresCertificateThatHasExpired(t *testing.T) {
	template := aCertificate()
	template.NotAfter = time.Now().Add(-time.Minute)
	cert, key, _ := selfSigned(t, template)
	p := serveFiles(t, map[string]string{"/kv.crt": cert, "/kv.key": key, "/open.key": key,
		"/verge.toml": configFor("test", "rediss://127.0.0.1", "https://shop.example.com/hooks", "HOOK") +
			"[store]\ncert = \"/kv.crt\"\nkey = \"/kv.key\"\n",
		"/open.toml": configFor("test", "rediss://127.0.0.1", "https://shop.example.com/hooks", "HOOK") +
			"[store]\ncert = \"/kv.crt\"\nkey = \"/open.key\"\n"})
	if err := p.FS.Chmod("/open.key", 0o644); err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		"/verge.toml": "store: /kv.crt expired at ",
		"/open.toml":  "store: /open.key can be read by others",
	} {
		code, said := runFor(t, p, []string{"serve", "--config", config, "--check"})
		if code != exitUsage || !strings.Contains(said, want) {
			t.Errorf("exit code %d: %s", code, said)
		}
	}
}

// runFor runs a command and returns its output.
func runFor(t *testing.T, p *program, args []string) (code int, said string) {
	t.Helper()
	var out strings.Builder
	asked := *p
	asked.stdout, asked.stderr = &out, &out
	return run(t.Context(), args, &asked), out.String()
}

// undated leaves out for how long a certificate has been over: a second may pass between two commands.
func undated(said string) string { return regexp.MustCompile(`Z, \S+ ago`).ReplaceAllString(said, "Z") }
