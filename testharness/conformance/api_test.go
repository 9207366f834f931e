package conformance_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/ratelimit"
	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

// unlimited lifts the rate limits, for tests that ask more often than a publisher may.
func unlimited(c *core.Config) {
	free := ratelimit.PerMinute(100_000_000)
	c.Limits = web.Limits{PublicPerIP: free, PublicPerNetwork: free, PublicPerKey: free,
		StartsPerPublisher: free, SecretPerIP: free, ReconcilePerKey: free,
		PagesPerIP: free}
}

func members(m map[string]any) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestStartAnswer(t *testing.T) {
	h := newHarness(t, nil)
	r := h.TryStart(nil)
	m := r.JSON()
	t.Run("contract 1: success is 200", func(t *testing.T) { wantStatus(t, r, 200) })
	t.Run("spec: session_id, redirect_url and expires_at and nothing else", func(t *testing.T) {
		if got := members(m); !slices.Equal(got, []string{"expires_at", "redirect_url", "session_id"}) {
			t.Errorf("members %v", got)
		}
	})
	t.Run("spec: session_id starts with svc_sess_", func(t *testing.T) {
		if !strings.HasPrefix(r.Text("session_id"), "svc_sess_") {
			t.Errorf("session_id lacks its prefix: %v", m)
		}
	})
	t.Run("spec: redirect_url is a full URL of the service", func(t *testing.T) {
		if !strings.HasPrefix(r.Text("redirect_url"), h.BaseURL+"/verify?flow=") {
			t.Errorf("redirect_url is not such a URL: %v", m)
		}
	})
	const title = "contract 2: expires_at is 10 minutes after creation, RFC 3339 in UTC with milliseconds"
	t.Run(title, func(t *testing.T) {
		if m["expires_at"] != "2026-11-20T22:20:00.000Z" {
			t.Errorf("expires_at is %v", m["expires_at"])
		}
		h.Advance(1234567 * time.Microsecond)
		if at := h.Start(nil).ExpiresAt; at != "2026-11-20T22:20:01.234Z" {
			t.Errorf("1.234567 s later expires_at is %v", at)
		}
	})
}

func TestBodies(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	good := string(h.StartBody(nil))
	inner := strings.TrimSuffix(strings.TrimPrefix(good, "{"), "}")
	deep := func(open, close string, n int) string {
		return `{"x":` + strings.Repeat(open, n) + "1" + strings.Repeat(close, n) + "," + inner + "}"
	}
	padded := func(size int) string { return good + strings.Repeat(" ", size-len(good)) }
	for _, c := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"contract 3: unknown members are ignored", `{"more":{"a":[1,null,true]},` + inner + `}`, 200, ""},
		{"contract 3: optional members that are null count as absent",
			`{"state":null,"external_user_id":null,"language":null,"public_key":null,` + inner + `}`, 200, ""},
		{"contract 3: duplicate member, once null", `{"state":null,"state":"a",` + inner + `}`,
			400, "INVALID_REQUEST"},
		{"contract 3: white space around is JSON", "\r\n\t " + good + " \n", 200, ""},
		{"contract 3: escaped member names are the same names",
			strings.Replace(good, `"integration_id"`, `"integration\u005fid"`, 1), 200, ""},
		{"contract 3: a body of 16 KiB", padded(16 * 1024), 200, ""},
		{"contract 3: a body over 16 KiB", padded(16*1024 + 1), 413, "PAYLOAD_TOO_LARGE"},
		{"contract 3: a body far over 16 KiB", padded(1 << 20), 413, "PAYLOAD_TOO_LARGE"},
		{"contract 3: duplicate member", `{"state":"a","state":"a",` + inner + `}`, 400, "INVALID_REQUEST"},
		{"contract 3: duplicate member, escaped", `{"state":"a","st\u0061te":"b",` + inner + `}`,
			400, "INVALID_REQUEST"},
		{"contract 3: duplicate of an unknown member", `{"x":1,"x":2,` + inner + `}`, 400, "INVALID_REQUEST"},
		{"contract 3: duplicate member inside an unknown one",
			`{"x":{"a":1,"a":2},` + inner + `}`, 400, "INVALID_REQUEST"},
		{"contract 3: trailing data", good + "x", 400, "INVALID_REQUEST"},
		{"contract 3: a second object", good + good, 400, "INVALID_REQUEST"},
		{"contract 3: empty body", "", 400, "INVALID_REQUEST"},
		{"contract 3: an array", "[" + good + "]", 400, "INVALID_REQUEST"},
		{"contract 3: a string", `"x"`, 400, "INVALID_REQUEST"},
		{"contract 3: null", "null", 400, "INVALID_REQUEST"},
		{"contract 3: truncated", good[:len(good)-1], 400, "INVALID_REQUEST"},
		{"contract 3: truncated in a string", good[:len(good)-4], 400, "INVALID_REQUEST"},
		{"contract 3: comma behind the last member", "{" + inner + ",}", 400, "INVALID_REQUEST"},
		{"contract 3: single quotes", `{'a':1,` + inner + `}`, 400, "INVALID_REQUEST"},
		{"contract 3: invalid UTF-8", `{"state":"` + "\xff" + `",` + inner + `}`, 400, "INVALID_REQUEST"},
		{"contract 3: overlong UTF-8", `{"state":"` + "\xc0\xaf" + `",` + inner + `}`, 400, "INVALID_REQUEST"},
		{"contract 3: half a surrogate pair", `{"state":"\ud800",` + inner + `}`, 400, "INVALID_REQUEST"},
		{"contract 3: byte order mark", "\ufeff" + good, 400, "INVALID_REQUEST"},
		{"contract 3: nested far too deep, objects", deep(`{"a":`, "}", 1000), 400, "INVALID_REQUEST"},
		{"contract 3: nested far too deep, arrays", deep("[", "]", 5000), 400, "INVALID_REQUEST"},
		{"contract 3: nested a little", deep("[", "]", 5), 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantError(t, start(h, with(h, "Content-Type", "application/json"), c.body), c.status, c.code)
		})
	}
	for _, c := range []struct {
		name, contentType string
		status            int
	}{
		{"contract 3: missing Content-Type is JSON", "", 200},
		{"contract 3: JSON with charset", "application/json; charset=utf-8", 200},
		{"contract 3: JSON in capitals", "Application/JSON", 200},
		{"contract 3: text", "text/plain", 415},
		{"contract 3: a form", "application/x-www-form-urlencoded", 415},
		{"contract 3: what only begins like JSON", "application/jsonp", 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			header := with(h)
			if c.contentType != "" {
				header.Set("Content-Type", c.contentType)
			}
			code := ""
			if c.status == 415 {
				code = "UNSUPPORTED_MEDIA_TYPE"
			}
			wantError(t, start(h, header, good), c.status, code)
		})
	}
	t.Run("contract 3: validate reads its body just as strictly", func(t *testing.T) {
		post := func(header http.Header, raw string) *testharness.Response {
			return h.Do("POST", web.ValidatePath, header, []byte(raw))
		}
		wantError(t, post(with(h), `{"result_token":"a","result_token":"a"}`), 400, "INVALID_REQUEST")
		wantError(t, post(with(h), `{"result_token":"a"}{}`), 400, "INVALID_REQUEST")
		wantError(t, post(with(h), `[]`), 400, "INVALID_REQUEST")
		wantError(t, post(with(h), strings.Repeat(" ", 16*1024+1)), 413, "PAYLOAD_TOO_LARGE")
		wantError(t, post(with(h, "Content-Type", "text/plain"), `{"result_token":"a"}`), 415,
			"UNSUPPORTED_MEDIA_TYPE")
		wantError(t, post(with(h), `{"result_token":"svc_rt_x","more":1}`), 400, "INVALID_TOKEN")
	})
}

