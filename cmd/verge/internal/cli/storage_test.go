//go:build linux

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-id/verge/edge/engine"
	"github.com/verge-id/verge/kvadapters/bolt"
	"github.com/verge-id/verge/testharness/long"
	"github.com/verge-id/verge/testharness/stores"
	"github.com/verge-id/verge/testharness/testenv"
	"github.com/verge-id/verge/testharness/wait"
)

// diskTrouble is the variable with a file that sets how the disk of a child process fails:
// "readonly"; "eio" and "eio-late" once, before and after it has written; "lost"
// gives it an earlier state of the file.
const diskTrouble = "DISK_TROUBLE"

func init() { testDisk = troubled }

// troubled returns the disk of a child process. It fails as the test says.
func troubled() bolt.Disk {
	says := os.Getenv(diskTrouble)
	if says == "" {
		return bolt.Disk{}
	}
	mode := func() string {
		b, _ := os.ReadFile(says)
		return string(b)
	}
	return bolt.Disk{
		Open: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			if flag&os.O_RDWR != 0 && mode() == "readonly" {
				return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EROFS}
			}
			return os.OpenFile(name, flag, perm)
		},
		Append: func(f *os.File, b []byte, at int64) error {
			write := func() error {
				_, err := f.WriteAt(b, at)
				return errors.Join(err, f.Sync())
			}
			switch mode() {
			case "readonly":
				return syscall.EROFS
			case "eio":
				return errors.Join(syscall.EIO, os.Remove(says))
			case "eio-late":
				return errors.Join(syscall.EIO, os.Remove(says), write())
			case "lost":
				path := strings.TrimSuffix(f.Name(), ".wal")
				return errors.Join(syscall.EIO, os.Remove(says), os.Rename(path+".early", path))
			}
			return write()
		},
	}
}

// trouble is a fault of the disk that ends.
type trouble struct {
	brief      bool // ends too early for the test to look at it
	begin, end func(in *served)
}

// TestI14AMomentaryStorageFailureNeedsNobody makes a disk fail and work again below a `verge serve`,
// while clients do verifications all the time.
func TestI14AMomentaryStorageFailureNeedsNobody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, engine string
		disk         func(t *testing.T) (dir string, now trouble)
		short        bool // part of the short run
	}{
		{"a full disk", engine.Native, fullDisk, true},
		{"a limit of the file's size", engine.Native, fileLimit, false},
		{"a limit of the file's size, for guests", engine.WASM, fileLimit, false},
		{"read-only", engine.Native, said("readonly", false), false},
		{"one I/O error before anything is written", engine.Native, said("eio", true), false},
		{"one I/O error when all is written", engine.Native, said("eio-late", true), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.short {
				long.Skip(t, "TestI14AMomentaryStorageFailureNeedsNobody")
			}
			t.Parallel()
			dir, now := c.disk(t)
			failAndRecover(t, dir, now, engineSection(t, c.engine))
		})
	}
}

// engineSection is the configuration of an engine of that name.
func engineSection(t *testing.T, name string) string {
	if name == engine.Native {
		return ""
	}
	g := newGuests(t)
	module := g.put("verge.wasm", testenv.Module(t))
	g.compile(module)
	return g.section(module, fmt.Sprintf("module_key = %q", g.public)) // without a pin there is a warning
}

