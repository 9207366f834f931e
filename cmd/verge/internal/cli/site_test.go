package cli

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/testharness/wait"
)

// site is an operator's deployment: one configuration, key ring and store, for
// any number of `verge serve` processes.
type site struct {
	t       *testing.T
	config  string
	ring    string   // the file that the configuration names
	binary  string   // of an earlier release; "": the one under test
	program string   // under test; "": verge
	key     string   // a secret key of its publisher
	env     []string // the environment of its processes, without the secrets
	listen  string   // the public address of the next process; "": a port that is free
}

// newSite writes the configuration. more is added at its end.
func newSite(t *testing.T, kv, webhookURL, more string) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, config: filepath.Join(dir, "verge.toml"), ring: filepath.Join(dir, "ring.json")}
	p, _, _ := testProgram()
	p.FS = afero.NewOsFs()
	ring, err := keyring.Generate(p.Random, p.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := writeKeyring(p, s.ring, ring); err != nil {
		t.Fatal(err)
	}
	config := strings.ReplaceAll(configFor("dev", kv, webhookURL, "HOOK"), "/ring.json", s.ring)
	if err := os.WriteFile(s.config, []byte(config+more), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// served is one `verge serve` process.
type served struct {
	*publisher
	at    serving
	cmd   *exec.Cmd
	logs  *lines
	ended chan struct{} // closed when the process has ended
}

// start runs one more process and returns once it serves.
func (s *site) start() *served {
	s.t.Helper()
	in := s.launch()
	s.ready(in)
	return in
}

func (s *site) launch() *served {
	s.t.Helper()
	in := &served{logs: new(lines), ended: make(chan struct{})}
	config := s.config
	if s.binary != "" {
		config = s.configBefore()
	}
	in.cmd = exec.Command(cmp.Or(s.binary, s.program, "verge"), "serve", "--config", config,
		"--listen", cmp.Or(s.listen, "127.0.0.1:0"), "--admin-listen", "127.0.0.1:0",
		"--ops-listen", "127.0.0.1:0", "--log-level", "info")
	in.cmd.Env = append(os.Environ(), "VERGE_OPERATOR_TOKEN="+testToken, "HOOK="+testSecret)
	in.cmd.Env = append(in.cmd.Env, s.env...)
	in.cmd.Stderr = in.logs
	s.run(in)
	return in
}

// run starts the process, which ends with the test.
func (s *site) run(in *served) {
	s.t.Helper()
	if err := in.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(in.kill)
	go func() {
		in.cmd.Wait()
		close(in.ended)
	}()
}

func (s *site) ready(in *served) {
	s.t.Helper()
	wait.Until(s.t, "the server", func() bool {
		select {
		case <-in.ended:
			s.t.Fatalf("verge serve ended: %v: %s", in.cmd.ProcessState, in.logs)
		default:
		}
		for line := range strings.Lines(in.logs.String()) {
			if json.Unmarshal([]byte(line), &in.at) == nil && in.at.Msg == "serving" {
				return true
			}
		}
		return false
	})
	if s.key == "" {
		s.key = s.createKey(in.at)
	}
	in.publisher = newPublisher(readyFile{
		BaseURL: "http://" + in.at.Public,
		seeds:   seeds{SecretKey: s.key, IntegrationID: testIntegration},
	})
}

// kill sends SIGKILL.
func (in *served) kill() { in.cmd.Process.Kill() }

func (s *site) createKey(at serving) string {
	s.t.Helper()
	p, _, _ := testProgram()
	p.Getenv = func(name string) (string, bool) { return testToken, name == "VERGE_OPERATOR_TOKEN" }
	code, out := asOperator(p, at, "key", "create", "--publisher", "pub_example", "--json")
	var created struct{ Key string }
	if code != exitOK || json.Unmarshal([]byte(out), &created) != nil {
		s.t.Fatalf("creating a key: exit code %d: %s", code, out)
	}
	return created.Key
}

// unlimited sets rate limits that no test reaches.
const unlimited = `
[limits]
public_per_ip = 1000000
public_per_key = 1000000
starts_per_publisher = 1000000
secret_per_ip = 1000000
reconcile_per_key = 1000000
preflights_per_ip = 1000000
pages_per_ip = 1000000
`

// within reports whether done returns true before that time is over.
func within(d time.Duration, done func() bool) bool {
	for end := time.Now().Add(d); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
