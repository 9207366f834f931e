package cli

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/operate"
)

// withoutCommand has the endpoints that no command asks, and the reasons (contract 47).
var withoutCommand = map[string]string{"readSelf": "the core's host asks it"}

// TestCommands_EveryOperation fails if an endpoint of core/operate has no command, and if a command for
// endpoints has no --json. The tag does of a command names its endpoints, and operations of the core's host.
func TestCommands_EveryOperation(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	parser, _, err := newParser(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	all := []string{string(operate.ModuleRead), string(operate.ModuleActivate), string(operate.BackupMake)}
	for _, e := range operate.Endpoints() {
		all = append(all, e.Describe().Name)
	}
	done := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(true) {
		named := leaf.Tag.Get("does")
		if named == "" {
			continue
		}
		takesJSON := false
		for _, flag := range leaf.Flags {
			takesJSON = takesJSON || flag.Name == "json"
		}
		if !takesJSON {
			t.Errorf("contract 47: %s has no --json", leaf.FullPath())
		}
		for name := range strings.SplitSeq(named, ",") {
			done[name] = true
			if !slices.Contains(all, name) {
				t.Errorf("%s names an endpoint that does not exist: %s", leaf.FullPath(), name)
			}
		}
	}
	for _, name := range all {
		if done[name] == (withoutCommand[name] != "") {
			t.Errorf("contract 47: %s has a command: %v; it has none because: %q", name, done[name],
				withoutCommand[name])
		}
	}
}
