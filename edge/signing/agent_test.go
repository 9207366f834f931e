package signing

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/crypto/ssh"
	sshagent "golang.org/x/crypto/ssh/agent"

	"github.com/verge-id/verge/testharness/agenttest"
	"github.com/verge-id/verge/testharness/wait"
)

// serveAgent serves an agent at a socket.
func serveAgent(t *testing.T, a sshagent.Agent) (socket string) {
	t.Helper()
	return serveConnections(t, func(c net.Conn) { sshagent.ServeAgent(a, c) })
}

func serveConnections(t *testing.T, serve func(net.Conn)) (socket string) {
	t.Helper()
	dir := must(os.MkdirTemp("", "agent"))
	t.Cleanup(func() { os.RemoveAll(dir) })
	l := must(net.Listen("unix", filepath.Join(dir, "s")))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); serve(c) }()
		}
	}()
	return l.Addr().String()
}

func fingerprint(public crypto.PublicKey) string {
	return agentPrefix + ssh.FingerprintSHA256(must(ssh.NewPublicKey(public)))
}

func noFiles(string) ([]byte, error) { return nil, errors.New("there are no files") }

// holding returns an agent with these keys.
func holding(keys ...any) sshagent.Agent {
	a := sshagent.NewKeyring()
	for _, k := range keys {
		if err := a.Add(sshagent.AddedKey{PrivateKey: k}); err != nil {
			panic(err)
		}
	}
	return a
}

func TestAgent_Algorithms(t *testing.T) {
	edKey := ed
	socket := serveAgent(t, holding(p256, rsa2048, &edKey))
	for _, c := range []struct {
		algorithm string
		public    crypto.PublicKey
	}{
		{"ES256", &p256.PublicKey}, {"RS256", &rsa2048.PublicKey}, {"EdDSA", ed.Public()},
	} {
		s, err := Open(map[string]string{"k": fingerprint(c.public)}, noFiles, socket)
		if err != nil {
			t.Errorf("%s: %v", c.algorithm, err)
			continue
		}
		// A signature of P-256 has leading zeros in one of 128 cases.
		for range 300 {
			signature, err := s.Sign(t.Context(), "k", c.algorithm, []byte("head.claims"))
			if err == nil {
				err = jwt.GetSigningMethod(c.algorithm).Verify("head.claims", signature, c.public)
			}
			if err != nil {
				t.Fatalf("%s: %v", c.algorithm, err)
			}
			if c.algorithm != "ES256" {
				break
			}
		}
		for _, other := range []string{"ES256", "RS256", "PS256", "EdDSA", "none"} {
			if _, err := s.Sign(t.Context(), "k", other, nil); (err == nil) != (other == c.algorithm) {
				t.Errorf("a key of %s in the agent signs by %s: %v", c.algorithm, other, err)
			}
		}
		if _, err := s.Decrypt(t.Context(), "k", "ECDH-ES", nil); err == nil ||
			!strings.Contains(err.Error(), "in an SSH agent, which only signs") {
			t.Errorf("%s: a key in the agent decrypts: %v", c.algorithm, err)
		}
		if spki, err := s.Public("k"); err != nil || len(spki) == 0 {
			t.Errorf("%s: no public key: %v", c.algorithm, err)
		}
		if found := s.Check(t.Context()); len(found) != 1 || found["k"] != nil {
			t.Errorf("%s: %v", c.algorithm, found)
		}
	}
	if found := must(open(pkcs8(p256))).Check(t.Context()); len(found) != 0 {
		t.Errorf("keys of files are checked: %v", found)
	}
}

func TestAgent_RejectedKeys(t *testing.T) {
	socket := serveAgent(t, holding(p256, p384))
	known := fingerprint(&p256.PublicKey)
	for _, c := range []struct{ rule, reference, socket, says string }{
		{"contract 59: another curve", fingerprint(&p384.PublicKey), socket, "the curve P-384"},
		{"contract 59: no such key", fingerprint(&rsa2048.PublicKey), socket, "no such key among its 2"},
		{"contract 59: another fingerprint", "agent:MD5:00:11", socket, "`ssh-add -l` prints it"},
		{"contract 59: no fingerprint", "agent:", socket, "`ssh-add -l` prints it"},
		{"contract 59: no socket", known, "", "set key_agent"},
		{"contract 59: nothing listens", known, filepath.Join(t.TempDir(), "none"), "cannot be reached"},
		{"contract 59: not an agent", known,
			serveConnections(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }),
			"agent: client error"},
	} {
		s, err := Open(map[string]string{"k": c.reference}, noFiles, c.socket)
		if s != nil || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.rule, err, c.says)
		}
	}
}

// faultyAgent returns these signatures.
type faultyAgent struct {
	sshagent.ExtendedAgent
	signature func(message []byte) *ssh.Signature
}

func (f faultyAgent) SignWithFlags(_ ssh.PublicKey, message []byte, _ sshagent.SignatureFlags) (
	*ssh.Signature, error) {
	return f.signature(message), nil
}

