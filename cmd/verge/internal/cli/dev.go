package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/verge-id/verge/cmd/verge/internal/adminclient"
	"github.com/verge-id/verge/cmd/verge/internal/config"
	"github.com/verge-id/verge/cmd/verge/internal/demo"
	"github.com/verge-id/verge/core"
	"github.com/verge-id/verge/core/integration"
	"github.com/verge-id/verge/core/method"
	"github.com/verge-id/verge/core/operate"
	"github.com/verge-id/verge/edge/egress"
	"github.com/verge-id/verge/kvadapters"
	"github.com/verge-id/verge/kvadapters/bolt"
)

type devCmd struct {
	Addr      string `default:"127.0.0.1:8080" env:"VERGE_DEV_ADDR" help:"Address of the service. Port 0 selects a free port."`
	DemoAddr  string `default:"127.0.0.1:8090" env:"VERGE_DEV_DEMO_ADDR" help:"Address of the demo shop and its webhook inbox."`
	AdminAddr string `default:"127.0.0.1:0" env:"VERGE_DEV_ADMIN_ADDR" help:"Address of the operators' API."`
	OpsAddr   string `default:"127.0.0.1:0" env:"VERGE_DEV_OPS_ADDR" help:"Address of metrics and health."`

	Engine string `default:"native" env:"VERGE_DEV_ENGINE" help:"Engine that runs the core: native, or wasm (a WebAssembly guest)."`
	Module string `placeholder:"FILE" type:"path" env:"VERGE_DEV_MODULE" help:"Module for --engine wasm. Default: the built-in one."`
	KV     string `name:"kv" default:"bolt" env:"VERGE_DEV_KV" help:"Store: bolt (a file in the data directory), memory, miniredis (a Redis in this process), or a redis:// or postgres:// URL."`
	Data   string `default:".verge" type:"path" env:"VERGE_DEV_DATA" help:"Data directory: state, key ring and the seeded values. Delete it to start from scratch."`

	Methods     string   `placeholder:"FILE" type:"path" env:"VERGE_DEV_METHODS" help:"Methods in addition to the demo's methods: a TOML file with [[methods]], as in the configuration of serve."`
	WebhookURL  string   `name:"webhook-url" placeholder:"URL" env:"VERGE_DEV_WEBHOOK_URL" help:"URL for webhooks. Default: the demo shop's inbox."`
	RedirectURI []string `name:"redirect-uri" sep:"none" placeholder:"URL" help:"Redirect URI of your OpenID client. Each integration becomes a client of the OpenID provider. May be repeated."`
	ReadyFile   string   `placeholder:"PATH" type:"path" env:"VERGE_DEV_READY_FILE" help:"Write addresses, ids and keys here as JSON as soon as the service accepts requests."`
	Verbose     bool     `help:"Print all addresses and ids at the start, instead of one screen."`
	LogFile     string   `placeholder:"FILE" env:"VERGE_DEV_LOG_FILE" help:"Log file, or - for standard error. Default: dev.log in the data directory, emptied at each start."`
	LogLevel    string   `default:"info" enum:"debug,info,warn,error" env:"VERGE_DEV_LOG_LEVEL" help:"Minimum log level: ${enum}."`
}

// Help is shown by `verge dev --help`.
func (devCmd) Help() string {
	return `Runs everything in one process, with nothing to install: the service, its store, and
a demo shop with an inbox for webhooks. The shop offers four demo methods: the
sandbox, a bank (OpenID Connect), a camera with an age estimator, and a wallet
(OpenID4VP). All are simulated: you choose the outcome in the sandbox and on the
pages of the bank, the estimator and the wallet. They verify no one.

It creates a publisher with its keys, two integrations for the sandbox, one for each
other method, and one with all methods. In that one, users can create a passkey
after a verification and use it the next time. All of this is kept in the data
directory.

--methods adds your own methods. FILE is TOML with [[methods]], as in "verge serve
--example". Each method gets an integration and an entry in the shop.

The service is at http://localhost, because passkeys need a host name. If --addr
names another host, that host is used. Rate limits are the same as in production.
SIGTERM or Ctrl-C stops it after the current requests, with exit code 0.

Examples:

    verge dev
    verge dev --verbose
    verge dev --webhook-url http://localhost:3000/webhooks
    verge dev --methods methods.toml
    verge dev --redirect-uri http://localhost:3000/callback
    verge dev --addr 127.0.0.1:0 --demo-addr 127.0.0.1:0 --kv memory --ready-file ready.json`
}

