package clients

import (
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// contract 50: oauth2-proxy, with the configuration of the console's page, protects a site and shows it to a
// verified user alone.
func TestOpenIDClient_OAuth2Proxy(t *testing.T) {
	long.Skip(t, "TestOpenIDClient_OAuth2Proxy")
	program := testenv.Program(t, "oauth2-proxy")
	address := freeAddress(t)
	redirect := "http://" + address + "/oauth2/callback"
	h := newOpenIDProvider(t, redirect)
	h.AdvanceTo(time.Now()) // oauth2-proxy has its own clock
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "for adults")
	}))
	t.Cleanup(site.Close)
	config := strings.NewReplacer("COOKIE_SECRET", rand.Text()+"123456", "http://127.0.0.1:8000/", site.URL).
		Replace(configuration(t, h, "oauth2-proxy"))
	config += "http_address = \"" + address + "\"\ncookie_secure = false\n" // the test has no TLS
	path := filepath.Join(t.TempDir(), "oauth2-proxy.cfg")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config", path)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
		if t.Failed() {
			t.Logf("oauth2-proxy: %s", out.String())
		}
	})
	untilListens(t, address)
	checkProtected(t, h, address, redirect)
}
