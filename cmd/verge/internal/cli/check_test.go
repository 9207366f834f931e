package cli

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// rejectedIn returns the scripts' command rejected. `rejected ARGS` runs `verge serve ARGS` with the last
// arguments of each way. Every run has to reject the configuration in the same words and with exit code 2.
func rejectedIn(ways [][]string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("`! refused` is not supported; run `verge serve` with --check")
		}
		var first string
		for n, last := range ways {
			err := ts.Exec("verge", append(append([]string{"serve"}, args...), last...)...)
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
				ts.Fatalf("verge serve %q %q: %v, want exit code %d", args, last, err, exitUsage)
			}
			if out := ts.ReadFile("stdout"); out != "" {
				ts.Fatalf("verge serve %q %q rejects, and prints %s", args, last, out)
			}
			if said := ts.ReadFile("stderr"); n == 0 {
				first = said
			} else if said != first {
				ts.Fatalf("with %q it prints %s\nand with %q %s", ways[0], first, last, said)
			}
		}
	}
}

// TestCheckAndStartSayTheSame shows that --check rejects the same configurations as a start, in the
// same words.
func TestCheckAndStartSayTheSame(t *testing.T) {
	for _, c := range []struct{ more, says string }{
		{`base_url = "https://Verify.example.com"`,
			`base_url: "https://Verify.example.com" is not how browsers write it`},
		{`base_url = "https://verify.example.com:443"`, "use https://verify.example.com"},
		{`base_url = "https://verify.example.com/x"`, "base_url: "},
		{`base_url = "https://u:p@verify.example.com"`,
			"https://host:port, without user name, path and query\n"},
		{`outcome_life = "59m"`, "outcome_life: 59m0s is too short; it must be at least 1h0m0s"},
		{"[listen]\npublic = '127.0.0.1:99999'",
			`listen.public: "127.0.0.1:99999": there is no port 99999; give a number from 0 to 65535`},
		{"[store]\npartitions = 257", "store.partitions: 257 is not from 1 to 256"},
		{"[store]\npartitions = 65536", "store.partitions: 65536 is not from 1 to 256"},
		{"[store]\nbudget = '99ms'", "store.budget: 99ms is not from 100ms to 12s"},
		{"[webhooks]\njitter_percent = 101", "webhooks.jitter_percent: 101 is too much"},
		{"[webhooks]\njitter_percent = -1", "webhooks.jitter_percent: -1 is negative"},
		{"[webhooks]\ntimeout = '121s'", "webhooks.timeout: 2m1s is too long"},
		{"[engine]\nname = 'wasm'\n[webhooks]\nretries = ['1ns']",
			"webhooks.retries: 1ns is not a whole number of milliseconds"},
		{"trusted_proxies = ['::/0']", "trusted_proxies: ::/0 is everybody"},
		{"security_contact = 'security@example.com'",
			`security_contact: "security@example.com" is no contact`},
		{"proxy_header = 'X-Real-Ip'", `proxy_header: "X-Real-Ip" is neither`},
		{"[limits]\nconnections = -1", "limits.connections: -1 is too little; it must be at least 1"},
		{"[limits]\nconnections = 1000000000", "limits.connections: 1000000000 is more than"},
		{"[limits]\nconections = 3", `unknown setting "limits.conections"`},
		{"Mode = \"production\"", "Mode and mode are the same setting; keep one of them"},
		{"[limits]\npublic_per_ip = 1\nPublic_Per_IP = 2",
			"limits.Public_Per_IP and limits.public_per_ip are the same setting"},
		{"[limits]\nconnections = 'three'", "limits.connections must be a whole number"},
		{"[webhooks]\nretries = [5]", "webhooks.retries must be a list; each value is a duration"},
		{"[drain]\ntimeout = 'soon'",
			`drain.timeout: "soon" is not a duration: write it like 90d, 12h or 5s`},
		{"[drain]\ndelay = 'soon'", `drain.delay: "soon" is not a duration`},
		{"[store]\nbudget = ''", `store.budget: "" is not a duration`},
		{"[webhooks]\nretries = ['5s', 'later']", `webhooks.retries: "later" is not a duration`},
		{"[drain]\ntimeout = 20", "drain.timeout must be a duration in quotes"},
		{"[webhooks]\nretries = 5", "webhooks.retries must be a list; each"},
		{"[store]\ntrusted_network = 'yes'", "store.trusted_network must be true or false"},
		{"[log_level]\nlevel = 'info'", "log_level must be a text in quotes"},
		{"[traces]\nsample = 0.5", "traces.sample: it needs traces.endpoint"},
		{"[traces]\nendpoint = '127.0.0.1:4318'",
			`traces: "127.0.0.1:4318" is no address like http://127.0.0.1:4318`},
		{"[traces]\nendpoint = 'http://127.0.0.1:4318'\nsample = 1.5", "traces: the sampled part is 1.5"},
		{"[[drain]]\ndelay = '1s'", "drain must be a table"},
		{"[drain]\ndelay = '61m'", "drain.delay: 1h1m0s is too long; it must be at most 1h0m0s"},
		{"[drain]\ntimeout = '100h'", "drain.timeout: 100h0m0s is too long; it must be at most 1h0m0s"},
		{"[webhooks]\nretries = ['30d', '1s']",
			"webhooks.retries: the sum is too long; it must be at most 30 days"},
		{"[webhooks]\nretries = ['65535d', '65535d']", "webhooks.retries: the sum is too long"},
		{"[traces]\nsample = '1%'", "traces.sample must be a number\n"},
		{"mode = “test”", "line 1, column 8: “ is a typographic quotation mark; write \" instead"},
		{"mode\u00a0= 'test'",
			"line 1, column 5: the character U+00A0 is allowed in quotes and comments only"},
		{"mode = test", "; a text needs quotes, such as mode = \"test\""},
		{"keyring = \"C:\\verge\"", `; write \\ for each \, or use single quotes, such as 'C:\verge'`},
		{"service_name = 'Caf\xe9'", "; save the file as UTF-8"},
		{"service_name = 'Example", "column 24: literal strings cannot have new lines\n"},
		{"[[integrations]]\nlog_level = 'info'",
			`unknown setting "integrations.log_level"; write log_level above the first line that begins with [`},
		{"[store]\nlimits.connections = 5", `unknown setting "store.limits.connections"; `},
		{"[limits]\nconections = 5", `unknown setting "limits.conections"; did you mean connections?`},
		{"[limts]\nconnections = 5", `unknown setting "limts"; did you mean limits?`},
		{"[[publishers]]\nid = 'pub_example'", `publisher "pub_example": it occurs twice`},
		{"[[integrations]]\nchallenge_age = '25'", "integrations.challenge_age must be a whole number"},
	} {
		t.Run(c.says, func(t *testing.T) {
			config := configFor("test", "memory", "https://shop.example.com/hooks", "HOOK")
			if strings.HasPrefix(c.more, "[") {
				config += c.more + "\n"
			} else { // replaces a valid value, or is inserted before the first table
				key, _, _ := strings.Cut(c.more, "=")
				replaced := func(line string) bool { return strings.HasPrefix(line, key) }
				lines := slices.DeleteFunc(strings.Split(config, "\n"), replaced)
				config = c.more + "\n" + strings.Join(lines, "\n")
			}
			p := serveFiles(t, map[string]string{"/verge.toml": config})
			args := []string{"serve", "--config", "/verge.toml"}
			code, said := runFor(t, p, append(args, "--check"))
			if code != exitUsage || !strings.Contains(said, c.says) {
				t.Fatalf("--check ends with %d: %s\nwant %d and %q", code, said, exitUsage, c.says)
			}
			if strings.Contains(said, "main.") || strings.Contains(said, testSecret) {
				t.Errorf("the message has a name of the program's code, or a secret: %s", said)
			}
			if startCode, startSaid := runFor(t, p, args); startCode != code || startSaid != said {
				t.Errorf("--check ends with %d: %s\na start with %d: %s", code, said, startCode, startSaid)
			}
		})
	}
}
