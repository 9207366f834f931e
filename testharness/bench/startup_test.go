package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-id/verge/testharness/stores"
)

// BenchmarkStartup measures a new process from exec to its first response, and its resident memory after a
// second without requests: a bare net/http server for a floor, and `verge dev`, natively and in guests. The
// module is compiled, or was compiled by an earlier process.
func BenchmarkStartup(b *testing.B) {
	verge, err := filepath.Abs("../../dist/verge")
	if err == nil {
		_, err = os.Stat(verge)
	}
	if err != nil {
		b.Skip("SKIP: make build has not built dist/verge")
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	data := filepath.Join(b.TempDir(), "data")
	dev := func(engine string) func(addr string) *exec.Cmd {
		return func(addr string) *exec.Cmd {
			return exec.Command(verge, "dev", "--addr", addr, "--demo-addr", "127.0.0.1:0", "--data", data,
				"--engine", engine)
		}
	}
	bare := func(addr string) *exec.Cmd { return exec.Command(self, "bare-server", addr) }
	for _, c := range []struct {
		name   string
		start  func(addr string) *exec.Cmd
		forget string // directory that is removed before each start
	}{
		{"bare server", bare, ""},
		{"verge dev, bolt", dev("native"), ""},
		{"verge dev, bolt, wasm, compiled", dev("wasm"), filepath.Join(data, "modules")},
		{"verge dev, bolt, wasm, cached", dev("wasm"), ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			for i := range b.N {
				b.StopTimer()
				if c.forget != "" {
					if err := os.RemoveAll(c.forget); err != nil {
						b.Fatal(err)
					}
				}
				startOnce(b, c.start, i == b.N-1)
			}
		})
	}
}

// startOnce starts a process, with the timer on until its first response. The last one reports its memory.
func startOnce(b *testing.B, start func(addr string) *exec.Cmd, last bool) {
	b.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", stores.FreePort(b))
	cmd := start(addr)
	b.StartTimer()
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}()
	for {
		if resp, err := http.Get("http://" + addr + "/healthz"); err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			break
		}
		if time.Since(begin) > 30*time.Second {
			b.Fatal("no response within 30 s")
		}
		time.Sleep(200 * time.Microsecond)
	}
	b.StopTimer()
	if last {
		time.Sleep(time.Second)
		mb, err := resident(cmd.Process.Pid)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(mb, "resident-MiB")
	}
}

func resident(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmRSS of process %d", pid)
}

func bareServer(addr string) {
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	if err := http.ListenAndServe(addr, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