func failAndRecover(t *testing.T, dir string, now trouble, more string) {
	sink := newEvents(t)
	sink.trust(testSecret)
	site := newSite(t, "bolt:"+filepath.Join(dir, "verge.db"), sink.URL, unlimited+more)
	if more == "" { // a guest would be compiled again, and its case needs no such disk
		site.program = troubledVerge
	}
	site.env = []string{diskTrouble + "=" + filepath.Join(dir, "trouble")}
	in := site.start()
	early, redirect, err := in.start(testIntegration)
	if err != nil {
		t.Fatal(err)
	}

	users := startVisitors(in.publisher)
	done := func() int { return users.count(func(w *walked) bool { return w.valid > 0 }) }
	wait.Until(t, "walks before", func() bool { return done() > 20 })

	now.begin(in)
	wait.Until(t, "the failure to be met", func() bool { return count(in.logs, "the store fails") > 0 })
	if !now.brief {
		time.Sleep(2500 * time.Millisecond) // requests are rejected during that time
		status, _, body, err := in.api("GET", "/api/v1/verify/sessions/"+early, nil)
		if err != nil || status != 200 {
			t.Errorf("reconcile, which only reads: %v %d %s", err, status, body)
		}
		location, err := in.choose(redirect, "approve")
		if err == nil || !strings.Contains(err.Error(), "503") || strings.Contains(err.Error(), "the page") {
			t.Errorf("the page must work, and its form must fail: %q, %v", location, err)
		}
		status, header, body, err := in.api("POST", "/api/v1/verify/start", map[string]string{
			"integration_id": testIntegration, "callback_url": "https://shop.example/callback"})
		wait, _ := strconv.Atoi(header.Get("Retry-After"))
		if err != nil || status != 503 || wait < 2 || wait > 30 {
			t.Errorf("start: %v %d, Retry-After %q: %s", err, status, header.Get("Retry-After"), body)
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			status, body := fetch(t, in.at.Ops, path)
			if status != 200 || !strings.Contains(body, `"degraded"`) || !strings.Contains(body, "verge.db") {
				t.Errorf("%s while nothing can be written: %d %s", path, status, body)
			}
		}
		_, metrics := fetch(t, in.at.Ops, "/metrics")
		if !strings.Contains(metrics, `verge_store_failing{what="writes"} 1`) {
			t.Error("the metrics do not report the store failure")
		}
	}
	now.end(in)
	before := done()
	since := time.Now()
	wait.Until(t, "walks afterwards, with no restart", func() bool { return done() > before+20 })
	t.Logf("%v after the end of the failure 20 walks had come to their end",
		time.Since(since).Round(time.Millisecond))
	all := users.stop()
	if status, body := fetch(t, in.at.Ops, "/healthz"); status != 200 || !strings.Contains(body, `"ok"`) {
		t.Errorf("healthz afterwards: %d %s", status, body)
	}
	select {
	case <-in.ended:
		t.Fatalf("the process ended: %s", in.logs)
	default:
	}
	audit(t, in, sink, all)
	fails, again := count(in.logs, "the store fails"), count(in.logs, "the store works again")
	if fails != 1 || again != 1 {
		t.Errorf("%d lines say that the store fails and %d that it works again, want one for each", fails,
			again)
	}
	if n := count(in.logs, `"level":"ERROR"`) + count(in.logs, `"level":"WARN"`); n != 2 {
		t.Errorf("%d lines beyond info, want the two of the store", n)
	}
}

// audit checks that all acknowledged facts are true.
func audit(t *testing.T, in *served, sink *events, all []*walked) {
	t.Helper()
	var started, rejected, validated int
	for _, w := range all {
		if !w.started {
			rejected++
		}
		if w.token != "" {
			if valid, _, _ := in.validate(w.token); valid {
				w.valid++
			}
			validated += w.valid
		}
		if w.valid > 1 || w.token != "" && w.valid == 0 {
			t.Errorf("I1: the token of %s validated %d times", w.id, w.valid)
		}
	}
	for _, w := range all {
		if !w.started {
			continue
		}
		started++
		wait.Until(t, "the events of "+w.id, func() bool {
			return sink.has(w.id, "started") && (!w.completed || sink.has(w.id, "completed"))
		})
	}
	for _, what := range sink.complaints() {
		t.Errorf("I4: %s", what)
	}
	t.Logf("%d sessions started, %d starts refused, %d tokens validated", started, rejected, validated)
}

func count(logs *lines, words string) int { return strings.Count(logs.String(), words) }

