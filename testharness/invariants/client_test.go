package invariants_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/verge-id/verge/core/web"
	"golang.org/x/net/html"
)

var browser = &http.Client{
	Transport:     &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Second}, // without proxy
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// answer is the response to a request. Status 0: there was no response.
type answer struct {
	status   int
	header   http.Header
	body     []byte
	location string
}

func (a answer) text(name string) string {
	var m map[string]any
	json.Unmarshal(a.body, &m)
	s, _ := m[name].(string)
	return s
}

// do sends one request, with the secret key if it is for the API.
func (s *service) do(method, target string, body []byte, contentType string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		s.t.Errorf("%s %s: %v", method, target, err)
		return answer{}
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	if strings.HasPrefix(req.URL.Path, "/api/") {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := browser.Do(req)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header, location: resp.Header.Get("Location")}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return answer{}
	}
	return a
}

func (s *service) start(integration string) answer {
	body := `{"integration_id":"` + integration + `","callback_url":"https://shop.example/return","state":"s"}`
	return s.do("POST", s.url+web.StartPath, []byte(body), "application/json")
}

func (s *service) validate(resultToken string) answer {
	return s.do(
		"POST",
		s.url+web.ValidatePath,
		[]byte(`{"result_token":"`+resultToken+`"}`),
		"application/json",
	)
}

func (s *service) reconcile(session string) answer {
	return s.do("GET", s.url+web.SessionsPath+session, nil, "")
}

// page requests a document of the hosted flow.
func (s *service) page(target string) (answer, map[string]form) {
	a := s.do("GET", target, nil, "")
	return a, forms(target, a.body)
}

func (s *service) submit(f form) answer {
	return s.do("POST", f.action, []byte(f.fields.Encode()), "application/x-www-form-urlencoded")
}

var hopLink = regexp.MustCompile(`<a data-hop[^>]* href="([^"]*)"`)

// hop returns the address to which a page sends the browser, or nil.
func hop(page answer) *url.URL {
	m := hopLink.FindSubmatch(page.body)
	if m == nil {
		return nil
	}
	to, err := url.Parse(html.UnescapeString(string(m[1])))
	if err != nil {
		return nil
	}
	return to
}

// form is a form that a user can send.
type form struct {
	action string
	fields url.Values
}

// forms returns the forms of a page, by outcome.
func forms(target string, page []byte) map[string]form {
	out := map[string]form{}
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return out
	}
	from, err := url.Parse(target)
	if err != nil {
		return out
	}
	last := ""
	for n := range doc.Descendants() {
		attr := func(name string) string {
			for _, a := range n.Attr {
				if a.Key == name {
					return a.Val
				}
			}
			return ""
		}
		switch {
		case n.Type == html.ElementNode && n.Data == "form":
			last = attr("data-outcome")
			to, err := from.Parse(attr("action"))
			if err != nil {
				return out
			}
			out[last] = form{to.String(), url.Values{}}
		case n.Type == html.ElementNode && n.Data == "input" && last != "":
			out[last].fields.Add(attr("name"), attr("value"))
		}
	}
	return out
}
