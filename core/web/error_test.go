package web

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestError_WireForm(t *testing.T) {
	for c, want := range map[Code]int{InvalidRequest: 400, InvalidToken: 400, Unauthorized: 401,
		Forbidden: 403,
		NotFound:  404, MethodNotAllowed: 405, RequestTimeout: 408, AlreadyUsed: 409,
		IntegrationNotReady: 409,
		ModuleRejected:      409, BackupRejected: 409,
		TokenExpired: 410, PreconditionFailed: 412, PayloadTooLarge: 413, URITooLong: 414,
		UnsupportedMediaType: 415, RateLimited: 429, Internal: 500, ProviderUnavailable: 502,
		Unavailable: 503} {
		e := &Error{Code: c, Message: "m", RetryAfter: 3, Allow: []string{"GET", "HEAD"}}
		resp := e.Response("req_x", "corr")
		if resp.Status != want {
			t.Errorf("contract 5: %s is %d, want %d", c, resp.Status, want)
		}
		wantBody := `{"code":"` + string(c) + `","error_code":"` + string(c) +
			`","error":"m","message":"m","request_id":"req_x","correlation_id":"corr"}`
		if string(resp.Body) != wantBody || resp.Header.Get("Retry-After") != "3" {
			t.Errorf("contract 5: %s %v", resp.Body, resp.Header)
		}
		if resp.Header.Has("Www-Authenticate") != (c == Unauthorized) ||
			resp.Header.Has("Allow") != (c == MethodNotAllowed) {
			t.Errorf("contract 5: header of %s: %v", c, resp.Header)
		}
	}
	if len(Codes()) != 20 {
		t.Errorf("contract 5 has 20 codes here, the table %d", len(Codes()))
	}
	for _, err := range []error{&Error{Code: NotFound}, fmt.Errorf("x: %w", &Error{Code: NotFound})} {
		if !errors.Is(err, NotFound) || errors.Is(err, Forbidden) {
			t.Errorf("%v is no NotFound, or is Forbidden", err)
		}
	}
	if err := (&Error{Code: Internal, Cause: errors.ErrUnsupported}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v hides its cause", err)
	}
}

func TestJSON_Headers(t *testing.T) {
	for _, resp := range []*Response{JSON(201, map[string]int{"n": 1}), JSONBytes(201, []byte(`{"n":1}`))} {
		if resp.Status != 201 || string(resp.Body) != `{"n":1}` {
			t.Errorf("%d %s", resp.Status, resp.Body)
		}
		for name, want := range map[string]string{"Content-Type": "application/json; charset=utf-8",
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("contract 1: %s is %q, want %q", name, got, want)
			}
		}
	}
}

func TestCorrelationID(t *testing.T) {
	for _, c := range []struct {
		given  string
		echoed bool
	}{
		{"c-1", true}, {"a b ~!", true}, {" ", true}, {strings.Repeat("x", 128), true},
		{"", false}, {strings.Repeat("x", 129), false}, {"a\tb", false}, {"a\x7f", false},
		{"ü", false}, {"\xff", false},
	} {
		got := CorrelationID(Header{"X-Correlation-Id": {c.given}})
		if want := map[bool]string{true: c.given}[c.echoed]; got != want {
			t.Errorf("contract 4: %q is repeated as %q, want %q", c.given, got, want)
		}
	}
	if got := CorrelationID(nil); got != "" {
		t.Errorf("contract 4: without the header a response has %q", got)
	}
}
