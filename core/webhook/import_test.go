package webhook_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness/testenv"
)

const receiver = `package main

import (
	"fmt"
	"time"

	"github.com/verge-id/verge/core/webhook"
)

func main() {
	body := []byte("{}")
	now := time.Unix(1795212600, 0)
	header := map[string][]string{"X-Service-Signature": {webhook.Sign("whsec_only_for_tests", now, body)}}
	fmt.Print(webhook.Verify("whsec_only_for_tests", header, body, now, 0))
}
`

// A publisher's program takes Verify without anything that the server needs. It builds with no network and an
// empty module cache, so not even the go.mod of a library is fetched, and it links our packages and the
// standard library.
func TestImports_OfPublishers(t *testing.T) {
	goCommand := testenv.Program(t, "go")
	testenv.Source(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"main.go": receiver,
		"go.mod": "module publisher\n\ngo 1.26\n\nrequire github.com/verge-id/verge v0.0.0\n\n" +
			"replace github.com/verge-id/verge => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		cmd := exec.Command(goCommand, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOMODCACHE="+filepath.Join(dir, "empty"), "GOPROXY=off",
			"GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if got := run("run", "."); got != fmt.Sprint(error(nil)) {
		t.Errorf("the receiver says %s", got)
	}
	for path := range strings.FieldsSeq(run("list", "-deps", "-f",
		"{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
		if path != "publisher" && !strings.HasPrefix(path, "github.com/verge-id/verge/core/") {
			t.Errorf("architecture: a publisher's receiver links %s", path)
		}
	}
}
