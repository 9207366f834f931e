// Package workerd runs Verge on a real workerd, the runtime of Cloudflare
// Workers, in Verge's own tests: the modules of edge/workers, the guest built
// from this source, Durable Objects with SQLite and alarms. It is not for
// publishers.
//
// Use [Start] for a separate process of a test, [Shared] for the process that all tests of a binary share,
// and [Server.Site] for a service in it: hundreds of services run in one process, each with its own guest,
// clock and store. With [Options.Worker] the process runs the deployed Worker unchanged.
//
// If workerd is not installed, tests that need it are skipped.
package workerd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-id/verge/core/kv"
	"github.com/verge-id/verge/edge/workers"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/wasm/settings"
)

// Options are the options of Start. The zero value works, and so does nil.
type Options struct {
	// Other is a module that sites can name instead of Verge's. Nil: no other module.
	Other []byte

	// Worker runs the deployed entry. Nil: sites.
	Worker *Worker

	// Bare is the source of a Worker that runs instead of all others, for comparison measurements. It exports
	// the classes Partition and Limits, too. "": no such Worker.
	Bare string

	// Isolates is how many isolates run the entry on the same Durable Objects,
	// each with its own memory. The platform does so when a Worker is busy, or
	// is used in several places. 0: one.
	Isolates int

	forget bool // remove the directory with the process
}

// Worker is an operator's configuration.
type Worker struct {
	Config    settings.Config   // VERGE_CONFIG, without secrets
	Site      any               // VERGE_SITE, as JSON has it; nil: none
	AdminHost string            // ADMIN_HOST; "": none
	Secrets   map[string]string // VERGE_KEYRING, VERGE_OPERATOR_TOKEN, and those that Site names

	// a class that is not bound, as by a configuration of an earlier release; "": all are bound
	Unbound string

	ConfigText string // VERGE_CONFIG as text, instead of Config; "": Config
}

// Server is a workerd.
type Server struct {
	Addr string // host:port on the loopback, the same after Restart

	dir    string
	module []byte
	o      Options
	others []string // addresses of the other isolates
	door   string   // address that KV asks for the partitions of a deployed Worker
	forget bool
	client *http.Client
	ids    atomic.Int64

	pid   int
	mu    sync.Mutex
	log   bytes.Buffer
	cmd   *exec.Cmd
	stdin io.Closer
	sites map[string]*Site
}

// Compatibility is the date whose behaviour of the platform the Worker is
// written for, the one of wrangler.jsonc.
const Compatibility = workers.Compatibility

// Flag is the compatibility flag that the Worker needs in addition, as in wrangler.jsonc.
const Flag = workers.Flag

// Proto is the header in which a request says by which protocol it came: "https"
// or, without it, http.
const Proto = "X-Verge-Proto"

// Start runs a workerd that ends with the test.
func Start(t testing.TB, o *Options) *Server {
	t.Helper()
	program := testenv.Program(t, "workerd")
	if o == nil {
		o = &Options{}
	}
	s, err := start(program, testenv.Module(t), t.TempDir(), *o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("workerd says:\n%s", s.Log())
		}
	})
	return s
}