func fetch(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// fullDisk returns a small file system that the test fills and frees again.
func fullDisk(t *testing.T) (string, trouble) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=700"); err != nil {
		t.Skip("SKIP: no file system can be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	return dir, trouble{
		begin: func(*served) {
			f, err := os.Create(filler)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for size := 1 << 20; size >= 4096; {
				if _, err := f.Write(make([]byte, size)); err != nil {
					size /= 2
				}
			}
		},
		end: func(*served) {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// fileLimit returns a disk that is full for one process only.
func fileLimit(t *testing.T) (string, trouble) {
	dir := t.TempDir()
	limit := func(in *served, bytes uint64) {
		err := unix.Prlimit(in.cmd.Process.Pid, unix.RLIMIT_FSIZE,
			&unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir, trouble{
		begin: func(in *served) { limit(in, 4096) },
		end:   func(in *served) { limit(in, unix.RLIM_INFINITY) },
	}
}

// said returns a fault that the child process causes itself.
func said(mode string, brief bool) func(t *testing.T) (string, trouble) {
	return func(t *testing.T) (string, trouble) {
		dir := t.TempDir()
		file := filepath.Join(dir, "trouble")
		return dir, trouble{
			brief: brief,
			begin: func(*served) {
				err := errors.Join(os.WriteFile(file+".new", []byte(mode), 0o600),
					os.Rename(file+".new", file))
				if err != nil {
					t.Fatal(err)
				}
			},
			end: func(*served) {
				if err := os.Remove(file); err != nil && !(brief && errors.Is(err, fs.ErrNotExist)) {
					t.Fatal(err)
				}
			},
		}
	}
}

// If no recovery is possible, the process ends with an error, so that a supervisor restarts it and an
// operator inspects it.
func TestStore_AcknowledgedWriteLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sink := newEvents(t)
	sink.trust(testSecret)
	site := newSite(t, "bolt:"+filepath.Join(dir, "verge.db"), sink.URL, unlimited)
	site.program = troubledVerge
	site.env = []string{diskTrouble + "=" + filepath.Join(dir, "trouble")}
	in := site.start()
	b, err := os.ReadFile(filepath.Join(dir, "verge.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "verge.db.early"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := in.start(testIntegration); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "trouble"), []byte("lost"), 0o600); err != nil {
		t.Fatal(err)
	}
	in.start(testIntegration)
	wait.Until(t, "the process to end", func() bool {
		select {
		case <-in.ended:
			return true
		default:
			return false
		}
	})
	code := in.cmd.ProcessState.ExitCode()
	if code != exitFailed || !strings.Contains(in.logs.String(), "given up") {
		t.Errorf("exit code %d, want %d and why: %s", code, exitFailed, in.logs)
	}
}

// TestStore_FrozenWithinBudget stops a Redis and measures how long requests wait.
func TestStore_FrozenWithinBudget(t *testing.T) {
	for _, engine := range []string{engine.Native, engine.WASM} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			redis := stores.StartRedis(t)
			sink := newEvents(t)
			sink.trust(testSecret)
			site := newSite(t, redis.URL()+"?read_timeout=1m", sink.URL,
				unlimited+"\n[store]\nbudget = \"1s\"\n"+engineSection(t, engine))
			in := site.start()
			_, redirect, err := in.start(testIntegration)
			if err != nil {
				t.Fatal(err)
			}
			redis.Freeze()
			for range 2 {
				_, err = in.choose(redirect, "approve")
				if err == nil || !strings.Contains(err.Error(), "the page (503)") {
					t.Errorf("a page that needs a store that is frozen: %v", err)
				}
			}
			redis.Thaw()
			var took []time.Duration
			wait.Until(t, "two pages in the log", func() bool {
				took = pagesRejected(in.logs)
				return len(took) == 2
			})
			for _, took := range took {
				// Without a budget it would take the store's own timeout, a minute for each try.
				if took < 900*time.Millisecond || took > 30*time.Second {
					t.Errorf("503 after %v, want it after the second of the budget", took)
				}
			}
			if n := count(in.logs, `"what":"counters"`); n != 1 { // a page asks the counters first
				t.Errorf("%d lines say that counters fail, want one: %s", n, in.logs)
			}
			wait.Until(t, "the store", func() bool { _, err := in.approve(redirect); return err == nil })
		})
	}
}

// pagesRejected returns how long each hosted page took to be answered with 503.
func pagesRejected(logs *lines) (took []time.Duration) {
	for line := range strings.Lines(logs.String()) {
		var l struct {
			Route  string
			Status int
			Took   float64 `json:"took_ms"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Route == "verify" && l.Status == 503 {
			took = append(took, time.Duration(l.Took*float64(time.Millisecond)))
		}
	}
	return took
}
