package weburl

import (
	"slices"
	"strings"
	"testing"
)

func TestSite(t *testing.T) {
	for _, c := range []struct{ rule, in, origin, host string }{
		{"an origin passes", "https://shop.example", "https://shop.example", "shop.example"},
		{"with its port", "http://localhost:8090", "http://localhost:8090", "localhost:8090"},
		{"IPv6 as well", "http://[::1]:8090", "http://[::1]:8090", "[::1]:8090"},
		{"a name of any script as well", "https://größe.example",
			"https://größe.example", "größe.example"},
		{"contract 24: never with parameters", "https://shop.example/cb?state=s#f",
			"https://shop.example", "shop.example"},
		{"userinfo would read as a host", "https://bank.example@shop.example",
			"https://shop.example", "shop.example"},
		{"no scheme that runs", "javascript://shop.example/%0aalert(1)", "", ""},
		{"no path for an origin", "/verify", "", ""},
		{"no origin without a host", "https:///x", "", ""},
		{"contract 8: a host with an underscore", "https://my_shop.example",
			"https://my_shop.example", "my_shop.example"},
		{"a text direction mark would turn the name around", "https://shop\u202e.example", "", ""},
		{"a blank that is no blank", "https://shop\u00a0.example", "", ""},
		{"a quote", `https://shop".example`, "", ""},
		{"contract 24: without the path and what follows", "https://a.example/return?x",
			"https://a.example", "a.example"},
		{"an IPv6 address without its path", "http://[::1]:1/x", "http://[::1]:1", "[::1]:1"},
		{"a scheme without a host", "https://", "", ""},
		{"what does not parse", ":", "", ""},
		{"none", "", "", ""},
	} {
		origin, host := Site(c.in)
		if origin != c.origin || host != c.host {
			t.Errorf("%s: %q gives %q, %q", c.rule, c.in, origin, host)
		}
	}
}

// addresses are hosts and ports that every reader of addresses judges in the same way, behind https:// and
// before the path (contract 8, 25, 28, 32).
var addresses = []struct {
	rule, host string
	origin     string // as it is stored; "": the address is rejected
	says       string // in the message
}{
	{"a name", "a.example", "https://a.example", ""},
	{"a port", "a.example:8443", "https://a.example:8443", ""},
	{"the scheme's own port", "a.example:443", "https://a.example", ""},
	{"capital letters", "A.Example:8443", "https://a.example:8443", ""},
	{"an underscore", "my_shop.example", "https://my_shop.example", ""},
	{"an A-label", "xn--gre-7ka1k.example", "https://xn--gre-7ka1k.example", ""},
	{"an IPv4 address", "192.0.2.1:1", "https://192.0.2.1:1", ""},
	{"an IPv6 address", "[2001:db8::1]", "https://[2001:db8::1]", ""},
	{"an IPv6 address with the default port", "[2001:db8::1]:443", "https://[2001:db8::1]", ""},
	{"a label of 63", strings.Repeat("a", 63) + ".example", "https://" + strings.Repeat("a", 63) + ".example",
		""},
	{"a label of 64", strings.Repeat("a", 64) + ".example", "", "host"},
	{"a name of 254 bytes", strings.Repeat("a.", 123) + "example1", "", "host"},
	{"an empty label", "a..example", "", "host"},
	{"a dot at the end", "a.example.", "", "host"},
	{"a dot in front", ".example", "", "host"},
	{"a hyphen at an end of a label", "a-.example", "", "host"},
	{"a wildcard", "*.example", "", "host"},
	{"a wildcard alone", "*", "", "host"},
	{"port 0", "a.example:0", "", "port"},
	{"port 65536", "a.example:65536", "", "port"},
	{"a port with a zero in front", "a.example:0443", "", "port"},
	{"a port with a sign", "a.example:+443", "", "port"},
	{"a port that is a name", "a.example:https", "", "port"},
	{"a port left out behind its colon", "a.example:", "", "port"},
	{"two ports", "a.example:1:2", "", "host"},
	{"an IPv6 address without brackets", "2001:db8::1", "", "host"},
	{"an IPv6 address in long form", "[2001:db8:0:0:0:0:0:1]", "", "host"},
	{"an IPv6 address in capital letters", "[2001:DB8::1]", "https://[2001:db8::1]", ""},
	{"an IPv6 address with a zone", "[fe80::1%25eth0]", "", "host"},
	{"an IPv4 address in IPv6", "[::ffff:192.0.2.1]", "", "host"},
	{"an IPv4 address as a number", "3221225985", "", "host"},
	{"an IPv4 address in octal", "0300.0.2.1", "", "host"},
	{"a name in Unicode", "größe.example", "", "xn--gre-6ka8i.example"},
	{"a name in Unicode with a port", "größe.example:8443", "", "xn--gre-6ka8i.example:8443"},
	{"a name in Unicode that ends in a digit", "größe1:8443", "", "xn--gre1-wna1l:8443"},
	{"capital letters in Unicode", "ÉTÉ.example", "", "xn--t-9fab.example"},
	{"a name in Japanese", "日本語.example", "", "xn--wgv71a119e.example"},
	{"a wide letter, without the form in the error", "ａ.example", "", "host"},
	{"a combining accent, without the form in the error", "e\u0301.example", "", "host"},
	{"a zero-width space", "a\u200b.example", "", "host"},
	{"a zero-width joiner at the end", "a.example\u200d", "", "host"},
	{"a full stop of Chinese", "a。example", "", "host"},
	{"a space", "a .example", "", ""},
	{"a percent sign", "a%2eexample", "", "host"},
	{"a user name", "u@a.example", "", ""},
	{"no host", "", "", "host"},
}

