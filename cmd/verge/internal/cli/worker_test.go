package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWorkerCheck(t *testing.T) {
	t.Parallel()
	first := readText(t, "../../../../edge/workers/wrangler.jsonc")
	bad := filepath.Join(t.TempDir(), "wrangler.jsonc")
	wrong := strings.Replace(first, `"partitions": 4`, `"partitions": 70000`, 1)
	if err := os.WriteFile(bad, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		says        string
	}{
		{"the first configuration", "", []string{"../../../../edge/workers/wrangler.jsonc"}, exitOK,
			"is good. Its secrets:\n  SHOP_WEBHOOK_SECRET\n  VERGE_KEYRING\n"},
		{"an error", "", []string{bad}, exitUsage, "line 37: vars.VERGE_CONFIG.partitions: "},
		{"all secrets",
			`[{"name":"SHOP_WEBHOOK_SECRET"},{"name":"VERGE_KEYRING"},{"name":"VERGE_OPERATOR_TOKEN"}]`,
			[]string{"../../../../edge/workers/wrangler.jsonc", "--secrets", "-"}, exitOK, "is good"},
		{"a missing secret", `[{"name":"VERGE_KEYRING"},{"name":"VERGE_OPERATOR_TOKEN"}]`,
			[]string{"../../../../edge/workers/wrangler.jsonc", "--secrets", "-"}, exitUsage,
			"the secret SHOP_WEBHOOK_SECRET is missing: npx wrangler secret put SHOP_WEBHOOK_SECRET"},
		{"no list", `{`, []string{"../../../../edge/workers/wrangler.jsonc", "--secrets", "-"}, exitUsage,
			"--secrets: not the JSON"},
		{"no file", "", []string{bad + ".not"}, exitUsage, "wrangler.jsonc.not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := onDisk()
			var out bytes.Buffer
			p.stdin, p.stdout, p.stderr = strings.NewReader(c.stdin), &out, &out
			code := run(t.Context(), append([]string{"worker", "check"}, c.args...), p)
			if code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit code %d, want %d, and %q:\n%s", code, c.code, c.says, &out)
			}
		})
	}
}