func (c *devCmd) Run(ctx context.Context, p *program) (err error) {
	runs := config.Engine{Name: c.Engine, Module: c.Module, Cache: moduleCache(c.Data)}
	if err := runs.Check(); err != nil {
		return usagef("--%w", err)
	}
	at, err := c.store()
	if err != nil {
		return usageError{err}
	}
	readyFiles := []string{filepath.Join(c.Data, statusFile)}
	if c.ReadyFile != "" {
		readyFiles = append(readyFiles, c.ReadyFile)
	}
	go softwareDigest() // while the module is unpacked
	if err := runs.Load(&p.System); err != nil {
		return fmt.Errorf("engine %s: %w", c.Engine, err)
	}
	pl, err := c.plan(p)
	if err != nil {
		return err
	}
	var open devListeners
	defer open.close()
	if err := open.listen(c); err != nil {
		return c.otherDev(p, err)
	}
	if err := p.FS.MkdirAll(c.Data, 0o700); err != nil {
		return fmt.Errorf("data directory: %w: choose another one with --data", err)
	}
	ring, err := loadKeyring(p.FS, c.Data, p.Random, p.Now())
	if err != nil {
		return err
	}
	if err := addServiceKeys(p, c.Data, &pl); err != nil {
		return err
	}
	ready := c.addresses(&open, at)
	seeds, methods, err := c.methods(p, &pl, &ready)
	if err != nil {
		return err
	}

	site, err := c.site(&pl, seeds, methods, ready)
	if err != nil {
		return err
	}
	logs, err := c.openLog(p)
	if err != nil {
		return err
	}
	defer logs.Close()
	log := slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: logLevel(c.LogLevel)}))
	pl.Core.BaseURL, pl.Core.OperatorToken = ready.BaseURL, seeds.OperatorToken
	pl.Core.Partitions = at.Partitions()
	pl.Store, pl.Engine, pl.Keyring = at.ForOwner(seeds.PublisherID), runs, ring
	pl.public, pl.admin, pl.ops = open.public, open.admin, open.ops
	pl.log, pl.usageEach = log, time.Second // so that the console counts a session when its user comes back
	pl.storeOpen = logs.empty               // not before, since the log may be another process's
	in, err := assemble(ctx, pl)
	if err != nil {
		return p.unlessStopped(ctx, c.otherOwner(p, err))
	}
	now := p.Now().UTC().Truncate(time.Second)
	err = removeReady(p.FS, readyFiles)
	if err == nil {
		err = seeds.plant(ctx, in.Directory(), site, now, log)
	}
	if err != nil {
		return p.unlessStopped(ctx, errors.Join(err, in.Close()))
	}
	shop := newDemoServer(demo.New(demo.Config{
		BaseURL: ready.BaseURL, DemoURL: ready.DemoURL,
		SecretKey: seeds.SecretKey, KeyInShell: keyInShell(filepath.Join(c.Data, seedsFile)),
		WebhookSecret: seeds.WebhookSecret,
		Offers:        seeds.offers(methods, ready.Integrations),
		SignIn:        open.signIn(ready),
		Counterparts:  seeds.counterparts(),
		Log:           log, Now: p.Now, Random: p.Random,
	}), log)
	return c.serve(ctx, p, in, shop, open, ready, readyFiles)
}

