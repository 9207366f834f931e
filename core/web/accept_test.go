package web

import (
	"strings"
	"testing"
)

func TestAsksForPage(t *testing.T) {
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	for _, c := range []struct {
		rule, path string
		accept     []string
		want       bool
	}{
		{"a browser that opens an address", "/nowhere", []string{browser}, true},
		{"text/html alone", "/", []string{"text/html"}, true},
		{"in capitals, with blanks", "/", []string{" Text/HTML ; Q=0.1"}, true},
		{"over two lines", "/", []string{"application/json;q=0.1", "text/html"}, true},
		{"HTML of a low weight, JSON refused", "/", []string{"text/html;q=0.1, application/json;q=0, */*"},
			true},
		{"HTML with another parameter", "/", []string{"text/html;level=1;q=0.7, */*;q=0.1"}, true},
		{"contract 22: never on the API", "/api/v1/verify/start", []string{browser}, false},
		{"a path that begins like the API's", "/apiary", []string{browser}, true},
		{"never where programs post responses", "/verify/box/abc", []string{browser}, false},
		{"a client without Accept", "/nowhere", nil, false},
		{"a client that takes anything", "/nowhere", []string{"*/*"}, false},
		{"a client that takes any text", "/nowhere", []string{"text/*"}, false},
		{"JSON", "/nowhere", []string{"application/json"}, false},
		{"JSON before HTML", "/nowhere", []string{"application/json, text/html;q=0.9"}, false},
		{"JSON beside HTML", "/nowhere", []string{"text/html, application/json"}, false},
		{"anything before HTML", "/nowhere", []string{"text/html;q=0.5, */*"}, false},
		{"any application before HTML", "/nowhere",
			[]string{"text/html;q=0.5, application/*;q=0.6, */*;q=0.1"}, false},
		{"HTML refused", "/nowhere", []string{"text/html;q=0"}, false},
		{"a weight that is no number", "/nowhere", []string{"text/html;q=x"}, false},
		{"an empty header", "/nowhere", []string{""}, false},
		{"too long to read", "/nowhere", []string{strings.Repeat("x/y,", 300) + "text/html"}, false},
		{"cut in two", "/nowhere", []string{strings.Repeat("x", 1015) + ",text/html;q=0"}, false},
	} {
		if got := AsksForPage(&Request{Path: c.path, Header: Header{"Accept": c.accept}}); got != c.want {
			t.Errorf("contract 22: %s: %v", c.rule, got)
		}
	}
	if AsksForPage(nil) || AsksForPage(&Request{}) {
		t.Error("contract 22: a request without a header gets a page")
	}
}
