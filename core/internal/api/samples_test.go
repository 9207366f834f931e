package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

// standIn is a service that takes the calls of the samples.
func standIn(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]string
		b, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(b, &body) != nil || r.Method != "POST" ||
			r.Header.Get("Authorization") != "Bearer svc_sk_x" ||
			r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, `{"code":"UNAUTHORIZED","error":"no"}`, http.StatusUnauthorized)
			return
		}
		switch {
		case r.URL.Path == "/api/v1/verify/start" && body["integration_id"] == "an-id" &&
			body["callback_url"] == "https://shop.example/callback" && body["state"] == "s1":
			io.WriteString(w, `{"redirect_url":"https://verify.example/verify?t=1","session_id":"svc_sess_x"}`)
		case r.URL.Path == "/api/v1/verify/validate" && body["result_token"] == "svc_rt_x":
			io.WriteString(w, `{"verified":true,"session_id":"svc_sess_x"}`)
		default:
			http.Error(w, `{"code":"INVALID_REQUEST","error":"no"}`, http.StatusBadRequest)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// Each sample of the documentation starts a session and exchanges a result token. It rejects the result
// token of another session.
func TestSamples_Run(t *testing.T) {
	const want = "https://verify.example/verify?t=1 true false"
	for _, c := range []struct{ file, as, uses, run, program string }{
		{"node.mjs", "verify.mjs", `import { start, isVerified } from './verify.mjs';
const { redirect_url, session_id } = await start('s1');
console.log(redirect_url, await isVerified('svc_rt_x', session_id),
  await isVerified('svc_rt_x', 'svc_sess_y'));`, "use.mjs", "node"},
		{"python.py", "verify.py", `import verify
started = verify.start("s1")
print(started["redirect_url"], *(str(verify.is_verified("svc_rt_x", session)).lower()
    for session in (started["session_id"], "svc_sess_y")))`, "use.py", "python3"},
		{"go.txt", "verify/verify.go", `package main

import ("context"; "fmt"; "sample/verify")

func main() {
	to, session, err := verify.Start(context.Background(), "s1")
	is, err2 := verify.IsVerified(context.Background(), "svc_rt_x", session)
	other, err3 := verify.IsVerified(context.Background(), "svc_rt_x", "svc_sess_y")
	if err != nil || err2 != nil || err3 != nil { panic(fmt.Sprint(err, err2, err3)) }
	fmt.Println(to, is, other)
}`, "main.go", "go"},
	} {
		t.Run(c.file, func(t *testing.T) {
			program, dir := testenv.Program(t, c.program), t.TempDir()
			values := sampleValues(standIn(t).URL, Caller{"an-id", "https://shop.example/callback"})
			files := map[string]string{c.as: values.Replace(sampleCode(c.file)), c.run: c.uses,
				"go.mod": "module sample\n\ngo 1.24\n"}
			for name, text := range files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{c.run}
			if c.program == "go" {
				args = []string{"run", "."}
			}
			cmd := exec.Command(program, args...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "SECRET_KEY=svc_sk_x", "GOFLAGS=-mod=mod", "no_proxy=*")
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%v, printed %q, want %q", err, got, want)
			}
		})
	}
}

// The page has the service's address, and the values of a caller, as text.
func TestDocs_Caller(t *testing.T) {
	s := standard
	s.BaseURL = "https://verify.example"
	d := NewDocuments(s)
	plain := string(d.Document(DocsPath).Body)
	mine := d.PageFor(Caller{Integration: `<b>"id`, Callback: "https://shop.example/callback"})
	for page, want := range map[string][]string{
		plain: {"https://verify.example/api/v1/verify/start&quot;", "INTEGRATION_ID", "CALLBACK_URL",
			`<form data-try="/api/v1/verify/start" hidden>`, "Start and validate: Go"},
		string(mine.Body): {"integration_id: &#39;&lt;b&gt;&#34;id&#39;", `value="https://shop.example/callback"`,
			`value="&lt;b&gt;&#34;id"`},
	} {
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("the page has no %s", text)
			}
		}
		if strings.Contains(page, "BASE_URL/") || strings.Contains(page, "<b>\"") {
			t.Error("the page has a placeholder or unescaped HTML")
		}
	}
	if mine.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a caller's page may be cached: %v", mine.Header)
	}
	if strings.Contains(string(d.Document(DocsPath).Body), `value="https://shop.example/callback"`) {
		t.Error("the page of others has a caller's values")
	}
}
