package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
)

// TestACME gets certificates for a server from Let's Encrypt's authority for tests, by either challenge, and
// sees that the server keeps it over a restart.
func TestACME(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestACME")
	if _, err := exec.LookPath("pebble"); err != nil {
		if os.Getenv("VERGE_REQUIRE_REAL") == "1" {
			t.Fatal("there is no pebble; .ci/install installs it")
		}
		t.Skip("there is no pebble, the authority for tests; .ci/install installs it")
	}
	for _, challenge := range []string{"TLS-ALPN-01", "HTTP-01"} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			public, plain := freeAddr(t), freeAddr(t)
			// asked is where the authority finds the host's port 443, and http01 is acme_http.
			asked, http01 := public, config.Off
			if challenge == "HTTP-01" {
				asked, http01 = freeAddr(t), plain
			}
			ca := newPebble(t, asked, plain)
			dir := t.TempDir()
			if said, code := runHere(t, "init", dir); code != nil {
				t.Fatalf("%v: %s", code, said)
			}
			config := filepath.Join(dir, "verge.toml")
			b, err := os.ReadFile(config)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Replace(string(b), "[[publishers]]", fmt.Sprintf("[tls]\nacme = true\n"+
				"acme_email = \"ops@example.com\"\nacme_storage = %q\nacme_directory = %q\nacme_ca = %q\n"+
				"acme_http = %q\n"+
				"[[publishers]]", filepath.Join(dir, "acme"), ca.directory, ca.trust, http01), 1)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if said, code := runHere(t, "serve", "--config", config, "--check"); code != nil {
				t.Fatalf("--check: %v: %s", code, said)
			}
			first := serveACME(t, ca, config, public, "certificate obtained", 1)
			again := serveACME(t, ca, config, public, "certificate obtained", 0)
			if first != again {
				t.Errorf("after a restart the certificate is %s, and before it was %s", again, first)
			}
		})
	}
}

// serveACME runs a server until a client has used its certificate, and returns the serial number. The log
// must have said that often.
func serveACME(t *testing.T, ca pebble, config, public, says string, times int) (serial string) {
	t.Helper()
	logs := new(lines)
	cmd := exec.Command("verge", "serve", "--config", config, "--listen", public,
		"--admin-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0")
	cmd.Stderr = logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}()
	roots := ca.roots(t)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "verify.example.com"}}}
	defer client.CloseIdleConnections()
	eventuallyLogged(t, logs, func() bool {
		resp, err := client.Get("https://" + public + "/readyz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		serial = resp.TLS.PeerCertificates[0].SerialNumber.String()
		return resp.StatusCode == http.StatusOK && resp.ProtoMajor == 2
	})
	eventuallyLogged(t, logs, func() bool {
		return strings.Contains(metricsOf(t, servingOf(t, logs.String()).Ops),
			`verge_tls_certificate_expiry_timestamp_seconds{name="verify.example.com"}`)
	})
	if got := strings.Count(logs.String(), says); got != times {
		t.Errorf("the log says %q %d times, want %d: %s", says, got, times, logs)
	}
	return serial
}

// eventuallyLogged is eventually, and shows the log of a failure.
func eventuallyLogged(t *testing.T, logs *lines, done func() bool) {
	t.Helper()
	if !within(patience, done) {
		t.Fatalf("no certificate was obtained: %s", logs)
	}
}

// pebble is an authority that runs.
type pebble struct{ directory, management, trust string }

// newPebble starts one. It connects to every host at these addresses of this machine.
func newPebble(t *testing.T, tlsAt, httpAt string) pebble {
	t.Helper()
	dir := t.TempDir()
	certPEM, keyPEM, _ := selfSigned(t, aCertificate())
	at, management := freeAddr(t), freeAddr(t)
	settings, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": at, "managementListenAddress": management,
		"certificate": filepath.Join(dir, "cert.pem"), "privateKey": filepath.Join(dir, "key.pem"),
		"httpPort": portOf(t, httpAt), "tlsPort": portOf(t, tlsAt),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"cert.pem": certPEM, "key.pem": keyPEM,
		"pebble.json": string(settings)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	logs := new(lines)
	cmd := exec.Command("pebble", "-config", filepath.Join(dir, "pebble.json"), "-dnsserver",
		everyHostIsHere(t))
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the authority's log: %s", logs)
		}
	})
	p := pebble{"https://" + at + "/dir", "https://" + management, filepath.Join(dir, "cert.pem")}
	eventuallyLogged(t, logs, func() bool {
		conn, err := net.Dial("tcp", management)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return p
}

// roots returns the roots of the authority's certificates.
func (p pebble) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	trusted, err := os.ReadFile(p.trust)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := clientTrusting(string(trusted)).Get(p.management + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	root, err := io.ReadAll(resp.Body)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(root) {
		t.Fatalf("the authority's root: %v %s", err, root)
	}
	return pool
}

// everyHostIsHere serves DNS, over TCP as pebble asks, and returns its address. Every name is 127.0.0.1.
func everyHostIsHere(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerDNS(conn)
		}
	}()
	return l.Addr().String()
}

func answerDNS(conn net.Conn) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		var m dnsmessage.Message
		if _, err := io.ReadFull(conn, question); err != nil || m.Unpack(question) != nil ||
			len(m.Questions) != 1 {
			return
		}
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		answer, err := m.AppendPack(size[:])
		if err != nil {
			return
		}
		binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// freeAddr returns an address of loopback at which nothing listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", stores.FreePort(t))
}

func portOf(t *testing.T, addr string) (port int) {
	t.Helper()
	if _, err := fmt.Sscanf(addr, "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	return port
}

// runHere runs verge as a process.
func runHere(t *testing.T, args ...string) (said string, failed error) {
	t.Helper()
	out, err := exec.Command("verge", args...).CombinedOutput()
	return string(out), err
}
