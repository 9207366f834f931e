package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/verge-id/verge/core/host"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/core/outbox"
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
	longCause   = host.FetchRefused + " by a proxy that says a lot about what it does not like"
	longTime    = time.Date(2026, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
)

// tables are all tables that commands print, with long values. The keys are what stands in the code for the
// heads.
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
	delivery := operate.Delivery{Event: longEvent, Test: true, Type: longType, State: operate.DeliveryWaiting,
		Created: longTime, Attempts: []operate.Attempt{{At: longTime, Cause: longCause}}, Unrecorded: 1000}
	waiting := outbox.Waiting{Event: longEvent, Type: longType, Session: longSession, Integration: longID,
		Last: longCause, Attempts: 100, At: longTime, Due: longTime}
	dead := outbox.Dead{Event: longEvent, Type: longType, Session: longSession, Integration: longID,
		Reason: "attempts_exhausted", Last: longCause, Attempts: 100, At: longTime}
	return map[string]table{
		"publisherHeads": {publisherHeads,
			publisherRows([]operate.Publisher{{Publisher: integration.Publisher{
				ID: longPub, Name: longName, Created: &longTime, Archived: &longTime}}}), []string{longPub}},
		"integrationHeads": {integrationHeads, integrationRows([]operate.Integration{{Integration: site}}),
			[]string{longID, longPub}},
		"keyHeads": {keyHeads, keyRows([]operate.Key{key}, longTime), []string{longKey, longPub, longID}},
		"deliveryHeads": {deliveryHeads, deliveryRows([]operate.Delivery{delivery}),
			[]string{longEvent}},
		"waitingHeads": {waitingHeads, waitingRows([]outbox.Waiting{waiting}),
			[]string{longEvent, longID, longSession}},
		"deadHeads": {deadHeads, deadRows([]outbox.Dead{dead}), []string{longEvent, longID, longSession}},
		"summaryHeads": {summaryHeads, summaryRows([]operate.PublisherUndelivered{{Publisher: longPub,
			Oldest: &longTime, Newest: &longTime, Integrations: []operate.IntegrationUndelivered{{
				Integration: longID, Waiting: 1000, Dead: 1000, More: true}}}}), []string{longPub, longID}},
		"memberHeads": {memberHeads, memberRows([]operate.Member{{ID: "mem_" + longID, Name: longName,
			Role: "developer", LastSeen: &longTime}}), []string{"mem_" + longID}},
		"invitationHeads": {invitationHeads, invitationRows([]operate.Invitation{{ID: strings.Repeat("i", 64),
			Name: longName, Role: "developer", Expires: longTime}}), []string{strings.Repeat("i", 64)}},
		"operatorHeads": {operatorHeads,
			operatorRows([]operate.OperatorToken{{ID: "op_" + longID, Name: longName,
				Role: "operator", Last4: "abcd", Revoked: &longTime}}, longTime), []string{"op_" + longID}},
		"usageHeads()": {usageHeads(), [][]string{many}, nil},
		"attemptHeads": {attemptHeads, [][]string{{when(longTime), longCause, took(123456789)}}, nil},
		"probeHeads": {probeHeads, [][]string{{"differing X-Service-Timestamp", "401", longName}},
			nil},
		"keyringHeads": {keyringHeads, [][]string{{"0123abcd", strings.Repeat("f", 64), when(longTime),
			when(longTime), when(longTime), "seals"}}, []string{"0123abcd"}},
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

// Contract 47: a table fits into 100 columns, whatever is in it, and has ids whole.
func TestTablesAreNarrow(t *testing.T) {
	for name, table := range tables() {
		t.Run(name, func(t *testing.T) {
			p, out, _ := testProgram()
			if err := printTable(p, table.heads, append(table.rows,
				make([]string, len(table.rows[0])))); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); n > 100 || strings.HasSuffix(line, " ") {
					t.Errorf("contract 47: a line has %d characters: %q", n, line)
				}
			}
			for _, id := range table.whole {
				if !strings.Contains(out.String(), id) {
					t.Errorf("%s is not whole in\n%s", id, out)
				}
			}
			for _, head := range strings.Split(table.heads, "|") {
				if !strings.Contains(out.String(), head) {
					t.Errorf("there is no head %s in\n%s", head, out)
				}
			}
		})
	}
}

func TestTableOfShortRowsHasALineForEach(t *testing.T) {
	p, out, _ := testProgram()
	if err := printTable(p, "A|LONG HEAD|C", [][]string{{"1", "2\n2", "3"}, {"ä", "", ""}}); err != nil {
		t.Fatal(err)
	}
	if want := "A  LONG HEAD  C\n1  2 2        3\nä\n"; out.String() != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestTableOfLongRowsGoesOn(t *testing.T) {
	p, out, _ := testProgram()
	wide := strings.Repeat("x", 60)
	if err := printTable(p, "ID|B|C|D", [][]string{{"1", wide, wide, "d"}, {"2", "", "c", "d"}}); err != nil {
		t.Fatal(err)
	}
	gap := strings.Repeat(" ", 59)
	want := "ID  B\n    C" + gap + "  D\n1   " + wide + "\n    " + wide + "  d\n2\n    c" + gap + "  d\n"
	if out.String() != want {
		t.Errorf("\n%s\nwant\n%s", out, want)
	}
}

// The list of integrations has one line for each, if the ids are those that the service makes.
func TestAnIntegrationIsOneLineOfTheList(t *testing.T) {
	p, out, _ := testProgram()
	rows := integrationRows([]operate.Integration{
		{Integration: integration.Integration{ID: longID, Name: longName,
			PublisherID: "pub_" + strings.Repeat("5", 24), Level: "L2"}, Ready: true}})
	if err := printTable(p, integrationHeads, rows); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 {
		t.Errorf("the heads and a row take %d lines, want 2:\n%s", n, out)
	}
}

// Every table that a command prints is in tables.
func TestEveryTableIsTried(t *testing.T) {
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
					t.Errorf("%s prints a table of its own: use printTable or facts", name)
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