// Every invalid value of each field of start. If several are invalid together, the response has to name all
// of them.
func TestStartFields(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	bad := badFields(h)
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			r := h.TryStart(body{c.field: c.value})
			wantError(t, r, 400, "INVALID_REQUEST")
			if got := r.Details(); !slices.Equal(got, []string{c.field}) {
				t.Errorf("details name %v, want %s alone: %s", got, c.field, r.Body)
			}
			for _, d := range list(t, r, "details") {
				if got := members(d); !slices.Equal(got, []string{"code", "field", "message"}) {
					t.Errorf("contract 5: a detail has %v", got)
				}
			}
		})
	}
	const title = "contract 5: details name every bad field together, in any order of the body"
	t.Run(title, func(t *testing.T) {
		everyBadField(t, h)
	})
	t.Run("contract 5: details name every pair of bad fields", func(t *testing.T) {
		everyPair(t, h, bad)
	})
	for _, c := range []struct {
		name, field string
		value       any
	}{
		{"spec: state is optional", "state", nil},
		{"spec: external_user_id is optional", "external_user_id", nil},
		{"spec: language is optional", "language", nil},
		{"contract 8: an empty state counts as given", "state", ""},
		{"contract 8: an empty external_user_id counts as given", "external_user_id", ""},
		{"contract 8: state of 1,024 bytes", "state", strings.Repeat("a", 1024)},
		{"contract 8: state of 1,024 bytes in UTF-8", "state", strings.Repeat("é", 512)},
		{"contract 8: external_user_id of 256 bytes", "external_user_id", strings.Repeat("ß", 128)},
		{"contract 8: any Unicode text", "state", "日本 🦊 \u202e \u200b\ufeff�<>&'\"\\+%2B"},
		{"spec: integration_id in capitals is the same UUID", "integration_id",
			strings.ToUpper(h.Publisher.L1.ID)},
	} {
		t.Run(c.name, func(t *testing.T) { wantStatus(t, h.TryStart(body{c.field: c.value}), 200) })
	}
	for _, lang := range []string{"en", "de", "es", "fr", "pt", "it"} {
		t.Run("spec: language "+lang,
			func(t *testing.T) { wantStatus(t, h.TryStart(body{"language": lang}), 200) })
	}
}

// badField is a rejected field of start's body, with the reason.
type badField struct {
	name, field string
	value       any
}

