package weburl

import (
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

func TestIsOrigin(t *testing.T) {
	for _, c := range []struct {
		origin  string
		ok, dev bool // dev: allowed in dev alone
	}{
		{"https://a.example", true, false},
		{"https://a.example:8443", true, false},
		{"http://a.example", false, true},
		{"http://localhost:8080", false, true},
		{"https://a.example/", false, false},
		{"https://a.example/x", false, false},
		{"https://a.example?x", false, false},
		{"https://a.example#x", false, false},
		{"https://u@a.example", false, false},
		{"https://A.example", false, false},
		{"a.example", false, false},
		{"https://", false, false},
		{"null", false, false},
		{"*", false, false},
		{"", false, false},
	} {
		for _, dev := range []bool{false, true} {
			if got, want := IsOrigin(c.origin, dev), c.ok || dev && c.dev; got != want {
				t.Errorf("contract 7, 8: %q in dev %v: %v, want %v", c.origin, dev, got, want)
			}
		}
	}
}

func TestIsWebhook(t *testing.T) {
	fits := "https://a.example/" + strings.Repeat("x", maxLength-len("https://a.example/"))
	for _, c := range []struct {
		rule, url string
		ok, dev   bool // dev: allowed in dev alone
	}{
		{"https", "https://hooks.publisher.example/verge?x=1", true, false},
		{"a port", "https://hooks.publisher.example:8443/", true, false},
		{"http", "http://hooks.publisher.example/", false, true},
		{"another scheme", "ftp://hooks.publisher.example/", false, false},
		{"a user name", "https://user@hooks.publisher.example/", false, false},
		{"a fragment", "https://hooks.publisher.example/#x", false, false},
		{"no host", "https:///x", false, false},
		{"no scheme", "hooks.publisher.example/x", false, false},
		{"a control character", "https://hooks.publisher.example/\n", false, false},
		{"as long as may be", fits, true, false},
		{"a byte longer", fits + "x", false, false},
	} {
		for _, dev := range []bool{false, true} {
			if got, want := IsWebhook(c.url, dev), c.ok || dev && c.dev; got != want {
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
