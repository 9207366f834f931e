package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

// tools is where .ci/install puts the npm packages of this test.
const tools = "/usr/local/lib/openapi/node_modules"

// in runs a command in a folder, and fails the test if the command does.
func in(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// copied returns a folder with the files of testdata/name and the description that a service serves.
func copied(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "openapi.yaml"), description(t))
	return dir
}

// description returns the API's OpenAPI document.
func description(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../core/internal/api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLintersFindNothing(t *testing.T) {
	long.Skip(t, "TestLintersFindNothing")
	testenv.Program(t, "node") // both are scripts of Node's
	redocly := testenv.File(t, filepath.Join(tools, ".bin/redocly"))
	spectral := testenv.File(t, filepath.Join(tools, ".bin/spectral"))
	dir := t.TempDir()
	write(t, filepath.Join(dir, "openapi.yaml"), description(t))
	write(t, filepath.Join(dir, "rules.yaml"), "extends: [\"spectral:oas\"]\n")
	if out := in(t, dir, redocly, "lint", "openapi.yaml", "--format=json"); !strings.Contains(
		out,
		`"warnings": 0`,
	) {
		t.Errorf("redocly: %s", out)
	}
	in(t, dir, spectral, "lint", "--ruleset", "rules.yaml", "--fail-severity", "hint", "openapi.yaml")
}

func TestClient_Go(t *testing.T) {
	long.Skip(t, "TestClient_Go")
	oapi := testenv.Program(t, "oapi-codegen")
	dir := copied(t, "go")
	if err := os.Mkdir(filepath.Join(dir, "verge"), 0o700); err != nil {
		t.Fatal(err)
	}
	in(t, dir, oapi, "-package", "verge", "-o", "verge/verge.go", "openapi.yaml")
	in(t, dir, "go", "build", "-o", "publisher", ".")
	walk(t, filepath.Join(dir, "publisher"))
}

func TestClient_TypeScript(t *testing.T) {
	long.Skip(t, "TestClient_TypeScript")
	node := testenv.Program(t, "node")
	generate := testenv.File(t, filepath.Join(tools, ".bin/openapi-typescript"))
	tsc := testenv.File(t, filepath.Join(tools, ".bin/tsc"))
	dir := copied(t, "ts")
	if err := os.Symlink(tools, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	in(t, dir, generate, "openapi.yaml", "-o", "verge.d.ts")
	in(t, dir, tsc, "--project", ".")
	walk(t, node, filepath.Join(dir, "main.js"))

	// A switch over the events that reads another event's data does not compile: so they are a union.
	main, err := os.ReadFile(filepath.Join(dir, "main.ts"))
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.Replace(string(main), "event.data.result.level", "event.data.failure.code", 1)
	write(t, filepath.Join(dir, "main.ts"), wrong)
	cmd := exec.Command(tsc, "--project", ".", "--noEmit")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err == nil ||
		!bytes.Contains(out, []byte("'failure' does not exist")) {
		t.Errorf("TypeScript lets a completed event have a failure: %v\n%s", err, out)
	}
}

// walk makes a client verify a user, and checks the client's report.
func walk(t *testing.T, program string, args ...string) {
	t.Helper()
	h := testharness.New(t, nil)
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "BASE_URL="+h.BaseURL, "SECRET_KEY="+h.Publisher.SecretKey,
		"INTEGRATION_ID="+h.Publisher.L1.ID)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	defer stop.Stop()
	answers := bufio.NewReader(stdout)
	redirect, err := answers.ReadString('\n')
	if err != nil {
		t.Fatalf("the client did not start a session: %v\n%s", errors(cmd, err), &wrong)
	}
	back := h.Open(strings.TrimSpace(redirect)).Submit("approve").Callback
	if _, err := io.WriteString(stdin, back.URL+"\n"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answers)
	if err = errors(cmd, err); err != nil {
		t.Fatalf("the client failed: %v\n%s", err, &wrong)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	want := map[string]any{"verified": true, "level": "L1", "age": 25.0, "again": "ALREADY_USED",
		"status": "COMPLETED", "events": []any{"started started", "completed L1", "failed PROVIDER_REJECTED",
			"expired expired", "cancelled cancelled"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("spec, What the service does: the client reports\n%v, want\n%v", got, want)
	}
}

// errors waits for the end of a command, and returns its error or the earlier one.
func errors(cmd *exec.Cmd, before error) error {
	if err := cmd.Wait(); err != nil {
		return err
	}
	return before
}
