package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/verge-id/verge/testharness/long"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/afero"

	"github.com/verge-id/verge/kvadapters/kvcheck"
	"github.com/verge-id/verge/testharness/stores"
)

func miniredisHere(t *testing.T) *miniredis.Miniredis {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	return m
}

// TestKVCheckRejections names stores that the command cannot check.
func TestKVCheckRejections(t *testing.T) {
	m := miniredisHere(t)
	m.RequireUserAuth("verge", "right")
	closed := "127.0.0.1:1" // a closed port
	for _, c := range []struct {
		name, url string
		code      int
		wants     string
	}{
		{"no store named", "", exitUsage, "name the store, as in `verge kv check redis://"},
		{"a store of Verge's own", "memory", exitUsage, "it is part of Verge"},
		{"another store of Verge's own", "miniredis", exitUsage, "it is part of Verge"},
		{"a scheme mistyped", "reddis://verge:wr0ng@" + m.Addr(), exitUsage,
			"there is no store for reddis:// URLs"},
		{"an unknown variety", "redis+clutser://verge:wr0ng@" + m.Addr(), exitUsage,
			"want redis, redis+cluster or redis+sentinel"},
		{"a port mistyped", "redis://verge:wr0ng@127.0.0.1:x", exitUsage, "is not user:password@host:port"},
		{"a password not escaped", "redis://verge:wr0ng%zz@" + m.Addr(), exitUsage,
			"escape special characters"},
		{"an option that breaks promises", "redis://" + m.Addr() + "?max_retries=3", exitUsage,
			"max_retries"},
		{"a store of releases before", "etcd://verge:wr0ng@" + closed, exitUsage,
			"etcd is no longer supported"},
		{"a bolt file without a name", "bolt:", exitUsage, "it needs a file"},
		{"a wrong password", "redis://verge:wr0ng@" + m.Addr(), exitFailed,
			"wrong user or password"},
		{"no password", "redis://" + m.Addr(), exitFailed, "the server requires a password"},
		{"nobody listens", "redis://verge:wr0ng@" + closed, exitFailed, "connection refused"},
		{"no PostgreSQL listens", "postgres://verge:wr0ng@" + closed + "/verge", exitFailed,
			"connection refused"},
		{"no socket", "unix:///nowhere/redis.sock", exitFailed, "no such file"},
		{"not a Cluster", "redis+cluster://" + closed, exitFailed, "connection refused"},
		{"no PostgreSQL, but something else", "postgres://" + m.Addr() + "/verge?sslmode=disable", exitFailed,
			"does a server of this kind listen there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, stdout, stderr := testProgram()
			args := []string{"kv", "check"}
			if c.url != "" {
				args = append(args, c.url)
			}
			if code := run(t.Context(), args, p); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(stderr.String(), c.wants) || stdout.Len() > 0 {
				t.Errorf("got %q and %q, want %q", stdout, stderr, c.wants)
			}
			if strings.Contains(stderr.String(), "wr0ng") {
				t.Errorf("the password is in %q", stderr)
			}
		})
	}
}

