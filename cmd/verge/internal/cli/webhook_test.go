package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/webhook"
)

// TestWebhookVerifyVectors gives the command every vector with which publishers test their receivers.
func TestWebhookVerifyVectors(t *testing.T) {
	b, err := os.ReadFile("../../../../core/webhook/testdata/signature_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []struct {
			Name      string              `json:"name"`
			Secret    string              `json:"secret"`
			Headers   map[string][]string `json:"headers"`
			Body      []byte              `json:"body_base64"`
			Now       int64               `json:"now"`
			Tolerance int                 `json:"tolerance_seconds"`
			Step      int                 `json:"step"`
		} `json:"vectors"`
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file.Vectors) == 0 {
		t.Fatalf("%d vectors, %v", len(file.Vectors), err)
	}
	for _, v := range file.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			if v.Secret == "" {
				t.Skip("the command takes an empty secret for a missing one")
			}
			p, stdout, stderr := testProgram()
			p.stdin = bytes.NewReader(v.Body)
			p.Getenv = func(name string) (string, bool) { return v.Secret, name == "SECRET" }
			args := []string{"webhook", "verify", "--secret-env", "SECRET", "--body", "-",
				"--now", fmt.Sprint(v.Now)}
			if v.Tolerance != 0 {
				args = append(args, "--tolerance", fmt.Sprintf("%ds", v.Tolerance))
			}
			for name, values := range v.Headers {
				for _, value := range values {
					args = append(args, "--header="+name+":"+value)
				}
			}
			code, want := run(t.Context(), args, p), "OK:"
			if v.Step != 0 {
				want = fmt.Sprintf("REJECTED at step %d:", v.Step)
			}
			if (code == exitOK) != (v.Step == 0) || !strings.HasPrefix(stdout.String(), want) {
				t.Errorf("exit code %d, %s%s, want %s", code, stdout, stderr, want)
			}
		})
	}
}

// A request that is too long is an error, and no signature that is wrong for an unknown reason.
func TestWebhookVerify_LongRequest(t *testing.T) {
	for n, want := range map[int]string{maxSavedRequest: "", maxSavedRequest + 1: "larger than 1048576"} {
		for _, path := range []string{"-", "/request"} {
			p, stdout, stderr := testProgram()
			body := make([]byte, n)
			p.stdin = bytes.NewReader(body)
			if err := afero.WriteFile(p.FS, "/request", body, 0o600); err != nil {
				t.Fatal(err)
			}
			p.Getenv = func(name string) (string, bool) { return testSecret, name == "SECRET" }
			args := []string{"webhook", "verify", "--secret-env", "SECRET", "--body", path}
			code, tooLong := run(t.Context(), args, p), want != ""
			if (code == exitUsage) != tooLong || !strings.Contains(stderr.String(), want) {
				t.Errorf("contract 47: %d bytes of %s: exit code %d, %s%s", n, path, code, stdout, stderr)
			}
		}
	}
}

func TestParseRequest(t *testing.T) {
	for _, tt := range []struct {
		name, raw, body, err string
	}{
		{"CRLF, as it was on the wire", "POST / HTTP/1.1\r\nA: b\r\n\r\nbody\r\n", "body\r\n", ""},
		{"LF, as editors leave it", "POST / HTTP/1.1\nA: b\n\nbody\n", "body\n", ""},
		{"Content-Length ends the body", "POST / HTTP/1.1\nContent-Length: 4\n\nbody\n", "body", ""},
		{"an empty body", "POST / HTTP/1.1\nA: b\n\n", "", ""},
		{"a body cut short", "POST / HTTP/1.1\nContent-Length: 5\n\nbody", "", "only 4 bytes"},
		{"a malformed length", "POST / HTTP/1.1\nContent-Length: -1\n\nbody", "", "not a number"},
		{"chunked", "POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n4\nbody\n0\n\n", "", "Transfer-Encoding"},
		{"no empty line", "POST / HTTP/1.1\nA: b\n", "", "no empty line"},
		{"the body alone", `{"id":"evt_"}`, "", "not a request line"},
		{"nothing", "", "", "not a request line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, body, err := parseRequest([]byte(tt.raw))
			if tt.err == "" && (err != nil || string(body) != tt.body) {
				t.Errorf("body %q, %v", body, err)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %s", err, tt.err)
			}
		})
	}
}

// FuzzParseRequest shows that a signed request that was saved unchanged verifies with any body.
func FuzzParseRequest(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nA: b\r\n\r\nbody"))
	f.Add([]byte("POST / HTTP/1.1\nContent-Length: 4\n\nbody\n"))
	f.Add([]byte("{}"))
	f.Add([]byte("\r\n\r\n"))
	now := time.Unix(1767744000, 0)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, body, err := parseRequest(raw); err == nil && !bytes.Contains(raw, body) {
			t.Errorf("body %q is not in %q", body, raw)
		}
		saved := fmt.Appendf(nil, "POST / HTTP/1.1\r\nX-Service-Signature: "+
			"%s\r\nContent-Length: %d\r\n\r\n%s\n",
			webhook.Sign("secret", now, raw), len(raw), raw)
		header, body, err := parseRequest(saved)
		if err := errors.Join(err, webhook.Verify("secret", header, body, now, 0)); err != nil {
			t.Errorf("%q: %v", saved, err)
		}
	})
}

// Every flag that has a default rejects a 0 with a reason.
func TestFlag_Zero(t *testing.T) {
	for _, args := range [][]string{
		{"key", "create", "--publisher", "pub_x", "--expires", "0s"},
		{"key", "create", "--publisher", "pub_x", "--expires=0d"},
		{"keyring", "retire", "ring.json", "9f02ab31", "--life", "0d"},
		{"kv", "check", "redis://127.0.0.1:1", "--timeout", "0s"},
		{"webhook", "verify", "--secret-env", "X", "--request", "-", "--tolerance", "0h"},
	} {
		p, _, stderr := testProgram()
		const says = "is too little; it must be more than 0s; omit it for the default"
		if code := run(t.Context(), args, p); code != exitUsage || !strings.Contains(stderr.String(), says) {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
}

// A duration that cannot be meant is rejected, and the error names the fault.
func TestFlag_ImplausibleDuration(t *testing.T) {
	for expires, says := range map[string]string{
		"9999999d": `"9999999d" is too long; it must be at most 65535d`,
		"-1h":      `"-1h" is negative; write it like 90d`,
		"-1d":      `"-1d" is negative; write it like 90d`,
		"soon":     `"soon" is not a duration: write it like 90d`,
	} {
		for _, flag := range [][]string{{"--expires", expires}, {"--expires=" + expires}} {
			p, _, stderr := testProgram()
			code := run(t.Context(), append([]string{"key", "create", "--publisher", "pub_x"}, flag...), p)
			if code != exitUsage || !strings.Contains(stderr.String(), "--expires: "+says) {
				t.Errorf("%v: exit code %d: %s, want %q", flag, code, stderr, says)
			}
		}
	}
}