func badFields(h *testharness.Harness) []badField {
	return []badField{
		{"spec: integration_id is required", "integration_id", nil},
		{"spec: integration_id is a UUID", "integration_id", "int_" + h.Publisher.L1.ID},
		{"spec: integration_id is a string", "integration_id", 7},
		{"spec: integration_id is not null", "integration_id", json.RawMessage("null")},
		{"spec: callback_url is required", "callback_url", nil},
		{"spec: callback_url is a string", "callback_url", []string{"https://a.example"}},
		{"contract 8: callback_url is not empty", "callback_url", ""},
		{"contract 8: callback_url is at most 2,048 bytes", "callback_url",
			"https://a.example/" + strings.Repeat("a", 2048)},
		{"spec: state is a string", "state", 1},
		{"contract 8: state is at most 1,024 bytes", "state", strings.Repeat("a", 1025)},
		{"contract 8: state's limit counts bytes, not characters", "state", strings.Repeat("é", 513)},
		{"contract 8: state has no control characters", "state", "a\nb"},
		{"contract 8: state has no C1 control characters", "state", "a\u0085b"},
		{"contract 8: state has no NUL", "state", "a\x00b"},
		{"contract 8: state has no DEL", "state", "a\x7fb"},
		{"spec: external_user_id is a string", "external_user_id", true},
		{"contract 8: external_user_id is at most 256 bytes", "external_user_id", strings.Repeat("a", 257)},
		{"contract 8: external_user_id has no control characters", "external_user_id", "\x1b[0m"},
		{"spec: language is a string", "language", 1},
		{"spec: language is one of the six", "language", "nl"},
		{"spec: language is lower case", "language", "EN"},
		{"spec: language has no region", "language", "en-US"},
		{"contract 10: language is not empty", "language", ""},
	}
}

func everyBadField(t *testing.T, h *testharness.Harness) {
	fields := []string{`"integration_id":"x"`, `"callback_url":"ftp://x"`, `"state":"\u0001"`,
		`"external_user_id":5`, `"language":"xx"`,
		`"public_key":"svc_pk_x"`}
	want := []string{"callback_url", "external_user_id", "integration_id", "language",
		"public_key", "state", "Idempotency-Key"}
	slices.Sort(want)
	var first string
	for turn := range fields {
		order := append(slices.Clone(fields[turn:]), fields[:turn]...)
		r := start(h, with(h, "Idempotency-Key", ""), "{"+strings.Join(order, ",")+"}")
		wantError(t, r, 400, "INVALID_REQUEST")
		got := r.Details()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("details name %v, want %v", got, want)
		}
		details := fmt.Sprint(r.JSON()["details"])
		if first == "" {
			first = details
		}
		if details != first {
			t.Errorf("details depend on the order of members:\n%s\n%s", first, details)
		}
	}
}

func everyPair(t *testing.T, h *testharness.Harness, bad []badField) {
	for i, a := range bad {
		for _, b := range bad[i+1:] {
			if a.field == b.field {
				continue
			}
			r := h.TryStart(body{a.field: a.value, b.field: b.value})
			got := r.Details()
			slices.Sort(got)
			want := []string{a.field, b.field}
			slices.Sort(want)
			if r.Status != 400 || !slices.Equal(got, want) {
				t.Errorf("%s and %s: %d, details name %v", a.name, b.name, r.Status, got)
			}
		}
	}
}

// core/internal/api tests the whole list of callbacks. These cases show that the endpoint
// applies it, and with which rules.
func TestCallbackURL(t *testing.T) {
	for _, mode := range []struct {
		name       string
		production bool
	}{{"dev", false}, {"production", true}} {
		h := newHarness(t, &opts{Production: mode.production, Configure: unlimited})
		if mode.production {
			h.MakeReady(h.Publisher.L1)
			h.MakeReady(h.Publisher.L2)
		}
		h.Reconfigure(h.Publisher.L2, "", func(i *integration.Integration) {
			i.CallbackOrigins = []string{"https://shop.example", "https://shop.example:8443"}
		})
		for _, c := range []struct {
			name, url string
			ok        bool
		}{
			{"contract 8: https", "https://shop.example/return", true},
			{"contract 8: https without path", "https://shop.example", true},
			{"contract 8: with its own query", "https://shop.example/return?a=1&b=%20", true},
			{"contract 8: with a port", "https://shop.example:8443/", true},
			{"contract 8: http to a loopback host, in dev mode only", "http://localhost:3000/return",
				!mode.production},
			{"contract 8: http to a loopback address, in dev mode only", "http://127.0.0.1:3000/return",
				!mode.production},
			{"contract 8: http elsewhere", "http://shop.example/return", false},
			{"contract 8: http to a host that resembles loopback", "http://localhost.evil.example/", false},
			{"contract 8: callback has userinfo", "https://user:pw@shop.example/", false},
			{"contract 8: callback has empty userinfo", "https://@shop.example/", false},
			{"contract 8: callback has a fragment", "https://shop.example/#a", false},
			{"contract 8: callback has an empty fragment", "https://shop.example/#", false},
			{"contract 8: callback is relative", "/return", false},
			{"contract 8: callback has no scheme", "//shop.example/return", false},
			{"contract 8: callback has no host", "https:///return", false},
			{"contract 8: callback is a script", "javascript:alert(1)", false},
			{"contract 8: callback is a custom scheme", "myapp://return", false},
			{"contract 8: backslash", `https://shop.example\@evil.example/`, false},
			{"contract 8: callback has result_token", "https://shop.example/?result_token=x", false},
			{"contract 8: callback has session_id", "https://shop.example/?a=b&session_id=x", false},
			{"contract 8: callback has state", "https://shop.example/?state", false},
			{"contract 8: callback has state, escaped", "https://shop.example/?st%61te=x", false},
			{"contract 8: callback has a tab", "https://shop.example/\treturn", false},
			{"contract 8: callback has a line break", "https://shop.example/\r\nSet-Cookie: a=b", false},
			{"contract 8: callback of 2,048 bytes", "https://shop.example/" +
				strings.Repeat("a", 2048-len("https://shop.example/")), true},
			{"contract 8: callback of 2,049 bytes", "https://shop.example/" +
				strings.Repeat("a", 2049-len("https://shop.example/")), false},
		} {
			t.Run(mode.name+"/"+c.name, func(t *testing.T) {
				r := h.TryStart(body{"callback_url": c.url})
				if c.ok {
					wantStatus(t, r, 200)
					return
				}
				wantError(t, r, 400, "INVALID_REQUEST")
				if got := r.Details(); !slices.Equal(got, []string{"callback_url"}) {
					t.Errorf("details name %v", got)
				}
			})
		}
		for _, c := range []struct {
			name, url string
			ok        bool
		}{
			{"contract 8: inside the allowed callback origins", "https://shop.example/any/path?q", true},
			{"contract 8: inside the allowed callback origins, by port", "https://shop.example:8443/", true},
			{"contract 8: other host", "https://evil.example/", false},
			{"contract 8: subdomain", "https://www.shop.example/", false},
			{"contract 8: host that only begins alike", "https://shop.example.evil.example/", false},
			{"contract 8: other port", "https://shop.example:9443/", false},
		} {
			t.Run(mode.name+"/listed origins/"+c.name, func(t *testing.T) {
				r := h.TryStart(body{"integration_id": h.Publisher.L2.ID, "callback_url": c.url})
				if c.ok {
					wantStatus(t, r, 200)
				} else {
					wantError(t, r, 400, "INVALID_REQUEST")
				}
			})
		}
	}
}

