package cli

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/operate"
)

// commandsFor says with which command an operation is done. A "-" is in front of what nobody does by itself,
// and says why (contract 47).
var commandsFor = map[operate.Operation]string{
	operate.PublisherList:      "publisher list",
	operate.PublisherRead:      "publisher show",
	operate.PublisherCreate:    "publisher create",
	operate.PublisherChange:    "publisher change",
	operate.PublisherArchive:   "publisher archive",
	operate.IntegrationList:    "integration list",
	operate.IntegrationRead:    "integration show",
	operate.IntegrationCreate:  "integration create",
	operate.IntegrationChange:  "integration change",
	operate.IntegrationArchive: "integration archive",
	operate.WebhookChange:      "integration stage, integration drop, integration rotate",
	operate.WebhookTest:        "integration test, event trigger",
	operate.SessionTest:        "session test",
	operate.KeyList:            "key list",
	operate.KeyCreate:          "key create",
	operate.KeyRevoke:          "key revoke",
	operate.DeliveryList:       "delivery list, delivery summary, delivery show",
	operate.DeliveryResend:     "delivery resend",
	operate.SessionRead:        "session show",
	operate.UsageRead:          "usage",
	operate.PasskeysCount:      "passkey count",
	operate.PasskeysEnd:        "passkey end",
	operate.MemberList:         "member list",
	operate.MemberInvite:       "member invite, member uninvite",
	operate.MemberChange:       "member role, member sign-out",
	operate.MemberRemove:       "member remove",
	operate.LinkCreate:         "member link",
	operate.AuditRead:          "audit list",
	operate.MethodList:         "method list", // of the configuration, where a server has them from
	operate.TrustListRead:      "method list-show",
	operate.TrustListLoad:      "method list-load",
	operate.OperatorList:       "operator list",
	operate.OperatorCreate:     "operator create",
	operate.OperatorRevoke:     "operator revoke",
	operate.SiteApply:          "apply",
	operate.OperatorUse:        "- the audit has it",
	operate.OperatorRefused:    "- the audit tells of it",
	operate.ModuleRead:         "module show",
	operate.ModuleActivate:     "module activate",
	operate.BackupMake:         "kv backup",
}

// TestEveryOperationHasACommand fails when an operation is added to core/operate and the command line cannot
// do it, and when a command has no --json.
func TestEveryOperationHasACommand(t *testing.T) {
	t.Parallel()
	p, _, _ := testProgram()
	parser, _, err := newParser(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	takesJSON := map[string]bool{}
	for _, leaf := range parser.Model.Leaves(true) {
		has := false
		for _, flag := range leaf.Flags {
			has = has || flag.Name == "json"
		}
		takesJSON[strings.TrimPrefix(strings.Join(strings.Fields(commandPath(leaf.FullPath())), " "),
			"verge ")] = has
	}
	all := allOperations(t)
	if len(all) < 30 || len(commandsFor) != len(all) {
		t.Errorf("core/operate has %d operations, and the table %d", len(all), len(commandsFor))
	}
	for _, op := range all {
		commands := commandsFor[op]
		if commands == "" {
			t.Errorf("contract 47: the table has no command for %s", op)
		}
		if strings.HasPrefix(commands, "-") {
			continue
		}
		for name := range strings.SplitSeq(commands, ", ") {
			if has, known := takesJSON[name]; !known || !has {
				t.Errorf("contract 47: %s: there is a command `verge %s`: %v; it takes --json: %v", op, name,
					known, has)
			}
		}
	}
}

// commandPath leaves out the arguments of a path.
func commandPath(full string) string {
	path, _, _ := strings.Cut(full, " <")
	path, _, _ = strings.Cut(path, " [")
	return path
}

// allOperations reads the constants of type Operation from the source, since nothing else has all of
// them.
func allOperations(t *testing.T) (all []operate.Operation) {
	files, err := filepath.Glob("../../../../core/operate/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Operation" {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, operate.Operation(text))
			}
			return true
		})
	}
	return all
}