// TestAddresses: what is an address for one reader is one for all.
func TestAddresses(t *testing.T) {
	for _, c := range addresses {
		origin, problem := ParseOrigin("https://"+c.host, false)
		if origin != c.origin || (problem == "") != (c.origin != "") || !strings.Contains(problem, c.says) {
			t.Errorf("contract 32: %s: the origin %q is %q: %s", c.rule, c.host, origin, problem)
		}
		for reader, problem := range map[string]string{
			"contract 28: a webhook": CheckWebhook("https://"+c.host+"/hook?a=b", false),
			"contract 36: an issuer": CheckEndpoint("https://"+c.host+"/op", false),
		} {
			if (problem == "") != (c.origin != "") || c.says != "port" && !strings.Contains(problem,
				c.says) && isASCII(c.host) {
				t.Errorf("%s: %s: %q: %s", reader, c.rule, c.host, problem)
			}
			if strings.HasPrefix(c.says, "xn--") && !strings.Contains(problem, c.says) {
				t.Errorf("%s: %s: the message does not have %s: %s", reader, c.rule, c.says, problem)
			}
		}
		if _, problem := ParseCallback("https://"+c.host+"/cb",
			CallbackRules{}); (problem == "") != (c.origin != "") {
			t.Errorf("contract 8: %s: the callback %q: %s", c.rule, c.host, problem)
		}
	}
}

func TestParseOrigin(t *testing.T) {
	for _, c := range []struct {
		typed       string
		origin, dev string // "": rejected; dev: in dev mode
	}{
		{"https://a.example", "https://a.example", "https://a.example"},
		{"http://a.example", "", "http://a.example"},
		{"http://localhost:8080", "", "http://localhost:8080"},
		{"http://localhost:80", "", "http://localhost"},
		{"http://a.example:443", "", "http://a.example:443"},
		{"HTTPS://a.example", "https://a.example", "https://a.example"},
		{"https://a.example/", "", ""},
		{"https://a.example/x", "", ""},
		{"https://a.example?", "", ""},
		{"https://a.example?x", "", ""},
		{"https://a.example#", "", ""},
		{"https://a.example#x", "", ""},
		{" https://a.example", "", ""},
		{"https://a.example\n", "", ""},
		{"ftp://a.example", "", ""},
		{"a.example", "", ""},
		{"https://", "", ""},
		{"null", "", ""},
		{"*", "", ""},
		{"", "", ""},
	} {
		for dev, want := range map[bool]string{false: c.origin, true: c.dev} {
			got, problem := ParseOrigin(c.typed, dev)
			if got != want || (problem == "") != (want != "") {
				t.Errorf("contract 7, 8: %q in dev %v: %q, %s", c.typed, dev, got, problem)
			}
			if IsOrigin(c.typed, dev) != (want != "" && want == c.typed) {
				t.Errorf("contract 7, 8: %q in dev %v is an origin: %v", c.typed, dev, IsOrigin(c.typed, dev))
			}
		}
	}
	for typed, says := range map[string]string{
		"https://bücher.example:8443": "write it as https://xn--bcher-kva.example:8443",
		"https://*.a.example":         "there are no wildcards",
		"https://a.example:0":         "a number from 1 to 65535",
	} {
		if _, problem := ParseOrigin(typed, false); !strings.Contains(problem, says) {
			t.Errorf("contract 7, 8: %q: %s, want %s", typed, problem, says)
		}
	}
	list := []string{"https://a.example:443", "nonsense", "http://b.example:80"}
	if got := Origins(list); !slices.Equal(got, []string{"https://a.example", "nonsense",
		"http://b.example"}) ||
		list[0] != "https://a.example:443" {
		t.Errorf("contract 32: %q are kept as %q", list, got)
	}
}

