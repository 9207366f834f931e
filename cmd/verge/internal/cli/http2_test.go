package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/verge-id/verge/testharness/chromium"
	"github.com/verge-id/verge/testharness/long"
)

// overTLS returns a site on bolt that does TLS itself.
func overTLS(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	certificate, key, _ := selfSigned(t, aCertificate())
	for name, text := range map[string]string{"crt": certificate, "key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, "bolt:"+dir+"/verge.db", "https://shop.example.com/hooks", unlimited+
		fmt.Sprintf("[tls]\ncert = %q\nkey = %q\n", dir+"/crt", dir+"/key"))
	config := strings.Replace(readText(t, s.config), `base_url = "http://127.0.0.1"`,
		`base_url = "https://verify.example.com"`, 1)
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// h2spec returns the program that checks servers for HTTP/2, at the version of testdata/h2spec. If the module
// proxy does not serve it, the test is skipped, or fails where real programs are required.
func h2spec(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "h2spec")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "testdata/h2spec", "-o", program,
		"github.com/summerwind/h2spec/cmd/h2spec")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		if os.Getenv("VERGE_REQUIRE_REAL") == "1" {
			t.Fatalf("h2spec cannot be built, and VERGE_REQUIRE_REAL=1 forbids to skip: %v\n%s", err, out)
		}
		t.Skipf("SKIP: h2spec cannot be built: %v", err)
	}
	return program
}

// Lines of h2spec's report: the last one, and each failed case.
var (
	h2specSummary = regexp.MustCompile(`(\d+) tests, \d+ passed, \d+ skipped, \d+ failed`)
	h2specFailure = regexp.MustCompile(`(?m)^ *× \d+: (.*)$`)
)

// ofNetHTTP has the cases that net/http decides in its own way: it ends a connection with a repeated setting,
// and responds 400 to a header that HTTP/2 does not have, where h2spec expects a reset of the stream.
var ofNetHTTP = []string{
	"Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE",
	"Sends a HEADERS frame that contains the connection-specific header field",
	`Sends a HEADERS frame that contains the TE header field with any value other than "trailers"`,
}

// Contract 5: h2spec finds no other fault, at a path that reads large bodies (RFC 9113, 4.2 and 6.9.3).
func TestServe_H2spec(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestServe_H2spec")
	program := h2spec(t)
	in := overTLS(t).start()
	_, port, err := net.SplitHostPort(in.at.Public)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	// A slow machine can exceed the timeout of a case, which h2spec also waits for. A fault fails each run.
	var faults []string
	failures := ""
	for range 3 {
		// It ends with an error if any case failed, so its report decides.
		out, err := exec.CommandContext(ctx, program, "--tls", "--insecure", "--host", "127.0.0.1", "--port",
			port, "--path", "/verify/file", "--timeout", "4").CombinedOutput()
		all := string(out)
		if found := h2specSummary.FindStringSubmatch(all); found == nil || len(found[1]) < 3 {
			t.Fatalf("h2spec did not run: %v\n%s", err, all)
		}
		_, failures, _ = strings.Cut(all, "Failures:")
		faults = nil
		for _, failed := range h2specFailure.FindAllStringSubmatch(failures, -1) {
			if !slices.Contains(ofNetHTTP, failed[1]) {
				faults = append(faults, failed[1])
			}
		}
		if len(faults) == 0 {
			return
		}
	}
	t.Errorf("contract 5: h2spec: %q\n%s", faults, failures)
}

// Contract 5: a browser uploads as much as it may before it has the server's settings.
func TestServe_ChromiumUploads(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestServe_ChromiumUploads")
	in := overTLS(t).start()
	browser := chromium.Start(t, chromedp.Flag("ignore-certificate-errors", true),
		chromedp.Flag("host-resolver-rules", "MAP verify.example.com "+in.at.Public))
	for n, size := range []int{60_000, 65_535, 1 << 20} {
		// A new context has no connection yet.
		ctx, end := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
		defer end()
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		submit := fmt.Sprintf(`(() => {
			const form = document.createElement("form"), field = document.createElement("textarea");
			form.method = "post";
			form.enctype = "multipart/form-data";
			form.action = "https://verify.example.com/verify/file";
			field.name = "image";
			field.value = "x".repeat(%d);
			form.append(field);
			document.body.append(form);
			form.submit();
		})()`, size)
		if err := chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](submit)); err != nil {
			t.Fatal(err)
		}
		shown := ""
		for shown == "" && ctx.Err() == nil {
			// Between two pages a browser has neither a state nor an address.
			shown, _ = chromedp.Run(ctx, chromedp.Evaluate[string](
				`location.protocol === "about:" || document.readyState !== "complete" ? "" : location.href`))
			time.Sleep(10 * time.Millisecond)
		}
		if shown != "https://verify.example.com/verify/file" {
			t.Errorf("contract 5: %d bytes: the browser shows %s; the log: %s", size, shown, in.logs)
		}
		answered := strings.Count(in.logs.String(), `"path":"/verify/file"`)
		if answered != n+1 {
			t.Errorf("contract 5: %d bytes: %d requests were answered, want %d", size, answered, n+1)
		}
	}
}
