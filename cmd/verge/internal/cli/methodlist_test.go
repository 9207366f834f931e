package cli

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/testharness/wallettest"
)

// listProgram is a program with a configuration of one wallet, whose lists "eu" and "2" are files.
type listProgram struct {
	*program
	t      *testing.T
	signer *wallettest.ListSigner
	out    interface{ String() string }
	err    interface{ String() string }
}

func newListProgram(t *testing.T) *listProgram {
	t.Helper()
	p, out, errs := testProgram()
	p.Getenv = func(name string) (string, bool) { return testToken, name == "VERGE_OPERATOR_TOKEN" }
	l := &listProgram{p, t, wallettest.NewListSigner(time.Now()), out, errs}
	l.write("/signer.pem", l.signer.PEM())
	const list = "[[methods.openid4vp.trust_lists]]\nformat = \"etsi-ts-119602\"\n" +
		"signers = [\"/signer.pem\"]\n"
	l.write("/verge.toml", []byte("[oidc_provider]\nprivate_key_files = [\"/is-not-here\"]\n"+
		"[report]\nprivate_key_file = \"/is-not-here\"\n"+
		"[[methods]]\nname = \"bank\"\nkind = \"oidc\"\n[methods.oidc]\n"+
		"client_secret_file = \"/is-not-here\"\n"+
		"[[methods]]\nname = \"wallet\"\nkind = \"openid4vp\"\n[methods.openid4vp]\nprofile = \"eu-av\"\n"+
		list+"name = \"eu\"\nfile = \"/eu.jwt\"\n"+list+"file = \"/2.jwt\"\n"))
	return l
}

func (l *listProgram) write(path string, b []byte) {
	l.t.Helper()
	if err := afero.WriteFile(l.FS, path, b, 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// publishes writes a list whose next update is due at that time from now.
func (l *listProgram) publishes(path string, sequence uint64, next time.Duration) {
	l.t.Helper()
	issuer := wallettest.NewIssuer(wallettest.IssuerConfig{})
	b, err := l.signer.Sign(
		wallettest.List{Sequence: sequence, Issued: time.Now().Add(min(next, 0) - time.Hour),
			NextUpdate: time.Now().Add(next), Certificates: []*x509.Certificate{issuer.Root}},
	)
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(path, b)
}

func (l *listProgram) run(args ...string) (code int) {
	return run(context.Background(), append([]string{"method"}, args...), l.program)
}

func TestMethodListFetch(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name string
		do   func(l *listProgram)
		args string
		code int
		says string
	}{
		{"both lists", func(*listProgram) {}, "wallet", exitOK, "number        7"},
		{"one list", func(l *listProgram) { l.write("/2.jwt", nil) }, "wallet --list eu", exitOK,
			"1 used, 0 skipped"},
		{"one of two is bad", func(l *listProgram) { l.write("/2.jwt", []byte("<html>")) }, "wallet",
			exitFailed, "rejected"},
		{"a file is missing", func(l *listProgram) { l.FS.Remove("/2.jwt") }, "wallet", exitFailed,
			"cannot be read"},
		{"another signer", func(l *listProgram) {
			l.write("/signer.pem", wallettest.NewListSigner(time.Now()).PEM())
		}, "wallet", exitFailed, "trusted list rejected"},
		{"late", func(l *listProgram) { l.publishes("/eu.jwt", 7, -day) }, "wallet", exitOK,
			"number        7"},
		{"grace over", func(l *listProgram) { l.publishes("/eu.jwt", 7, -8*day) }, "wallet", exitFailed,
			"grace of 7 days is over"},
		{"another file", func(l *listProgram) { l.publishes("/new.jwt", 9, day) },
			"wallet --list eu --from /new.jwt", exitOK, "number        9"},
		{"one file for two lists", func(*listProgram) {}, "wallet --from /eu.jwt", exitUsage, "--list"},
		{"an unknown list", func(*listProgram) {}, "wallet --list us", exitUsage, "no trusted list"},
		{"an unknown method", func(*listProgram) {}, "licence", exitUsage, "no method"},
	} {
		t.Run("contract 53: "+c.name, func(t *testing.T) {
			l := newListProgram(t)
			l.publishes("/eu.jwt", 7, day)
			l.publishes("/2.jwt", 8, day)
			c.do(l)
			args := append([]string{"list-fetch", "--config", "/verge.toml"}, strings.Fields(c.args)...)
			if code := l.run(args...); code != c.code ||
				!strings.Contains(l.out.String()+l.err.String(), c.says) {
				t.Errorf("exit code %d, want %d with %q: %s%s", code, c.code, c.says, l.out, l.err)
			}
		})
	}
}

func TestMethodListFetch_JSON(t *testing.T) {
	l := newListProgram(t)
	l.publishes("/eu.jwt", 7, time.Hour)
	code := l.run("list-fetch", "wallet", "--config", "/verge.toml", "--json")
	var shown []shownList
	if err := json.Unmarshal([]byte(l.out.String()), &shown); err != nil || code != exitFailed ||
		len(
			shown,
		) != 2 || !shown[0].Good || shown[0].Sequence != 7 || shown[0].Entries != 1 || shown[1].Error == "" {
		t.Errorf("exit code %d, %v: %s", code, err, l.out)
	}
}

// The command loads the lists that it has verified. It loads no list that was rejected.
func TestMethodListLoad(t *testing.T) {
	l := newListProgram(t)
	l.publishes("/eu.jwt", 7, time.Hour)
	var sent []operate.TrustListInput
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in operate.TrustListInput
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(b, &in)
		}
		if err != nil || r.Method != "POST" || r.URL.Path != operate.LoadTrustList.Path ||
			r.Header.Get("Authorization") != "Bearer "+testToken {
			t.Errorf("%s %s, %v", r.Method, r.URL, err)
		}
		sent = append(sent, in)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"method":"wallet","name":%q,"state":"good","sequence":7,"entries":1}`, in.Name)
	}))
	defer server.Close()
	code := l.run("list-load", "wallet", "--config", "/verge.toml", "--admin-url", server.URL)
	if code != exitFailed || len(sent) != 1 || sent[0].Name != "eu" || sent[0].Sequence != 7 ||
		len(
			sent[0].Certificates,
		) != 1 || !strings.Contains(l.err.String(), "trusted list 2 was not loaded") ||
		!strings.Contains(l.out.String(), "wallet  eu    good") {
		t.Errorf("contract 53: exit code %d, sent %+v: %s%s", code, sent, l.out, l.err)
	}
	server.Close()
	before := l.out.String()
	code = l.run("list-load", "wallet", "--config", "/verge.toml", "--admin-url", server.URL)
	if code != exitFailed || l.out.String() != before {
		t.Errorf("exit code %d, and without a loaded list the command prints a table: %s", code, l.out)
	}
}
