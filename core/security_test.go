package core

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/core/web"
)

func TestSecurityText(t *testing.T) {
	for _, c := range []struct {
		name, contact string
		status        int
	}{
		{"RFC 9116: a mail address", "mailto:security@example.com", 200},
		{"RFC 9116: a page", "https://example.com/security", 200},
		{"contract 22: no contact", "", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t, func(cfg *Config) { cfg.SecurityContact = c.contact })
			w.Clock.Advance(7 * time.Hour)
			resp := w.Handle(ctx, &web.Request{Method: "GET", Path: "/.well-known/security.txt"})
			if resp.Status != c.status {
				t.Fatalf("status %d, want %d", resp.Status, c.status)
			}
			if c.status != 200 {
				return
			}
			fields := map[string]string{}
			for line := range strings.Lines(string(resp.Body)) {
				name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				fields[name] = value
			}
			expires, err := time.Parse(time.RFC3339, fields["Expires"])
			if left := expires.Sub(w.Clock.Now()); err != nil || left < 30*24*time.Hour ||
				left > 365*24*time.Hour {
				t.Errorf("it expires at %s (%v), want within a year", fields["Expires"], err)
			}
			if fields["Contact"] != c.contact || len(fields) != 3 ||
				fields["Canonical"] != "https://verify.verge.example/.well-known/security.txt" {
				t.Errorf("the file is %s", resp.Body)
			}
			if got := resp.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("the Content-Type is %s", got)
			}
		})
	}
}

func TestConfig_SecurityContact(t *testing.T) {
	config := good()
	for contact, good := range map[string]bool{
		"":                            true,
		"mailto:security@example.com": true,
		"https://example.com/a?b=c":   true,
		"security@example.com":        false,
		"mailto:":                     false,
		"mailto:security":             false,
		"mailto:@example.com":         false,
		"mailto:a@b@example.com":      false,
		"http://example.com/":         false,
		"https://":                    false,
		"tel:+49301234":               false,
		"mailto:a b@example.com":      false,
		"mailto:a@example.com\nExpires: 2020-01-01T00:00:00Z": false,
		"mailto:ä@example.com":                                false,
		"https://example.com/" + strings.Repeat("a", 500):     false,
	} {
		cfg := config
		cfg.SecurityContact = contact
		if err := cfg.Validate().Err(); (err == nil) != good {
			t.Errorf("security_contact %q: %v", contact, err)
		} else if !good && !strings.Contains(err.Error(), "SecurityContact") {
			t.Errorf("security_contact %q: the error names another setting: %v", contact, err)
		}
	}
}