func TestCallbackRedirect(t *testing.T) {
	h := newHarness(t, nil)
	for _, c := range []struct {
		name, callback string
		state          any
		prefix         string
	}{
		{"spec: parameters are added", "https://shop.example/return", "s",
			"https://shop.example/return?result_token="},
		{"contract 8: the callback's own query stays as it is", "https://shop.example/r?b=%7e&a=+", "s",
			"https://shop.example/r?b=%7e&a=+&result_token="},
		{"spec: state is echoed unchanged", "https://shop.example/", "日本 +&=%/?#\"<🦊",
			"https://shop.example/?result_token="},
		{"contract 8: an empty state is echoed, since it was given", "https://shop.example/", "",
			"https://shop.example/?result_token="},
		{"spec: no state if none was given", "https://shop.example/", nil,
			"https://shop.example/?result_token="},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := h.Start(body{"callback_url": c.callback, "state": c.state})
			back := h.Approve(s)
			if !strings.HasPrefix(back.URL, c.prefix) {
				t.Errorf("callback %s, want it to begin %s", back.URL, c.prefix)
			}
			if state, given := c.state.(string); back.HasState != given || back.State != state {
				t.Errorf("state came back as %q (%v), was %v", back.State, back.HasState, c.state)
			}
			if back.SessionID != s.SessionID || !strings.HasPrefix(back.ResultToken, "svc_rt_") {
				t.Errorf("callback %+v", back)
			}
			level := strings.Contains(back.URL, "L1") &&
				!strings.Contains(back.ResultToken+back.SessionID, "L1")
			if level || strings.Contains(back.URL, "verified") {
				t.Errorf("spec: the callback carries no result: %s", back.URL)
			}
		})
	}
}

func TestPathsAndMethods(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	session := h.Start(nil).SessionID
	for _, c := range []struct {
		name, method, path string
		status             int
		allow              string
	}{
		{"contract 5: unknown path", "GET", "/", 404, ""},
		{"contract 5: unknown path below the API", "POST", "/api/v1/verify/stop", 404, ""},
		{"contract 5: other version", "POST", "/api/v2/verify/start", 404, ""},
		{"contract 5: slash at the end", "POST", "/api/v1/verify/start/", 404, ""},
		{"contract 5: capitals", "POST", "/API/v1/verify/start", 404, ""},
		{"contract 5: an escaped slash", "POST", "/api/v1/verify%2Fstart", 404, ""},
		{"contract 5: an escaped slash in lower case", "GET", "/api/v1/verify/sessions%2f" + session, 404,
			""},
		{"contract 5: POST on a health check", "POST", "/healthz", 405, "GET, HEAD"},
		{"contract 5: DELETE on a health check", "DELETE", "/readyz", 405, "GET, HEAD"},
		{"contract 5: no session id", "GET", "/api/v1/verify/sessions/", 404, ""},
		{"contract 5: more behind the session id", "GET", "/api/v1/verify/sessions/" + session + "/x", 404,
			""},
		{"contract 5: GET on start", "GET", web.StartPath, 405, "POST, OPTIONS"},
		{"contract 5: PUT on start", "PUT", web.StartPath, 405, "POST, OPTIONS"},
		{"contract 5: GET on validate", "GET", web.ValidatePath, 405, "POST"},
		{"contract 7: OPTIONS on validate", "OPTIONS", web.ValidatePath, 405, "POST"},
		{"contract 5: POST on a session", "POST", web.SessionsPath + session, 405, "GET, HEAD"},
		{"contract 5: DELETE on a session", "DELETE", web.SessionsPath + session, 405, "GET, HEAD"},
		{"contract 7: OPTIONS on a session", "OPTIONS", web.SessionsPath + session, 405, "GET, HEAD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := h.Do(c.method, c.path, with(h), nil)
			code := map[int]string{404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}[c.status]
			wantError(t, r, c.status, code)
			if got := r.Header.Get("Allow"); got != c.allow {
				t.Errorf("Allow %q, want %q", got, c.allow)
			}
		})
	}
}

