package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startup times a fresh process from exec to its first answer, and reads its
// resident memory after a second of idleness. It does so for a bare net/http
// server and for verge, natively and in guests. One module has to be compiled, and
// one was compiled by an earlier process.
func startup(verge string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "verge-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	data := filepath.Join(dir, "data")
	dev := func(engine string) func(addr string) []string {
		return func(addr string) []string {
			return []string{verge, "dev", "--addr", addr, "--demo-addr", "127.0.0.1:0",
				"--data", data, "--engine", engine}
		}
	}
	for _, p := range []struct {
		name   string
		args   func(addr string) []string
		forget string // directory that is removed before each start
	}{
		{"bare net/http server", func(addr string) []string { return []string{self, "bare-server", addr} },
			""},
		{"verge dev, bolt", dev("native"), ""},
		{"the same, wasm, compiled", dev("wasm"), filepath.Join(data, "modules")},
		{"the same, wasm, cached", dev("wasm"), ""},
	} {
		var first, rss []float64
		for range rounds {
			if p.forget != "" {
				if err := os.RemoveAll(p.forget); err != nil {
					return err
				}
			}
			ms, mb, err := startOne(p.args)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			first, rss = append(first, ms), append(rss, mb)
		}
		fmt.Printf("%-25s exec to first answer %6.1f ms, idle memory %5.1f MB\n",
			p.name, median(first), median(rss))
	}
	return nil
}

func startOne(args func(string) []string) (ms, mb float64, err error) {
	addr, err := freeAddr()
	if err != nil {
		return 0, 0, err
	}
	a := args(addr)
	cmd := exec.Command(a[0], a[1:]...)
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
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
			return 0, 0, fmt.Errorf("no answer within 30 s")
		}
		time.Sleep(200 * time.Microsecond)
	}
	ms = float64(time.Since(begin).Microseconds()) / 1000
	time.Sleep(time.Second)
	mb, err = resident(cmd.Process.Pid)
	return ms, mb, err
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

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func bareServer(addr string) {
	http.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok\n")) })
	if err := http.ListenAndServe(addr, nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
