package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/verge-id/verge/core/operate"
)

// commandsFor has the command of each endpoint. A "-" begins the reason why an endpoint has none (contract 47).
var commandsFor = map[string]string{
	"listPublishers":     "publisher list",
	"readPublisher":      "publisher show",
	"createPublisher":    "publisher create",
	"changePublisher":    "publisher change",
	"archivePublisher":   "publisher archive",
	"readOverview":       "publisher show",
	"listIntegrations":   "integration list",
	"readIntegration":    "integration show",
	"createIntegration":  "integration create",
	"changeIntegration":  "integration change",
	"archiveIntegration": "integration archive",
	"stageWebhook":       "integration stage",
	"dropStaged":         "integration drop",
	"rotateSecret":       "integration rotate",
	"testWebhook":        "integration test",
	"sendTestEvent":      "event trigger",
	"startTestSession":   "session test",
	"listKeys":           "key list",
	"createKey":          "key create",
	"revokeKey":          "key revoke",
	"listDeliveries":     "delivery list",
	"listUndelivered":    "delivery summary",
	"readDelivery":       "delivery show",
	"resend":             "delivery resend",
	"readSession":        "session show",
	"readUsage":          "usage",
	"countPasskeys":      "passkey count",
	"endPasskeys":        "passkey end",
	"listMembers":        "member list",
	"listInvitations":    "member list",
	"invite":             "member invite",
	"withdrawInvitation": "member uninvite",
	"changeRole":         "member role",
	"signOutMember":      "member sign-out",
	"removeMember":       "member remove",
	"createLink":         "member link",
	"listAudit":          "audit list",
	"listMethods":        "method list", // of the configuration, where a server has them from
	"listTrustLists":     "method list-show",
	"loadTrustList":      "method list-load",
	"listOperators":      "operator list",
	"createOperator":     "operator create",
	"revokeOperator":     "operator revoke",
	"readSelf":           "- the host asks for it",
	"applySite":          "apply",

	// endpoints of the core's host
	string(operate.ModuleRead):     "module show",
	string(operate.ModuleActivate): "module activate",
	string(operate.BackupMake):     "kv backup",
}

// TestEveryOperationHasACommand fails when an endpoint is added to core/operate and the command line cannot
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
	for _, e := range operate.Endpoints() {
		if name := e.Describe().Name; commandsFor[name] == "" {
			t.Errorf("contract 47: the table has no command for %s", name)
		}
	}
	for endpoint, name := range commandsFor {
		if has, known := takesJSON[name]; !strings.HasPrefix(name, "-") && (!known || !has) {
			t.Errorf("contract 47: %s: there is a command `verge %s`: %v; it takes --json: %v", endpoint, name,
				known, has)
		}
	}
}

// commandPath leaves out the arguments of a path.
func commandPath(full string) string {
	path, _, _ := strings.Cut(full, " <")
	path, _, _ = strings.Cut(path, " [")
	return path
}
