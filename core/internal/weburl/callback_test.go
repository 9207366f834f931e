package weburl

import (
	"encoding/json"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
)

type callbackVectors struct {
	Bad, Good []struct {
		URL, Why        string
		Problem, Origin string
		Dev             bool
		Origins         []string
	}
}

func readCallbackVectors(t testing.TB) (v callbackVectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/callback_urls.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseCallback(t *testing.T) {
	vectors := readCallbackVectors(t)
	problems := map[string]string{
		"text": callbackText, "escape": callbackEscape, "fragment": callbackFragment,
		"relative": callbackRelative, "scheme": callbackScheme, "devscheme": callbackDevScheme,
		"userinfo": callbackUserinfo, "host": callbackHost, "port": callbackPort, "dots": callbackDots,
		"reserved": callbackReserved, "origin": callbackOrigin,
	}
	for _, v := range vectors.Bad {
		t.Run("contract 8: "+v.Why, func(t *testing.T) {
			origin, problem := ParseCallback(v.URL, CallbackRules{Dev: v.Dev, Origins: v.Origins})
			if want, known := problems[v.Problem]; !known || problem != want || origin != "" {
				t.Errorf("%q: got %q, %q; want %q", v.URL, origin, problem, want)
			}
		})
	}
	for _, v := range vectors.Good {
		t.Run("contract 8: accept "+v.Why, func(t *testing.T) {
			origin, problem := ParseCallback(v.URL, CallbackRules{Dev: v.Dev, Origins: v.Origins})
			if problem != "" || origin != v.Origin {
				t.Errorf("%q: got %q, %q; want %q", v.URL, origin, problem, v.Origin)
			}
		})
	}
}

func TestParseCallbackLength(t *testing.T) {
	fits := "https://p.example/" + strings.Repeat("a", maxLength-len("https://p.example/"))
	if _, problem := ParseCallback(fits, CallbackRules{}); problem != "" {
		t.Errorf("contract 8: %d bytes: %s", len(fits), problem)
	}
	if _, problem := ParseCallback(fits+"a", CallbackRules{}); problem != callbackTooLong {
		t.Errorf("contract 8: %d bytes: got %q", len(fits)+1, problem)
	}
}

func TestParseCallbackInvalidUTF8(t *testing.T) {
	for _, raw := range []string{"https://p.example/\xff", "https://p\xc3.example/",
		"\xefhttps://p.example/"} {
		if _, problem := ParseCallback(raw, CallbackRules{}); problem != callbackText {
			t.Errorf("contract 8: %q: got %q", raw, problem)
		}
	}
}

// The tables of characters must say the same as the plain statements of their rules.
func TestCharacters(t *testing.T) {
	for c := range 256 {
		b := string([]byte{byte(c)})
		want := c > ' ' && c <= '~' && !strings.Contains("#%\"<>\\^`{|}", b)
		if problem := checkURLText("https://a" + b); (problem == "") != want {
			t.Errorf("contract 8: a URL with byte %#x: %q", c, problem)
		}
		inHost := c == '.' || strings.Contains("abcdefghijklmnopqrstuvwxyz0123456789-_", b)
		if got, want := isHost("a"+b+"a"), inHost; got != want {
			t.Errorf("contract 8: a host with byte %#x is one: %v, want %v", c, got, want)
		}
		if got, want := isNumber("1"+b), '0' <= c && c <= '9'; got != want {
			t.Errorf("contract 8: a label with byte %#x is a number: %v, want %v", c, got, want)
		}
	}
}

func TestAppendQuery(t *testing.T) {
	for _, c := range []struct{ rule, callback, want string }{
		{"no query", "https://p.example/cb", "https://p.example/cb?result_token=t&state=s"},
		{"no path", "https://p.example", "https://p.example?result_token=t&state=s"},
		{"an empty query", "https://p.example/cb?", "https://p.example/cb?result_token=t&state=s"},
		{"a query", "https://p.example/cb?a=1", "https://p.example/cb?a=1&result_token=t&state=s"},
		{"a query that ends with an ampersand", "https://p.example/cb?a=1&",
			"https://p.example/cb?a=1&result_token=t&state=s"},
		{"a query that ends with a question mark", "https://p.example/cb?a=?",
			"https://p.example/cb?a=?&result_token=t&state=s"},
		{"a query whose order and escapes stay", "https://p.example/cb?z=%7e&a=+",
			"https://p.example/cb?z=%7e&a=+&result_token=t&state=s"},
	} {
		if got := AppendQuery(c.callback, [][2]string{{"result_token", "t"}, {"state", "s"}}); got != c.want {
			t.Errorf("%s: got %s, want %s", c.rule, got, c.want)
		}
	}
	got := AppendQuery("https://p.example/", [][2]string{{"state", "a b+c&d=e#f%\u00e9;\r\n"}})
	if want := "https://p.example/?state=a%20b%2Bc%26d%3De%23f%25%C3%A9%3B%0D%0A"; got != want {
		t.Errorf("spec: state is echoed unchanged: got %s, want %s", got, want)
	}
	if got := AppendQuery("https://p.example/?", nil); got != "https://p.example/?" {
		t.Errorf("no parameters: got %s", got)
	}
}

// FuzzParseCallback holds what ParseCallback accepts against net/url: the same
// scheme and host, and after AppendQuery exactly the parameters added.
func FuzzParseCallback(f *testing.F) {
	vectors := readCallbackVectors(f)
	for _, v := range append(vectors.Bad, vectors.Good...) {
		f.Add(v.URL, "a b+c&d")
	}
	f.Fuzz(func(t *testing.T, raw, state string) {
		origin, problem := ParseCallback(raw, CallbackRules{Dev: true})
		if (origin == "") == (problem == "") {
			t.Fatalf("%q: origin %q, problem %q", raw, origin, problem)
		}
		if problem != "" {
			return
		}
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatalf("%q: net/url rejects it: %v", raw, err)
		}
		o, err := url.Parse(origin)
		if err != nil || o.Path != "" || o.RawQuery != "" {
			t.Fatalf("%q: origin %q is none: %v", raw, origin, err)
		}
		if u.Scheme != o.Scheme || !strings.EqualFold(u.Hostname(), o.Hostname()) ||
			effectivePort(u) != effectivePort(o) || u.User != nil || u.Fragment != "" || u.Opaque != "" {
			t.Fatalf("%q: net/url reads %#v, ParseCallback %q", raw, u, origin)
		}
		own := CallbackRules{Dev: true, Origins: []string{origin}}
		if _, problem := ParseCallback(raw, own); problem != "" {
			t.Fatalf("%q: its own origin does not allow it: %s", raw, problem)
		}

		before := u.Query()
		full := AppendQuery(raw, [][2]string{{"result_token", "t"}, {"session_id", "s"}, {"state", state}})
		if !strings.HasPrefix(full, raw) {
			t.Fatalf("%q: the redirect to %q alters it", raw, full)
		}
		after, err := url.Parse(full)
		if err != nil {
			t.Fatalf("%q: %v", full, err)
		}
		query := after.Query()
		for name, want := range map[string]string{"result_token": "t", "session_id": "s", "state": state} {
			if got := query[name]; len(got) != 1 || got[0] != want {
				t.Fatalf("%q: %s is %q, want only %q", full, name, got, want)
			}
			query.Del(name)
		}
		if !reflect.DeepEqual(query, before) {
			t.Fatalf("%q: other parameters were %v, are %v", full, before, query)
		}
	})
}

func effectivePort(u *url.URL) string {
	if u.Port() != "" {
		return u.Port()
	}
	return map[string]string{"https": "443", "http": "80"}[u.Scheme]
}

func BenchmarkParseCallback(b *testing.B) {
	b.ReportAllocs()
	const callback = "https://www.publisher.example/verify/return?from=checkout"
	for b.Loop() {
		if _, problem := ParseCallback(callback, CallbackRules{}); problem != "" {
			b.Fatal(problem)
		}
	}
}