var requestID = regexp.MustCompile(`^req_[0-9A-Za-z]{16,}$`)

func TestRequestAndCorrelationIDs(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	t.Run("contract 4: every response has its own request id", func(t *testing.T) {
		seen := map[string]bool{}
		for _, r := range []*testharness.Response{h.TryStart(nil), h.TryStart(body{"state": 1}),
			h.Validate("x"), h.Reconcile("x"),
			h.Do("GET", "/nowhere", nil, nil), h.Do("GET", "/verify?flow=x", nil, nil)} {
			id := r.Header.Get("X-Request-Id")
			if !requestID.MatchString(id) || seen[id] {
				t.Errorf("X-Request-Id %q", id)
			}
			seen[id] = true
		}
	})
	for _, c := range []struct {
		name, id string
		echoed   bool
	}{
		{"contract 4: one character", "a", true},
		{"contract 4: 128 characters", strings.Repeat("x", 128), true},
		{"contract 4: printable ASCII", `a b"<>\~!`, true},
		{"contract 4: 129 characters", strings.Repeat("x", 129), false},
		{"contract 4: not ASCII", "é", false},
		{"contract 4: tab", "a\tb", false},
		{"contract 4: empty", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			good := start(h, with(h, "X-Correlation-Id", c.id), string(h.StartBody(nil)))
			bad := start(h, with(h, "X-Correlation-Id", c.id), "{}")
			wantStatus(t, good, 200)
			wantStatus(t, bad, 400)
			want := ""
			if c.echoed {
				want = c.id
			}
			for _, r := range []*testharness.Response{good, bad} {
				if got := r.Header.Get("X-Correlation-Id"); got != want {
					t.Errorf("header %q, want %q", got, want)
				}
			}
			got, present := bad.JSON()["correlation_id"]
			if present != c.echoed || present && got != want {
				t.Errorf("member %v (%v), want %q", got, present, want)
			}
		})
	}
	t.Run("contract 4: none asked for, none sent", func(t *testing.T) {
		if r := h.Validate("x"); r.Header.Get("X-Correlation-Id") != "" || r.JSON()["correlation_id"] != nil {
			t.Errorf("the response has a correlation id: %v %s", r.Header, r.Body)
		}
	})
	t.Run("contract 5: refusals that the core has no part in look the same", func(t *testing.T) {
		r := h.Do("GET", "/api/v1/verify/sessions/x?"+strings.Repeat("a", 9000),
			also(with(h), "X-Correlation-Id", "c-1"), nil)
		if wantError(t, r, 414, "URI_TOO_LONG"); r.JSON()["correlation_id"] != "c-1" {
			t.Errorf("the correlation id is not repeated: %d %s", r.Status, r.Body)
		}
	})
	t.Run("contract 5: a return has a longer URL", func(t *testing.T) {
		long := "/verify/return/bank?code=" + strings.Repeat("%20", 8<<10)
		if r := h.Do("GET", long, headers("Accept", "application/json"), nil); r.Status != 400 {
			t.Errorf("contract 35: a code of 8 KiB: %d %s", r.Status, r.Body)
		}
		wantError(t, h.Do("GET", long+strings.Repeat("a", 2<<10), with(h), nil), 414, "URI_TOO_LONG")
	})
}

