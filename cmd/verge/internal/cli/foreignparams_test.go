package cli

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// appending adds text to the queries and forms that go to the service.
type appending struct {
	text string
	http.RoundTripper
}

func (a appending) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host == "verify.example.com" && req.Method == "GET" {
		req = req.Clone(req.Context())
		req.URL.RawQuery += a.text
	}
	return a.RoundTripper.RoundTrip(req)
}

// TestForeignParameters: what a browser, an extension or a provider adds to addresses is ignored, and a
// parameter that Verge uses occurs once (contract 22).
func TestForeignParameters(t *testing.T) {
	t.Parallel()
	s := newProduction(t, goBank(t), "")
	for _, c := range []struct {
		rule, text string
		page       int // status of the link
		want       string
	}{
		{"contract 22: a return as some providers send it", "&session_state=abc;def", 200, "COMPLETED"},
		{"contract 22: unknown parameters twice", "&x=1&x=2&utm_source=a", 200, "COMPLETED"},
		{"contract 22: unknown parameters in bad encoding", "&x=%zz&%zz=1&y=%e9&%", 200, "COMPLETED"},
		{"contract 22: names that begin like ours", "&code[]=1&State=2&flow%00=3&;=;", 200, "COMPLETED"},
	} {
		t.Run(c.rule, func(t *testing.T) {
			id, redirect, err := s.in.publisher.start(s.integrations["plain"])
			if err != nil {
				t.Fatal(err)
			}
			s.bank.next(login{Claims: claimsOf(40, "", nil)})
			v := s.visitor(t)
			v.http.Transport = appending{c.text, v.http.Transport}
			leave := v.begin(redirect)
			status, page := v.open("GET", leave, nil)
			if got := s.outcome(t, id); status != c.page || got != c.want {
				t.Fatalf("the browser ends with %d, and the session is %q: %s", status, got, page)
			}
			for _, path := range []string{"/verify/passkeys?a=b", "/console/sign-in?a=b",
				"/console/link?link=a"} {
				if status, _ := v.open("GET", productionURL+path, nil); status == http.StatusBadRequest {
					t.Errorf("%s: %d", path, status)
				}
			}
		})
	}
	for rule, text := range map[string]string{
		"contract 22: the code twice":            "&code=a",
		"contract 22: the state in bad encoding": "&state=%zz",
		"contract 22: the issuer twice":          "&iss=https%3A%2F%2Fevil.example",
		"contract 22: an error and a code":       "&error=access_denied&error=access_denied",
	} {
		t.Run(rule, func(t *testing.T) {
			id, redirect, err := s.in.publisher.start(s.integrations["plain"])
			if err != nil {
				t.Fatal(err)
			}
			s.bank.next(login{Claims: claimsOf(40, "", nil)})
			v := s.visitor(t)
			leave := v.begin(redirect)
			v.http.Transport = appending{text, v.http.Transport}
			status, page := v.open("GET", leave, nil)
			if got := s.outcome(t, id); status != http.StatusBadRequest || got != "PENDING" ||
				!strings.Contains(page, "damaged") {
				t.Errorf("the browser ends with %d, and the session is %q", status, got)
			}
		})
	}
	id, redirect, err := s.in.publisher.start(s.integrations["plain"])
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(redirect)
	if err != nil {
		t.Fatal(err)
	}
	status, _ := s.visitor(t).open("GET", redirect+"&flow="+url.QueryEscape(at.Query().Get("flow")), nil)
	if got := s.outcome(t, id); status != http.StatusBadRequest || got != "PENDING" {
		t.Errorf("contract 22: the link's flow twice: %d, and the session is %q", status, got)
	}
}
