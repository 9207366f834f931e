package conformance_test

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/web"
	"github.com/verge-id/verge/testharness"
)

type (
	body = testharness.Body
	opts = testharness.Options
)

// cryptoRand has its own name because these tests use math/rand as well.
var cryptoRand = rand.Reader

var headers = testharness.Headers

// newHarness is testharness.New on the engine of this run. It checks every response against the contract's
// rules for all responses, and against openapi.yaml.
func newHarness(t testing.TB, o *opts) *testharness.Harness {
	t.Helper()
	var with opts
	if o != nil {
		with = *o
	}
	if with.KV == nil {
		with.KV = onEngine(t)
	}
	if with.Engine == nil {
		with.Engine, with.Remote = onWasm(t), onWorker(t)
	}
	observe := with.Observe
	with.Observe = func(r *testharness.Response) {
		checkResponse(t, r)
		checkDescribed(t, r)
		if observe != nil {
			observe(r)
		}
	}
	return testharness.New(t, &with)
}

// checkResponse checks a response of the API against contract 1, 4 and 5.
func checkResponse(t testing.TB, r *testharness.Response) {
	t.Helper()
	at := r.Request.Method + " " + r.Request.URL.Path
	if !strings.HasPrefix(r.Header.Get("X-Request-Id"), "req_") {
		t.Errorf("contract 4: %s: X-Request-Id is %q", at, r.Header.Get("X-Request-Id"))
	}
	if !strings.HasPrefix(r.Request.URL.Path, "/api/") || r.Status == http.StatusNoContent {
		return
	}
	contentType := "application/json; charset=utf-8"
	if r.Status == http.StatusNotModified {
		contentType = "" // it has no body
	}
	if ct := r.Header.Get("Content-Type"); ct != contentType {
		t.Errorf("contract 1: %s: Content-Type %q", at, ct)
	}
	if cc := r.Header.Get("Cache-Control"); cc != "no-store" {
		t.Errorf("contract 1: %s: Cache-Control %q", at, cc)
	}
	if r.Status < 400 || r.Request.Method == "HEAD" {
		return
	}
	m := r.JSON()
	for _, name := range []string{"code", "error_code", "error", "message", "request_id"} {
		if s, _ := m[name].(string); s == "" {
			t.Errorf("contract 5: %s: error without %s: %s", at, name, r.Body)
		}
	}
	if m["code"] != m["error_code"] || m["error"] != m["message"] {
		t.Errorf("contract 5: %s: mirrors differ: %s", at, r.Body)
	}
	if m["request_id"] != r.Header.Get("X-Request-Id") {
		t.Errorf("contract 5: %s: request_id is not the header's: %s", at, r.Body)
	}
	known := []string{"code", "error_code", "error", "message", "request_id",
		"correlation_id", "details", "session_id"}
	for name := range maps.Keys(m) {
		if !slices.Contains(known, name) {
			t.Errorf("contract 5: %s: unknown member %s: %s", at, name, r.Body)
		}
	}
}

func wantError(t testing.TB, r *testharness.Response, status int, code string) {
	t.Helper()
	if r.Status != status || r.Code() != code {
		t.Errorf("got %d %s, want %d %s: %s", r.Status, r.Code(), status, code, r.Body)
	}
}

func wantStatus(t testing.TB, r *testharness.Response, status int) {
	t.Helper()
	if r.Status != status {
		t.Errorf("got %d, want %d: %s", r.Status, status, r.Body)
	}
}

func wantJSON(t testing.TB, r *testharness.Response, status int, want map[string]any) {
	t.Helper()
	wantStatus(t, r, status)
	if got := r.JSON(); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n %v\nwant\n %v", got, want)
	}
}

// list returns the field of a response that is a list of objects.
func list(t testing.TB, r *testharness.Response, name string) []map[string]any {
	t.Helper()
	var members map[string]json.RawMessage
	var out []map[string]any
	if json.Unmarshal(r.Body, &members) != nil || json.Unmarshal(members[name], &out) != nil {
		t.Errorf("no list of %s: %d %s", name, r.Status, r.Body)
	}
	return out
}

// start posts raw bytes to start.
func start(h *testharness.Harness, header http.Header, raw string) *testharness.Response {
	return h.Do("POST", web.StartPath, header, []byte(raw))
}

// with is the publisher's credential and further headers.
func with(h *testharness.Harness, pairs ...string) http.Header {
	return headers(append([]string{"Authorization", "Bearer " + h.Publisher.SecretKey}, pairs...)...)
}

// also returns h and further headers.
func also(h http.Header, pairs ...string) http.Header {
	h = h.Clone()
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}