func TestCheckWebhook(t *testing.T) {
	fits := "https://a.example/" + strings.Repeat("x", maxLength-len("https://a.example/"))
	for _, c := range []struct {
		rule, url string
		ok, dev   bool // dev: allowed in dev alone
	}{
		{"https", "https://hooks.publisher.example/verge?x=1", true, false},
		{"a port", "https://hooks.publisher.example:8443/", true, false},
		{"escapes, and signs that stand for themselves",
			"https://hooks.publisher.example/a%20b/(c);d=e?f[]=g/h?i:@!$'*+,~", true,
			false},
		{"http", "http://hooks.publisher.example/", false, true},
		{"another scheme", "ftp://hooks.publisher.example/", false, false},
		{"a user name", "https://user@hooks.publisher.example/", false, false},
		{"a fragment", "https://hooks.publisher.example/#x", false, false},
		{"an empty fragment", "https://hooks.publisher.example/#", false, false},
		{"no host", "https:///x", false, false},
		{"no scheme", "hooks.publisher.example/x", false, false},
		{"RFC 9112: a space in the query", "https://hooks.publisher.example/?shop=a b", false, false},
		{"RFC 9112: a space in the path", "https://hooks.publisher.example/a b", false, false},
		{"RFC 9112: a space behind it", "https://hooks.publisher.example/ ", false, false},
		{"RFC 9112: other than ASCII in the query", "https://hooks.publisher.example/?shop=é", false, false},
		{"RFC 9112: other than ASCII in the path", "https://hooks.publisher.example/größe", false, false},
		{"RFC 9112: a control character", "https://hooks.publisher.example/\n", false, false},
		{"a bad escape", "https://hooks.publisher.example/?a=%zz", false, false},
		{"a backslash", `https://hooks.publisher.example\@evil.example/`, false, false},
		{"as long as may be", fits, true, false},
		{"a byte longer", fits + "x", false, false},
	} {
		for _, dev := range []bool{false, true} {
			if got, want := CheckWebhook(c.url, dev) == "", c.ok || dev && c.dev; got != want {
				t.Errorf("contract 28: %s, in dev %v: %v, want %v", c.rule, dev, got, want)
			}
		}
	}
}

func TestIsHop(t *testing.T) {
	for _, c := range []struct {
		rule, url string
		want      bool
	}{
		{"https", "https://shop.example/return?a=1&b=it's;c", true},
		{"http, for loopback in dev", "http://localhost:8090/", true},
		{"a scheme that runs", "javascript://shop.example/%0aalert(1)", false},
		{"no host", "https:///x", false},
		{"a path", "/return", false},
		{"a quote, which a refresh may have around its address", `https://shop.example/"`, false},
		{"a backslash, which browsers read as a slash", `https://shop.example\\@evil.example/`, false},
		{"a blank", "https://shop.example/ ", false},
		{"a tab, which browsers drop", "https://shop.example/\tx", false},
		{"a newline", "https://shop.example/\n", false},
		{"a character that is not ASCII", "https://shop.example/é", false},
		{"an angle bracket", "https://shop.example/<", false},
	} {
		if got := IsHop(c.url); got != c.want {
			t.Errorf("contract 22: %s: %q: %v, want %v", c.rule, c.url, got, c.want)
		}
	}
}

func TestIsApp(t *testing.T) {
	for _, c := range []struct {
		rule, url string
		want      bool
	}{
		{"a wallet", "openid4vp://?client_id=a&request_uri=https%3A%2F%2Fa.example", true},
		{"a wallet with a version in its scheme", "eu.av-1+a://authorize?a", true},
		{"https", "https://wallet.example/a?b", true},
		{"a script", "javascript://wallet/%0aalert(1)", false},
		{"a script in capitals", "JavaScript://wallet/%0aalert(1)", false},
		{"a document", "data://text/html,x", false},
		{"a file", "file:///etc/passwd", false},
		{"no slashes", "mailto:a@b.example", false},
		{"nothing behind the slashes", "wallet://", false},
		{"no scheme", "://a", false},
		{"a scheme that is none", "1a://b", false},
		{"a blank before the scheme", " javascript://a", false},
		{"a tab in the scheme", "java\tscript://a", false},
		{"a path", "/verify", false},
		{"a quote", `wallet://a"b`, false},
		{"a newline", "wallet://a\nb", false},
		{"a character that is not ASCII", "wallet://é", false},
		{"https without a host", "https:///a", false},
	} {
		if got := IsApp(c.url); got != c.want {
			t.Errorf("contract 34: %s: %q: %v, want %v", c.rule, c.url, got, c.want)
		}
	}
}
