package host

import (
	"strings"
	"testing"
)

func TestAboutGathers(t *testing.T) {
	key := About{Key: "key_1", Publisher: "pub_shop"}
	got := key.With(About{Session: "svc_sess_1", Publisher: "pub_other"}).With(About{Code: "EXPIRED"})
	want := About{Session: "svc_sess_1", Publisher: "pub_other", Key: "key_1", Code: "EXPIRED"}
	if got != want {
		t.Errorf("contract 48: gathered %+v, want %+v", got, want)
	}
}

// The host's own line must not get text that somebody else has chosen (contract 13).
func TestOnlyNamesAreTold(t *testing.T) {
	whole := About{Session: "svc_sess_AbC-1_z9", Integration: "0a4e1f7c-1b2d-4c3e-8f4a-5b6c7d8e9f00",
		Publisher: "pub_shop.example", Key: "key_0a4e1f7c1b2d4c3e", Code: "NOT_FOUND"}
	if got := whole.Told(); got != whole {
		t.Errorf("contract 48: %+v became %+v", whole, got)
	}
	for _, text := range []string{"a b", "john@example.com", "\n", "é", `"`, strings.Repeat("a", maxAbout+1)} {
		about := About{Session: text, Integration: text, Publisher: text, Key: text, Code: text}
		if got := about.Told(); got != (About{}) {
			t.Errorf("contract 13: %q is told as %+v", text, got)
		}
	}
}