// TestKVCheckTakesWhatServeTakes reads the store's settings from a configuration. Flags override it.
func TestKVCheckTakesWhatServeTakes(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestKVCheckTakesWhatServeTakes")
	m := miniredisHere(t)
	m.RequireUserAuth("verge", "right")
	p, stdout, stderr := testProgram()
	for name, text := range map[string]string{
		"/verge.toml": "kv = \"redis://verge@" + m.Addr() + "?read_timeout=5m\"\n" +
			"[store]\npassword_file = \"/password\"\nprefix = \"ours\"\n",
		"/password": "right\n",
		"/wrong":    "wr0ng\n",
	} {
		if err := afero.WriteFile(p.FS, name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"kv", "check", "--config", "/verge.toml", "--json"}
	if code := run(t.Context(), args, p); code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	var r kvcheck.Report
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Store != "redis://"+m.Addr() || !strings.HasPrefix(r.Scratch, "{ours:verge-check-") {
		t.Errorf("it checked %q in %q", r.Store, r.Scratch)
	}
	if !r.OK || !r.CleanedUp || r.Error != "" {
		t.Errorf("got %+v", r)
	}
	if len(r.RoundTrips) != 2 {
		t.Fatalf("round trips %+v", r.RoundTrips)
	}
	if c := r.RoundTrips[0]; c.N == 0 || c.MedianMS <= 0 || c.P99MS < c.MedianMS {
		t.Errorf("round trips %+v", r.RoundTrips)
	}
	if r.Expiry == nil || r.Expiry.N != 8 || len(r.NotProven) != 3 || len(r.Clocks) != 1 {
		t.Errorf("expiry %+v, not proven %+v, clocks %+v", r.Expiry, r.NotProven, r.Clocks)
	}
	for _, s := range r.Subjects {
		if len(s.Promises) == 0 || s.Name == "" {
			t.Errorf("subject %+v", s)
		}
		for _, promise := range s.Promises {
			if !promise.Proven || promise.Name == "" || promise.Seen != "" {
				t.Errorf("%s: %+v", s.Name, promise)
			}
		}
	}
	if strings.Contains(stdout.String(), "right") {
		t.Errorf("the password is in %s", stdout)
	}

	p.stdout, p.stderr = new(bytes.Buffer), stderr
	args = []string{"kv", "check", "--config", "/verge.toml", "--password-file", "/wrong"}
	code := run(t.Context(), args, p)
	if code != exitFailed || !strings.Contains(stderr.String(), "wrong user or password") {
		t.Errorf("with a wrong --password-file: exit code %d, %s", code, stderr)
	}
}

func TestKVCheckWithTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	long.Skip(t, "TestKVCheckWithTheDocumentedPermissions")
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		s := stores.StartRedis(t)
		acl := "~{verge:* +get +set +del +mget +zadd +zrem +zcard +zrangebyscore +zrangebylex" +
			" +hset +hget +hdel +hlen +eval +evalsha +time +wait +info +ping +client +hello"
		s.Do(append([]any{"acl", "setuser", "verge", "on", ">right"}, wordsOf(acl)...)...)
		p, stdout, stderr := testProgram()
		url := "redis://verge:right@" + s.Addr()
		if code := run(t.Context(), []string{"kv", "check", url}, p); code != exitOK {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		said := stdout.String()
		if !strings.Contains(said, "the rest may not be asked") || strings.Contains(said, "right@") {
			t.Errorf("want what may not be asked, and no password, in:\n%s", stdout)
		}
		s.Do("acl", "setuser", "verge", "-hset")
		p, _, stderr = testProgram()
		code := run(t.Context(), []string{"kv", "check", url}, p)
		if code != exitFailed || !strings.Contains(stderr.String(), "the ACL user may not do this") {
			t.Errorf("without hset: exit code %d, %s", code, stderr)
		}
		if n := s.Do("dbsize").(int64); n != 0 {
			t.Errorf("%d keys are left: %v", n, s.Do("keys", "*"))
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		s := stores.StartPostgres(t)
		s.Do("CREATE ROLE guest LOGIN")
		url := "postgres://guest@" + s.Addr() + "/verge"
		p, _, stderr := testProgram()
		code := run(t.Context(), []string{"kv", "check", url}, p)
		if said := stderr.String(); code != exitFailed || !strings.Contains(said, "CREATE SCHEMA") {
			t.Errorf("a user who may not make a schema: exit code %d, %s", code, said)
		}
		s.Do("GRANT CREATE ON DATABASE verge TO guest")
		p, stdout, stderr := testProgram()
		if code := run(t.Context(), []string{"kv", "check", url}, p); code != exitOK {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		if n := s.Do("SELECT count(*) FROM pg_namespace WHERE nspowner = 'guest'::regrole"); n != int64(0) {
			t.Errorf("%v schemas are left", n)
		}
	})
}

func wordsOf(s string) (all []any) {
	for w := range strings.FieldsSeq(s) {
		all = append(all, w)
	}
	return all
}

// TestKVCheckInterrupted sends the process a signal, as Ctrl-C does.
func TestKVCheckInterrupted(t *testing.T) {
	m := miniredisHere(t)
	verge, err := exec.LookPath("verge") // see TestMain
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(verge, "kv", "check", "redis://"+m.Addr())
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var said strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		fmt.Fprintln(&said, lines.Text())
		if strings.Contains(lines.Text(), "clocks") {
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Errorf("ended with %v, want exit code %d", err, exitFailed)
	}
	if left := m.Keys(); !strings.Contains(said.String(), "interrupted") || len(left) != 0 {
		t.Errorf("%d keys are left, and it said:\n%s", len(left), said.String())
	}
}