func TestCORS(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	i := h.Publisher.L1
	preflight := func(path, origin, method string) *testharness.Response {
		return h.Do("OPTIONS", path, headers("Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", "content-type"), nil)
	}
	t.Run("contract 7: start answers a preflight of an allowed origin", func(t *testing.T) {
		r := preflight(web.StartPath, i.BrowserOrigin, "POST")
		wantStatus(t, r, 204)
		allowed := r.Header.Get("Access-Control-Allow-Headers")
		if r.Header.Get("Access-Control-Allow-Origin") != i.BrowserOrigin ||
			r.Header.Get("Access-Control-Allow-Methods") != "POST" ||
			!strings.Contains(allowed, "Content-Type") || r.Header.Get("Vary") != "Origin" {
			t.Errorf("wrong headers of a preflight: %v", r.Header)
		}
		if r.Header.Get("Access-Control-Allow-Credentials") != "" ||
			strings.Contains(allowed, "Authorization") {
			t.Errorf("a browser is offered the secret key's header: %v", r.Header)
		}
	})
	noCORS := func(t *testing.T, r *testharness.Response) {
		t.Helper()
		for name := range r.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%d answer carries %s", r.Status, name)
			}
		}
	}
	for _, origin := range []string{
		"https://evil.example", "http://shop.example", "https://shop.example:444", "null",
	} {
		t.Run("contract 7: preflight of another origin: "+origin, func(t *testing.T) {
			r := preflight(web.StartPath, origin, "POST")
			wantError(t, r, 403, "FORBIDDEN")
			noCORS(t, r)
		})
		t.Run("contract 5: start from another origin: "+origin, func(t *testing.T) {
			r := start(h, headers("Origin", origin), string(h.StartBody(body{"public_key": i.PublicKey})))
			wantError(t, r, 403, "FORBIDDEN")
			noCORS(t, r)
		})
	}
	t.Run("contract 7: start with a public key from an allowed origin", func(t *testing.T) {
		r := start(h, headers("Origin", i.BrowserOrigin, "Sec-Fetch-Site", "cross-site",
			"Content-Type", "application/json"), string(h.StartBody(body{"public_key": i.PublicKey})))
		wantStatus(t, r, 200)
		if r.Header.Get("Access-Control-Allow-Origin") != i.BrowserOrigin ||
			r.Header.Get("Vary") != "Origin" {
			t.Errorf("the page cannot read the response: %v", r.Header)
		}
	})
	t.Run("contract 7: a page can read errors too", func(t *testing.T) {
		r := start(h, headers("Origin", i.BrowserOrigin),
			string(h.StartBody(body{"public_key": i.PublicKey, "state": 1})))
		wantError(t, r, 400, "INVALID_REQUEST")
		if r.Header.Get("Access-Control-Allow-Origin") != i.BrowserOrigin {
			t.Errorf("the page cannot read the error: %v", r.Header)
		}
	})
	t.Run("contract 7: a preflight for another method", func(t *testing.T) {
		r := preflight(web.StartPath, i.BrowserOrigin, "GET")
		wantError(t, r, 405, "METHOD_NOT_ALLOWED")
		noCORS(t, r)
	})
	t.Run("contract 7: validate and reconcile never send CORS headers", func(t *testing.T) {
		session := h.Start(nil).SessionID
		for _, r := range []*testharness.Response{
			preflight(web.ValidatePath, i.BrowserOrigin, "POST"),
			preflight(web.SessionsPath+session, i.BrowserOrigin, "GET"),
			h.ValidateAs(with(h, "Origin", i.BrowserOrigin), "svc_rt_x"),
			h.ValidateAs(headers("Origin", i.BrowserOrigin), "svc_rt_x"),
			h.Do("GET", web.SessionsPath+session, with(h, "Origin", i.BrowserOrigin), nil),
			h.Do("GET", web.SessionsPath+session, with(h), nil),
		} {
			noCORS(t, r)
		}
	})
}

func TestIdempotencyKey(t *testing.T) {
	h := repeats{newHarness(t, &opts{Configure: unlimited})}
	for _, c := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"contract 11: the same key, credential and body give the same session", h.sameSession},
		{"contract 11: within 10 minutes, to the millisecond", h.sameForTenMinutes},
		{"contract 11: another body gives 400", h.anotherBody},
		{"contract 11: another credential has keys of its own", h.anotherCredential},
		{"contract 11: not with a public key, which everybody shares", h.publicKey},
		{"contract 11: sent twice", h.twoKeys},
		{"contract 11: many concurrent starts create one session", h.manyAtOnce},
		{"contract 11: a start that failed at the provider is repeated as it was", h.failedStart},
		{"contract 11: validate repeats its first response for the token's life",
			h.sameAnswer},
		{"contract 11: a token used without a key is not given out again with one", h.usedWithoutKey},
		{"contract 11: the same key for two tokens is two exchanges", h.twoTokens},
		{"contract 11: a bad key on validate consumes nothing", h.badKey},
	} {
		t.Run(c.name, c.run)
	}
	for _, c := range []struct {
		name, key string
		ok        bool
	}{
		{"contract 11: 255 characters", strings.Repeat("k", 255), true},
		{"contract 11: 256 characters", strings.Repeat("k", 256), false},
		{"contract 11: printable ASCII", `a b"~!`, true},
		{"contract 11: empty", "", false},
		{"contract 11: not ASCII", "ü", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := h.start(c.key, nil)
			if c.ok {
				wantStatus(t, r, 200)
			} else {
				wantBadKey(t, r)
			}
		})
	}
}

// repeats is a service that is asked with an Idempotency-Key.
type repeats struct{ *testharness.Harness }

func (h repeats) start(key string, change body) *testharness.Response {
	return start(h.Harness, with(h.Harness, "Idempotency-Key", key), string(h.StartBody(change)))
}

func (h repeats) validate(key, token string) *testharness.Response {
	return h.ValidateAs(with(h.Harness, "Idempotency-Key", key), token)
}

func (h repeats) token() string { return h.Approve(h.Start(nil)).ResultToken }

func wantBadKey(t testing.TB, r *testharness.Response) {
	t.Helper()
	wantError(t, r, 400, "INVALID_REQUEST")
	if got := r.Details(); !slices.Equal(got, []string{"Idempotency-Key"}) {
		t.Errorf("details name %v", got)
	}
}

func (h repeats) sameSession(t *testing.T) {
	a, b := h.start("k1", nil), h.start("k1", nil)
	wantStatus(t, a, 200)
	if string(a.Body) != string(b.Body) {
		t.Errorf("the same request got two answers:\n%s\n%s", a.Body, b.Body)
	}
	h.Settle()
	if types := h.Sink.Types(a.Text("session_id")); len(types) != 1 {
		t.Errorf("events %v", types)
	}
	if a.Header.Get("X-Request-Id") == b.Header.Get("X-Request-Id") {
		t.Error("contract 4: two answers share a request id")
	}
}

