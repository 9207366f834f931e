package server

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("2001:db8:aaaa::/48"),
}

func TestClientAddr(t *testing.T) {
	const xff, fwd = headerXForwardedFor, headerForwarded
	for _, c := range []struct {
		rule   string
		peer   string
		header string
		lines  []string
		want   string
	}{
		{"contract 30: a peer that is not a trusted proxy is the client, regardless of its header",
			"203.0.113.9", xff, []string{"1.1.1.1"}, "203.0.113.9"},
		{"contract 30: the same with Forwarded", "203.0.113.9", fwd, []string{"for=1.1.1.1"}, "203.0.113.9"},
		{"a trusted proxy without a header is the client", "10.0.0.1", xff, nil, "10.0.0.1"},
		{"contract 30: right-most untrusted entry",
			"10.0.0.1", xff, []string{"1.1.1.1, 8.8.8.8, 10.2.2.2"}, "8.8.8.8"},
		{"contract 30: one entry", "10.0.0.1", xff, []string{"8.8.8.8"}, "8.8.8.8"},
		{"all entries trusted: the farthest", "10.0.0.1", xff, []string{"10.9.9.9, 10.2.2.2"}, "10.9.9.9"},
		{"several lines are one list, the last line nearest",
			"10.0.0.1", xff, []string{"1.1.1.1", "8.8.8.8", "10.3.3.3"}, "8.8.8.8"},
		{"IPv4-mapped peer is unmapped before it is trusted",
			"::ffff:10.0.0.1", xff, []string{"8.8.8.8"}, "8.8.8.8"},
		{"IPv4-mapped entry is unmapped", "10.0.0.1", xff, []string{"::ffff:8.8.8.8"}, "8.8.8.8"},
		{"IPv4-mapped entry of a trusted proxy is trusted",
			"10.0.0.1", xff, []string{"8.8.8.8, ::ffff:10.2.2.2"}, "8.8.8.8"},
		{"IPv6 entry, bare", "10.0.0.1", xff, []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 entry, bracketed with port", "10.0.0.1", xff, []string{"[2001:db8::7]:443"}, "2001:db8::7"},
		{"IPv4 entry with port", "10.0.0.1", xff, []string{"8.8.8.8:51234"}, "8.8.8.8"},
		{"IPv6 proxy is looked through", "2001:db8:aaaa::1", xff, []string{"8.8.8.8, 2001:db8:aaaa::2"},
			"8.8.8.8"},
		{"an entry that is not an address: the proxy that wrote it",
			"10.0.0.1", xff, []string{"8.8.8.8, unknown, 10.2.2.2"}, "10.2.2.2"},
		{"garbage right at the proxy: the proxy", "10.0.0.1", xff, []string{"8.8.8.8, <script>"}, "10.0.0.1"},
		{"an address with a zone is rejected", "10.0.0.1", xff, []string{"fe80::1%eth0"}, "10.0.0.1"},
		{"empty elements are skipped", "10.0.0.1", xff, []string{"8.8.8.8, , 10.2.2.2,"}, "8.8.8.8"},
		{"garbage left of an untrusted entry is not read",
			"10.0.0.1", xff, []string{`"""",,[[, 8.8.8.8`}, "8.8.8.8"},
		{"only the configured header counts: Forwarded is the client's own", "10.0.0.1", xff, nil,
			"10.0.0.1"},

		{"RFC 7239: one for", "10.0.0.1", fwd, []string{"for=8.8.8.8"}, "8.8.8.8"},
		{"RFC 7239: names are case-insensitive", "10.0.0.1", fwd, []string{"For=8.8.8.8"}, "8.8.8.8"},
		{"RFC 7239: quoted IPv6 with port",
			"10.0.0.1", fwd, []string{`for="[2001:db8:cafe::17]:4711"`}, "2001:db8:cafe::17"},
		{"RFC 7239: other pairs around",
			"10.0.0.1", fwd, []string{"by=203.0.113.43;for=192.0.2.60;proto=http"}, "192.0.2.60"},
		{"RFC 7239: right-most untrusted",
			"10.0.0.1", fwd, []string{"for=1.1.1.1, for=192.0.2.43, for=10.5.5.5;proto=https"}, "192.0.2.43"},
		{"RFC 7239: quoted pair inside a quoted string", "10.0.0.1", fwd, []string{`for="8.8.8\.8"`}, "8.8.8.8"},
		{"RFC 7239: comma and quote inside a quoted string",
			"10.0.0.1", fwd, []string{`for=1.1.1.1, host="a,\"b";for=8.8.8.8`}, "8.8.8.8"},
		{"RFC 7239: IPv4 port needs quotes", "10.0.0.1", fwd, []string{"for=8.8.8.8:80"}, "10.0.0.1"},
		{"RFC 7239: quoted IPv4 port", "10.0.0.1", fwd, []string{`for="8.8.8.8:80"`}, "8.8.8.8"},
		{"RFC 7239: obfuscated port", "10.0.0.1", fwd, []string{`for="8.8.8.8:_p1"`}, "8.8.8.8"},
		{"RFC 7239: IPv6 without brackets is malformed",
			"10.0.0.1", fwd, []string{`for="2001:db8::1"`}, "10.0.0.1"},
		{"RFC 7239: brackets around IPv4 are malformed", "10.0.0.1", fwd, []string{`for="[8.8.8.8]"`}, "10.0.0.1"},
		{"RFC 7239: unknown", "10.0.0.1", fwd, []string{"for=8.8.8.8, for=unknown"}, "10.0.0.1"},
		{"RFC 7239: obfuscated identifier", "10.0.0.1", fwd, []string{"for=8.8.8.8, for=_hidden"},
			"10.0.0.1"},
		{"RFC 7239: two for in one element", "10.0.0.1", fwd, []string{"for=8.8.8.8;for=9.9.9.9"},
			"10.0.0.1"},
		{"RFC 7239: no for", "10.0.0.1", fwd, []string{"proto=https"}, "10.0.0.1"},
		{"RFC 7239: unclosed quote", "10.0.0.1", fwd, []string{`for="8.8.8.8`}, "10.0.0.1"},
		{"RFC 7239: text behind the quote", "10.0.0.1", fwd, []string{`for="8.8.8.8"x`}, "10.0.0.1"},
		{"contract 30: a forged open quote does not swallow the proxy's entry",
			"10.0.0.1", fwd, []string{`for="1.1.1.1, for=8.8.8.8`}, "8.8.8.8"},
		{"contract 30: a quoted entry neither",
			"10.0.0.1", fwd, []string{`for="1.1.1.1, for="[2001:db8::9]"`}, "2001:db8::9"},
		{"malformed port", "10.0.0.1", fwd, []string{`for="8.8.8.8:123456"`}, "10.0.0.1"},
		{"empty port", "10.0.0.1", fwd, []string{`for="8.8.8.8:"`}, "10.0.0.1"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			h := http.Header{c.header: c.lines}
			if c.header == xff && c.lines == nil {
				h.Set(fwd, "for=9.9.9.9")
			}
			got := clientAddr(netip.MustParseAddr(c.peer), c.header, h, proxies)
			if got != netip.MustParseAddr(c.want) {
				t.Errorf("got %v, want %v for %q from %s", got, c.want, c.lines, c.peer)
			}
		})
	}
}

