package host

import (
	"strings"
	"testing"
)

func TestRequestInfo_With(t *testing.T) {
	key := RequestInfo{Key: "key_1", Publisher: "pub_shop"}
	got := key.With(RequestInfo{Session: "svc_sess_1", Publisher: "pub_other"}).
		With(RequestInfo{Code: "EXPIRED"})
	want := RequestInfo{Session: "svc_sess_1", Publisher: "pub_other", Key: "key_1", Code: "EXPIRED"}
	if got != want {
		t.Errorf("contract 48: gathered %+v, want %+v", got, want)
	}
}

// The host's own line must not contain text of a caller's choice (contract 13).
func TestRequestInfo_Sanitized(t *testing.T) {
	whole := RequestInfo{Session: "svc_sess_AbC-1_z9", Integration: "0a4e1f7c-1b2d-4c3e-8f4a-5b6c7d8e9f00",
		Publisher: "pub_shop.example", Key: "key_0a4e1f7c1b2d4c3e", Code: "NOT_FOUND"}
	if got := whole.Sanitized(); got != whole {
		t.Errorf("contract 48: %+v became %+v", whole, got)
	}
	for _, text := range []string{"a b", "john@example.com", "\n", "é", `"`, strings.Repeat("a", maxInfo+1)} {
		about := RequestInfo{Session: text, Integration: text, Publisher: text, Key: text, Code: text}
		if got := about.Sanitized(); got != (RequestInfo{}) {
			t.Errorf("contract 13: %q is logged as %+v", text, got)
		}
	}
}
