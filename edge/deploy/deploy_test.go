// Package deploy_test checks the files of this folder against Verge's own metrics, and against the programs
// that read them.
package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/verge-id/verge/testharness"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/testenv"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// promtool runs promtool and returns its output. It fails the test if promtool reports an error.
func promtool(t *testing.T, input string, args ...string) string {
	t.Helper()
	c := exec.Command(testenv.Program(t, "promtool"), args...)
	c.Stdin = strings.NewReader(input)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// The metrics follow the conventions of Prometheus.
func TestMetricsFollowTheConventions(t *testing.T) {
	h := testharness.New(t, nil)
	h.Validate(h.Approve(h.Start(nil)).ResultToken)
	h.Settle()
	metrics := h.Metrics()
	for _, want := range []string{"verge_store_operation_seconds_count", "verge_sessions_total",
		"verge_keyring_key_info", "verge_runner_oldest_task_seconds"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if said := promtool(t, metrics, "check", "metrics"); said != "" {
		t.Errorf("promtool finds:\n%s", said)
	}
}

func TestAlertsDoWhatTheirTestsSay(t *testing.T) {
	promtool(t, "", "check", "rules", "alerts.yml")
	long.Skip(t, "TestAlertsDoWhatTheirTestsSay")
	promtool(t, "", "test", "rules", "alerts_test.yml", "alerts_week_test.yml")
}

var alertName = regexp.MustCompile(`(?m)^      - alert: (\w+)$`)

func TestAlerts_EachTested(t *testing.T) {
	tests := read(t, "alerts_test.yml") + read(t, "alerts_week_test.yml")
	alerts := alertName.FindAllStringSubmatch(read(t, "alerts.yml"), -1)
	if len(alerts) < 10 {
		t.Fatalf("only %d alerts are found", len(alerts))
	}
	for _, a := range alerts {
		if !strings.Contains(tests, `ALERTS{alertname="`+a[1]+`",alertstate="firing",`) {
			t.Errorf("no test sees %s fire", a[1])
		}
	}
}

// dashboard has the fields of dashboard.json for the tests.
type dashboard struct {
	Panels []struct {
		ID      int
		Type    string
		Title   string
		Targets []struct{ Expr string }
	}
}

func expressions(t *testing.T) (all []string) {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %d %q has an id twice, no title or nothing to show", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	return all
}

var (
	metricUsed = regexp.MustCompile(`\bverge_\w+`)
	metricMade = regexp.MustCompile(`"(verge_\w+)"`)
)

// An alert or a panel on a missing metric is always silent.
func TestAlerts_ExistingMetrics(t *testing.T) {
	files, err := filepath.Glob("../internal/server/*metrics.go")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files of metrics: %v", len(files), err)
	}
	made := map[string]bool{}
	for _, file := range files {
		for _, m := range metricMade.FindAllStringSubmatch(read(t, file), -1) {
			made[m[1]] = true
		}
	}
	for name, text := range map[string]string{
		"alerts.yml":     read(t, "alerts.yml"),
		"the tests":      read(t, "alerts_test.yml") + read(t, "alerts_week_test.yml"),
		"dashboard.json": strings.Join(expressions(t), "\n"),
	} {
		used := metricUsed.FindAllString(text, -1)
		if len(used) < 10 {
			t.Errorf("%s uses only %d metrics", name, len(used))
		}
		for _, metric := range used {
			base := metric
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !made[metric] && !made[base] {
				t.Errorf("%s uses %s, which Verge does not have", name, metric)
			}
		}
	}
}

// The dashboard of a slow service shows all its active work.
func TestDashboard_Metrics(t *testing.T) {
	shown := strings.Join(expressions(t), "\n")
	gauges := 0
	for _, m := range metricMade.FindAllStringSubmatch(read(t, "../internal/server/metrics.go"), -1) {
		if name := m[1]; strings.HasPrefix(name, "verge_http_") && !strings.HasSuffix(name, "_total") &&
			!strings.HasSuffix(name, "_seconds") {
			gauges++
			if !strings.Contains(shown, name+"{") {
				t.Errorf("no panel shows %s", name)
			}
		}
	}
	if gauges < 3 {
		t.Errorf("%d gauges of requests and connections are found, want at least 3", gauges)
	}
}

// increases finds alerts on the first event of a kind.
var increases = regexp.MustCompile(
	`expr: sum by \(\w+\) \(increase\((verge_\w+)\{(\w+="\w+")\}\[\w+\]\)\) > 0`)

// To Prometheus a counter that appears with 1 does not rise. So a new server has all counters of alerts with
// the value 0.
func TestAlerts_FirstEvent(t *testing.T) {
	metrics := testharness.New(t, nil).Metrics()
	found := increases.FindAllStringSubmatch(read(t, "alerts.yml"), -1)
	if len(found) < 4 {
		t.Fatalf("only %d alerts on a first event are found: %q", len(found), found)
	}
	for _, m := range found {
		if !regexp.MustCompile(`(?m)^` + m[1] + `\{.*\b` + m[2] + `.*\} 0$`).MatchString(metrics) {
			t.Errorf("before the first one there is no %s{%s}", m[1], m[2])
		}
	}
}

// Prometheus must be able to read each expression of the dashboard.
func TestExpressionsOfTheDashboard(t *testing.T) {
	all := expressions(t)
	if len(all) < 15 {
		t.Fatalf("only %d expressions", len(all))
	}
	rules := "groups:\n  - name: dashboard\n    rules:\n"
	for i, e := range all {
		for _, variable := range []string{"$job", "$instance"} {
			if !strings.Contains(e, `=~"`+variable+`"`) {
				t.Errorf("%s does not follow %s", e, variable)
			}
		}
		rules += fmt.Sprintf("      - record: panel:%d\n        expr: %q\n", i, e)
	}
	path := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", path)
}

// Grafana describes its dashboards by types of TypeScript. A member that they do not have, or a value of
// another type, fails.
func TestDashboard_Grafana(t *testing.T) {
	const modules = "/usr/local/lib/grafana/node_modules"
	testenv.Program(t, "node") // the compiler is a script of Node's
	compiler := testenv.File(t, modules+"/.bin/tsc")
	dir := t.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	check := func(json string) (string, error) {
		source := "import type { Dashboard } from \"@grafana/schema\";\nexport const d: Dashboard = " + json +
			";\n"
		if err := os.WriteFile(filepath.Join(dir, "dashboard.ts"), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		c := exec.Command(compiler, "--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler",
			"--module", "esnext", "dashboard.ts")
		c.Dir = dir
		out, err := c.CombinedOutput()
		return string(out), err
	}
	good := read(t, "dashboard.json")
	if out, err := check(good); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	bad := strings.Replace(good, `"graphTooltip": 1`, `"graphTooltips": 1`, 1)
	if _, err := check(bad); err == nil || bad == good {
		t.Error("a member that Grafana does not have is not noticed")
	}
}

// Each alert has a row in the runbook: its meaning, where to look, and what to do.
func TestAlerts_RunbookEntries(t *testing.T) {
	_, runbook, found := strings.Cut(read(t, "../../cmd/verge/OPERATING.md"), "\n### Alerts\n")
	if !found {
		t.Fatal("OPERATING.md has no section Alerts")
	}
	severities := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)- alert: (\w+)\n.*?severity: (\w+)\n`).FindAllStringSubmatch(
		read(t, "alerts.yml"), -1) {
		severities[m[1]] = m[2]
	}
	for name, severity := range severities {
		row := regexp.MustCompile(`(?m)^\|[^|]*` + "`" + name + "` \\(" + severity +
			`\)[^|]*\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
		if !row.MatchString(runbook) {
			t.Errorf("the runbook has no row of %s (%s) with three cells", name, severity)
		}
	}
	for _, m := range regexp.MustCompile("`(Verge\\w+)` \\(").FindAllStringSubmatch(runbook, -1) {
		if severities[m[1]] == "" {
			t.Errorf("the runbook has an entry of %s, which is no alert", m[1])
		}
	}
	if len(severities) < 30 {
		t.Errorf("only %d alerts are found", len(severities))
	}
}

// OPERATING.md tells operators of the files, and the names of alerts are theirs.
func TestOperatorsAreToldOfTheAlerts(t *testing.T) {
	if !strings.Contains(read(t, "../../cmd/verge/OPERATING.md"), "edge/deploy") {
		t.Error("OPERATING.md does not mention edge/deploy")
	}
	names := alertName.FindAllStringSubmatch(read(t, "alerts.yml"), -1)
	if slices.ContainsFunc(names, func(m []string) bool { return !strings.HasPrefix(m[1], "Verge") }) {
		t.Errorf("an alert's name does not begin with Verge: %v", names)
	}
}