// addresses returns the ready file without the values of the seeds.
func (c *devCmd) addresses(open *devListeners, at kvadapters.Address) readyFile {
	ready := readyFile{
		BaseURL: browserURL(open.public, c.Addr), DemoURL: httpURL(open.demo),
		AdminURL: httpURL(open.admin), OpsURL: httpURL(open.ops),
		Engine: c.Engine, KV: at.String(), PID: os.Getpid(),
	}
	ready.ConsoleURL = ready.BaseURL + core.ConsolePath
	ready.WebhookURL = cmp.Or(c.WebhookURL, ready.DemoURL+"/webhooks")
	return ready
}

// removeReady removes the ready files of a killed process before a client can read them. The process with the
// store owns them.
func removeReady(fsys afero.Fs, files []string) error {
	for _, path := range files {
		if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("an old ready file is in the way: %w", err)
		}
	}
	return nil
}

// serve runs the service and the shop until ctx ends or one of them fails. The ready files exist during that
// time.
func (c *devCmd) serve(ctx context.Context, p *program, in *instance, shop *http.Server, open devListeners,
	ready readyFile, readyFiles []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := shop.Serve(open.demo); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("demo shop: %w", err))
		}
	}()
	served := make(chan error, 1)
	go func() {
		served <- in.Run(ctx)
		cancel(nil) // without a stop request it has failed, and the rest stops too
	}()

	// The listeners already accept, so a client that reads the ready file gets a response.
	for _, path := range readyFiles {
		if err := ready.write(p.FS, path); err != nil {
			cancel(fmt.Errorf("ready file: %w", err))
		}
	}
	if ctx.Err() == nil {
		p.welcome(ready, c, open.exposed())
	}
	<-ctx.Done()
	for _, path := range readyFiles {
		p.FS.Remove(path)
	}
	err := <-served
	// The shop ends last, because its inbox receives the webhooks in flight.
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	err = errors.Join(err, shop.Shutdown(stop))
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// site returns the publishers and integrations of the seeds, with the settings of the flags.
func (c *devCmd) site(pl *plan, seeds seedFile, methods method.Catalog, ready readyFile) (
	integration.Site, error) {
	site := seeds.site(methods, ready.Integrations, ready.WebhookURL, ready.DemoURL,
		ready.BaseURL) // the page /docs sends a request
	first := integration.Site{Publishers: site.Publishers, Integrations: site.Integrations[:1]}
	if err := first.Validate(methods, true); err != nil { // all integrations have the flags' values
		return site, usagef("--webhook-url: %w", err)
	}
	for _, one := range c.RedirectURI {
		if err := checkOneAddress(one); err != nil {
			return site, usagef("--redirect-uri: %w", err)
		}
	}
	for n := range site.Integrations {
		site.Integrations[n].RedirectURIs = c.RedirectURI
	}
	if err := first.Validate(methods, true); err != nil {
		return site, usagef("--redirect-uri: %w", err)
	}
	if err := egress.New(pl.Egress).Check(ready.WebhookURL); err != nil {
		return site, usagef("--webhook-url: events cannot reach it: %w", err)
	}
	return site, nil
}

// otherOwner adds the address of the `verge dev` that has the store, if that is the cause of err.
func (c *devCmd) otherOwner(p *program, err error) error {
	other, missing := readReady(p.FS, filepath.Join(c.Data, statusFile))
	if missing != nil || !errors.Is(err, bolt.ErrLocked) {
		return err
	}
	return fmt.Errorf("%s is in use by the `verge dev` of process %d: open %s/, or choose another "+
		"directory with --data", c.Data, other.PID, other.DemoURL)
}

// store returns the store that --kv names.
func (c *devCmd) store() (kvadapters.Address, error) {
	if c.KV == "bolt" {
		return kvadapters.Address{Kind: kvadapters.Bolt, Path: filepath.Join(c.Data, storeFile)}, nil
	}
	at, err := kvadapters.ParseAddress(c.KV)
	if err != nil {
		return at, fmt.Errorf("--%w; dev has bolt, in its data directory, and miniredis as well", err)
	}
	return at, nil
}