// Contract 30: the entry that the trusted proxy appends determines the client, regardless of the client's
// own entries.
func FuzzClientAddrForged(f *testing.F) {
	for _, s := range []string{
		"", "1.1.1.1", `for="`, `for="1.1.1.1, for=`, `\"`, `",`, `"\`, "for=1.1.1.1;", ", ,", "[::1]:80",
		`for="[2001:db8::1]:_x";by=_y`, "10.0.0.1", "for=10.0.0.1", "unknown", `a="b\",c"`, "\x00\xff",
	} {
		f.Add(s)
	}
	peer := netip.MustParseAddr("10.0.0.1")
	f.Fuzz(func(t *testing.T, forged string) {
		for _, c := range []struct{ header, own, want string }{
			{headerXForwardedFor, "198.51.100.7", "198.51.100.7"},
			{headerXForwardedFor, "[2001:db8::7]:1", "2001:db8::7"},
			{headerForwarded, "for=198.51.100.7;proto=https", "198.51.100.7"},
			{headerForwarded, `proto=https;for="[2001:db8::7]:443"`, "2001:db8::7"},
			{headerForwarded, `host="a,\"\\";for="[2001:db8::7]"`, "2001:db8::7"},
		} {
			want := netip.MustParseAddr(c.want)
			for _, lines := range [][]string{{forged + ", " + c.own}, {forged, c.own}} {
				if got := clientAddr(peer, c.header, http.Header{c.header: lines}, proxies); got != want {
					t.Errorf("%s %q: got %v, want %v", c.header, lines, got, want)
				}
			}
			got := clientAddr(peer, c.header, http.Header{c.header: {forged}}, proxies)
			if !got.IsValid() || got.Zone() != "" || got.Is4In6() {
				t.Errorf("%s %q: %v is not a plain address", c.header, forged, got)
			}
		}
	})
}

// A node that was parsed and written in its canonical form parses to the same address.
func FuzzParseForwarded(f *testing.F) {
	for _, s := range []string{"for=1.2.3.4", `for="[::1]:80"`, `for=_x`, `by=1;for="1.2.3.4:_a"`,
		`for=1.2.3.4;`, "for=\"1.2.3.4\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		a, ok := parseForwarded(entry)
		if !ok {
			return
		}
		canon := "for=" + a.String()
		if a.Is6() {
			canon = `for="[` + a.String() + `]"`
		}
		if b, ok := parseForwarded(canon); !ok || a != b {
			t.Errorf("%q gives %v, but %q gives %v, %v", entry, a, canon, b, ok)
		}
		if !strings.Contains(strings.ToLower(entry), "for=") {
			t.Errorf("%q has no for, yet gives %v", entry, a)
		}
	})
}