func (h repeats) sameForTenMinutes(t *testing.T) {
	a := h.start("k2", nil)
	h.Advance(10*time.Minute - time.Millisecond)
	if b := h.start("k2", nil); string(a.Body) != string(b.Body) {
		t.Errorf("within 10 minutes the same request got two answers:\n%s\n%s", a.Body, b.Body)
	}
	h.Advance(time.Millisecond)
	if b := h.start("k2", nil); b.Status != 200 || string(a.Body) == string(b.Body) {
		t.Errorf("after 10 minutes the same request got the old answer:\n%s\n%s", a.Body, b.Body)
	}
}

func (h repeats) anotherBody(t *testing.T) {
	wantStatus(t, h.start("k3", nil), 200)
	wantBadKey(t, h.start("k3", body{"state": "other"}))
}

func (h repeats) anotherCredential(t *testing.T) {
	a := h.start("k4", nil)
	other := headers("Authorization", "Bearer "+h.Other.SecretKey, "Idempotency-Key", "k4")
	b := start(h.Harness, other, string(h.StartBody(body{"integration_id": h.Other.L1.ID})))
	wantStatus(t, b, 200)
	if a.JSON()["session_id"] == b.JSON()["session_id"] {
		t.Error("two publishers share a session")
	}
}

func (h repeats) publicKey(t *testing.T) {
	clientSide := h.StartBody(body{"public_key": h.Publisher.L1.PublicKey})
	wantBadKey(t, start(h.Harness, headers("Idempotency-Key", "k5"), string(clientSide)))
}

func (h repeats) twoKeys(t *testing.T) {
	two := with(h.Harness, "Idempotency-Key", "a", "Idempotency-Key", "a")
	wantError(t, start(h.Harness, two, string(h.StartBody(nil))), 400, "INVALID_REQUEST")
}

func (h repeats) manyAtOnce(t *testing.T) {
	h.Settle()
	h.Sink.Forget()
	bodies := make([]string, 32)
	var wg sync.WaitGroup
	for n := range bodies {
		wg.Go(func() {
			r := h.start("k6", nil)
			wantStatus(t, r, 200)
			bodies[n] = string(r.Body)
		})
	}
	wg.Wait()
	if u := slices.Compact(slices.Sorted(slices.Values(bodies))); len(u) != 1 {
		t.Errorf("%d sessions", len(u))
	}
	h.Settle()
	if events := h.Sink.Events(); len(events) != 1 {
		t.Errorf("%d events of one session", len(events))
	}
}

func (h repeats) failedStart(t *testing.T) {
	h.Settle()
	h.Sink.Forget()
	a := h.start("k7", body{"external_user_id": "sandbox:init_error"})
	b := h.start("k7", body{"external_user_id": "sandbox:init_error"})
	wantError(t, a, 502, "PROVIDER_UNAVAILABLE")
	wantError(t, b, 502, "PROVIDER_UNAVAILABLE")
	if a.JSON()["session_id"] != b.JSON()["session_id"] {
		t.Errorf("two sessions: %s %s", a.Body, b.Body)
	}
	h.Settle()
	if types := h.Sink.Types(a.Text("session_id")); len(types) != 2 {
		t.Errorf("events %v", types)
	}
}

func (h repeats) sameAnswer(t *testing.T) {
	token := h.token()
	a := h.validate("v1", token)
	wantStatus(t, a, 200)
	h.Advance(5*time.Minute - time.Millisecond)
	if b := h.validate("v1", token); string(a.Body) != string(b.Body) {
		t.Errorf("the same request got two answers:\n%s\n%s", a.Body, b.Body)
	}
	wantError(t, h.validate("v2", token), 409, "ALREADY_USED")
	wantError(t, h.Validate(token), 409, "ALREADY_USED")
	h.Advance(time.Millisecond)
	wantError(t, h.validate("v1", token), 410, "EXPIRED")
}

func (h repeats) usedWithoutKey(t *testing.T) {
	token := h.token()
	wantStatus(t, h.Validate(token), 200)
	wantError(t, h.validate("v3", token), 409, "ALREADY_USED")
}

func (h repeats) twoTokens(t *testing.T) {
	wantStatus(t, h.validate("v4", h.token()), 200)
	wantStatus(t, h.validate("v4", h.token()), 200)
}

func (h repeats) badKey(t *testing.T) {
	token := h.token()
	wantError(t, h.validate(strings.Repeat("k", 256), token), 400, "INVALID_REQUEST")
	wantStatus(t, h.Validate(token), 200)
}