func TestAgent_WrongSignatures(t *testing.T) {
	other := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	const format = ssh.KeyAlgoECDSA256
	pair := func(r, s *big.Int) func([]byte) *ssh.Signature {
		blob := ssh.Marshal(struct{ R, S *big.Int }{r, s})
		return func([]byte) *ssh.Signature { return &ssh.Signature{Format: format, Blob: blob} }
	}
	large := new(big.Int).Lsh(big.NewInt(1), 256)
	for name, signature := range map[string]func([]byte) *ssh.Signature{
		"of another key": func(m []byte) *ssh.Signature {
			return must(must(ssh.NewSignerFromKey(other)).Sign(rand.Reader, m))
		},
		"of another format": func(m []byte) *ssh.Signature {
			s := must(must(ssh.NewSignerFromKey(p256)).Sign(rand.Reader, m))
			s.Format = "ssh-rsa"
			return s
		},
		"too long":     pair(large, large),
		"zero":         pair(big.NewInt(0), big.NewInt(0)),
		"negative":     pair(big.NewInt(-1), large),
		"no signature": func([]byte) *ssh.Signature { return &ssh.Signature{Format: format} },
	} {
		a := faultyAgent{holding(p256).(sshagent.ExtendedAgent), signature}
		s := must(Open(map[string]string{"k": fingerprint(&p256.PublicKey)}, noFiles, serveAgent(t, a)))
		if got, err := s.Sign(t.Context(), "k", "ES256", []byte("m")); got != nil ||
			!errors.Is(err, errAgentSignature) {
			t.Errorf("a signature %s: %x, %v", name, got, err)
		}
	}
}

// A signature of an agent that does not respond ends with its context.
func TestAgent_Hangs(t *testing.T) {
	hang, reached := make(chan struct{}), make(chan struct{}, 1)
	defer close(hang)
	socket := serveConnections(t, func(net.Conn) {
		select {
		case reached <- struct{}{}:
		default:
		}
		wait.For(hang)
	})
	k := key{public: &p256.PublicKey, agent: &agent{socket}, algorithms: []string{"ES256"}}
	s := &Signer{keys: map[string]key{"k": k}}
	wait.Until(t, "a signature that ends with its context", func() bool { // and not with agentTime
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			select {
			case <-reached:
			case <-ctx.Done():
			}
			cancel()
		}()
		_, err := s.Sign(ctx, "k", "ES256", []byte("m"))
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return errors.Is(err, context.Canceled)
	})
}

// OpenSSH's agent, with keys in its memory and in a token by PKCS#11.
func TestAgent_OpenSSH(t *testing.T) {
	a := agenttest.Start(t)
	ec, ecFile := a.Add("-t", "ecdsa", "-b", "256")
	rsaKey, _ := a.Add("-t", "rsa", "-b", "2048")
	edKey, _ := a.Add("-t", "ed25519")
	wide, _ := a.Add("-t", "ecdsa", "-b", "384")
	token := a.AddToken()
	if _, err := Open(map[string]string{"k": wide}, noFiles, a.Socket); err == nil ||
		!strings.Contains(err.Error(), "the curve P-384") {
		t.Errorf("a key of P-384: %v", err)
	}
	s, err := Open(map[string]string{"ec": ec, "rsa": rsaKey, "ed": edKey, "token": token}, noFiles, a.Socket)
	if err != nil {
		t.Fatal(err)
	}
	signs := func(name, algorithm string) error {
		signature, err := s.Sign(t.Context(), name, algorithm, []byte("head.claims"))
		if err != nil {
			return err
		}
		return jwt.GetSigningMethod(algorithm).Verify("head.claims", signature, s.keys[name].public)
	}
	for name, algorithm := range map[string]string{"ec": "ES256", "rsa": "RS256", "ed": "EdDSA",
		"token": "ES256"} {
		if err := signs(name, algorithm); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := func(when string, names ...string) {
		t.Helper()
		for name, err := range s.Check(t.Context()) {
			failing := false
			for _, n := range names {
				failing = failing || n == name
			}
			if (err != nil) != failing {
				t.Errorf("%s: %s: %v", when, name, err)
			}
		}
	}
	want("at first")
	a.RemoveToken()
	want("the token is unplugged", "token")
	a.Remove(ecFile)
	want("a key is removed", "token", "ec")
	a.Pause()
	if err := signs("ed", "EdDSA"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the agent hangs: %v", err)
	}
	a.Continue()
	want("the agent continues", "token", "ec")
	a.Stop()
	want("the agent is gone", "token", "ec", "rsa", "ed")
}

func BenchmarkSign(b *testing.B) {
	a := agenttest.Start(b)
	ec, _ := a.Add("-t", "ecdsa", "-b", "256")
	token := a.AddToken()
	s, err := Open(map[string]string{"file": "file", "agent": ec, "token": token},
		func(string) ([]byte, error) { return pkcs8(p256), nil }, a.Socket)
	if err != nil {
		b.Fatal(err)
	}
	message := []byte(strings.Repeat("x", 500))
	for _, name := range []string{"file", "agent", "token"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Sign(b.Context(), name, "ES256", message); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
