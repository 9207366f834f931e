package postgres

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

func TestURL(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:canary7@h/verge":                     "",
		"postgresql://a:1,b:2/verge?schema=x_y-1":          "",
		"postgres:///verge?host=/run/postgresql":           "",
		"postgres://h/d?pool_max_conns=2&sslmode=require":  "",
		"postgres://u:canary7@h":                           "names no database",
		"postgres://u:canary7@h/":                          "names no database",
		"postgres://u:canary7@h/a/b":                       "more than one",
		"postgres:///verge":                                "names no host",
		"postgres://h/verge?host=/run":                     "directory of a socket",
		"postgres:///verge?host=10.0.0.5":                  "directory of a socket",
		"postgres://u:canary7@h/d?password=canary7":        `option "password"`,
		"postgres://u:canary7@h/d?sslmode=prefer":          "sslmode other than",
		"postgres://u:canary7@h/d?sslmode=allow":           "sslmode other than",
		"postgres://h/d?schema=Public":                     "schema",
		"postgres://h/d?schema=pg_catalog":                 "schema",
		"postgres://h/d?pooler=session":                    "pooler",
		"postgres://h/d?signals=off":                       "",
		"postgres://h/d?signals=on":                        "signals other than",
		"postgres://h/d?pool_max_conns=1":                  "pool_max_conns",
		"postgres://u:canary7@h/d#f":                       "fragment",
		"postgres://u:can%zzary7@h/d":                      "cannot be read",
		"postgres://u:canary7@h:port/d":                    "cannot be read",
		"postgres://u:canary7@h/d?sslrootcert=/no/such/ca": "cannot be used",
		"mysql://u:canary7@h/d":                            "does not begin",
	} {
		err := Config{}.Valid(url)
		switch {
		case (err == nil) != (want == ""), err != nil && !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", url, err, want)
		case err != nil && strings.Contains(err.Error(), "canary7"):
			t.Errorf("%s: the error contains the password: %v", url, err)
		}
	}
}

// By default, only this machine is reached without TLS.
func TestURL_DefaultTLS(t *testing.T) {
	own := &tls.Config{MinVersion: tls.VersionTLS13}
	for _, c := range []struct {
		url    string
		given  *tls.Config
		secure bool
	}{
		{"postgres://localhost/d", nil, false},
		{"postgres://127.0.0.1:5433,localhost/d", nil, false},
		{"postgres://[::1]:5433/d", nil, false},
		{"postgres:///d?host=/run", nil, false},
		{"postgres://10.0.0.5/d", nil, true},
		{"postgres://localhost,db.internal/d", nil, true},
		{"postgres://10.0.0.5/d?sslmode=disable", nil, false},
		{"postgres://10.0.0.5/d?sslmode=disable", own, true},
		{"postgres://localhost/d", own, true},
	} {
		a, err := parseURL(c.url, c.given)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		a.settings(time.Second)
		config := a.config.ConnConfig
		if got := config.TLSConfig; (got != nil) != c.secure {
			t.Errorf("%s: TLS %v, want %v", c.url, got != nil, c.secure)
		} else if got != nil && (got.ServerName != config.Host || got.InsecureSkipVerify) {
			t.Errorf("%s: the certificate of %q is not checked for %q", c.url, got.ServerName, config.Host)
		}
		for _, f := range config.Fallbacks {
			if (f.TLSConfig != nil) != c.secure {
				t.Errorf("%s: TLS with %s: %v, want %v", c.url, f.Host, f.TLSConfig != nil, c.secure)
			}
		}
	}
}
