package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/cmd/verge/internal/words"
	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
)

// Values as long as they come.
var (
	longID      = "711bb7bd-4165-465f-a5bb-ec37600c13c9"
	longEvent   = "evt_" + longID
	longPub     = "pub_" + strings.Repeat("p", 60)
	longKey     = "key_" + strings.Repeat("k", 24)
	longName    = strings.Repeat("Ä name ", 40)
	longSession = "svc_sess_" + strings.Repeat("s", 86)
	longType    = "verification.completed"
	longCause   = host.FetchRefused + " by a proxy that describes its objections at length"
	longTime    = time.Date(2026, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
)

// tables are all tables that commands print, with long values. The keys are the expressions for the heads in
// the code.
func tables() map[string]table {
	many := []string{"2026-11-20"}
	for range host.Outcomes() {
		many = append(many, "1000000")
	}
	site := integration.Integration{ID: longID, PublisherID: longPub, Name: longName, Level: "L2",
		ChallengeAge: 99, MinimumAge: 99, Attempts: 10,
		Methods: []string{"passport", "driving-licence", "camera-estimate", "bankid",
			"national-identity-card"},
		Webhook: integration.Webhook{URL: "https://hooks.example/" + strings.Repeat("path/", 400)}}
	key := operate.Key{Key: integration.Key{ID: longKey, PublisherID: longPub, IntegrationID: longID,
		Last4: "abcd", Created: longTime, Expires: &longTime, Revoked: &longTime}}
	secretKey := operate.Key{Key: integration.Key{ID: longKey, PublisherID: longPub, Last4: "abcd",
		Created: longTime}}
	delivery := operate.Delivery{Event: longEvent, Test: true, Type: longType, State: operate.DeliveryWaiting,
		Created: longTime, Attempts: []operate.Attempt{{At: longTime, Cause: longCause}}, Unrecorded: 1000}
	waiting := operate.UndeliveredEvent{
		Event:       longEvent,
		Type:        longType,
		Session:     longSession,
		Integration: longID,
		Last:        longCause,
		Attempts:    100,
		At:          longTime,
		Due:         &longTime,
	}
	dead := operate.UndeliveredEvent{Event: longEvent, Type: longType, Session: longSession,
		Integration: longID, Reason: "attempts_exhausted", Last: longCause, Attempts: 100, At: longTime}
	step := operate.SessionStep{At: longTime, Method: "national-identity-card", Result: "attempt_failed",
		Reason: longCause, Setting: "proof.require[0].claim", Detail: "age.over"}
	return map[string]table{
		"publisherHeads": {publisherHeads,
			publisherRows([]operate.Publisher{{Publisher: integration.Publisher{
				ID: longPub, Name: longName, Created: &longTime, Archived: &longTime}}}), []string{longPub}},
		"integrationHeads": {integrationHeads, integrationRows([]operate.Integration{{Integration: site}}),
			[]string{longID, longPub}},
		"keyHeads": {keyHeads, keyRows([]operate.Key{key, secretKey}, longTime),
			[]string{longKey, longPub, longID}},
		"deliveryHeads": {deliveryHeads, deliveryRows([]operate.Delivery{delivery}),
			[]string{longEvent}},
		"sessionHeads": {sessionHeads, sessionRows([]operate.FinishedSession{{ID: longID, Method: longName,
			Outcome: host.OutcomeRejected, Started: longTime, Ended: longTime}}), []string{longID}},
		"stepHeads": {stepHeads, stepRows([]operate.SessionStep{step}), []string{"age.over"}},
		"waitingHeads": {waitingHeads, waitingRows([]operate.UndeliveredEvent{waiting}),
			[]string{longEvent, longID, longSession}},
		"deadHeads": {
			deadHeads,
			deadRows([]operate.UndeliveredEvent{dead}),
			[]string{longEvent, longID, longSession},
		},
		"summaryHeads": {summaryHeads, summaryRows([]operate.PublisherUndelivered{{Publisher: longPub,
			Integrations: []operate.IntegrationUndelivered{{Integration: longID, Waiting: 1000, Dead: 1000,
				More: true, Oldest: &longTime, Newest: &longTime}}}}), []string{longPub, longID}},
		"memberHeads": {memberHeads, memberRows([]operate.Member{{ID: "mem_" + longID, Name: longName,
			Role: "developer", LastSeen: &longTime}}), []string{"mem_" + longID}},
		"invitationHeads": {invitationHeads, invitationRows([]operate.Invitation{{ID: strings.Repeat("i", 64),
			Name: longName, Role: "developer", Expires: longTime}}), []string{strings.Repeat("i", 64)}},
		"operatorHeads": {operatorHeads,
			operatorRows([]operate.OperatorToken{{ID: "op_" + longID, Name: longName,
				Role: "operator", Last4: "abcd", Revoked: &longTime}}, longTime), []string{"op_" + longID}},
		"usageHeads()": {usageHeads(), [][]string{many}, nil},
		"attemptHeads": {attemptHeads, [][]string{{words.When(longTime), longCause, took(123456789)}}, nil},
		"probeHeads": {probeHeads, [][]string{{"differing X-Service-Timestamp", "401", longName}},
			nil},
		"keyringHeads": {keyringHeads, [][]string{{"0123abcd", strings.Repeat("f", 64), words.When(longTime),
			words.When(longTime), words.When(longTime), "seals"}}, []string{"0123abcd"}},
		"listHeads": {listHeads, listRows([]operate.TrustList{{Method: strings.Repeat("m", 32),
			Name: strings.Repeat("n", 32), State: "too_old", Sequence: 1 << 40, Entries: 4096,
			NextUpdate: &longTime, Fetched: &longTime, Source: "https://" + longName}}),
			[]string{strings.Repeat("m", 32), strings.Repeat("n", 32)}},
		"methodHeads": {methodHeads,
			[][]string{{strings.Repeat("m", 40), "openid4vp", "L2", "10000", longName}},
			[]string{strings.Repeat("m", 40)}},
	}
}

type table struct {
	heads string
	rows  [][]string
	whole []string // what other commands take, so it must not be cut
}

// Contract 47: each row of a table is one line, on a terminal and in a pipe, with ids whole, times as RFC
// 3339 and heads in capitals.
func TestTables(t *testing.T) {
	for name, table := range tables() {
		for _, terminal := range []bool{true, false} {
			p, out, _ := testProgram()
			p.terminal = terminal
			if err := printTable(p, table.heads, append(table.rows,
				make([]string, len(table.rows[0])))); err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(out.String(), "\n")
			if len(lines) != len(table.rows)+3 { // the heads, the empty row and the end
				t.Errorf("contract 47: %s: %d rows are\n%s", name, len(table.rows), out)
			}
			if strings.Contains(out.String(), " \n") {
				t.Errorf("contract 47: %s: a line ends with a space: %q", name, out)
			}
			for _, id := range table.whole {
				if !strings.Contains(out.String(), id) {
					t.Errorf("contract 47: %s: %s is not whole in\n%s", name, id, out)
				}
			}
			if lines[0] != strings.ToUpper(lines[0]) || slices.Contains(strings.Fields(lines[0]), "UTC") {
				t.Errorf("contract 47: %s: the heads are %q", name, lines[0])
			}
			for _, row := range table.rows {
				for _, cell := range row {
					if strings.Contains(cell, "2026-12-31") && !strings.Contains(cell, words.When(longTime)) {
						t.Errorf("contract 47: %s: a time is %q, want %s", name, cell, words.When(longTime))
					}
				}
			}
		}
	}
}

func TestTableCells(t *testing.T) {
	p, out, _ := testProgram()
	if err := printTable(p, "A|LONG HEAD|C", [][]string{{"1", "2\n2", "3"}, {"ä", "", ""}}); err != nil {
		t.Fatal(err)
	}
	if want := "A  LONG HEAD  C\n1  2 2        3\nä\n"; out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// The lists that people look at most fit a terminal, with ids as the service makes them.
func TestTables_FitATerminal(t *testing.T) {
	publisher := "pub_" + strings.Repeat("5", 20)
	for heads, rows := range map[string][][]string{
		integrationHeads: integrationRows([]operate.Integration{{Integration: integration.Integration{
			ID: longID, Name: longName, PublisherID: publisher, Level: "L2", Managed: true}, Ready: true}}),
		keyHeads: keyRows([]operate.Key{{Key: integration.Key{ID: "key_0123456789abcdef", Last4: "abcd",
			PublisherID: publisher, IntegrationID: longID, Created: longTime}}}, longTime),
	} {
		p, out, _ := testProgram()
		if err := printTable(p, heads, rows); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(line); n > 103 {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	}
}

// Every table that a command prints is in tables.
func TestTables_EveryOneTried(t *testing.T) {
	var printed []string
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "NewWriter" && name != "table.go" {
				if x, ok := f.X.(*ast.Ident); ok && x.Name == "tabwriter" {
					t.Errorf("%s prints its own table: use printTable or facts", name)
				}
			}
			if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "printTable" {
				return true
			}
			switch heads := call.Args[1].(type) {
			case *ast.Ident:
				printed = append(printed, heads.Name)
			case *ast.CallExpr:
				printed = append(printed, heads.Fun.(*ast.Ident).Name+"()")
			default:
				t.Errorf("%s: the heads of a table need a name", name)
			}
			return true
		})
	}
	tried := tables()
	for _, heads := range printed {
		if _, ok := tried[heads]; !ok {
			t.Errorf("the table %s is not tried with long values", heads)
		}
	}
	if len(printed) < 14 {
		t.Errorf("only %d tables were found: %v", len(printed), slices.Sorted(slices.Values(printed)))
	}
}

