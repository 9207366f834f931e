package egress

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/host"
)

// inPrivateNetworks are the addresses in privateV4 and privateV6 that Allowance.PrivateNetwork allows.
var inPrivateNetworks = []string{
	"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255",
	"fc00::1", "fd00::1",
}

// More addresses of clouds' credential services, all within fc00::/7.
var credentials = []string{
	"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42",
}

// One method may use addresses of private networks. Link-local addresses, loopback, credential services and
// every other special range stay forbidden to it, and all of these addresses stay forbidden to the others.
func TestAllowance_PrivateNetwork(t *testing.T) {
	for _, dev := range []bool{false, true} {
		c := New(Config{Dev: dev, Methods: map[string]Allowance{"bankid": {PrivateNetwork: true},
			"face": {}}})
		for _, s := range slices.Concat(privateV4, privateV6, credentials) {
			a := netip.MustParseAddr(s)
			loopback := dev && a.IsLoopback()
			address := netip.AddrPortFrom(a, 443).String()
			network := map[bool]string{true: "tcp4", false: "tcp6"}[a.Is4()]
			if got, want := c.transportFor("bankid").safe(network, address, nil) == nil,
				loopback || slices.Contains(inPrivateNetworks, s); got != want {
				t.Errorf("dev %v: %s: the method reaches it: %v, want %v", dev, s, got, want)
			}
			if got := c.transportFor("bankid").safe(network, address,
				nil) == nil; got != (c.transportFor("bankid").safeAddr(a) == nil) {
				t.Errorf("dev %v: %s: a URL with the address has another result", dev, s)
			}
			for _, other := range []string{"", "face", "unknown", "BankID"} {
				if got := c.transportFor(other).safe(network, address, nil) == nil; got != loopback {
					t.Errorf("dev %v: %s: %q reaches it: %v", dev, s, other, got)
				}
			}
		}
		for _, s := range []string{"8.8.8.8:443", "[2606:4700::1111]:443"} {
			if err := c.transportFor("bankid").safe("tcp4", s, nil); err != nil {
				t.Errorf("dev %v: the method does not reach %s: %v", dev, s, err)
			}
		}
	}
}

// Addresses that a method with private addresses must not reach, by the spelling of the URL and by the
// resolved name.
func TestAllowance_ForbiddenAddresses(t *testing.T) {
	var meant netip.Addr
	c := New(Config{
		Methods: map[string]Allowance{"bankid": {PrivateNetwork: true}},
		Lookup:  func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{meant}, nil },
	})
	fetch := func(raw string) string {
		_, err := c.Fetch(t.Context(), host.FetchRequest{Method: "GET", URL: raw, For: "bankid"})
		return why(err)
	}
	for _, s := range []string{
		"127.0.0.1", "169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "0.0.0.0",
		"192.0.0.192",
	} {
		for _, h := range spellings(netip.MustParseAddr(s)) {
			if got := fetch("https://" + h + ":8443/"); got != host.FetchBlocked {
				t.Errorf("contract 28: https://%s: %q", h, got)
			}
		}
	}
	for _, s := range append([]string{"169.254.169.254", "127.0.0.1", "::1", "fe80::1"}, credentials...) {
		meant = netip.MustParseAddr(s)
		if got := fetch("https://id.example/"); got != host.FetchBlocked {
			t.Errorf("contract 28: a name that resolves to %s: %q", s, got)
		}
		plainly := "https://" + netip.AddrPortFrom(meant, 443).String() + "/"
		if err := c.transportFor("bankid").check(plainly); err == nil {
			t.Errorf("contract 28: https://%s can be configured", s)
		}
	}
	for url, reason := range map[string]string{
		"http://10.0.0.1/":   "not https",
		"https://a@10.0.0.1": "carries a user",
		"https://167772161/": "number in disguise",
	} {
		if err := c.transportFor("bankid").check(url); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %q", url, err, reason)
		}
	}
	if err := c.transportFor("bankid").check("https://10.0.0.1/"); err != nil {
		t.Errorf("a private address of the method: %v", err)
	}
	if c.CheckFor("bankid", "https://10.0.0.1/") != nil || c.CheckFor("bankid", "https://127.0.0.1/") == nil {
		t.Error("CheckFor does not follow the method's allowance")
	}
	if c.Check("https://10.0.0.1/") == nil || c.CheckFor("face", "https://10.0.0.1/") == nil {
		t.Error("a private address can be configured for others")
	}
}

