package clients

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// apacheModules is where Debian puts Apache's modules.
const apacheModules = "/usr/lib/apache2/modules"

// apacheConfig serves a static site: %[1]s is a directory, %[2]s an address and %[3]s the configuration of
// the console's page.
const apacheConfig = `
ServerRoot %[1]s
PidFile %[1]s/pid
Listen %[2]s
ServerName %[2]s
ErrorLog %[1]s/error.log
LogLevel warn
User www-data
Group www-data
DocumentRoot %[1]s/site
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authn_core_module /usr/lib/apache2/modules/mod_authn_core.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule authz_user_module /usr/lib/apache2/modules/mod_authz_user.so
LoadModule auth_openidc_module /usr/lib/apache2/modules/mod_auth_openidc.so
StartServers 1
%[3]s`

// freeAddress returns a loopback address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", stores.FreePort(t))
}

// startApache runs Apache with mod_auth_openidc in front of a static site.
func startApache(t *testing.T, h *testharness.Harness, address string) {
	t.Helper()
	apache := testenv.Program(t, "apache2")
	testenv.File(t, filepath.Join(apacheModules, "mod_auth_openidc.so"))
	dir, err := os.MkdirTemp("", "apache")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	passphrase := filepath.Join(dir, "passphrase")
	protects := strings.ReplaceAll(configuration(t, h, "Apache"), "/etc/apache2/oidc-passphrase", passphrase)
	for path, text := range map[string]string{"passphrase": rand.Text(), "site/index.html": "for adults",
		"apache.conf": fmt.Sprintf(apacheConfig, dir, address, protects)} {
		path = filepath.Join(dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil { // www-data reads the site
		t.Fatal(err)
	}
	cmd := exec.Command(apache, "-f", filepath.Join(dir, "apache.conf"), "-DFOREGROUND")
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if t.Failed() {
			for _, name := range []string{"out", "error.log"} {
				text, _ := os.ReadFile(filepath.Join(dir, name))
				t.Logf("Apache's %s: %s", name, text)
			}
		}
	})
	untilListens(t, address)
}

// untilListens waits until a program listens at an address.
func untilListens(t *testing.T, address string) {
	t.Helper()
	wait.Until(t, address+" listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// checkProtected walks through all ends of a verification in front of a site that a client protects. The
// client must show the site to a verified user alone.
func checkProtected(t *testing.T, h *testharness.Harness, address, redirect string) {
	t.Helper()
	site := "http://" + address + "/index.html"
	for _, end := range ends {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		// Apache sends two bodies with some errors.
		browser := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
		browser.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
			if strings.HasPrefix(req.URL.String(), h.BaseURL) {
				return http.ErrUseLastResponse
			}
			return nil
		}
		away, body := shown(t, browser, site)
		if away.StatusCode != http.StatusFound {
			t.Fatalf("the client does not ask for a verification: %d %s", away.StatusCode, body)
		}
		back := end.walk(t, h, authorized(h, away.Header.Get("Location")), redirect)
		resp, body := shown(t, browser, back)
		if shown := resp.StatusCode == 200 && body == "for adults"; shown != (end.name == "approved") {
			t.Errorf("%s: %d %s", end.name, resp.StatusCode, body)
		}
	}
}

// shown opens an address as a browser does, and returns the response with its body.
func shown(t *testing.T, browser *http.Client, address string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest("GET", address, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	resp, err := browser.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// contract 50: Apache with mod_auth_openidc protects a static site, and shows it to a verified user alone.
// It takes an error with iss (RFC 9207) for a login that another site begins, so its error page has another
// text.
func TestOpenIDClient_Apache(t *testing.T) {
	long.Skip(t, "TestOpenIDClient_Apache")
	address := freeAddress(t)
	redirect := "http://" + address + "/oauth2/callback"
	h := newOpenIDProvider(t, redirect)
	h.AdvanceTo(time.Now()) // Apache has its own clock
	startApache(t, h, address)
	checkProtected(t, h, address, redirect)
}