// Contract 44: `verge session list` accepts the outcomes of a finished session.
func TestSessionList_Outcomes(t *testing.T) {
	field, _ := reflect.TypeFor[sessionListCmd]().FieldByName("Outcome")
	var finished []string
	for _, outcome := range host.Outcomes() {
		if outcome == host.OutcomeStarted {
			continue
		}
		finished = append(finished, outcome)
		if !strings.Contains(field.Tag.Get("help"), outcome) {
			t.Errorf("the help does not name %s", outcome)
		}
	}
	if want := "," + strings.Join(finished, ","); field.Tag.Get("enum") != want {
		t.Errorf("it accepts %q, want %q", field.Tag.Get("enum"), want)
	}
}

// Contract 27: each row has the times of its integration. The publisher's times belong to several rows.
func TestSummaryRows_Times(t *testing.T) {
	at := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	rows := summaryRows([]operate.PublisherUndelivered{{Oldest: &at, Newest: &at,
		Integrations: []operate.IntegrationUndelivered{{Waiting: 1, Oldest: &at}, {Dead: 1, Newest: &at}}}})
	for i, want := range [][]string{{words.When(at), "-"}, {"-", words.When(at)}} {
		if got := rows[i][4:]; !slices.Equal(got, want) {
			t.Errorf("row %d has %q, want %q", i, got, want)
		}
	}
}