// Shared is the workerd that the tests of this process share. It ends
// with the process, as does its storage.
func Shared(t testing.TB) *Server {
	t.Helper()
	program := testenv.Program(t, "workerd")
	module := testenv.Module(t)
	shared.Do(func() {
		// Durable Objects with SQLite are always files, and every answer waits until they are written.
		var dir string
		if dir, _, shared.err = testenv.Scratch("workerd"); shared.err == nil { // the process removes it
			shared.server, shared.err = start(program, module, dir, Options{forget: true})
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

var shared struct {
	sync.Once
	server *Server
	err    error
}

// PID is the number of the process, another one after Restart.
func (s *Server) PID() int { return s.pid }

func start(program string, module []byte, dir string, o Options) (*Server, error) {
	s := &Server{dir: dir, module: module, o: o, forget: o.forget,
		others: make([]string, max(o.Isolates, 1)-1), Addr: "127.0.0.1:0", sites: map[string]*Site{}}
	s.client = &http.Client{Transport: &transport{server: s, Transport: &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 128,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.Addr)
		},
	}}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if err := s.write(); err != nil {
		return nil, fmt.Errorf("workerd: %w", err)
	}
	if err := s.run(program); err != nil {
		return nil, fmt.Errorf("workerd: %w", err)
	}
	return s, nil
}

// write puts the modules and the configuration into the server's directory.
func (s *Server) write() error {
	files, entry, err := s.files()
	if err != nil {
		return err
	}
	modules, err := s.writeModules(files, entry)
	if err != nil {
		return err
	}
	binds, err := bindings(s.o.Worker, "")
	if err != nil {
		return err
	}
	beside, err := s.beside(modules)
	if err != nil {
		return err
	}
	disk := filepath.Join(s.dir, "disk")
	if err := os.MkdirAll(disk, 0o755); err != nil {
		return err
	}
	config := fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "worker", worker = .worker),
    (name = "internet", network = (allow = ["public", "private"], tlsOptions = (trustBrowserCas = true))),
    (name = "disk", disk = (path = %q, writable = true)),
%s  ],
  sockets = [
    (name = "http", service = "worker", http = (forwardedProtoHeader = %q)),
%s  ],
);