// devListeners are bound first, so that URLs have the real addresses.
type devListeners struct{ public, demo, admin, ops net.Listener }

func (l *devListeners) listen(c *devCmd) error {
	err := listenAll(
		opening{&l.public, c.Addr, "--addr"},
		opening{&l.demo, c.DemoAddr, "--demo-addr"},
		opening{&l.admin, c.AdminAddr, "--admin-addr"},
		opening{&l.ops, c.OpsAddr, "--ops-addr"},
	)
	if err != nil {
		return err
	}
	return checkLocalhost(l.public)
}

// otherDev adds the address of the `verge dev` that has the port, if one runs with this data directory.
func (c *devCmd) otherDev(p *program, err error) error {
	used, isUsed := errors.AsType[*portError](err)
	other, missing := readReady(p.FS, filepath.Join(c.Data, statusFile))
	if missing != nil || !isUsed {
		return err
	}
	_, port, _ := net.SplitHostPort(used.addr)
	for _, at := range []string{other.BaseURL, other.DemoURL} {
		if strings.HasSuffix(at, ":"+port) {
			return fmt.Errorf("%s is in use, probably by the `verge dev` of process %d: "+
				"open %s/, or stop it first", used.addr, other.PID, other.DemoURL)
		}
	}
	return err
}

// close closes the listeners when dev ends before it serves.
func (l *devListeners) close() { closeAll(l.public, l.demo, l.admin, l.ops) }

// signIn returns a function that creates a link which signs one browser in to the console as the operator.
// The demo shop has a page that creates one at each visit, so that the address in the terminal works at any
// time. It is nil, and the page does not exist, if another machine can reach any of the addresses.
func (l *devListeners) signIn(ready readyFile) func(context.Context) (string, error) {
	if len(l.exposed()) > 0 {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		client, err := adminclient.New(adminclient.Config{URL: ready.AdminURL, Token: ready.OperatorToken,
			// A drain would wait for an idle connection.
			HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
				Timeout: 5 * time.Second}})
		if err != nil {
			return "", err
		}
		link, err := adminclient.Do(ctx, client, operate.CreateLink,
			operate.LinkInput{Name: "verge dev", Role: operate.RoleOperator})
		if err != nil {
			return "", err
		}
		return link.Link, nil
	}
}

// logPath returns the path of the log, or "-" for standard error.
func (c *devCmd) logPath() string {
	return cmp.Or(c.LogFile, filepath.Join(c.Data, logFile))
}

// devLog is the log of verge dev: a file, or standard error.
type devLog struct {
	io.Writer
	file afero.File // nil: standard error
}

func (c *devCmd) openLog(p *program) (devLog, error) {
	path := c.logPath()
	if path == "-" {
		return devLog{Writer: p.stderr}, nil
	}
	file, err := p.FS.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return devLog{}, fmt.Errorf("log: %w; choose another file with --log-file", err)
	}
	return devLog{file, file}, nil
}

// empty removes the messages of earlier processes.
func (l devLog) empty() error {
	if l.file == nil {
		return nil
	}
	info, err := l.file.Stat()
	if err != nil || !info.Mode().IsRegular() { // a pipe or a device cannot be emptied
		return err
	}
	return l.file.Truncate(0)
}

// Close closes the file.
func (l devLog) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// exposed lists the addresses that other machines may reach.
func (l *devListeners) exposed() (addrs []string) {
	for _, open := range []net.Listener{l.public, l.demo, l.admin, l.ops} {
		if addr := open.Addr().String(); !config.IsLoopback(addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// moduleCache returns the directory for compiled modules within a data directory.
func moduleCache(dir string) string { return filepath.Join(dir, "modules") }

func newDemoServer(site *demo.Site, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           site,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.RegisterOnShutdown(site.Close)
	return s
}
