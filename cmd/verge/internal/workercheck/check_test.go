package workercheck

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

func wranglerText(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../../../edge/workers/wrangler.jsonc")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCheck_TheFirstConfiguration(t *testing.T) {
	c := Check([]byte(wranglerText(t)))
	for _, p := range c.Problems {
		t.Error(p)
	}
	if want := []string{"SHOP_WEBHOOK_SECRET", "VERGE_KEYRING", "VERGE_OPERATOR_TOKEN"}; !slices.Equal(
		c.Secrets,
		want,
	) {
		t.Errorf("secrets %q, want %q", c.Secrets, want)
	}
}

// TestCheck_Accepted changes the first configuration in ways that the Worker and the platform accept.
func TestCheck_Accepted(t *testing.T) {
	for name, change := range map[string]*strings.Replacer{
		"a wildcard": strings.NewReplacer(`{ "pattern": "verify.example.com", "custom_domain": true },`,
			`"*.example.com/*",`),
		"one route": strings.NewReplacer(`{ "pattern": "verify.example.com", "custom_domain": true },`, ``,
			`"workers_dev": false,`, `"workers_dev": false, "route": "https://verify.example.com/*",`),
		"comments": strings.NewReplacer(`"VERGE_SITE": {`,
			`"VERGE_SITE": { // `+strings.Repeat("x", maxVariable)+"\n"),
		"an environment": strings.NewReplacer(`"vars": {`, `"env": {"eu": {"routes": ["eu.example.com/*"],
			"durable_objects": {"bindings": [{"name": "PARTITION", "class_name": "Partition"},
				{"name": "LIMITS", "class_name": "Limits"}]},
			"vars": {"VERGE_CONFIG": {"base_url": "https://eu.example.com", "test": true}}}}, "vars": {`),
	} {
		for _, p := range Check([]byte(change.Replace(wranglerText(t)))).Problems {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// flaws are changes of the sample wrangler.jsonc, with the place and the text of the problem that follows.
var flaws = []struct{ name, from, to, at, path, text string }{
	{"a comma is missing", `"workers_dev": false,`, `"workers_dev": false`, "preview_urls", "",
		"not JSON"},
	{"another entry", `"src/worker.js"`, `"worker.js"`, "worker.js", "main", `"src/worker.js"`},
	{"an older platform", `"2026-11-01"`, `"2025-06-01"`, "2025-06-01", "compatibility_date", "or later"},
	{"no flag", `"enable_request_signal"`, ``, "compatibility_flags", "compatibility_flags", "add"},
	{"bundled", `"no_bundle": true`, `"no_bundle": false`, "no_bundle", "no_bundle", "true"},
	{"no binding", `{ "name": "LIMITS", "class_name": "Limits" }`, ``, "\"bindings\"",
		"durable_objects.bindings", "LIMITS"},
	{"a binding of another class", `"class_name": "Limits"`, `"class_name": "Limit"`, `"Limit"`,
		"durable_objects.bindings.1.class_name", `"Limits"`},
	{"no migration", `{ "tag": "v2", "new_sqlite_classes": ["Limits"] }`, ``, "\"migrations\"",
		"migrations", "Limits"},
	{"a class without SQLite", `"v2", "new_sqlite_classes"`, `"v2", "new_classes"`, "new_classes",
		"migrations.1.new_classes", "SQLite"},
	{"a deleted class", `"new_sqlite_classes": ["Limits"]`,
		`"new_sqlite_classes": ["Limits"] }, { "tag": "v3", "deleted_classes": ["Partition"]`,
		"deleted_classes",
		"migrations.2.deleted_classes", "deletes all data"},
	{"contract 48: logged URLs", `"invocation_logs": false`, `"invocation_logs": true`, "invocation_logs",
		"observability.logs.invocation_logs", "tokens"},
	{"no time", `"cpu_ms": 30000`, `"cpu_ms": 50`, "cpu_ms", "limits.cpu_ms", "10000"},
	{"another data set", `"binding": "METRICS"`, `"binding": "METRIC"`, "METRIC",
		"analytics_engine_datasets.0.binding", "METRICS"},
	{"no route for operators", `"ADMIN_HOST": "verify-admin.example.com"`,
		`"ADMIN_HOST": "admin.example.com"`,
		"ADMIN_HOST\": \"admin.example.com", "vars.ADMIN_HOST", "no route"},
	{"a URL as a host", `"ADMIN_HOST": "verify-admin`, `"ADMIN_HOST": "https://verify-admin`,
		"https://verify-admin",
		"vars.ADMIN_HOST", "host name"},
	{"no route for users", `"base_url": "https://verify.`, `"base_url": "https://verity.`, "verity",
		"vars.VERGE_CONFIG.base_url", "no route"},
	{"contract 60: a jurisdiction", `"VERGE_CONFIG":`, `"JURISDICTION": "ch", "VERGE_CONFIG":`,
		"JURISDICTION",
		"vars.JURISDICTION", "eu, us"},
	{"contract 60: a hint", `"VERGE_CONFIG":`, `"LOCATION_HINT": 7, "VERGE_CONFIG":`, "LOCATION_HINT",
		"vars.LOCATION_HINT", "weur"},
	{"contract 48: a client", `"VERGE_CONFIG":`, `"LOG_CLIENT": "all", "VERGE_CONFIG":`, "LOG_CLIENT",
		"vars.LOG_CLIENT", "off, cut, whole"},
	{"a variable that nothing reads", `"VERGE_CONFIG":`, `"ADMIN_HOSTS": {}, "VERGE_CONFIG":`,
		"ADMIN_HOSTS",
		"vars.ADMIN_HOSTS", "no such variable"},
	{"contract 13: a secret as a variable", `"VERGE_CONFIG":`, `"VERGE_KEYRING": "hush", "VERGE_CONFIG":`,
		"VERGE_KEYRING", "vars.VERGE_KEYRING", "wrangler secret put"},
	{"contract 13: a named secret as a variable", `"VERGE_CONFIG":`,
		`"SHOP_WEBHOOK_SECRET": "hush", "VERGE_CONFIG":`,
		"SHOP_WEBHOOK_SECRET\":", "vars.SHOP_WEBHOOK_SECRET", "wrangler secret put"},
	{"contract 13: a secret in the site", `"secret_env": "SHOP_WEBHOOK_SECRET"`, `"secret": "hush"`,
		`"hush"`,
		"vars.VERGE_SITE.integrations.0.secret", "secret_env"},
	{"no configuration", `"VERGE_CONFIG"`, `"LOG_CLIENT"`, `"vars"`, "vars", "VERGE_CONFIG is missing"},
	{"a number", `"VERGE_SITE": {`, `"VERGE_SITE_2": 7, "VERGE_SITE": {`, "VERGE_SITE_2",
		"vars.VERGE_SITE_2", "object"},
	{"an unknown setting", `"partitions": 4`, `"partition": 4`, "VERGE_CONFIG\"", "vars.VERGE_CONFIG",
		"partition"},
	{"a value out of range", `"partitions": 4`, `"partitions": 70000`, "70000",
		"vars.VERGE_CONFIG.partitions", "65535"},
	{"dev", `"test": true`, `"dev": true`, `"dev"`, "vars.VERGE_CONFIG.dev", "remove it"},
	{"an invalid origin", `["https://shop.example.com"]`, `["shop.example.com"]`, `["shop.example.com"]`,
		"vars.VERGE_SITE.integrations.0.callback_origins", ""},
	{"another variable's integration", `"VERGE_SITE": {`,
		`"VERGE_SITE_2": {"integrations": [{"id": "x"}]}, "VERGE_SITE": {`, "VERGE_SITE_2",
		"vars.VERGE_SITE_2.integrations.0.id", ""},
	{"a variable of more than 5 KB", `"name": "Checkout"`, `"name": "` + strings.Repeat("x", 5<<10) + `"`,
		"\"VERGE_SITE\"", "vars.VERGE_SITE", "VERGE_SITE_2"},
	{"contract 41: a method's setting", `"test": true`,
		`"methods": [{"name": "a", "kind": "oidc", "secrets_env": ` +
			`{"client_secret": "A-B"}, "settings": {"isuer": "x"}}]`, `"isuer"`,
		"vars.VERGE_CONFIG.methods.a.oidc.isuer", "no such setting"},
	{"contract 28: a private webhook", `https://shop.example.com/webhooks/verge`, `https://10.0.0.1/hook`,
		"webhook_url", "vars.VERGE_SITE.integrations.0.webhook_url", "must be public"},
	{"contract 28: metadata", `https://shop.example.com/webhooks/verge`, `https://169.254.169.254/x`,
		"webhook_url", "vars.VERGE_SITE.integrations.0.webhook_url", "must be public"},
	{"contract 28: localhost", `https://shop.example.com/webhooks/verge`, `https://localhost/hook`,
		"webhook_url", "vars.VERGE_SITE.integrations.0.webhook_url", "must be public"},
	{"contract 28: a bare name", `https://shop.example.com/webhooks/verge`, `https://shop/hook`,
		"webhook_url", "vars.VERGE_SITE.integrations.0.webhook_url", "not public"},
	{"contract 61: an internal name", `"secret_env":`,
		`"alert_url": "https://hook.internal/", "secret_env":`, "alert_url",
		"vars.VERGE_SITE.integrations.0.alert_url", "not public"},
	{"contract 50: one key twice", `"test": true`,
		`"test": true, "oidc_provider": {"keys_env": ["A", "A"]}`, `"VERGE_CONFIG"`,
		"vars.VERGE_CONFIG.oidc_provider_keys", "different keys"},
	{"contract 48: a named environment", `"vars": {`,
		`"env": {"production": {"vars": {"LOG_CLIENT": "all"}}}, "vars": {`, "LOG_CLIENT",
		"env.production.vars.LOG_CLIENT", "off, cut, whole"},
	{"an environment without objects", `"vars": {`, `"env": {"production": {}}, "vars": {`, `"production"`,
		"env.production.durable_objects.bindings", "LIMITS"},
	{"the name of a secret", `"test": true`, `"test": true, "report": {"key_env": "A-B"}`, "A-B",
		"vars.VERGE_CONFIG.report.key_env", "letters"},
}

// The error names the place, its line and the fix.
func TestCheck_Errors(t *testing.T) {
	for _, c := range flaws {
		t.Run(c.name, func(t *testing.T) {
			before := wranglerText(t)
			text := strings.Replace(before, c.from, c.to, 1)
			if text == before {
				t.Fatalf("%q is not in wrangler.jsonc", c.from)
			}
			line := 1 + strings.Count(text[:strings.Index(text, c.at)], "\n")
			for _, p := range Check([]byte(text)).Problems {
				if strings.Contains(p.Error(), "hush") {
					t.Errorf("it quotes a secret: %v", p)
				}
				// The reader of JSON puts the line into its text.
				inLine := p.Line == line || strings.Contains(p.Text, fmt.Sprintf("line %d,", line))
				if p.Path == c.path && inLine && strings.Contains(p.Text, c.text) {
					return
				}
			}
			t.Errorf(
				"no error of %s in line %d with %q: %v",
				c.path,
				line,
				c.text,
				Check([]byte(text)).Problems,
			)
		})
	}
}

func TestCheck_Secrets(t *testing.T) {
	text := strings.Replace(
		wranglerText(t),
		`"test": true`,
		`"oidc_provider": {"keys_env": ["OIDC_1", "OIDC_2"]},
		"report": {"key_env": "REPORT"}, "software_version": "v1", "methods": [{"name": "bankid",
			"kind": "oidc",
		"secrets_env": {"client_secret": "BANKID"}, "settings": {"issuer": "https://id.example.com",
		"client_id": "verge", "proof": {"claim": ["is_over_18"], "equals": true,
			"age": 18}}}],`+"\"test\": true,",
		1,
	)
	c := Check([]byte(strings.Replace(text, `"test": true,`, `"test": true`, 1)))
	for _, p := range c.Problems {
		t.Error(p)
	}
	want := []string{
		"BANKID",
		"OIDC_1",
		"OIDC_2",
		"REPORT",
		"SHOP_WEBHOOK_SECRET",
		"VERGE_KEYRING",
		"VERGE_OPERATOR_TOKEN",
	}
	if !slices.Equal(c.Secrets, want) {
		t.Errorf("secrets %q, want %q", c.Secrets, want)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"vars": {"VERGE_CONFIG": {}, "VERGE_SITE": {"publishers": [{}]}}, // a
		"routes": ["a/*", {}, /* b */ 7,], }`))
	f.Add([]byte(`{"a": "\"//", "b": [1,`))
	f.Fuzz(func(t *testing.T, b []byte) { Check(b) })
}

// Contract 28: the command and the Worker reject the same addresses.
func TestOffLimits(t *testing.T) {
	b, err := os.ReadFile("../../../../edge/workers/testdata/offlimits.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		URL  string
		Open bool
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) < 40 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	for _, c := range cases {
		if why := offLimits(c.URL, false); (why == "") != c.Open {
			t.Errorf("%q: %q, open to a Worker: %v", c.URL, why, c.Open)
		}
	}
}