const worker :Workerd.Worker = (
  modules = [
%s  ],
  bindings = [
%s  ],
  compatibilityDate = %q,
  compatibilityFlags = [%q],
  durableObjectNamespaces = [
    (className = "Partition", uniqueKey = "verge", enableSql = true),
    (className = "Limits", uniqueKey = "verge-limits", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
  globalOutbound = "internet",
);
%s`, disk, beside.services, Proto, beside.sockets,
		modules, binds, Compatibility, Flag, beside.workers)
	return os.WriteFile(filepath.Join(s.dir, "config.capnp"), []byte(config), 0o644)
}

// files returns the modules by their names, and which one is the entry.
func (s *Server) files() (files map[string][]byte, entry string, err error) {
	o := s.o
	files = map[string][]byte{"src/verge.wasm": s.module}
	if err := fs.WalkDir(workers.Source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path], err = workers.Source.ReadFile(path)
		return err
	}); err != nil {
		return nil, "", err
	}
	entry = "test/worker.js"
	if o.Bare != "" {
		entry = "bare.js"
		files = map[string][]byte{entry: []byte(o.Bare)}
	} else if o.Worker != nil {
		entry = "src/worker.js"
		delete(files, "test/worker.js")
	} else {
		files["test/other.wasm"] = o.Other
		if o.Other == nil {
			files["test/other.wasm"] = []byte("\x00asm\x01\x00\x00\x00") // the empty module
		}
	}
	return files, entry, nil
}

// writeModules writes the modules, and returns the list of them.
func (s *Server) writeModules(files map[string][]byte, entry string) (list string, err error) {
	var modules strings.Builder
	names := slices.Sorted(maps.Keys(files))
	slices.SortStableFunc(names, func(a, b string) int { // the first is the entry
		return strings.Compare(fmt.Sprint(a != entry), fmt.Sprint(b != entry))
	})
	for _, name := range names {
		kind := "esModule"
		if strings.HasSuffix(name, ".wasm") {
			kind = "wasm"
		}
		fmt.Fprintf(&modules, "    (name = %q, %s = embed %q),\n", name, kind, name)
		path := filepath.Join(s.dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, files[name], 0o644))
		if err != nil {
			return "", err
		}
	}
	return modules.String(), nil
}

// others are the parts of the configuration for the services next to the first isolate: the further isolates,
// and the access to a deployed Worker's partitions.
type others struct{ services, sockets, workers string }

func (s *Server) beside(modules string) (others, error) {
	o := s.o
	var services, sockets, workers strings.Builder
	for n := range s.others {
		fmt.Fprintf(&services, "    (name = \"worker%d\", worker = .worker%d),\n", n, n)
		fmt.Fprintf(&sockets, "    (name = \"http%d\", address = \"127.0.0.1:0\", service = \"worker%d\", "+
			"http = (forwardedProtoHeader = %q)),\n", n, n, Proto)
		there, err := bindings(o.Worker, `, serviceName = "worker"`)
		if err != nil {
			return others{}, err
		}
		fmt.Fprintf(&workers, `
const worker%d :Workerd.Worker = (
  modules = [
%s  ],
  bindings = [
%s  ],
  compatibilityDate = %q,
  compatibilityFlags = [%q],
  globalOutbound = "internet",
);
`, n, modules, there, Compatibility, Flag)
	}
	if o.Worker != nil {
		services.WriteString("    (name = \"door\", worker = .door),\n")
		sockets.WriteString("    (name = \"door\", address = \"127.0.0.1:0\", service = \"door\"),\n")
		there, err := bindings(nil, `, serviceName = "worker"`)
		if err != nil {
			return others{}, err
		}
		fmt.Fprintf(&workers, `
const door :Workerd.Worker = (
  modules = [ (name = "door.js", esModule = %s) ],
  bindings = [
%s  ],
  compatibilityDate = %q,
);
`, quoted(door), there, Compatibility)
	}
	return others{services.String(), sockets.String(), workers.String()}, nil
}

// door is a Worker that has the partition which the path names carry out an
// effect: a kind and the body, answered by a status and the reply.
const door = `export default { async fetch(request, env) {
  const name = new URL(request.url).pathname.slice(1), message = new Uint8Array(await request.arrayBuffer());
  const partition = env.PARTITION.get(env.PARTITION.idFromName(name));
  const reply = await partition.effect(name, message[0], message.slice(1));
  return new Response(new Blob([Uint8Array.of(reply.status), reply.body]));
} };
`

// bindings are the members of env. service is the service of the Durable Objects, "" for its own.
func bindings(w *Worker, service string) (string, error) {
	var b strings.Builder
	for _, class := range []string{"Partition", "Limits"} {
		if w != nil && w.Unbound == class {
			continue
		}
		fmt.Fprintf(&b, "    (name = %q, durableObjectNamespace = (className = %q%s)),\n",
			strings.ToUpper(class), class, service)
	}
	if w == nil {
		return b.String(), nil
	}
	asJSON := func(name string, v any) error {
		text, err := json.Marshal(v)
		fmt.Fprintf(&b, "    (name = %q, json = %s),\n", name, quoted(string(text)))
		return err
	}
	var err error
	if w.ConfigText == "" {
		err = asJSON("VERGE_CONFIG", w.Config)
	} else {
		fmt.Fprintf(&b, "    (name = \"VERGE_CONFIG\", text = %s),\n", quoted(w.ConfigText))
	}
	if w.Site != nil {
		err = errors.Join(err, asJSON("VERGE_SITE", w.Site))
	}
	texts := maps.Clone(w.Secrets)
	if w.AdminHost != "" {
		if texts == nil {
			texts = map[string]string{}
		}
		texts["ADMIN_HOST"] = w.AdminHost
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(&b, "    (name = %q, text = %s),\n", name, quoted(texts[name]))
	}
	return b.String(), err
}

// quoted is a string as Cap'n Proto's text has it.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}

// run starts the process and waits until it listens.
func (s *Server) run(program string) error {
	told, tells, err := os.Pipe()
	if err != nil {
		return err
	}
	defer told.Close()
	// The shell, and with it workerd, ends as soon as this process closes the
	// shell's standard input, which it also does by dying.
	forget := ""
	if s.forget {
		forget = s.dir
	}
	const guard = `dir=$1; shift; "$@" </dev/null & pid=$!; echo "{\"event\":\"run\",\"pid\":$pid}" >&3; ` +
		`cat >/dev/null; kill -9 $pid; wait; [ -z "$dir" ] || rm -rf "$dir"`
	cmd := exec.Command("sh", "-c", guard, "sh", forget,
		program, "serve", "--control-fd=3", "--socket-addr", "http="+s.Addr,
		filepath.Join(s.dir, "config.capnp"))
	cmd.ExtraFiles = []*os.File{tells}
	cmd.Stdout, cmd.Stderr = (*logger)(s), (*logger)(s)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	tells.Close()
	s.cmd, s.stdin = cmd, stdin
	told.SetReadDeadline(time.Now().Add(5 * time.Minute))
	var event struct {
		Event  string `json:"event"`
		Socket string `json:"socket"`
		Port   int    `json:"port"`
		PID    int    `json:"pid"`
	}
	for d, listening := json.NewDecoder(told), 0; listening < s.sockets(); {
		if err := d.Decode(&event); err != nil {
			s.kill()
			return fmt.Errorf("it does not listen: %w\n%s", err, s.Log())
		}
		switch event.Event {
		case "run":
			s.pid = event.PID
		case "listen":
			listening++
			addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(event.Port))
			if event.Socket == "door" {
				s.door = addr
			} else if other, is := strings.CutPrefix(event.Socket, "http"); !is {
				return fmt.Errorf("it listens on an unexpected socket %q", event.Socket)
			} else if other == "" {
				s.Addr = addr
			} else if n, err := strconv.Atoi(other); err == nil && n < len(s.others) {
				s.others[n] = addr
			}
		}
	}
	return nil
}

// sockets is how many sockets the process listens on.
func (s *Server) sockets() int {
	if s.o.Worker != nil {
		return 2 + len(s.others)
	}
	return 1 + len(s.others)
}

func (s *Server) kill() {
	s.client.CloseIdleConnections()
	s.stdin.Close()
	s.cmd.Wait()
}

// Restart kills the process without a warning and starts it again. The sites are
// there again, with their stores.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.kill()
	if err := s.run(testenv.Program(t, "workerd")); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, site := range s.sites {
		site.make()
	}
}

// Redeploy restarts the process with another configuration of the deployed
// Worker. Its store stays.
func (s *Server) Redeploy(t testing.TB, change func(*Worker)) {
	t.Helper()
	s.kill()
	change(s.o.Worker)
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	if err := s.run(testenv.Program(t, "workerd")); err != nil {
		t.Fatal(err)
	}
}

// Client sends every request to the server, for any host of its URL, as a
// proxy would that ends TLS in front of it. It follows no redirect.
func (s *Server) Client() *http.Client { return s.client }

// ClientOf is Client for one of several isolates, from 0 on.
func (s *Server) ClientOf(isolate int) *http.Client {
	if isolate == 0 {
		return s.client
	}
	own := s.client.Transport.(*transport)
	other := own.Transport.Clone()
	other.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.others[isolate-1])
	}
	return &http.Client{Transport: &transport{Transport: other, server: s},
		CheckRedirect: s.client.CheckRedirect}
}

type transport struct {
	*http.Transport
	server *Server
	site   string // "": the site of the host
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Host == "" {
		r.Host = r.URL.Host
	}
	r.URL.Scheme, r.URL.Host = "http", t.server.Addr
	if t.site != "" {
		r.Header.Set("X-Verge-Site", t.site)
	}
	return t.Transport.RoundTrip(r)
}

// Log is the output of the process.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

type logger Server

// Write implements io.Writer.
func (l *logger) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

// KV is the store of the deployed Worker, reached without the Worker.
func (s *Server) KV() kv.KV {
	return store{func(ctx context.Context, p kv.Partition, message []byte) ([]byte, error) {
		return s.ask(ctx, "POST", "http://"+s.door+"/"+url.PathEscape(string(p)), http.DefaultClient, message)
	}}
}

// control asks the test's entry for something.
func (s *Server) control(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	return s.ask(ctx, method, "http://control.localhost/"+path, s.client, body)
}

func (s *Server) ask(
	ctx context.Context, method, target string, client *http.Client, body []byte,
) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("workerd: %s %s: %d %s", method, req.URL.Path, resp.StatusCode, b)
	}
	return b, err
}
