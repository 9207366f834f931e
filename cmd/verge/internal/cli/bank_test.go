package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/oidctest"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// login is how the next logins at a bank end.
type login struct {
	Claims map[string]any `json:"claims"`
	ACR    string         `json:"acr,omitempty"` // "": the first that was asked for
	Error  string         `json:"error,omitempty"`
}

// bank is an OpenID provider on an address of a private network. A private authority has signed its
// certificate.
type bank struct {
	issuer string
	ca     string // the authority, PEM
	key    string // the private key of its client, PEM
	next   func(login)
	rotate func() // gives it another key

	// inGo is the provider itself, if the harness provides it.
	inGo *oidctest.Provider
}

// privateAddress returns an address of this machine that is of a private network, but no loopback: in
// production, the server rejects loopback. Without one the test is skipped.
func privateAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().IsPrivate() {
			return prefix.Addr()
		}
	}
	t.Skip("SKIP: no interface has an address of a private network (RFC 1918, RFC 4193), and " +
		"production rejects loopback")
	return netip.Addr{}
}

// bankMethods are the methods of a bank by their names, as their settings. The claims of AgeClaims fit them.
var bankMethods = map[string]string{
	"plain": `scope = "openid adult"
acr_values = ["urn:test:high"]
proof = { claim = ["is_over_18"], equals = true, age = 18 }`,
	"deviating":       `proof = { claim = ["is_over_18"], equals = true, age = 18, scope = "adult" }`,
	"unasked":         `proof = { claim = ["is_over_18"], equals = true, age = 18 }`,
	"idura":           "preset = \"idura-age\"\ncountry = \"DK\"",
	"mitid":           `preset = "mitid-age"`,
	"signaturgruppen": `preset = "signaturgruppen-av"`,
	"ida":             "preset = \"oidc4ida\"\ntrust_framework = \"dk_mitid\"",
}

// bankScopes has the claims that a bank returns with each scope only.
var bankScopes = map[string][]string{
	"adult": {"is_over_18"}, "minimal": {},
	"is_over_18":    {"http://ageverification.criipto.com"},
	"age_verify:18": {"idbrokerdk_age_verified"},
	"age_over:18":   {"age_over_18", "idtoken_type"},
}

func returnsOfBank() (all []string) {
	for name := range bankMethods {
		all = append(all, productionURL+"/verify/return/"+name)
	}
	return all
}

// newBank prepares what all banks have.
func newBank(t *testing.T, at netip.Addr) (b *bank, certPEM, keyPEM string, client *ecdsa.PrivateKey) {
	t.Helper()
	template := aCertificate()
	template.IPAddresses = []net.IP{at.AsSlice()}
	certPEM, keyPEM, _ = selfSigned(t, template)
	client = newECKey(t)
	return &bank{ca: certPEM, key: pemKey(t, client)}, certPEM, keyPEM, client
}

// goBank is the provider of the harness.
func goBank(t *testing.T) *bank {
	t.Helper()
	at := privateAddress(t)
	b, certPEM, keyPEM, client := newBank(t, at)
	var provider *oidctest.Provider
	serveTLS(t, at, certPEM, keyPEM, func(url string) http.Handler {
		b.issuer = url
		scopes := maps.Clone(bankScopes)
		scopes["openid"] = []string{"verified_claims"}
		provider = oidctest.New(oidctest.Config{Issuer: url, PushedOnly: true, Scopes: scopes,
			Clients: []oidctest.Client{{
				ID: "verge", Auth: "private_key_jwt", Key: &client.PublicKey, ReturnURLs: returnsOfBank()}}})
		return provider
	})
	b.next = func(l login) {
		provider.Answer(oidctest.Answer{Subject: personCanary, Claims: l.Claims, ACR: l.ACR, Error: l.Error})
	}
	b.rotate, b.inGo = provider.Rotate, provider
	return b
}

// serveTLS serves on a free port of that address. handler gets the URL.
func serveTLS(t *testing.T, at netip.Addr, certPEM, keyPEM string, handler func(url string) http.Handler) {
	t.Helper()
	certificate, err := tls.X509KeyPair([]byte(certPEM), []byte(keyPEM))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler("https://" + listener.Addr().String()),
		ErrorLog:  log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	go server.ServeTLS(listener, "", "")
	t.Cleanup(func() { server.Close() })
}

// npmProvider is where .ci/install puts the package oidc-provider.
const npmProvider = "/usr/local/lib/oidc-provider/node_modules/oidc-provider/lib/index.js"

// npmBank is the npm package oidc-provider.
func npmBank(t *testing.T) *bank {
	t.Helper()
	node := testenv.Program(t, "node", "nodejs")
	if _, err := os.Stat(npmProvider); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("VERGE_REQUIRE_REAL") == "1" {
			t.Fatalf("%s is missing, and VERGE_REQUIRE_REAL=1 forbids to skip; .ci/install installs it",
				npmProvider)
		}
		t.Skipf("SKIP: %s is missing; .ci/install installs it", npmProvider)
	}
	at := privateAddress(t)
	b, certPEM, keyPEM, client := newBank(t, at)
	public, err := x509.MarshalPKIXPublicKey(&client.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{
		"package": (&url.URL{Scheme: "file", Path: npmProvider}).String(), "host": at.String(),
		"cert": certPEM, "key": keyPEM, "returns": returnsOfBank(),
		"client": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"scopes": bankScopes,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, node, filepath.Join("testdata", "provider", "provider.mjs"))
	said := new(lines)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(config), said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the provider says: %s", said)
		}
	})
	wait.Until(t, "the provider", func() bool {
		for line := range strings.Lines(said.String()) {
			if strings.HasPrefix(line, "https://") && strings.HasSuffix(line, "\n") {
				b.issuer = strings.TrimSpace(line)
			}
		}
		return b.issuer != ""
	})
	control := func(v any) { b.control(t, v) }
	b.next = func(l login) { control(l) }
	b.rotate = func() { control(map[string]bool{"rotate": true}) }
	return b
}

func (b *bank) control(t *testing.T, v any) {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := clientTrusting(b.ca).Post(b.issuer+"/control", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the provider answers %d", resp.StatusCode)
	}
}

func clientTrusting(cas ...string) *http.Client {
	pool := x509.NewCertPool()
	for _, ca := range cas {
		pool.AppendCertsFromPEM([]byte(ca))
	}
	return &http.Client{Timeout: patience,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
