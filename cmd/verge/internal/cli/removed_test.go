package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/testharness/wait"
)

// Contract 46: a restart with a file that lost a block interrupts no customer. `serve --check` lists it, the
// log warns of it, lists show it, and `verge apply` archives it after a dry run.
func TestServe_BlockRemovedFromTheFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, "bolt:"+filepath.Join(t.TempDir(), "verge.db"), newEvents(t).URL, unlimited)
	end := func(in *served) {
		in.cmd.Process.Signal(syscall.SIGTERM)
		wait.For(in.ended)
	}
	whole, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const methods = "[[methods]]\nname = \"other\"\nkind = \"sandbox\"\n"
	write(strings.Replace(string(whole), `method = "sandbox"`, `method = "other"`, 1) + methods)
	end(s.start())
	head, _, _ := strings.Cut(string(whole), "[[publishers]]")
	head += unlimited
	write(head)
	if code, out, stderr := s.check(); code != exitOK || !strings.Contains(stderr, "warning: integration "+
		testIntegration+` uses the method "other", which this configuration does not have`) {
		t.Errorf("contract 46: --check without the method ends with %d: %s%s", code, out, stderr)
	}
	write(head + methods)
	code, out, stderr := s.check()
	for _, id := range []string{"publisher pub_example", "integration " + testIntegration} {
		if want := "warning: " + id + " is no longer in the file and continues to work"; code != exitOK ||
			!strings.Contains(stderr, want) {
			t.Errorf("contract 46: --check ends with %d: %s%s\nwant %q", code, out, stderr, want)
		}
	}

	in := s.start()
	if _, _, err := in.publisher.start(testIntegration); err != nil {
		t.Errorf("contract 46: after a restart without its block: %v", err)
	}
	if n := strings.Count(in.logs.String(), `"level":"WARN","msg":"no longer in the configuration`); n != 2 {
		t.Errorf("contract 46: %d warnings, want one of the publisher and one of the integration: %s", n,
			in.logs)
	}
	p, _, _ := testProgram()
	p.Getenv = func(name string) (string, bool) { return testToken, name == "VERGE_OPERATOR_TOKEN" }
	for _, list := range []string{"publisher", "integration"} {
		if code, out := asOperator(p, in.at, list, "list"); code != exitOK ||
			!strings.Contains(out, "no longer in the file") {
			t.Errorf("contract 46: %s list ends with %d: %s", list, code, out)
		}
		if code, out := asOperator(p, in.at, list, "list", "--json"); code != exitOK ||
			!strings.Contains(out, `"removed_from_file":true`) {
			t.Errorf("contract 46: %s list --json ends with %d: %s", list, code, out)
		}
	}
	p.FS = afero.NewOsFs()
	if code, out := asOperator(p, in.at, "apply", s.config, "--dry-run"); code != exitOK ||
		!strings.Contains(out, "archive integration "+testIntegration) {
		t.Errorf("contract 46: apply --dry-run ends with %d: %s", code, out)
	}
	if _, _, err := in.publisher.start(testIntegration); err != nil {
		t.Errorf("contract 46: after a dry run: %v", err)
	}
	if code, out := asOperator(p, in.at, "apply", s.config); code != exitOK {
		t.Errorf("contract 46: apply ends with %d: %s", code, out)
	}
	if _, _, err := in.publisher.start(testIntegration); err == nil {
		t.Error("contract 46: after apply its integration starts sessions")
	}
	end(in)
	if _, _, stderr := s.check(); strings.Contains(stderr, "no longer in the file") {
		t.Errorf("contract 46: after apply, --check lists %s", stderr)
	}
}