func TestValidateAnswer(t *testing.T) {
	h := newHarness(t, &opts{Configure: unlimited})
	for _, c := range []struct{ name, raw string }{
		{"spec: result_token is required", `{}`},
		{"spec: result_token is a string", `{"result_token":1}`},
		{"spec: result_token is not null", `{"result_token":null}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := h.Do("POST", web.ValidatePath, with(h), []byte(c.raw))
			wantError(t, r, 400, "INVALID_REQUEST")
			if got := r.Details(); !slices.Equal(got, []string{"result_token"}) {
				t.Errorf("details name %v", got)
			}
		})
	}
	t.Run("spec: the second call fails with ALREADY_USED", func(t *testing.T) {
		token := h.Approve(h.Start(nil)).ResultToken
		wantStatus(t, h.Validate(token), 200)
		wantError(t, h.Validate(token), 409, "ALREADY_USED")
	})
	t.Run("contract 5: another publisher's token is INVALID_TOKEN and stays unconsumed", func(t *testing.T) {
		token := h.Approve(h.Start(nil)).ResultToken
		wantError(t, h.ValidateAs(testharness.Bearer(h.Other.SecretKey), token), 400, "INVALID_TOKEN")
		wantStatus(t, h.Validate(token), 200)
		wantError(t, h.ValidateAs(testharness.Bearer(h.Other.SecretKey), token), 400, "INVALID_TOKEN")
	})
	t.Run("contract 5: EXPIRED even if it was used", func(t *testing.T) {
		used, unused := h.Approve(h.Start(nil)).ResultToken, h.Approve(h.Start(nil)).ResultToken
		wantStatus(t, h.Validate(used), 200)
		h.Advance(5 * time.Minute)
		wantError(t, h.Validate(used), 410, "EXPIRED")
		wantError(t, h.Validate(unused), 410, "EXPIRED")
		h.Advance(24 * time.Hour)
		wantError(t, h.Validate(used), 410, "EXPIRED")
		wantError(t, h.Validate(unused), 410, "EXPIRED")
	})
	t.Run("contract 5: a token of another ring is INVALID_TOKEN", func(t *testing.T) {
		other := newHarness(t, nil)
		wantError(t, h.Validate(other.Approve(other.Start(nil)).ResultToken), 400, "INVALID_TOKEN")
	})
}

func TestProduction(t *testing.T) {
	h := newHarness(t, &opts{Production: true})
	t.Run("contract 5: start on an integration that is not ready", func(t *testing.T) {
		wantError(t, h.TryStart(nil), 409, "INTEGRATION_NOT_READY")
	})
	t.Run("contract 5: after the test has reported Ready", func(t *testing.T) {
		h.MakeReady(h.Publisher.L1)
		wantStatus(t, h.TryStart(nil), 200)
		wantError(t, h.TryStart(body{"integration_id": h.Publisher.L2.ID}), 409, "INTEGRATION_NOT_READY")
	})
	t.Run("contract 5: no webhook URL counts as not ready", func(t *testing.T) {
		h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) { i.Webhook.URL = "" })
		wantError(t, h.TryStart(nil), 409, "INTEGRATION_NOT_READY")
	})
	t.Run("contract 5: unless webhooks are switched off explicitly", func(t *testing.T) {
		h.Reconfigure(h.Publisher.L1, "", func(i *integration.Integration) { i.Webhook.Off = true })
		s := h.Start(nil)
		h.Approve(s)
		h.Advance(time.Hour)
		if types := h.Sink.Types(s.SessionID); len(types) != 0 {
			t.Errorf("events %v", types)
		}
	})
}

func TestNotFound(t *testing.T) {
	h := newHarness(t, nil)
	strange := "00000000-0000-4000-8000-000000000000"
	const title = "contract 5: an integration that does not exist and another publisher's look the same"
	t.Run(title, func(t *testing.T) {
		a, b := h.TryStart(body{"integration_id": strange}), h.TryStart(body{"integration_id": h.Other.L1.ID})
		wantError(t, a, 404, "NOT_FOUND")
		same(t, a, b)
	})
	t.Run("contract 5: so they do with further faults in the request", func(t *testing.T) {
		a, b := h.TryStart(body{"integration_id": strange, "state": 1}),
			h.TryStart(body{"integration_id": h.Other.L1.ID, "state": 1})
		same(t, a, b)
		h.Reconfigure(h.Other.L1, "",
			func(i *integration.Integration) { i.CallbackOrigins = []string{"https://other.example"} })
		same(t, a, h.TryStart(body{"integration_id": h.Other.L1.ID, "state": 1}))
	})
	t.Run("contract 5: a session that does not exist and another publisher's look the same",
		func(t *testing.T) {
			s := h.Start(nil).SessionID
			forged := s[:len(s)-6] + flip(s[len(s)-6]) + s[len(s)-5:]
			a := h.Reconcile(forged)
			b := h.Do("GET", web.SessionsPath+s, testharness.Bearer(h.Other.SecretKey), nil)
			wantError(t, a, 404, "NOT_FOUND")
			same(t, a, b)
		})
}

// flip returns another character of base64url.
func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

var idPattern = regexp.MustCompile(`req_[0-9A-Za-z]+`)

// same compares two answers in everything that a caller can see, except their
// request ids and rate counters.
func same(t testing.TB, a, b *testharness.Response) {
	t.Helper()
	if x, y := visible(a), visible(b); x != y {
		t.Errorf("two answers that must look the same:\n%s\n%s", x, y)
	}
}

func visible(r *testharness.Response) string {
	h := r.Header.Clone()
	for _, name := range []string{"X-Request-Id", "Ratelimit", "Date"} {
		h.Del(name)
	}
	return fmt.Sprint(r.Status, h, idPattern.ReplaceAllString(string(r.Body), "req"))
}
