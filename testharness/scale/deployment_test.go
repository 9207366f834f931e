package scale

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/core/keyring"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

const (
	operatorToken = "the-operator-token-of-scale"
	withEvents    = "3f2b7a9e-58c4-4d1e-9b60-7c1d2e3f4a5b"
	withoutEvents = "5e6f7a8b-9c0d-4e1f-8a2b-3c4d5e6f7a8b"
)

// program returns the path of the command, as it was built from this source.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "verge-scale-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "verge")
	// In contrast to go build, go run keeps the linked program for the next time.
	build := exec.Command("go", "run", "-buildvcs=false", "-exec", "cp", "../../cmd/verge", path)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command: %w: %s", err, out)
	}
	return path, nil
})

// TestMain removes the built command.
func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// deployment is a number of `verge serve` processes with one configuration, key ring and store.
type deployment struct {
	t         testing.TB
	dir       string
	config    string
	key       string // a secret key
	instances []*instance
}

// instance is one process.
type instance struct {
	cmd                *exec.Cmd
	Public, Admin, Ops string // addresses
}

// free are rates that no measurement reaches.
const free = `
[limits]
public_per_ip = 100000000
public_per_key = 100000000
starts_per_publisher = 100000000
secret_per_ip = 100000000
reconcile_per_key = 100000000
preflights_per_ip = 100000000
pages_per_ip = 100000000
`

// deploy starts n instances on a store. limits is the configuration's section of limits.
func deploy(t testing.TB, store, webhookURL, limits string, n int) *deployment {
	t.Helper()
	testenv.Source(t)
	d := &deployment{t: t, dir: t.TempDir()}
	d.config = filepath.Join(d.dir, "verge.toml")
	keyring, err := keyring.Generate(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("mode = \"dev\"\nbase_url = \"http://127.0.0.1\"\nkv = %q\nkeyring = %q\n"+
		"[[publishers]]\nid = \"pub_scale\"\n", store, filepath.Join(d.dir, "ring.json"))
	for id, webhook := range map[string]string{
		withEvents:    fmt.Sprintf("webhook_url = %q\nsecret_env = \"HOOK\"\n", webhookURL),
		withoutEvents: "webhook_off = true\n",
	} {
		text += fmt.Sprintf("[[integrations]]\nid = %q\npublisher = \"pub_scale\"\nlevel = \"L1\"\n"+
			"challenge_age = 25\nmethod = \"sandbox\"\n%s", id, webhook)
	}
	for name, content := range map[string][]byte{"ring.json": ring, "verge.toml": []byte(text + limits)} {
		if err := os.WriteFile(filepath.Join(d.dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		d.instances = append(d.instances, d.start())
	}
	d.createKey()
	return d
}

// start runs one process and returns when it serves.
func (d *deployment) start() *instance {
	d.t.Helper()
	path, err := program()
	if err != nil {
		d.t.Fatal(err)
	}
	log, err := os.CreateTemp(d.dir, "log-")
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	in := &instance{cmd: exec.Command(path, "serve", "--config", d.config, "--listen", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0")}
	in.cmd.Env = append(os.Environ(), "VERGE_OPERATOR_TOKEN="+operatorToken,
		"HOOK=a-webhook-secret-of-32-characters")
	in.cmd.Stderr = log
	if err := in.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(in.stop)
	wait.Until(d.t, "an instance that serves", func() bool {
		text, err := os.ReadFile(log.Name())
		if err != nil || in.pid() == 0 {
			d.t.Fatalf("verge serve ended: %v: %s", err, text)
		}
		for line := range strings.Lines(string(text)) {
			var serving struct{ Msg, Public, Admin, Ops string }
			if json.Unmarshal([]byte(line), &serving) == nil && serving.Msg == "serving" {
				in.Public, in.Admin, in.Ops = serving.Public, serving.Admin, serving.Ops
				return true
			}
		}
		return false
	})
	return in
}

// pid returns the number of the process, or 0 if it has ended.
func (in *instance) pid() int {
	if in.cmd.ProcessState != nil || in.cmd.Process.Signal(syscall.Signal(0)) != nil {
		return 0
	}
	return in.cmd.Process.Pid
}

// stop ends the process in order. It may be called twice.
func (in *instance) stop() {
	if in.cmd.ProcessState == nil {
		client.CloseIdleConnections()
		in.cmd.Process.Signal(syscall.SIGTERM)
		in.cmd.Wait()
	}
}

func (d *deployment) createKey() {
	d.t.Helper()
	req, err := http.NewRequest("POST", "http://"+d.instances[0].Admin+"/admin/v1/keys",
		strings.NewReader(`{"publisher_id":"pub_scale"}`))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	var created struct{ Key string }
	if err == nil {
		err = json.Unmarshal(body, &created)
	}
	if d.key = created.Key; d.key == "" {
		d.t.Fatalf("no key: %d %s, %v", resp.StatusCode, body, err)
	}
}

// cpu returns the processor time of all instances so far.
func (d *deployment) cpu() (sum time.Duration) {
	for _, in := range d.instances {
		sum += processorTime(d.t, in.pid())
	}
	return sum
}

// resident returns the resident memory of an instance, on average, in MiB.
func (d *deployment) resident() float64 { return d.memory("VmRSS:") }

// peak returns the maximum of resident so far.
func (d *deployment) peak() float64 { return d.memory("VmHWM:") }

func (d *deployment) memory(field string) float64 {
	d.t.Helper()
	var sum float64
	for _, in := range d.instances {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", in.pid()))
		if err != nil {
			d.t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), field)
		kib, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
		if err != nil {
			d.t.Fatal(err)
		}
		sum += kib / 1024
	}
	return sum / float64(len(d.instances))
}

// calls returns the number of calls of the store by all instances so far, by operation.
func (d *deployment) calls() map[string]float64 {
	d.t.Helper()
	calls := map[string]float64{}
	for _, in := range d.instances {
		resp, err := http.Get("http://" + in.Ops + "/metrics")
		if err != nil {
			d.t.Fatal(err)
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			rest, found := strings.CutPrefix(lines.Text(), `verge_store_operation_seconds_count{operation="`)
			if !found {
				continue
			}
			operation, _, _ := strings.Cut(rest, `"`)
			fields := strings.Fields(rest)
			n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
			if err != nil {
				d.t.Fatal(err)
			}
			calls[operation] += n
		}
		resp.Body.Close()
	}
	return calls
}

// clockTick is the unit of times in /proc/PID/stat, on every Linux that Go supports.
const clockTick = time.Second / 100

// processorTime returns the processor time of a process, of its ended threads, and of its ended children.
func processorTime(t testing.TB, pid int) (sum time.Duration) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0 // a process of PostgreSQL has ended, and its parent has its time now
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ticks) * clockTick
	}
	return sum
}