// A private authority is trusted only by the method with the allowance. No other request gets a connection
// of this method.
func TestAllowance_PrivateAuthority(t *testing.T) {
	s, roots := receiver(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "well") })
	another := x509.NewCertPool()
	another.AddCert(certificate(t, "127.0.0.1", time.Now().Add(time.Hour)).Leaf)
	for _, c := range []struct {
		name   string
		config Config
		want   map[string]string // by the method that asks
	}{
		{
			"an authority that the configuration does not trust",
			Config{Methods: map[string]Allowance{"bankid": {RootCAs: roots},
				"plain": {PrivateNetwork: true}}},
			map[string]string{
				"bankid": "", "": host.FetchTLS, "plain": host.FetchTLS, "unknown": host.FetchTLS,
			},
		},
		{
			"an authority instead of the configured ones",
			Config{RootCAs: roots, Methods: map[string]Allowance{
				"bankid": {RootCAs: another}, "plain": {PrivateNetwork: true},
			}},
			map[string]string{"bankid": host.FetchTLS, "": "", "plain": ""},
		},
	} {
		c.config.Dev = true
		cl := New(c.config)
		for range 2 { // the second round uses kept connections
			for method, want := range c.want {
				_, err := cl.Fetch(t.Context(), host.FetchRequest{Method: "GET", URL: s.URL, For: method})
				if got := why(err); got != want {
					t.Errorf("%s: %q gets %q, want %q", c.name, method, got, want)
				}
			}
		}
	}
}

// A request may set a shorter time than the limit, but not a longer one.
func TestFetch_RequestTimeout(t *testing.T) {
	s, roots := receiver(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, c := range []struct {
		name        string
		limit, asks time.Duration
	}{
		{"less than the limit", time.Minute, 100 * time.Millisecond},
		{"more than the limit", 100 * time.Millisecond, time.Minute},
		{"none", 100 * time.Millisecond, 0},
		{"a negative one, which is ignored", 100 * time.Millisecond, -1},
	} {
		cl := New(Config{Dev: true, RootCAs: roots, Timeout: c.limit})
		begin := time.Now()
		_, err := cl.Fetch(t.Context(), host.FetchRequest{Method: "GET", URL: s.URL, Timeout: c.asks})
		if took := time.Since(begin); why(err) != host.FetchTimeout || took < 90*time.Millisecond ||
			took > 30*time.Second {
			t.Errorf("%s: %v after %s", c.name, err, took)
		}
	}
}

func TestParseRoots(t *testing.T) {
	s, _ := receiver(t, func(http.ResponseWriter, *http.Request) {})
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	good := block("CERTIFICATE", s.Certificate().Raw)
	pool, err := ParseRoots(slices.Concat([]byte("# our own\n"), good, good))
	if err != nil {
		t.Fatal(err)
	}
	c := New(Config{Dev: true, Methods: map[string]Allowance{"bankid": {RootCAs: pool}}})
	if _, err := c.Fetch(t.Context(), host.FetchRequest{Method: "GET", URL: s.URL,
		For: "bankid"}); err != nil {
		t.Errorf("a server with the file's certificate: %v", err)
	}
	for _, c := range []struct {
		name string
		file []byte
		says string
	}{
		{"an empty file", nil, "there is no PEM"},
		{"DER", s.Certificate().Raw, "there is no PEM"},
		{"a private key next to the certificate", slices.Concat(good, block("PRIVATE KEY", []byte("hush"))),
			"block 2 is a PRIVATE KEY"},
		{"a certificate that is cut short", block("CERTIFICATE", s.Certificate().Raw[:100]),
			"certificate 1 cannot be read"},
	} {
		if pool, err := ParseRoots(c.file); pool != nil || err == nil ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.name, err, c.says)
		}
	}
}

// A method without an allowance has the same connections as all other requests.
func TestAllowance_Zero(t *testing.T) {
	c := New(Config{Methods: map[string]Allowance{"face": {}, "bankid": {PrivateNetwork: true}}})
	usual := c.guardedTransport
	if c.transportFor("face") != usual || c.transportFor("") != usual || c.transportFor("bankid") == usual {
		t.Error("the zero allowance differs from the default")
	}
	_, err := c.Fetch(t.Context(), host.FetchRequest{Method: "GET", URL: "https://10.0.0.1/", For: "face"})
	var rejected *host.FetchError
	if !errors.As(err, &rejected) || rejected.Reason != host.FetchBlocked {
		t.Errorf("%v", err)
	}
}

// An operator's limits for webhook receivers do not apply to the responses that methods read.
func TestFetch_MethodLimits(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, methodMaxBody+10))
	}))
	defer s.Close()
	c := New(Config{Dev: true, MaxBody: 100})
	for method, want := range map[string]int{"": 100, "bankid": methodMaxBody} {
		resp, err := c.Fetch(t.Context(), host.FetchRequest{Method: "GET", URL: s.URL, For: method})
		if err != nil || len(resp.Body) != want {
			t.Errorf("for %q: %d bytes, %v; want %d", method, len(resp.Body), err, want)
		}
	}
}
