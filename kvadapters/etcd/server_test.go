package etcd_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/verge-id/verge/testharness"
)

// server is one real etcd on loopback ports, Debian's in CI. The server that
// can be embedded is no dependency of the tests: it brings in 61 modules, the
// client 18.
type server struct {
	name   string
	addr   string // of clients
	peer   string
	dir    string
	args   []string
	binary string

	mu  sync.Mutex
	cmd *exec.Cmd
	log bytes.Buffer
}

// startCluster starts n servers that know each other and waits until they answer.
func startCluster(t testing.TB, n int, args ...string) []*server {
	t.Helper()
	binary := testharness.Program(t, "etcd")
	ports := freePorts(t, 2*n)
	var servers []*server
	var members []string
	for i := range n {
		s := &server{
			name: fmt.Sprintf("n%d", i), addr: ports[2*i], peer: ports[2*i+1],
			dir: filepath.Join(t.TempDir(), "data"), binary: binary,
		}
		members = append(members, s.name+"=http://"+s.peer)
		servers = append(servers, s)
	}
	for _, s := range servers {
		s.args = append([]string{
			"--name", s.name, "--data-dir", s.dir, "--logger", "zap", "--log-level", "error",
			"--listen-client-urls", "http://" + s.addr, "--advertise-client-urls", "http://" + s.addr,
			"--listen-peer-urls", "http://" + s.peer, "--initial-advertise-peer-urls", "http://" + s.peer,
			"--initial-cluster", strings.Join(members, ","), "--initial-cluster-token", t.Name(),
		}, args...)
		s.start(t)
		t.Cleanup(func() { s.kill() })
	}
	waitHealthy(t, servers...)
	return servers
}

func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	return startCluster(t, 1, args...)[0]
}

func (s *server) start(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = exec.Command(s.binary, s.args...)
	// The environment configures etcd as well as its flags do, so it gets
	// none but this, without which it refuses to run on arm64.
	s.cmd.Env = []string{"ETCD_UNSUPPORTED_ARCH=arm64"}
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
}

// kill is kill -9.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) url(prefix string) string { return "etcd://" + s.addr + "/" + prefix }

func urlOf(servers []*server, prefix string) string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.addr)
	}
	return "etcd://" + strings.Join(addrs, ",") + "/" + prefix
}

// client talks to one server without the adapter.
func (s *server) client(t testing.TB) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func waitHealthy(t testing.TB, servers ...*server) {
	t.Helper()
	for _, s := range servers {
		c := s.client(t)
		for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			_, err := c.Get(ctx, "health")
			cancel()
			if err == nil {
				break
			}
			if time.Since(start) > time.Minute {
				s.kill()
				t.Fatalf("etcd %s does not answer: %v\n%s", s.name, err, s.log.String())
			}
		}
	}
}

// leader returns the server that leads.
func leader(t *testing.T, servers []*server) *server {
	t.Helper()
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(50 * time.Millisecond) {
		for _, s := range servers {
			if s.cmd == nil {
				continue
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			status, err := s.client(t).Status(ctx, s.addr)
			cancel()
			if err == nil && status.Leader == status.Header.MemberId {
				return s
			}
		}
	}
	t.Fatal("no server leads")
	return nil
}

func freePorts(t testing.TB, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out = append(out, l.Addr().String())
	}
	return out
}
